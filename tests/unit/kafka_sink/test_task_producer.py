"""The producer of a task: what it hands to librdkafka, in which order, and what it makes of its failures."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from seamark.errors import AuthorizationError, FencedError, RejectedError, UnreachableError
from seamark.kafka_sink.control import Amount, Claim
from seamark.kafka_sink.producer import OURS, FailureAction, ProducerFailure, TaskProducer, build_task_error, judge

# In this order the client takes what is not named; see the test with a real one.
PLACES = ("value", "key", "partition", "callback", "on_delivery", "timestamp", "headers")
CONFIG = {"bootstrap.servers": "nowhere:1", "linger.ms": "7"}


class Librdkafka:
    """Notes every call. `full` is how often the queue has no room; `lost` are delivery errors to report."""

    def __init__(self, settings):
        self.settings, self.calls, self.full, self.lost, self.late = settings, [], 0, [], 0
        self.raised = {}
        self.callbacks = []

    def __getattr__(self, name):
        def call(*arguments, **keywords):
            self.calls.append((name, *arguments))
            if name in self.raised:
                raise self.raised.pop(name)

        return call

    def produce(self, topic, *arguments, **keywords):
        if self.full:
            self.full -= 1
            raise BufferError
        record = {**dict(zip(PLACES, arguments, strict=False)), **keywords}
        own = record.pop("callback", None) or record.pop("on_delivery", None)
        self.callbacks.append(own or self.settings.get("on_delivery"))
        self.calls.append(("produce", topic, {key: value for key, value in record.items() if key != "on_delivery"}))

    def poll(self, _seconds):
        for name in self.lost:
            place = SimpleNamespace(topic=lambda: "t", partition=lambda: 3)
            self.settings["on_delivery"](KafkaError(getattr(KafkaError, name), name), place)

    def flush(self, _seconds):
        self.calls.append(("flush",))
        self.poll(0)
        return self.late


class Letters:
    def __init__(self, rows):
        self._rows = rows

    @property
    def amount(self):
        return Amount(len(self._rows))

    def rows(self):
        return self._rows


ROW = ("t", b"k", b"v", [("h", b"1")], 2, 5000)


@pytest.fixture
def made():
    return []


@pytest.fixture
def producer(made):
    def build(settings):
        made.append(Librdkafka(settings))
        return made[-1]

    return TaskProducer(CONFIG, transactional_id="id", control_topic="control", build_producer=build)


def commit(producer):
    producer.commit("control", partition=4, key=b"job/0", value=b"{}", deadline=time.monotonic() + 5)


def soon():
    return time.monotonic() + 5


def test_settings_of_the_job_go_over_defaults_and_under_what_exactness_needs(producer, made):
    settings = made[0].settings
    assert settings["linger.ms"] == "7"
    assert settings["compression.type"] == "lz4"
    assert settings["transactional.id"] == "id"
    assert {"acks", "enable.idempotence", "partitioner", "transactional.id"} <= OURS


def test_record_is_handed_over_whole(producer, made):
    producer.produce(Letters([ROW, ("t", None, None, None, None, None)]), deadline=soon())
    first, second = (call[2] for call in made[0].calls)
    assert first == {"key": b"k", "value": b"v", "headers": [("h", b"1")], "partition": 2, "timestamp": 5000}
    assert second == {"key": None, "value": None, "headers": None, "partition": -1, "timestamp": 0}


def test_real_client_takes_a_record_by_places():
    reports = []
    note = lambda *report: reports.append(report)  # noqa: E731
    client = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "on_delivery": note})
    record = ("t", b"v", b"k", 2, None, None, 5000, [("h", b"1")])
    client.produce(*record)
    client.purge()
    client.poll(5)
    ((error, message),) = reports
    assert error.name() == "_PURGE_QUEUE"
    assert (message.topic(), message.partition(), message.key(), message.value()) == ("t", 2, b"k", b"v")
    # A report has neither time nor headers; so that they are where they are is seen by what is refused there.
    for place, wrong, word in ((6, "soon", "str"), (7, 7, "header")):
        with pytest.raises(TypeError, match=word):
            client.produce(*record[:place], wrong, *record[place + 1 :])


@pytest.mark.parametrize("reported", [(), (0,), (5,), (0, 2, 3, 5), range(6)])
def test_offsets_of_rows_are_told_that_were_asked_for_and_not_that_of_the_control_record(made, reported):
    offsets = []

    def build(settings):
        made.append(Librdkafka(settings))
        return made[-1]

    note = lambda *place: offsets.append(place)  # noqa: E731
    producer = TaskProducer(
        CONFIG, transactional_id="id", control_topic="control", on_written=note, build_producer=build
    )
    rows = [(*ROW[:2], str(number).encode(), *ROW[3:]) for number in range(6)]
    producer.produce(Letters(rows), deadline=soon(), reported=reported)
    commit(producer)
    assert [call[2]["value"] for call in made[0].calls if call[0] == "produce"] == [*(row[2] for row in rows), b"{}"]
    for offset, callback in enumerate(made[0].callbacks, start=40):
        if callback is not None:
            callback(None, SimpleNamespace(topic=lambda: "t", partition=lambda: 2, offset=lambda offset=offset: offset))
    assert len(made[0].callbacks) == 7
    assert offsets == [(2, 40 + row) for row in reported]


def test_coordinator_is_looked_for_when_a_broker_is_connected(producer, made):
    producer.take()
    assert [call[:2] for call in made[0].calls] == [
        ("list_topics", "control"),
        ("list_topics", "control"),
        ("init_transactions", 60.0),
    ]


def test_control_record_goes_behind_everything_else(producer, made):
    commit(producer)
    names = [call[0] for call in made[0].calls]
    assert names == ["flush", "produce", "flush", "commit_transaction"]
    assert made[0].calls[1][1:] == ("control", {"value": b"{}", "key": b"job/0", "partition": 4})


def test_full_queue_is_waited_for(producer, made):
    made[0].full = 3
    producer.produce(Letters([ROW]), deadline=soon())
    assert len(made[0].calls) == 1


def test_queue_that_stays_full_is_a_failure(producer, made):
    made[0].full = 10**9
    with pytest.raises(ProducerFailure, match="accepted no more records"):
        producer.produce(Letters([ROW]), deadline=time.monotonic() - 1)


def test_records_that_are_late_are_not_committed(producer, made):
    made[0].late = 2
    with pytest.raises(ProducerFailure, match="2 records"):
        commit(producer)
    assert "commit_transaction" not in [call[0] for call in made[0].calls]


def test_lost_record_says_where_and_why(producer, made):
    made[0].lost = ["MSG_SIZE_TOO_LARGE", "_PURGE_QUEUE"]
    with pytest.raises(ProducerFailure) as caught:
        commit(producer)
    assert (caught.value.error.name(), caught.value.spot) == ("MSG_SIZE_TOO_LARGE", "t-3")


def test_report_of_a_record_says_more_than_the_transaction(producer, made):
    made[0].raised = {"begin_transaction": KafkaException(KafkaError(KafkaError._STATE, "abort first"))}
    made[0].lost = ["TOPIC_AUTHORIZATION_FAILED"]
    with pytest.raises(ProducerFailure) as caught:
        producer.begin()
    assert caught.value.error.name() == "TOPIC_AUTHORIZATION_FAILED"


def test_fence_is_found_behind_the_error_of_the_next_callback(producer, made):
    fence = KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))
    clumsy = SystemError("returned a result with an exception set")
    clumsy.__cause__ = fence
    made[0].raised = {"commit_transaction": clumsy}
    made[0].lost = []
    with pytest.raises(ProducerFailure) as caught:
        commit(producer)
    assert caught.value.error.name() == "_FENCED"


def test_fence_is_found_after_the_next_callback_has_cleared_it(producer, made):
    client = made[0]

    def flush(_seconds):
        # What the client answers from then on, whatever it is asked.
        client.raised = {"begin_transaction": KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))}
        raise SystemError("<method 'flush' of 'cimpl.Producer' objects> returned NULL without setting an exception")

    client.flush = flush
    with pytest.raises(ProducerFailure) as caught:
        commit(producer)
    assert judge(caught.value.error) is FailureAction.FENCED


def test_fence_is_seen_behind_the_records_that_it_purged(producer, made):
    """Not every record is reported: those that are may have been purged for it, and nothing else."""
    client = made[0]
    client.lost = ["_PURGE_QUEUE"]

    def flush(_seconds):
        Librdkafka.poll(client, 0)
        client.poll = tell
        return 0

    def tell(_seconds):
        raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))

    client.flush = flush
    with pytest.raises(ProducerFailure) as caught:
        commit(producer)
    assert judge(caught.value.error) is FailureAction.FENCED


def test_fence_is_seen_behind_the_state_that_it_left(producer, made):
    """Rows that come after it are refused for the producer's state, before anybody has told of the fence."""
    client = made[0]

    def refuse(*_, **__):
        raise KafkaException(KafkaError(KafkaError._STATE, "erroneous state"))

    def tell(_seconds):
        raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))

    client.produce, client.poll = refuse, tell
    with pytest.raises(ProducerFailure) as caught:
        producer.produce(Letters([ROW]), deadline=soon())
    assert judge(caught.value.error) is FailureAction.FENCED


