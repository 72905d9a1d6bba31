"""Writes: what was sent, and whether it happened."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from seamark.errors import (
    AlreadyExistsError,
    AuthenticationError,
    AuthorizationError,
    DeadlineError,
    NotFoundError,
    RefusedError,
    RejectedError,
    UnknownOutcomeError,
    UnreachableError,
    UnsupportedError,
)
from seamark.kafka import failures as outcomes
from seamark.kafka.brokers import Brokers
from seamark.kafka.groups import Committed, GroupType
from seamark.kafka.kafka_python import KafkaPythonError, load
from tests.unit.kafka.fakes import FakeBrokersClient, FakeError, done, failed
from tests.unit.kafka.test_survey import listing, spot


def open_brokers(client, **options):
    return Brokers({"bootstrap.servers": "b:9092"}, build_client=client.build, timeout_seconds=1, **options)


def client_that(answer):
    return FakeBrokersClient(answers={"write": answer})


WRITES = {
    "create": lambda brokers: brokers.create_topic("t", partitions=1, replication_factor=1),
    "delete": lambda brokers: brokers.delete_topic("t"),
    "grow": lambda brokers: brokers.grow_topic("t", partitions=3),
    "alter": lambda brokers: brokers.alter_topic_config("t", values={"retention.ms": "1"}),
    "move": lambda brokers: brokers.alter_group_offsets("g", {("t", 0): Committed(1)}),
    "delete-group": lambda brokers: brokers.delete_group("g"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
class TestOutcomes:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("TOPIC_ALREADY_EXISTS", AlreadyExistsError),
            ("UNKNOWN_TOPIC_OR_PART", NotFoundError),
            ("GROUP_ID_NOT_FOUND", NotFoundError),
            ("NON_EMPTY_GROUP", RefusedError),
            ("UNKNOWN_MEMBER_ID", RefusedError),
            ("INVALID_CONFIG", RejectedError),
            ("UNSUPPORTED_VERSION", UnsupportedError),
            ("TOPIC_AUTHORIZATION_FAILED", AuthorizationError),
            ("CLUSTER_AUTHORIZATION_FAILED", AuthorizationError),
        ],
    )
    def test_what_the_brokers_refused_did_not_happen(self, write, name, kind):
        with pytest.raises(kind) as caught:
            write(open_brokers(client_that(failed(name, "no"))))
        assert caught.value.cause == "no"
        assert caught.value.hint
        assert caught.value.context["kafka_error"] == name

    @pytest.mark.parametrize(
        "name",
        [
            "REQUEST_TIMED_OUT",
            "_TRANSPORT",
            "UNKNOWN",
            "NOT_CONTROLLER",
            "COORDINATOR_NOT_AVAILABLE",
            "NOT_COORDINATOR",
            "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
            "SOMETHING_NEW",
        ],
    )
    def test_what_may_have_happened_is_unknown(self, write, name):
        with pytest.raises(UnknownOutcomeError, match="unknown whether"):
            write(open_brokers(client_that(failed(name))))

    def test_a_timeout_after_it_was_sent_is_unknown(self, write):
        with pytest.raises(UnknownOutcomeError):
            write(
                open_brokers(client_that(failed("_TIMED_OUT", "Failed while waiting for response from broker: late")))
            )

    @pytest.mark.parametrize(
        "text",
        [
            "Failed while waiting for controller: Local: Timed out",
            "Timed out waiting for broker",
            "Failed while initializing",
        ],
    )
    def test_a_timeout_before_anything_was_sent_did_not_happen(self, write, text):
        with pytest.raises(DeadlineError):
            write(open_brokers(client_that(failed("_TIMED_OUT", text))))

    def test_a_coordinator_that_was_not_found_was_sent_nothing(self, write):
        text = "DELETEGROUPS worker coordinator request failed: Broker: Coordinator not available"
        with pytest.raises(UnreachableError):
            write(open_brokers(client_that(failed("COORDINATOR_NOT_AVAILABLE", text))))
        with pytest.raises(UnknownOutcomeError):
            write(open_brokers(client_that(failed("_TRANSPORT", text))))

    def test_no_answer_at_all_is_unknown(self, write, monkeypatch):
        monkeypatch.setattr("seamark.kafka.clients._MARGIN_SECONDS", 0.05)
        with pytest.raises(UnknownOutcomeError, match="no answer within"):
            write(Brokers({"bootstrap.servers": "b:1"}, build_client=client_that(Future()).build, timeout_seconds=0))


def test_every_name_of_the_table_is_one_of_librdkafkas():
    codes = [getattr(KafkaError, name) for name in dir(KafkaError) if name.strip("_").isupper()]
    known = {KafkaError(code).name() for code in codes if isinstance(code, int)}

    assert set(outcomes._REJECTED) | outcomes._DENIED_ERRORS <= known


def test_both_clients_name_an_error_alike():
    errors = load("kafka.errors")

    assert KafkaPythonError(errors.UnknownTopicOrPartitionError("x")).name() == "UNKNOWN_TOPIC_OR_PART"
    assert KafkaPythonError(errors.InvalidTopicError).name() == "TOPIC_EXCEPTION"
    assert KafkaPythonError(errors.KafkaConnectionError("Handshake failed: CERTIFICATE_VERIFY_FAILED")).name() == "_SSL"
    assert KafkaPythonError(errors.NodeNotReadyError("1")).name() == "_TRANSPORT"
    assert KafkaPythonError(errors.KafkaConfigurationError("x")).name() == "_FAIL"


def test_a_write_waits_for_the_clients_own_word_even_where_there_is_no_hope():
    answer = Future()
    polls = []

    def refuse(client):
        polls.append(client)
        client.settings["error_cb"](FakeError("_AUTHENTICATION", "bad password"))
        if len(polls) == 3:
            error = FakeError("_TIMED_OUT", "Failed while waiting for controller: Local: Timed out")
            answer.set_exception(RuntimeError(error))

    client = client_that(answer)
    client.during_poll = refuse
    with pytest.raises(AuthenticationError) as caught:
        open_brokers(client).delete_topic("t")
    assert len(polls) >= 3
    assert caught.value.cause == "bad password"


class TestRequests:
    def test_a_new_topic_leaves_to_the_brokers_what_is_not_said(self):
        client = client_that(done(None))
        open_brokers(client).create_topic("t", configs={"cleanup.policy": "compact"})
        ((_, new, options),) = client.asked
        assert (new.topic, new.num_partitions, new.replication_factor) == ("t", -1, -1)
        assert new.config == {"cleanup.policy": "compact"}
        assert options["operation_timeout"] < options["request_timeout"]

    def test_configs_are_set_and_taken_away_in_one_request(self):
        client = client_that(done(None))
        open_brokers(client).alter_topic_config("t", values={"a": "1"}, remove=["b"])
        assert client.asked == [("alter", "t", [("a", "1", "SET"), ("b", None, "DELETE")])]

    def test_growing_names_the_new_count(self):
        client = client_that(done(None))
        open_brokers(client).grow_topic("t", partitions=6)
        assert client.asked == [("grow", "t", 6)]

    def test_a_commit_carries_its_epoch_and_no_metadata(self):
        client = client_that(done(SimpleNamespace(topic_partitions=[spot("t", 0, 5)])))
        open_brokers(client).alter_group_offsets("g", {("t", 0): Committed(5, leader_epoch=3), ("t", 1): Committed(6)})
        ((_, group, (first, second)),) = client.asked
        assert (group, first.offset, first.metadata, first.leader_epoch) == ("g", 5, None, 3)
        assert (second.offset, second.metadata, second.leader_epoch) == (6, None, None)

    def test_nothing_to_commit_or_forget_is_no_call(self):
        client = FakeBrokersClient()
        open_brokers(client).alter_group_offsets("g", {})
        open_brokers(client).delete_group_offsets("g", [])
        assert client.asked == []


class TestParts:
    def move(self, *errors):
        answered = [
            spot("t", number, 5, error=error and FakeError(error, "why")) for number, error in enumerate(errors)
        ]
        client = client_that(done(SimpleNamespace(topic_partitions=answered)))
        open_brokers(client).alter_group_offsets("g", {("t", number): Committed(5) for number in range(len(errors))})

    def test_all_refused_alike_did_not_happen(self):
        with pytest.raises(RefusedError, match="t-0"):
            self.move("UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID")

    def test_all_refused_each_in_its_own_way_did_not_happen(self):
        with pytest.raises(RejectedError) as caught:
            self.move("UNKNOWN_MEMBER_ID", "OFFSET_METADATA_TOO_LARGE")
        assert caught.value.cause == "t-0: why; t-1: why"

    def test_a_part_is_unknown(self):
        with pytest.raises(UnknownOutcomeError, match="only some offsets of group"):
            self.move(None, "UNKNOWN_TOPIC_OR_PART")

    def test_all_that_may_have_happened_is_unknown(self):
        with pytest.raises(UnknownOutcomeError):
            self.move("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_NOT_AVAILABLE")

    def test_all_done_is_silent(self):
        self.move(None, None)


class FakeSecond:
    """A stand-in for kafka-python's admin client."""

    def __init__(self, *, share=(), sizes=None, deleted=None, altered=None, committed=None):
        self.share, self.sizes, self.deleted = share, sizes or {}, deleted
        self.altered, self.committed = altered, committed
        self.closed = 0

    def build(self, settings):
        self.settings = settings
        return self

    def list_groups(self, types_filter):
        assert types_filter == ["share"]
        return _give(self.share)

    def describe_log_dirs(self, topic_partitions, brokers):
        (broker,) = brokers
        return [{"broker": broker, "log_dirs": _give(self.sizes[broker])}]

    def delete_group_offsets(self, group, spots):
        self.spots = [(spot.topic, spot.partition) for spot in spots]
        return _give(self.deleted)

    def alter_group_offsets(self, group, offsets):
        self.sent = {tuple(spot): tuple(held) for spot, held in offsets.items()}
        return _give(self.altered)

    def list_partition_reassignments(self):
        return _give(self.moving)

    def list_group_offsets(self, groups):
        self.groups = groups
        return _give(self.committed)

    def close(self):
        self.closed += 1


