"""Tasks of a copy: the runs are what the brokers answered, also where a transaction had to be written twice."""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass
from functools import reduce
from itertools import groupby

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from seamark.errors import RefusedError, RejectedError, UnreachableError
from seamark.kafka_sink.control import Amount, Checksum, Claim, Copied, Run, decode_control
from seamark.kafka_sink.inputs import SourceSpan
from seamark.kafka_sink.producer import ProducerFailure, TaskSettings
from seamark.kafka_sink.task import ExactTask
from seamark.kafka_sink.transaction import DeliveredRange, DeliveryTrace

CLAIM = Claim("plan", task=1, part="000000-0")


@dataclass(frozen=True)
class Rows:
    """A piece: (target, source, source offset, hash) of each record."""

    found: tuple

    @property
    def amount(self):
        return Amount(len(self.found), bytes=len(self.found))

    def stretches(self):
        for target in dict.fromkeys(row[0] for row in self.found):
            own = [(place, row) for place, row in enumerate(self.found) if row[0] == target]
            for source, some in groupby(own, key=lambda one: one[1][1]):
                rows, parts = zip(*some, strict=True)
                offsets, hashes = (array("q", [part[column] for part in parts]) for column in (2, 3))
                yield DeliveredRange(target, source, (rows[0], rows[-1]), offsets=offsets, hashes=hashes)

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
        # Before which record of a transaction a stranger's comes to lie, and how many reports each piece asked for.
        self.foreign_at = None
        self.reported = []

    def task(self, **settings):
        trace = DeliveryTrace(4)
        return ExactTask(
            TaskSettings({}, reader={}, **settings),
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

    def produce(self, piece, *, deadline, reported):
        self.broker.reported.append(len(reported))
        self.waiting += [(row[0], place in reported) for place, row in enumerate(piece.found)]

    def flush(self, *, deadline):
        for number, (target, is_reported) in enumerate(self.waiting):
            if number == self.broker.foreign_at:
                # Somebody else's record, once.
                self.broker.foreign_at = None
                self.broker.ends[target] += 1
            if is_reported:
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
    with pytest.raises(RejectedError, match="differ from those it wrote before") as caught:
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
    with pytest.raises(RejectedError, match="differ from those it wrote before"):
        broker.task().write(ROWS)


LONG = [Rows(tuple((5, 1, offset, offset) for offset in range(10, 20)))]


@pytest.mark.parametrize("place", range(1, 10))
def test_something_in_between_has_everything_written_again_with_a_report_for_each_record(place):
    broker = Broker()
    broker.foreign_at = place
    broker.task().write(LONG)
    (found,) = broker.control[CLAIM.key].copied.runs
    # Ten records and the stranger's lie before it.
    assert (found.count, found.first_target, found.last_target) == (10, 11, 20)
    assert (broker.reported, broker.taken, broker.commits) == ([2, 10], 2, 1)


def test_something_in_between_that_comes_again_cuts_a_run():
    broker = Broker()
    broker.foreign_at = 4
    trace = DeliveryTrace(1, is_thorough=True)
    trace.begin()
    reported = trace.add(LONG[0])
    FakeProducer(broker, trace).produce(LONG[0], deadline=0, reported=reported)
    for offset in (0, 1, 2, 3, 5, 6, 7, 9, 10, 11):
        trace.note(5, offset)
    assert trace.find_unclear() is None
    found = trace.build().runs
    assert [(one.count, one.first_source, one.last_source, one.first_target, one.checksum) for one in found] == [
        (4, 10, 13, 0, Checksum(46, 10 ^ 11 ^ 12 ^ 13)),
        (3, 14, 16, 5, Checksum(45, 14 ^ 15 ^ 16)),
        (3, 17, 19, 9, Checksum(54, 17 ^ 18 ^ 19)),
    ]


def test_something_between_two_pieces_cuts_a_run_without_more_reports():
    trace = DeliveryTrace(1)
    trace.begin()
    for piece in (Rows(((0, 3, 10, 1), (0, 3, 12, 2), (0, 3, 13, 4))), Rows(((0, 3, 14, 8), (0, 3, 15, 16)))):
        trace.add(piece)
    for offset in (0, 2, 7, 8):
        trace.note(0, offset)
    assert trace.find_unclear() is None
    found = trace.build().runs
    assert [(one.count, one.first_source, one.last_source, one.first_target) for one in found] == [
        (3, 10, 13, 0),
        (2, 14, 15, 7),
    ]


def test_transaction_too_large_to_be_kept_is_left_to_the_next_attempt():
    broker = Broker()
    broker.foreign_at = 3
    with pytest.raises(UnreachableError, match="could not write to partition 5") as caught:
        broker.task(kept_bytes=1).write(LONG)
    assert "records of another producer are between those that were sent" in caught.value.cause
    assert broker.control == {}


def test_reports_that_are_missing_are_no_run():
    trace = DeliveryTrace(1)
    trace.add(Rows(((0, 3, 10, 1), (0, 3, 12, 2))))
    trace.note(0, 0)
    with pytest.raises(RefusedError, match="do not match the records that were sent") as caught:
        trace.find_unclear()
    assert "expected {0: 2}, received {0: 1}" in caught.value.cause


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40))
def test_checksum_of_many_is_that_of_each(hashes):
    bits = [one % 2**64 for one in hashes]
    assert Checksum.of(array("q", hashes)) == reduce(Checksum.combine, map(Checksum, bits, bits), Checksum())
