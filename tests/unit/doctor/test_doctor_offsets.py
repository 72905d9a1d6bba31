"""The doctor's look into offsets topics: what tasks do not find, and what a history would cost."""

from __future__ import annotations

import pytest

from seamark.core.offsets import OffsetKey
from seamark.core.readings import Severity
from seamark.doctor.evidence import ClusterEvidence, Evidence, OffsetsEvidence
from seamark.doctor.offset_checks import OffsetsReader, examine_history, examine_records
from seamark.errors import UnreachableError
from seamark.kafka.model import LogOffsets, OffsetAndTimestamp, PartitionReading
from seamark.offsets.model import OffsetAnomaly, OffsetFinding, StoredOffset, StoreReading
from seamark.offsets.model import StoredRecord as Record
from tests.unit.fleet.builders import context, settings, topic

DAY = 86_400_000


def build(found, **config):
    cluster = ClusterEvidence(settings("game", offsets_topic="connect-offsets"), workers=())
    found_topic = topic("connect-offsets", **config)
    return Evidence(context(), clusters=(cluster,), topics={found_topic.name: found_topic}, offsets={"game": found})


def reading(*findings, keys=3):
    offsets = tuple(
        StoredOffset(OffsetKey("orders", {"table": str(number)}), {"n": 1}, Record("topic t")) for number in range(keys)
    )
    return StoreReading("topic connect-offsets", offsets, findings=tuple(findings))


def test_offsets_without_oddities_are_fine():
    (found,) = examine_records(build(OffsetsEvidence(10, 2, reading())))
    assert (found.severity, found.subject) == (Severity.OK, "connect-offsets")
    assert "3 offsets" in found.message


def test_each_oddity_is_named_with_whose_it_is():
    odd = [OffsetFinding(OffsetAnomaly.DUPLICATE_ENCODING, f"c{number}", "two spellings") for number in range(5)]
    curious = OffsetFinding(OffsetAnomaly.UNREADABLE_KEY, "", "spaces")
    variants, never = examine_records(build(OffsetsEvidence(10, 2, reading(*odd, curious))))
    assert (never.severity, variants.severity) == (Severity.INFO, Severity.WARNING)
    assert "duplicate-encoding (5 times: c0, c1, c2 and 2 more): two spellings" in variants.message
    assert "offsets show" in variants.fix


def test_too_many_records_are_not_looked_at_one_by_one():
    (found,) = examine_records(build(OffsetsEvidence(9_000_000, 2)))
    assert found.severity is Severity.INFO
    assert "not examined" in found.message


def test_a_topic_that_could_not_be_read_is_told_by_both():
    evidence = build(UnreachableError("nobody answers", hint="look"))
    assert [
        "not examined" in found.message for check in (examine_records, examine_history) for found in check(evidence)
    ]
    assert len([*examine_records(evidence), *examine_history(evidence)]) == 2


@pytest.mark.parametrize(
    ("written", "lag", "severity", "words"),
    [
        (1000, 0, Severity.INFO, "7 days of them would be up to 7,003 records"),
        (1000, 7 * DAY, Severity.OK, "keeps every write of the last 7 d"),
        (5_000_000, 0, Severity.INFO, "about 5 min"),
        (5_000_000, 7 * DAY, Severity.WARNING, "about 5 min"),
    ],
)
def test_history_has_a_price(written, lag, severity, words):
    (found,) = examine_history(build(OffsetsEvidence(10, written, reading()), min_compaction_lag_ms=str(lag)))
    assert found.severity is severity
    assert words in found.message.replace("\u202f", " ").replace("\xa0", " ")
    assert found.fix or severity is Severity.OK


class Kafka:
    def read_bounds(self, spots):
        return PartitionReading({spot: LogOffsets(5, 100) for spot in spots})

    def read_log_offsets(self, spots, *, at):
        self.at = at
        return PartitionReading(
            {spot: OffsetAndTimestamp(60) if number == 0 else None for number, spot in enumerate(spots)}
        )


def test_writes_of_a_day_are_counted_by_offsets_whatever_compaction_took():
    class Stores:
        def find_topic(self, _cluster):
            return self

        def read(self):
            return reading()

    kafka = Kafka()
    cluster = ClusterEvidence(settings("game", offsets_topic="connect-offsets"), workers=())
    found = OffsetsReader(Stores(), brokers=lambda: kafka, now=lambda: 2 * DAY / 1000).read(
        cluster, topic("connect-offsets", partitions=2)
    )
    assert (found.most, found.written_per_day, kafka.at) == (190, 40, DAY)
    assert len(found.reading.offsets) == 3
