"""A fault of every kind, planted in a target, is found with its coordinates."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from seamark.copies.plan.progress import CopyProgress, read_progress
from seamark.copies.run.spark_copy import run_copy
from seamark.copies.verify.report import Coordinates, Kind, Level, describe_verification
from seamark.copies.verify.spark_verify import verify_copy
from seamark.errors import NotFoundError
from tests.spark.copy_side import build_ends, build_plan, fill, rewrite
from tests.spark.kafka_side import KafkaSide

ROWS = 6_000
SHAPE = (4, 2)
# In the middle of a run, with a key, a value and headers.
PARTITION = 1


@dataclass(frozen=True)
class Copy:
    kafka: KafkaSide
    plan: object
    progress: CopyProgress
    origins: dict
    records: dict

    def origin(self, record):
        """Where a record comes from, known by its timestamp."""
        return self.origins[record.timestamp_ms]

    def pick(self, *, behind=0):
        """The place of a record that has everything, as does the next one, of the same source partition."""
        held = self.records[PARTITION]
        return next(
            place
            for place in range(behind + 40, len(held))
            if all(one.key and one.value and one.headers for one in held[place : place + 2])
            and self.origin(held[place]).partition == self.origin(held[place + 1]).partition
        )

    def verify(self, spark, *, records=None, level=Level.FULL, progress=None):
        plan = self.plan
        if records is not None:
            plan = replace(plan, target=replace(plan.target, topic=rewrite(self.kafka, records)))
        return verify_copy(spark, plan, build_ends(self.kafka), level=level, progress=progress or self.progress)


@pytest.fixture(scope="module")
def copy(stack, spark):
    """A small copy, of one slice."""
    with KafkaSide(stack.kafka.bootstrap_servers) as kafka:
        source, target = kafka.topic(partitions=SHAPE[0]), kafka.topic(partitions=SHAPE[1])
        fill(kafka, source, rows=ROWS, partitions=SHAPE[0])
        read = kafka.read(source)
        plan = build_plan(source, target, found=read, shape=SHAPE, limit=ROWS)
        progress = run_copy(spark, plan, build_ends(kafka))
        origins = {record.timestamp_ms: Coordinates(record.partition, record.offset) for record in read}
        records = {partition: [] for partition in range(SHAPE[1])}
        for record in sorted(kafka.read(target), key=lambda one: one.offset):
            records[record.partition].append(record)
        assert len(origins) == ROWS
        assert [record.offset for record in records[0]] == list(range(len(records[0])))
        yield Copy(kafka, plan, progress, origins=origins, records=records)


def told(report):
    """Kind, source and target of every finding but the consequence of a shift."""
    return [(one.kind, one.source, one.target) for one in report.findings if one.kind is not Kind.MOVED]


@pytest.mark.parametrize("level", Level)
def test_good_copy_passes(spark, copy, level):
    stages = []
    report = verify_copy(spark, copy.plan, build_ends(copy.kafka), level=level, on_stage=stages.append)
    assert (report.is_passed, report.findings, report.gone) == (True, (), ())
    assert report.compared.told_records == ROWS
    read = (0, 0) if level is Level.QUICK else (ROWS, ROWS)
    assert (report.compared.source_records, report.compared.target_records) == read
    assert len(stages) == (1 if level is Level.QUICK else 3)
    assert describe_verification(report)[0].startswith("passed")


def test_target_written_anew_just_as_it_was_passes(spark, copy):
    # Else the faults below would be found for another reason than their own.
    assert copy.verify(spark, records=copy.records).is_passed


def plant(copy, change):
    """The target's records with the one at a good place replaced by others."""
    place = copy.pick()
    held = list(copy.records[PARTITION])
    victim = held[place]
    held[place : place + 1] = change(victim)
    return place, victim, {**copy.records, PARTITION: held}


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (Kind.WRONG_TIMESTAMP, lambda one: [replace(one, timestamp_ms=one.timestamp_ms + 1)]),
        (Kind.CHANGED_HEADER, lambda one: [replace(one, headers=(*one.headers, ("more", b"")))]),
        (Kind.CHANGED, lambda one: [replace(one, value=one.value + b"!")]),
    ],
)
def test_record_that_is_not_as_it_was(spark, copy, kind, change):
    place, victim, records = plant(copy, change)
    report = copy.verify(spark, records=records)
    assert report.counts == ((kind, 1),)
    assert told(report) == [(kind, copy.origin(victim), Coordinates(PARTITION, place))]
    assert copy.verify(spark, records=records, level=Level.STANDARD).counts == ((Kind.DIFFERENT, 1),)


def test_lost_record(spark, copy):
    place, victim, records = plant(copy, lambda _: [])
    report = copy.verify(spark, records=records)
    assert told(report) == [(Kind.LOST, copy.origin(victim), Coordinates(PARTITION, place))]
    # What follows is all there, one offset before.
    assert report.counts == ((Kind.LOST, 1), (Kind.MOVED, len(records[PARTITION]) - place))
    quick = copy.verify(spark, records=records, level=Level.QUICK)
    assert quick.counts == ((Kind.LOST, 1),)