def _give(value):
    if isinstance(value, Exception):
        raise value
    return value


def folder(*partitions, error=0):
    found = [
        {"partition_index": number, "partition_size": size, "is_future_key": future}
        for number, size, future in partitions
    ]
    return {"error_code": error, "log_dir": "/d", "topics": [{"name": "t", "partitions": found}]}


class TestKafkaPythonClient:
    def open(self, second, **rest):
        return open_brokers(FakeBrokersClient(**rest), build_second=second.build)

    def test_share_groups_stand_among_the_others(self):
        second = FakeSecond(
            share=[{"group_id": "m", "protocol_type": "share", "group_state": "Stable", "group_type": "share"}]
        )
        brokers = self.open(
            second, answers={"list": done(SimpleNamespace(valid=[listing("a"), listing("z")], errors=[]))}
        )

        reading = brokers.read_all_groups()

        assert [found.name for found in reading] == ["a", "m", "z"]
        share = reading.items[1]
        assert (share.type, share.state, share.has_offsets) == (GroupType.SHARE, "STABLE", False)
        # It is kept for the next read, until the brokers are closed.
        assert second.closed == 0
        brokers.close()
        assert second.closed == 1

    def test_a_kept_client_that_broke_is_opened_anew_once(self):
        errors = load("kafka.errors")
        second = FakeSecond()
        brokers = self.open(second, answers={"list": done(SimpleNamespace(valid=[], errors=[]))})
        assert brokers.read_all_groups().is_complete
        answers = [errors.KafkaConnectionError("gone"), []]
        second.list_groups = lambda types_filter: _give(answers.pop(0))
        assert brokers.read_all_groups().is_complete
        assert (second.closed, answers) == (1, [])
        answers += [errors.KafkaConnectionError("gone"), errors.KafkaConnectionError("still gone")]
        assert list(brokers.read_all_groups().failures) == ["share groups"]
        assert (second.closed, answers) == (3, [])

    def test_share_groups_that_can_not_be_read_are_a_failure(self):
        second = FakeSecond(share=load("kafka.errors").KafkaTimeoutError("late"))
        brokers = self.open(second, answers={"list": done(SimpleNamespace(valid=[listing("a")], errors=[]))})

        reading = brokers.read_all_groups()

        assert [found.name for found in reading] == ["a"]
        assert isinstance(reading.failures["share groups"], DeadlineError)
        assert second.closed == 1

    def test_brokers_that_are_too_old_have_no_share_groups(self):
        second = FakeSecond(share=load("kafka.errors").IncompatibleBrokerVersion("v5"))
        brokers = self.open(second, answers={"list": done(SimpleNamespace(valid=[], errors=[]))})

        assert brokers.read_all_groups().is_complete

    def test_sizes_are_by_partition_and_broker(self):
        second = FakeSecond(
            sizes={1: [folder((0, 10, False), (0, 99, True))], 2: [folder((0, 12, False)), folder((1, 3, False))]}
        )

        (size,) = self.open(second).read_sizes({"t": [0, 1]})

        assert second.settings["bootstrap_servers"] == ["broker-1:9092", "broker-2:9092"]
        assert size.replicas == {(0, 1): 10, (0, 2): 12, (1, 2): 3}
        assert (size.bytes, size.by_broker, size.by_partition) == (25, {1: 10, 2: 15}, {0: 12, 1: 3})

    def test_copies_on_their_way_are_by_partition(self):
        second = FakeSecond()
        spot = load("kafka.structs").TopicPartition("t", 1)
        second.moving = {spot: {"replicas": [1, 2, 3], "adding_replicas": [3], "removing_replicas": [1]}}

        assert self.open(second).read_moving() == {("t", 1): (3,)}

    def test_a_broker_without_sizes_is_a_failure(self):
        second = FakeSecond(
            sizes={1: load("kafka.errors").KafkaConnectionError("gone"), 2: [folder((0, 1, False)), folder(error=56)]}
        )

        reading = self.open(second).read_sizes({"t": [0]})

        assert set(reading.failures) == {"broker 1", "broker 2"}
        assert reading.items[0].replicas == {(0, 2): 1}

    def test_forgetting_names_the_partitions(self):
        partition = load("kafka.structs").TopicPartition
        second = FakeSecond(deleted={partition("t", 0): load("kafka.errors").NoError})

        self.open(second).delete_group_offsets("g", [("t", 0)])

        assert second.spots == [("t", 0)]

    def test_one_partition_that_could_not_be_forgotten_makes_it_unknown(self):
        partition, errors = load("kafka.structs").TopicPartition, load("kafka.errors")
        deleted = {partition("t", 0): errors.NoError, partition("t", 1): errors.UnknownTopicOrPartitionError}

        with pytest.raises(UnknownOutcomeError, match="only some offsets of group"):
            self.open(FakeSecond(deleted=deleted)).delete_group_offsets("g", [("t", 0), ("t", 1)])

    def test_a_group_that_reads_the_topic_is_refused(self):
        partition, errors = load("kafka.structs").TopicPartition, load("kafka.errors")
        deleted = {partition("t", 0): errors.for_code(86)}

        with pytest.raises(RefusedError) as caught:
            self.open(FakeSecond(deleted=deleted)).delete_group_offsets("g", [("t", 0)])
        assert caught.value.context["kafka_error"] == "GROUP_SUBSCRIBED_TO_TOPIC"

    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            ("GroupIdNotFoundError", NotFoundError),
            ("GroupAuthorizationFailedError", AuthorizationError),
            ("NonEmptyGroupError", RefusedError),
            ("KafkaTimeoutError", UnknownOutcomeError),
            ("KafkaConnectionError", UnknownOutcomeError),
            ("CoordinatorNotAvailableError", UnknownOutcomeError),
        ],
    )
    def test_what_became_of_forgetting(self, error, kind):
        second = FakeSecond(deleted=getattr(load("kafka.errors"), error)("why"))
        with pytest.raises(kind):
            self.open(second).delete_group_offsets("g", [("t", 0)])
        assert second.spots == [("t", 0)]
        assert second.closed == 1

    def test_a_commit_with_metadata_is_made_by_the_second_client(self):
        partition, errors = load("kafka.structs").TopicPartition, load("kafka.errors")
        second = FakeSecond(altered={partition("t", 0): errors.NoError, partition("t", 1): errors.NoError})

        self.open(second).alter_group_offsets("g", {("t", 0): Committed(5, "m", 3), ("t", 1): Committed(6)})

        assert second.sent == {("t", 0): (5, "m", 3), ("t", 1): (6, "", -1)}
        assert second.closed == 1

    @pytest.mark.parametrize(
        ("altered", "kind"),
        [
            ({0: "NoError", 1: "UnknownMemberIdError"}, UnknownOutcomeError),
            ({0: "UnknownMemberIdError", 1: "UnknownMemberIdError"}, RefusedError),
            ("GroupAuthorizationFailedError", AuthorizationError),
            ("KafkaTimeoutError", UnknownOutcomeError),
        ],
    )
    def test_what_became_of_a_commit_with_metadata(self, altered, kind):
        partition, errors = load("kafka.structs").TopicPartition, load("kafka.errors")
        if isinstance(altered, str):
            answer = getattr(errors, altered)("why")
        else:
            answer = {partition("t", number): getattr(errors, name) for number, name in altered.items()}
        with pytest.raises(kind):
            self.open(FakeSecond(altered=answer)).alter_group_offsets(
                "g", {("t", 0): Committed(5, "m"), ("t", 1): Committed(6, "m")}
            )