def test_other_system_error_is_not_hidden(producer, made):
    made[0].raised = {"commit_transaction": SystemError("of the interpreter")}
    with pytest.raises(SystemError, match="interpreter"):
        commit(producer)


def test_closing_drops_what_is_in_hand(producer, made):
    producer.close()
    producer.close()
    assert [call[0] for call in made[0].calls] == ["purge"]


@pytest.mark.parametrize(
    ("name", "outcome", "kind", "hint"),
    [
        ("_FENCED", FailureAction.FENCED, FencedError, "Spark retries the task"),
        ("INVALID_PRODUCER_EPOCH", FailureAction.FENCED, FencedError, "no other job"),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", FailureAction.HOPELESS, AuthorizationError, "seamark.sink."),
        ("INVALID_TRANSACTION_TIMEOUT", FailureAction.HOPELESS, RejectedError, "transaction.max.timeout.ms"),
        ("_UNKNOWN_PARTITION", FailureAction.HOPELESS, RejectedError, "partition column"),
        ("_TIMED_OUT", FailureAction.PASSING, UnreachableError, "same name"),
        ("NOT_COORDINATOR", FailureAction.PASSING, UnreachableError, "same name"),
    ],
)
def test_failures_are_told_apart(name, outcome, kind, hint):
    error = KafkaError(getattr(KafkaError, name), "said: password=hunter2")
    assert judge(error) is outcome
    built = build_task_error(error, claim=Claim("job", task=1), spot="t-3")
    assert type(built) is kind
    assert hint in built.hint
    assert "task 1 of job job" in built.message
    assert "hunter2" not in built.cause
