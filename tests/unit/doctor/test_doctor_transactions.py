"""The doctor's look at transactions that nobody ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.core.readings import Severity
from seamark.doctor.evidence import ClusterEvidence, Evidence, TransactionsEvidence
from seamark.doctor.topic_checks import TransactionsReader, examine_transactions
from seamark.errors import UnreachableError
from seamark.kafka.model import OffsetAndTimestamp, OffsetSpec, OpenTransaction, PartitionReading
from tests.unit.fleet.builders import connector, context, settings, topic

NOW = 1_000_000.0
OPEN = OpenTransaction("connect-offsets", 3, 117, 4001, 0, wrote_ms=int((NOW - 300) * 1000))


def examine(*found, partitions=25):
    evidence = Evidence(context(), address="k:9092", transactions=TransactionsEvidence(NOW, partitions, tuple(found)))
    return list(examine_transactions(evidence))


def known(**more):
    begun = {"transactional_id": "game-orders-0", "state": "Ongoing", "began_ms": int((NOW - 200) * 1000)}
    return OpenTransaction("connect-offsets", 3, 117, 4001, 0, **{**begun, "timeout_ms": 900_000, **more})


def test_no_open_transaction_is_fine():
    (found,) = examine()
    assert found.severity is Severity.OK
    assert "25 partitions" in found.message


def test_one_that_its_coordinator_has_in_hand_is_named_with_its_end():
    (found,) = examine(known())
    assert (found.severity, found.subject) == (Severity.WARNING, "connect-offsets-3")
    assert "transactional.id game-orders-0, producer id 4001, from offset 117 on" in found.message
    assert "open for 3 min" in found.message
    assert "within 11 min (transaction.timeout.ms)" in found.fix
    assert "kafka-transactions.sh --bootstrap-server k:9092 abort --topic connect-offsets --partition 3" in found.fix


def test_a_young_one_is_a_tasks_own():
    (found,) = examine(known(began_ms=int((NOW - 5) * 1000)))
    assert found.severity is Severity.INFO


@pytest.mark.parametrize("hanging", [replace(OPEN, wrote_ms=None), known(state="", began_ms=None, wrote_ms=1)])
def test_one_that_nobody_will_end_is_an_error(hanging):
    (found,) = examine(hanging)
    assert found.severity is Severity.ERROR
    assert "no coordinator has it, so it never ends" in found.message
    assert "--start-offset 117" in found.fix


def test_one_that_is_not_told_of_may_be_hidden_from_us():
    (found,) = examine(OPEN)
    assert found.severity is Severity.WARNING
    assert "or you may not DESCRIBE its transactional.id" in found.message


def test_of_many_young_ones_three_are_named():
    young = [known(transactional_id=f"t{number}", began_ms=int(NOW * 1000)) for number in range(9)]
    found = examine(*young, known())
    assert len(found) == 5
    assert [one.severity for one in found].count(Severity.WARNING) == 1
    assert "6 more transactions are open, all recent" in found[-1].message


def test_what_could_not_be_asked_is_told():
    evidence = Evidence(context(), transactions=UnreachableError("nobody answers", hint="look"))
    (found,) = examine_transactions(evidence)
    assert "not examined: nobody answers" in found.message
    assert list(examine_transactions(Evidence(context()))) == []


class Kafka:
    def __init__(self, stable):
        self.stable, self.asked = stable, None

    def read_log_offsets(self, spots, *, at):
        return PartitionReading(
            {spot: OffsetAndTimestamp(self.stable.get(spot, 9) if at is OffsetSpec.STABLE else 9) for spot in spots}
        )

    def read_open_transactions(self, spots):
        self.asked = list(spots)
        return (OPEN,)


def test_only_partitions_whose_end_is_held_back_are_asked_about():
    kafka = Kafka({("connect-offsets", 1): 7})
    reader = TransactionsReader(lambda: kafka, lambda: NOW)
    found = reader.read([topic("connect-offsets", partitions=3), topic("connect-configs")])
    assert (kafka.asked, found.open, found.partitions) == ([("connect-offsets", 1)], (OPEN,), 4)
    quiet = Kafka({})
    assert TransactionsReader(lambda: quiet, lambda: NOW).read([topic("connect-offsets")]).open == ()
    assert quiet.asked is None


def test_topics_of_connectors_own_are_looked_at_too():
    own = connector("a", config={"offsets.storage.topic": "a-offsets"})
    elsewhere = connector(
        "b", config={"offsets.storage.topic": "b-offsets", "producer.override.bootstrap.servers": "other:9092"}
    )
    found = ClusterEvidence(settings("game"), workers=(), connectors=(own, elsewhere))
    assert found.own_topics == ("a-offsets",)
