"""Transactional writing, with a producer that fails on demand."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from seamark.errors import AuthorizationError, FencedError, InvalidSettingError, JournalError, MissingSettingError
from seamark.kafka.produce import Outgoing, RecordWriter
from seamark.kafka.transaction import TransactionalWriter

CONFIG = {"bootstrap.servers": "127.0.0.1:1", "acks": "1", "sasl.password": "canary-7"}
RECORD = Outgoing("seamark-journal", key=b"k", value=b"v", headers=(("number", b"0"),))


def failure(code, *, abort=False, fatal=False):
    return KafkaException(KafkaError(code, "the brokers said so", fatal, False, abort))


ABORTABLE = failure(KafkaError._MSG_TIMED_OUT, abort=True)
TIMED_OUT = failure(KafkaError._TIMED_OUT)
FENCED = failure(KafkaError._FENCED, fatal=True)


def behind_a_log_line(fatal):
    """What the client raises when it hands on a log line with the fatal error already set."""
    error = SystemError("<built-in function isinstance> returned a result with an exception set")
    error.__cause__ = fatal
    return error


class FakeProducer:
    """Does nothing, in the order asked; `commits` and `aborts` are what those calls raise, one after the other."""

    def __init__(self, *, commits=(), aborts=(), init=None, late=0, begins=()):
        self.commits, self.aborts, self.init, self.late = list(commits), list(aborts), init, late
        self.begins = list(begins)
        self.calls = []
        self.settings = {}

    def build(self, settings):
        self.settings = settings
        return self

    def _call(self, name, trouble):
        self.calls.append(name)
        if trouble is not None:
            raise trouble

    def init_transactions(self, timeout):
        self._call("init", self.init)

    def begin_transaction(self):
        self._call("begin", self.begins.pop(0) if self.begins else None)

    def produce(self, topic, **record):
        self._call("produce", None)

    def flush(self, timeout):
        self._call("flush", None)
        return self.late

    def commit_transaction(self, timeout):
        assert timeout > 0
        self._call("commit", self.commits.pop(0) if self.commits else None)

    def abort_transaction(self, timeout):
        self._call("abort", self.aborts.pop(0) if self.aborts else None)

    def poll(self, timeout):
        # A producer that was fenced says so at every call.
        raise FENCED

    def purge(self, **options):
        self.calls.append("purge")


def write(producer, **options):
    writer = TransactionalWriter(CONFIG, transactional_id="seamark.x", build_producer=producer.build)
    writer.write([RECORD, RECORD], **options)


def test_write_is_one_transaction():
    producer = FakeProducer()
    write(producer)
    assert producer.calls == ["begin", "produce", "produce", "flush", "commit"]


def test_settings_that_make_it_durable_go_over_the_context():
    producer = FakeProducer()
    writer = TransactionalWriter(CONFIG, transactional_id="seamark.x", build_producer=producer.build)
    assert (producer.settings["acks"], producer.settings["transactional.id"]) == ("all", "seamark.x")
    assert producer.settings["transaction.timeout.ms"] == 15_000
    assert producer.settings["message.timeout.ms"] == 0
    assert "canary-7" not in repr(writer)


def test_what_surely_was_not_written_is_written_again():
    producer = FakeProducer(commits=[ABORTABLE, ABORTABLE])
    write(producer)
    assert producer.calls.count("commit") == 3
    assert producer.calls.count("abort") == 2


def test_second_try_ends_at_the_deadline_with_nothing_written():
    producer = FakeProducer(commits=[ABORTABLE] * 9)
    with pytest.raises(JournalError, match="nothing is written"):
        write(producer, deadline=time.monotonic())
    assert producer.calls.count("commit") == 1


@pytest.mark.parametrize(
    ("code", "error", "hint"),
    [
        (KafkaError.INVALID_TIMESTAMP, JournalError, "correct the clock of this machine"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, AuthorizationError, "grant WRITE"),
        (KafkaError.MSG_SIZE_TOO_LARGE, JournalError, "check that the brokers run"),
    ],
)
def test_what_the_brokers_refuse_permanently_is_not_tried_again(code, error, hint):
    producer = FakeProducer(commits=[failure(code, abort=True)] * 9)
    with pytest.raises(error) as caught:
        write(producer)
    assert caught.value.hint.startswith(hint)
    assert producer.calls.count("commit") == producer.calls.count("abort") == 1


def test_unknown_commit_is_neither_repeated_nor_aborted():
    producer = FakeProducer(commits=[TIMED_OUT])
    with pytest.raises(JournalError, match="unknown whether"):
        write(producer)
    assert producer.calls.count("commit") == 1
    assert "abort" not in producer.calls


def test_records_that_nobody_took_are_not_committed():
    producer = FakeProducer(late=2)
    with pytest.raises(JournalError, match="nothing is written") as caught:
        write(producer, deadline=time.monotonic())
    assert "2 records" in caught.value.cause
    assert "commit" not in producer.calls
    assert "abort" in producer.calls


@pytest.mark.parametrize(
    "producer",
    [
        FakeProducer(commits=[FENCED]),
        FakeProducer(begins=[FENCED]),
        FakeProducer(commits=[ABORTABLE], aborts=[FENCED]),
        FakeProducer(commits=[failure(KafkaError.PRODUCER_FENCED)]),
        FakeProducer(begins=[behind_a_log_line(FENCED)]),
        FakeProducer(commits=[behind_a_log_line(FENCED)]),
        FakeProducer(commits=[ABORTABLE], aborts=[behind_a_log_line(FENCED)]),
    ],
    ids=["commit", "begin", "abort", "broker", "begin, logged", "commit, logged", "abort, logged"],
)
def test_fenced_is_fenced_wherever_it_is_heard(producer):
    with pytest.raises(FencedError) as caught:
        write(producer)
    assert "seamark.x" in caught.value.message
    assert producer.calls.count("begin") == 1


def test_other_faults_of_the_client_are_not_hidden():
    with pytest.raises(SystemError, match="of its own"):
        write(FakeProducer(begins=[SystemError("of its own")]))


def test_abort_that_fails_ends_it():
    producer = FakeProducer(commits=[ABORTABLE], aborts=[TIMED_OUT])
    with pytest.raises(JournalError, match="nothing is written"):
        write(producer)
    assert producer.calls.count("begin") == 1


def test_denied_id_names_the_right_to_grant():
    producer = FakeProducer(init=failure(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    writer = TransactionalWriter(CONFIG, transactional_id="seamark.x", build_producer=producer.build)
    with pytest.raises(AuthorizationError) as caught:
        writer.take()
    assert "WRITE and DESCRIBE on the transactional id seamark.x" in caught.value.hint


def test_closed_writer_may_be_closed_again():
    producer = FakeProducer()
    writer = TransactionalWriter(CONFIG, transactional_id="seamark.x", build_producer=producer.build)
    writer.close()
    writer.close()
    assert producer.calls == ["purge"]


def test_single_record_that_nobody_takes_is_an_error_in_time(free_port):
    writer = RecordWriter({"bootstrap.servers": f"127.0.0.1:{free_port}"}, timeout_seconds=0.3)
    begun = time.monotonic()
    with pytest.raises(JournalError, match="seamark-journal"):
        writer.write(RECORD)
    assert time.monotonic() - begun < 5
    writer.close()


def test_context_without_brokers_is_a_missing_setting():
    with pytest.raises(MissingSettingError):
        RecordWriter({})


def test_setting_that_the_client_does_not_take_is_told_without_its_secrets():
    with pytest.raises(InvalidSettingError) as caught:
        RecordWriter({"bootstrap.servers": "x:1", "nonsense": "1", "sasl.password": "canary-7"})
    assert "nonsense" in caught.value.cause
    assert "canary-7" not in caught.value.cause
