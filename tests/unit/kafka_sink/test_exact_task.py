"""One task, tried again and again by attempts that die, are fenced, or never hear of their commit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from seamark.errors import DeadlineError, FencedError, RefusedError, RejectedError, UnreachableError
from seamark.kafka_sink import task as task_hold
from seamark.kafka_sink.control import Amount, Claim, build_first_claim, decode_control
from seamark.kafka_sink.producer import ProducerFailure, TaskSettings
from seamark.kafka_sink.task import ExactTask

CLAIM = Claim("job", task=3)
SETTINGS = TaskSettings({}, reader={})
ORDERED = replace(SETTINGS, is_ordered=True, transaction_records=4)


@dataclass(frozen=True)
class Words:
    """A piece: one row a letter."""

    text: str

    @property
    def amount(self):
        return Amount(len(self.text), bytes=len(self.text) * 10)

    def rows(self):
        return self.text

    def split(self, records):
        return Words(self.text[:records]), Words(self.text[records:])


class Summed(Words):
    """The same amount of other rows."""

    @property
    def amount(self):
        return Amount(len(self.text), bytes=len(self.text) * 10, sum=7)


def failure(name):
    return ProducerFailure(KafkaError(getattr(KafkaError, name), name))


class Broker:
    """Transactions as Kafka has them: who takes the id last may write; the rest is fenced."""

    def __init__(self):
        self.committed = ""
        self.control = {}
        self.holder = None
        self.taken = 0
        # What goes wrong, by the number of the act: an error before it, or after it has happened.
        self.faults = {}
        self.acts = 0

    def act(self, name, do):
        self.acts += 1
        kind, when = self.faults.pop(self.acts, (None, None))
        if kind and when == "before":
            raise failure(kind)
        do()
        if kind:
            raise failure(kind)

    def task(self, claim=CLAIM, *, settings=SETTINGS, **more):
        return ExactTask(
            settings,
            claim,
            **more,
            open_producer=lambda: FakeProducer(self),
            read=lambda one: self.control.get(one.key),
        )


class FakeProducer:
    def __init__(self, broker):
        self.broker = broker
        self.open = None

    def take(self):
        def do():
            self.broker.holder = self
            self.broker.taken += 1

        self.broker.act("take", do)

    def begin(self):
        assert self.open is None
        self.open = ""

    def produce(self, piece, *, deadline, reported):
        self.hold()
        self.broker.act("produce", lambda: setattr(self, "open", self.open + "".join(piece.rows())))

    def commit(self, topic, *, partition, key, value, deadline):
        self.hold()

        def do():
            self.broker.committed += self.open
            self.broker.control[key] = decode_control(value, place="here")
            self.open = None

        self.broker.act("commit", do)

    def hold(self):
        if self.broker.holder is not self:
            raise failure("_FENCED")

    def close(self):
        pass


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(task_hold, "_LOOK_AGAIN_SECONDS", 0.001)


@pytest.fixture
def broker():
    return Broker()


def pieces(*texts):
    return [Words(text) for text in texts]


def test_task_is_one_transaction(broker):
    report = broker.task().write(pieces("ab", "", "cde"))
    assert (broker.committed, report.amount, report.transactions) == ("abcde", Amount(5, bytes=50), 1)
    assert not report.is_repeat


def test_task_without_rows_touches_nothing(broker):
    assert broker.task().write(pieces("", "")).amount == Amount()
    assert broker.taken == 0


def test_finished_task_is_not_written_again(broker):
    broker.task().write(pieces("abc"))
    report = broker.task().write(pieces("a", "bc"))
    assert (broker.committed, report.is_repeat, report.amount.records) == ("abc", True, 3)


def test_finished_task_with_other_rows_is_refused(broker):
    broker.task().write(pieces("abc"))
    with pytest.raises(RejectedError, match="4 records of 40 bytes now, 3 records of 30 bytes before"):
        broker.task().write(pieces("abcd"))
    assert broker.task(settings=replace(SETTINGS, is_checked=False)).write(pieces("abcd")).is_repeat


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("act", [1, 2, 3, 4])
def test_any_single_failure_is_healed_in_the_task(broker, act, when):
    broker.faults = {act: ("_TIMED_OUT", when)}
    report = broker.task().write(pieces("ab", "c"))
    assert broker.committed == "abc"
    assert report.amount.records == 3
    assert broker.taken == (1 if (act, when) == (1, "before") else 2)


def test_rows_that_are_not_kept_are_left_to_spark(broker):
    broker.faults = {4: ("_TIMED_OUT", "before")}
    few = replace(SETTINGS, kept_bytes=15)
    with pytest.raises(UnreachableError) as caught:
        broker.task(settings=few).write(pieces("ab", "c"))
    assert "Spark retries the task" in caught.value.cause
    assert broker.committed == ""
    broker.task(settings=few).write(pieces("ab", "c"))
    assert broker.committed == "abc"


def test_unknown_commit_that_happened_is_found_though_rows_are_gone(broker):
    broker.faults = {4: ("_TIMED_OUT", "after")}
    report = broker.task(settings=replace(SETTINGS, kept_bytes=15)).write(pieces("ab", "c"))
    assert (broker.committed, report.is_repeat) == ("abc", False)


def test_refused_record_is_not_tried_again(broker):
    broker.faults = {2: ("MSG_SIZE_TOO_LARGE", "before")}
    with pytest.raises(RejectedError) as caught:
        broker.task().write(pieces("ab"))
    assert "max.message.bytes" in caught.value.hint
    assert broker.taken == 1


def test_failures_without_end_end(broker):
    broker.faults = dict.fromkeys(range(2, 99), ("_TIMED_OUT", "before"))
    with pytest.raises(UnreachableError, match="task 3 of job job could not write"):
        broker.task().write(pieces("ab"))
    assert broker.committed == ""


def overtaken(broker, other, *, settings=SETTINGS):
    """Rows in whose middle another attempt does its work."""
    yield Words("ab")
    other()
    yield Words("c")


def test_fenced_attempt_finds_the_work_of_the_other(broker):
    report = broker.task().write(overtaken(broker, lambda: broker.task().write(pieces("abc"))))
    assert (broker.committed, report.is_repeat) == ("abc", True)
    # It did not fence the other in turn.
    assert broker.taken == 2


def test_fenced_attempt_does_not_take_another_jobs_rows_for_its_own(broker):
    with pytest.raises(RejectedError, match="differ from those it wrote before"):
        broker.task().write(overtaken(broker, lambda: broker.task().write(pieces("abcdef"))))
    assert broker.committed == "abcdef"


def test_fenced_attempt_does_not_wait_for_ever(broker, monkeypatch):
    monkeypatch.setattr(task_hold, "_SLACK_SECONDS", 0.02)
    short = replace(SETTINGS, client={"transaction.timeout.ms": "10"})
    # The transaction is younger than its time: it must be the other attempt.
    monkeypatch.setattr(task_hold.time, "monotonic", Clock(0.0005))
    with pytest.raises(FencedError, match="has not finished it"):
        broker.task(settings=short).write(overtaken(broker, lambda: FakeProducer(broker).take()))
    assert broker.committed == ""


class Clock:
    def __init__(self, step):
        self.now, self.step = 1000.0, step

    def __call__(self):
        self.now += self.step
        return self.now


def test_transaction_that_the_brokers_ended_is_written_again(broker, monkeypatch):
    monkeypatch.setattr(task_hold.time, "monotonic", Clock(400.0))
    broker.faults = {4: ("_FENCED", "before")}
    broker.task().write(pieces("ab", "c"))
    assert broker.committed == "abc"


@pytest.mark.parametrize("kept", [15, 1000])
def test_task_that_is_too_slow_for_its_transaction_is_told_so(broker, monkeypatch, kept):
    monkeypatch.setattr(task_hold.time, "monotonic", Clock(400.0))
    broker.faults = dict.fromkeys(range(4, 99), ("_FENCED", "before"))
    # As a fence it would wait for another attempt, which there is not.
    with pytest.raises(UnreachableError, match="timed out") as caught:
        broker.task(settings=replace(SETTINGS, kept_bytes=kept)).write(pieces("ab", "c"))
    assert "open for more than 300 s" in caught.value.cause
    assert "kafka.transaction.timeout.ms" in caught.value.hint
    assert broker.committed == ""


def test_ordered_task_is_cut(broker):
    report = broker.task(settings=ORDERED).write(pieces("abc", "de", "f", "ghi"))
    assert (broker.committed, report.transactions, report.amount.records) == ("abcdefghi", 2, 9)


def test_ordered_task_goes_on_in_the_middle_of_a_piece(broker):
    broker.faults = dict.fromkeys(range(4, 99), ("_TIMED_OUT", "before"))
    with pytest.raises(UnreachableError):
        broker.task(settings=ORDERED).write(pieces("abcde", "fgh"))
    assert broker.committed == "abcde"
    broker.faults = {}
    report = broker.task(settings=ORDERED).write(pieces("abc", "defgh"))
    assert broker.committed == "abcdefgh"
    assert report.amount == Amount(8, bytes=80)


def test_task_begun_in_pieces_needs_the_promise(broker):
    broker.faults = dict.fromkeys(range(4, 99), ("_TIMED_OUT", "before"))
    with pytest.raises(UnreachableError):
        broker.task(settings=ORDERED).write(pieces("abcd", "e"))
    broker.faults = {}
    assert broker.committed == "abcd"
    with pytest.raises(RejectedError, match="another order"):
        broker.task().write(pieces("abcde"))
    with pytest.raises(RejectedError, match="differ from those it wrote before"):
        broker.task(settings=ORDERED).write(pieces("abc"))


def test_batches_of_a_stream_follow_each_other(broker):
    first, second = (Claim("job", task=0, query="q", batch=number) for number in (0, 1))
    assert first.key == second.key
    broker.task(first).write(pieces("a"))
    assert broker.task(first).write(pieces("a")).is_repeat
    broker.task(second).write(pieces("b"))
    with pytest.raises(RefusedError, match="batch 1 is already written"):
        broker.task(first).write(pieces("a"))
    other = replace(first, query="another")
    broker.task(other).write(pieces("c"))
    assert broker.committed == "abc"


def test_old_attempt_does_not_wait_while_its_stream_goes_on(broker):
    begun, first, second = (Claim("q", task=0, query="q", batch=number) for number in (0, 1, 2))
    broker.task(begun).write(pieces("c"))
    with pytest.raises(RefusedError, match="batch 2 is already written"):
        broker.task(first).write(overtaken(broker, lambda: broker.task(second).write(pieces("d"))))
    assert broker.committed == "cd"


def test_stream_that_the_control_topic_does_not_know_is_refused_in_its_middle(broker):
    later = {task: Claim("q", task=task, query="q", batch=3) for task in (0, 5)}
    for claim in later.values():
        with pytest.raises(RefusedError, match="has no records of the stream") as caught:
            broker.task(claim).write(pieces("a"))
        assert "another control.topic" in caught.value.cause
    assert broker.committed == ""
    broker.task(build_first_claim("q"), is_noted=True).write(pieces())
    for claim in later.values():
        assert not broker.task(claim).write(pieces("a")).is_repeat
    assert broker.committed == "aa"


def test_task_without_rows_leaves_a_record_where_it_is_noted(broker):
    broker.task().write(pieces("abc"))
    with pytest.raises(RejectedError, match="differ from those it wrote before: 0 records"):
        broker.task(is_noted=True).write(pieces())
    other = replace(CLAIM, task=4)
    assert not broker.task(other, is_noted=True).write(pieces()).is_repeat
    assert broker.control[other.key].is_done


def test_control_topic_whose_leader_does_not_answer_is_asked_again(broker):
    answers = [UnreachableError("no answer"), UnreachableError("no answer"), None]

    def read(_):
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    ExactTask(SETTINGS, CLAIM, open_producer=lambda: FakeProducer(broker), read=read).write(pieces("abc"))
    assert (broker.committed, broker.taken, answers) == ("abc", 1, [])


def test_silence_of_the_control_topic_is_not_taken_for_not_done(broker, monkeypatch):
    def read(_):
        raise DeadlineError("nothing came")

    monkeypatch.setattr(task_hold.time, "monotonic", Clock(40.0))
    with pytest.raises(DeadlineError):
        ExactTask(SETTINGS, CLAIM, open_producer=lambda: FakeProducer(broker), read=read).write(pieces("abc"))
    assert broker.committed == ""


def test_as_many_rows_and_others_are_told(broker):
    broker.task().write([Words("abc")])
    with pytest.raises(RejectedError, match="the count is the same, the rows differ"):
        broker.task().write([Summed("abc")])


@given(
    rows=st.lists(st.text("abcdef", max_size=6), max_size=6),
    faults=st.dictionaries(
        st.integers(1, 25),
        st.tuples(st.sampled_from(["_TIMED_OUT", "_TRANSPORT"]), st.sampled_from(["before", "after"])),
    ),
    is_ordered=st.booleans(),
    kept=st.sampled_from([0, 25, 1000]),
)
def test_attempts_that_fail_anywhere_write_every_row_once(rows, faults, is_ordered, kept):
    broker = Broker()
    broker.faults = dict(faults)
    settings = replace(ORDERED if is_ordered else SETTINGS, kept_bytes=kept)
    for _ in range(30):
        try:
            report = broker.task(settings=settings).write(pieces(*rows))
        except UnreachableError:
            continue
        break
    assert broker.committed == "".join(rows)
    assert report.amount.records == len(broker.committed)