def test_doubled_record(spark, copy):
    place, victim, records = plant(copy, lambda one: [one, one])
    report = copy.verify(spark, records=records)
    assert told(report) == [(Kind.DUPLICATED, copy.origin(victim), Coordinates(PARTITION, place + 1))]
    assert report.counts == ((Kind.DUPLICATED, 1), (Kind.MOVED, len(records[PARTITION]) - place - 2))


def test_doubled_record_behind_all_others(spark, copy):
    held = copy.records[PARTITION]
    victim = held[copy.pick()]
    report = copy.verify(spark, records={**copy.records, PARTITION: [*held, victim]})
    assert report.counts == ((Kind.DUPLICATED, 1),)
    assert told(report) == [(Kind.DUPLICATED, copy.origin(victim), Coordinates(PARTITION, len(held)))]


def test_reordered_records(spark, copy):
    place, held = copy.pick(), list(copy.records[PARTITION])
    held[place], held[place + 1] = held[place + 1], held[place]
    records = {**copy.records, PARTITION: held}
    report = copy.verify(spark, records=records)
    assert report.count(Kind.REORDERED) == 1
    assert told(report) == [(Kind.REORDERED, copy.origin(held[place + 1]), Coordinates(PARTITION, place + 1))]
    # Counts and checksums know no order.
    assert copy.verify(spark, records=records, level=Level.STANDARD).is_passed


def test_record_that_came_long_before_its_turn(spark, copy):
    place, held = copy.pick(), list(copy.records[PARTITION])
    victim = held.pop(place + 300)
    held.insert(place, victim)
    report = copy.verify(spark, records={**copy.records, PARTITION: held})
    assert report.counts == ((Kind.REORDERED, 1), (Kind.MOVED, 300))
    assert told(report) == [(Kind.REORDERED, copy.origin(victim), Coordinates(PARTITION, place))]


def test_record_in_the_wrong_partition(spark, copy):
    place, victim, records = plant(copy, lambda _: [])
    other = len(records[0])
    report = copy.verify(spark, records={**records, 0: [*records[0], victim]})
    assert told(report) == [(Kind.WRONG_PARTITION, copy.origin(victim), Coordinates(0, other))]
    assert report.counts == ((Kind.WRONG_PARTITION, 1), (Kind.MOVED, len(records[PARTITION]) - place))
    standard = copy.verify(spark, records={**records, 0: [*records[0], victim]}, level=Level.STANDARD)
    assert (Kind.WRONG_PARTITION, None, Coordinates(0, other)) in told(standard)


def test_foreign_record(spark, copy):
    held = copy.records[PARTITION]
    stranger = replace(held[copy.pick()], value=b"stranger", timestamp_ms=1)
    records = {**copy.records, PARTITION: [*held, stranger]}
    place = Coordinates(PARTITION, len(held))
    report = copy.verify(spark, records=records)
    assert (report.counts, told(report)) == (((Kind.FOREIGN, 1),), [(Kind.FOREIGN, None, place)])
    assert copy.verify(spark, records=records, level=Level.STANDARD).counts == ((Kind.FOREIGN, 1),)
    assert any("foreign record target 1@" in line for line in describe_verification(report))


def test_missing_control_record(spark, copy):
    lost, *kept = copy.progress.records
    progress = read_progress(copy.plan.id, copy.plan.slices, kept)
    report = copy.verify(spark, progress=progress)
    assert report.count(Kind.MISSING_CONTROL) == 1
    # What its task wrote is there, and nothing tells of it.
    assert report.count(Kind.FOREIGN) == lost.amount.records
    assert set(dict(report.counts)) == {Kind.MISSING_CONTROL, Kind.FOREIGN}
    quick = copy.verify(spark, progress=progress, level=Level.QUICK)
    assert (quick.counts, len(quick.notes)) == (((Kind.MISSING_CONTROL, 1),), 1)


def test_examples_are_few_and_counts_are_whole(spark, copy):
    held = [replace(one, value=b"other") for one in copy.records[PARTITION]]
    changed = sum(one.value != b"other" for one in copy.records[PARTITION])
    report = copy.verify(spark, records={**copy.records, PARTITION: held})
    assert (report.counts, len(report.findings)) == (((Kind.CHANGED, changed),), 20)


def test_topic_that_is_gone_is_an_error(spark, copy):
    plan = replace(copy.plan, source=replace(copy.plan.source, topic="no-such-topic"))
    with pytest.raises(NotFoundError, match="source topic no-such-topic of the copy does not exist"):
        verify_copy(spark, plan, build_ends(copy.kafka), level=Level.QUICK, progress=copy.progress)
