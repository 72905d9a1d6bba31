"""Tasks of a copy: the runs are what the brokers answered, also where a transaction had to be written twice."""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaError

from seamark.errors import RefusedError, RejectedError
from seamark.kafka.copy_input import SourceSpan
from seamark.kafka.copy_trace import CopyTrace, Stretch
from seamark.kafka.exact_task import ExactTask
from seamark.kafka.task_producer import ProducerFailure
from seamark.kafka.task_settings import TaskSettings
from seamark.model.control import Amount, Claim, Copied
from seamark.model.control_codec import decode_control
from seamark.model.copy_run import Checksum, Run

CLAIM = Claim("plan", task=1, part="000000-0")


@dataclass(frozen=True)
class Rows:
    """A piece: (target, source, source offset, hash) of each record."""

    found: tuple

    @property
    def amount(self):
        return Amount(len(self.found), bytes=len(self.found))

    def stretches(self):
        return [
            Stretch(target, source, offsets=array("q", [offset]), hashes=array("q", [hashed]))
            for target, source, offset, hashed in self.found
        ]

    def spans(self):
        return [SourceSpan(source, target, 1, first=offset, last=offset) for target, source, offset, _ in self.found]


class Broker:
    """Offsets that only rise, whatever becomes of a transaction."""

    def __init__(self):
        self.ends = defaultdict(int)
        self.control = {}
        # What goes wrong, by the number of the commit: an error before it, or after it has happened.
        self.faults = {}
        self.commits = 0
        self.taken = 0

    def task(self):
        trace = CopyTrace(4)
        return ExactTask(
            TaskSettings({}, reader={}),
            CLAIM,
            trace=trace,
            open_producer=lambda: FakeProducer(self, trace),
            read=lambda one: self.control.get(one.key),
        )


class FakeProducer:
    def __init__(self, broker, trace):
        self.broker, self.trace, self.waiting = broker, trace, []

    def take(self):
        self.broker.taken += 1

    def begin(self):
        pass

    def produce(self, piece, *, deadline):
        self.waiting += [stretch.target for stretch in piece.stretches()]

    def flush(self, *, deadline):
        for target in self.waiting:
            self.trace.note(target, self.broker.ends[target])
            self.broker.ends[target] += 1
        self.waiting = []

    def commit(self, topic, *, partition, key, value, deadline):
        self.broker.commits += 1
        when = self.broker.faults.get(self.broker.commits)
        if when != "before":
            self.broker.control[key] = decode_control(value, place="here")
        for target in self.broker.ends:
            self.broker.ends[target] += 1
        if when:
            raise ProducerFailure(KafkaError(KafkaError._TIMED_OUT))

    def close(self):
        pass


def run(source, target, sources, first_target, *, checksum):
    first, last = sources
    count = len(range(first, last + 1))
    return Run(
        source,
        target,
        count,
        first_source=first,
        last_source=last,
        first_target=first_target,
        last_target=first_target + count - 1,
        checksum=checksum,
    )


ROWS = [Rows(((5, 1, 10, 3), (5, 1, 11, 4), (5, 7, 20, -1))), Rows(((6, 7, 21, 9),))]
SUMS = (Checksum(7, 3 ^ 4), Checksum(2**64 - 1, 2**64 - 1), Checksum(9, 9))


def written(at):
    return (
        run(1, 5, (10, 11), at, checksum=SUMS[0]),
        run(7, 5, (20, 20), at + 2, checksum=SUMS[1]),
        run(7, 6, (21, 21), 0 if at == 0 else 2, checksum=SUMS[2]),
    )


def test_record_of_a_task_has_its_runs():
    broker = Broker()
    report = broker.task().write(ROWS)
    assert (report.amount.records, report.is_repeat) == (4, False)
    assert broker.control[CLAIM.key].copied == Copied(4, runs=written(0))
    assert broker.task().write(ROWS).is_repeat
    assert broker.commits == 1


def test_late_attempt_at_a_finished_slice_does_not_fence_the_next_slice():
    # They share the transactional id; who is fenced by it would wait for minutes for a record that nobody writes.
    broker = Broker()
    broker.task().write(ROWS)
    assert broker.task().write(ROWS).is_repeat
    assert broker.taken == 1


@pytest.mark.parametrize("left", [[], [Rows(ROWS[0].found[1:])], [Rows(ROWS[0].found[::2]), ROWS[1]]])
def test_finished_task_is_taken_as_it_is_after_compaction_took_some_of_its_records(left):
    broker = Broker()
    broker.task().write(ROWS)
    report = broker.task().write(left)
    assert (report.is_repeat, report.amount.records, broker.commits) == (True, 4, 1)


@pytest.mark.parametrize(
    "rows",
    [
        # Behind the last, before the first, of another source, to another target, and one more between.
        [Rows(((5, 1, 12, 1),))],
        [Rows(((5, 1, 9, 1),)), ROWS[0]],
        [ROWS[0], Rows(((5, 8, 20, 1),))],
        [Rows(((6, 1, 10, 1),))],
        [Rows(((5, 7, 20, 1),)), Rows(((5, 7, 20, 1),))],
    ],
)
def test_finished_task_with_records_that_it_did_not_have_is_refused(rows):
    broker = Broker()
    broker.task().write(ROWS)
    with pytest.raises(RejectedError, match="other rows than when it was written") as caught:
        broker.task().write(rows)
    assert "split" in caught.value.cause
    assert broker.commits == 1


def test_transaction_that_did_not_happen_is_written_again_with_its_new_offsets():
    broker = Broker()
    broker.faults = {1: "before"}
    broker.task().write(ROWS)
    # Three records and the marker lie before it.
    assert broker.control[CLAIM.key].copied == Copied(4, runs=written(4))
    assert broker.commits == 2


def test_commit_without_an_answer_that_happened_is_not_written_again():
    broker = Broker()
    broker.faults = {1: "after"}
    report = broker.task().write(ROWS)
    assert broker.control[CLAIM.key].copied == Copied(4, runs=written(0))
    assert (broker.commits, report.is_repeat) == (1, False)


def test_task_without_rows_leaves_a_record():
    broker = Broker()
    broker.task().write([])
    record = broker.control[CLAIM.key]
    assert (record.is_done, record.amount, record.copied) == (True, Amount(), Copied(4))
    with pytest.raises(RejectedError, match="other rows than when it was written"):
        broker.task().write(ROWS)


def test_something_in_between_cuts_a_run():
    trace = CopyTrace(1)
    trace.begin()
    trace.add(Rows(((0, 3, 10, 1), (0, 3, 12, 2), (0, 3, 13, 4))))
    for offset in (0, 1, 3):
        trace.note(0, offset)
    found = trace.build().runs
    assert [(one.count, one.first_source, one.last_source, one.first_target) for one in found] == [
        (2, 10, 12, 0),
        (1, 13, 13, 3),
    ]


def test_reports_that_are_missing_are_no_run():
    trace = CopyTrace(1)
    trace.add(Rows(((0, 3, 10, 1), (0, 3, 12, 2))))
    trace.note(0, 0)
    with pytest.raises(RefusedError, match="other records than were sent") as caught:
        trace.build()
    assert "{0: 2} were sent, {0: 1} acknowledged" in caught.value.cause
