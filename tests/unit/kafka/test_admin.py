"""The admin adapter: our values, our errors, a deadline for everything."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from seamark.errors import (
    AuthenticationError,
    AuthorizationError,
    DeadlineError,
    InvalidSettingError,
    MissingSettingError,
    NotFoundError,
    UnreachableError,
)
from seamark.kafka.admin import KafkaAdmin
from seamark.kafka.brokers import Brokers
from seamark.kafka.model import OffsetSpec
from tests.unit.kafka.fakes import FakeAdminClient, FakeError, done, failed, node, operations, topic

ADDRESS = "broker-1:9092"


def open_admin(client, **options):
    return KafkaAdmin({"bootstrap.servers": ADDRESS}, build_client=client.build, **options)


def described_cluster(may=("DESCRIBE", "ALTER")):
    return SimpleNamespace(
        cluster_id="abc",
        controller=node(2),
        nodes=[node(2), node(1)],
        authorized_operations=operations(*may) if may else None,
    )


def test_cluster_is_our_own_value_with_brokers_sorted():
    admin = open_admin(FakeAdminClient(cluster=done(described_cluster())))
    cluster = admin.read_cluster()
    assert cluster.cluster_id == "abc"
    assert [broker.id for broker in cluster.brokers] == [1, 2]
    assert cluster.controller == 2
    assert cluster.operations == {"DESCRIBE", "ALTER"}


def test_no_allowed_operation_is_an_empty_set():
    # The client gives None for "nothing allowed".
    assert open_admin(FakeAdminClient(cluster=done(described_cluster(may=())))).read_cluster().operations == frozenset()


def test_every_describe_asks_for_the_allowed_operations():
    client = FakeAdminClient(cluster=done(described_cluster()))
    open_admin(client, timeout_seconds=3).read_cluster()
    assert client.asked == [("cluster", {"include_authorized_operations": True, "request_timeout": 3})]


def test_a_missing_address_is_refused_before_a_client_is_made():
    with pytest.raises(MissingSettingError, match="has no brokers"):
        KafkaAdmin({})


def test_topics_come_in_the_order_asked_with_partitions_and_configs():
    client = FakeAdminClient(
        topics={"b": done(topic("b", partitions=3, isr=(1,))), "a": done(topic("a", leader=None))},
        configs={
            "a": done(
                {
                    "cleanup.policy": SimpleNamespace(value="compact", source=1),
                    "other": SimpleNamespace(value="x", source=5),
                    "retention.bytes": SimpleNamespace(value="7", source=1),
                }
            ),
            "b": done({"cleanup.policy": SimpleNamespace(value="delete", source=5)}),
        },
    )
    first, second = open_admin(client).read_topics(["a", "b", "a"]).require_complete(what="topics")
    assert (first.name, first.topic_id, first.replication_factor) == ("a", "id_of-a", 2)
    assert first.partitions[0].leader is None
    assert first.config("cleanup.policy") == "compact"
    assert first.configs["cleanup.policy"].source == "DYNAMIC_TOPIC_CONFIG"
    assert first.own_configs == {"cleanup.policy": "compact", "retention.bytes": "7"}
    assert list(first.configs) == ["cleanup.policy", "retention.bytes"]
    assert second.configs["cleanup.policy"].source == "DEFAULT_CONFIG"
    assert second.under_replicated == (0, 1, 2)
    assert second.operations == {"READ", "DESCRIBE"}


def test_a_missing_topic_does_not_hide_the_others():
    client = FakeAdminClient(
        topics={"here": done(topic("here")), "gone": failed("UNKNOWN_TOPIC_OR_PART")}, configs={"here": done({})}
    )
    reading = open_admin(client).read_topics(["here", "gone"])
    assert [found.name for found in reading] == ["here"]
    assert isinstance(reading.failures["gone"], NotFoundError)
    assert ("configs", ["here"]) in client.asked


def test_a_denied_topic_names_the_operation_to_grant():
    client = FakeAdminClient(topics={"secret": failed("TOPIC_AUTHORIZATION_FAILED")})
    error = open_admin(client).read_topics(["secret"]).failures["secret"]
    assert isinstance(error, AuthorizationError)
    assert error.hint == "grant DESCRIBE on the topic secret to the principal of this context"


def test_denied_configs_leave_the_topic_and_say_why():
    client = FakeAdminClient(
        topics={"a": done(topic("a"))}, configs={"a": failed("TOPIC_AUTHORIZATION_FAILED", "no DescribeConfigs")}
    )
    (found,) = open_admin(client).read_topics(["a"])
    assert found.configs == {}
    assert found.configs_error == "not allowed to read the configs of the topic a"


def test_no_names_ask_nothing():
    client = FakeAdminClient()
    admin = open_admin(client)
    assert len(admin.read_topics([])) == len(admin.read_groups([])) == len(admin.read_end_offsets([])) == 0
    assert client.asked == []


def test_groups_carry_state_and_operations():
    group = SimpleNamespace(
        group_id="connect-lake",
        state=SimpleNamespace(name="STABLE"),
        members=[1, 2],
        authorized_operations=operations("READ"),
    )
    client = FakeAdminClient(groups={"connect-lake": done(group), "no": failed("GROUP_AUTHORIZATION_FAILED")})
    reading = open_admin(client).read_groups(["connect-lake", "no"])
    (found,) = reading.items
    assert (found.name, found.state, found.members) == ("connect-lake", "STABLE", 2)
    assert found.operations == {"READ"}
    assert isinstance(reading.failures["no"], AuthorizationError)


def test_end_offsets_are_by_topic_and_partition():
    client = FakeAdminClient(
        offsets={("t", 0): done(SimpleNamespace(offset=5)), ("t", 1): done(SimpleNamespace(offset=0))}
    )
    assert open_admin(client).read_end_offsets([("t", 0), ("t", 1)]) == {("t", 0): 5, ("t", 1): 0}


def test_ends_without_brokers_are_unreachable_and_not_missing():
    """librdkafka gives _NOENT for both."""
    client = FakeAdminClient(
        offsets={("t", 0): failed("_NOENT", "No leaders found")}, topics={"t": failed("_TRANSPORT", "refused")}
    )
    brokers = Brokers({"bootstrap.servers": ADDRESS}, build_client=client.build)
    reading = brokers.read_log_offsets([("t", 0)], at=OffsetSpec.STABLE)
    assert [type(error) for error in reading.failures.values()] == [UnreachableError]


def test_end_offsets_of_a_missing_topic_are_an_error():
    client = FakeAdminClient(offsets={("t", 0): failed("UNKNOWN_TOPIC_OR_PART")})
    with pytest.raises(NotFoundError, match="t-0"):
        open_admin(client).read_end_offsets([("t", 0)])


@pytest.mark.parametrize(
    ("name", "text", "kind", "hint"),
    [
        ("_AUTHENTICATION", "SASL authentication error", AuthenticationError, "sasl.password"),
        ("_SSL", "certificate verify failed: certificate has expired", AuthenticationError, "renew"),
        ("_SSL", "certificate verify failed: hostname mismatch", AuthenticationError, "host name"),
        ("_SSL", "self-signed certificate in certificate chain", AuthenticationError, "ssl.ca.location"),
        ("_SSL", "wrong version number", AuthenticationError, "doesn't use TLS"),
    ],
)
def test_what_no_waiting_heals_ends_at_once(name, text, kind, hint):
    client = FakeAdminClient(cluster=Future(), during_poll=lambda it: it.settings["error_cb"](FakeError(name, text)))
    with pytest.raises(kind) as caught:
        open_admin(client, timeout_seconds=60).read_cluster()
    assert caught.value.cause == text
    assert hint in caught.value.hint


def test_no_answer_ends_at_the_deadline():
    with pytest.raises(DeadlineError, match="no answer within 0 s"):
        open_admin(FakeAdminClient(cluster=Future()), timeout_seconds=0).read_cluster()


def test_a_timeout_tells_the_trouble_of_the_connection_before_it():
    cluster = Future()

    def refuse_then_give_up(client):
        client.settings["error_cb"](FakeError("_TRANSPORT", "Connection refused"))
        cluster.set_exception(RuntimeError(FakeError("_TIMED_OUT", "Failed while waiting for controller")))
        client.during_poll = None

    with pytest.raises(DeadlineError) as caught:
        open_admin(FakeAdminClient(cluster=cluster, during_poll=refuse_then_give_up)).read_cluster()
    assert caught.value.cause == "Connection refused"


def test_trouble_before_an_answer_is_forgotten():
    cluster = Future()

    def recover(client):
        client.settings["error_cb"](FakeError("_TRANSPORT", "one broker restarts"))
        cluster.set_result(described_cluster())
        client.during_poll = None

    client = FakeAdminClient(cluster=cluster, during_poll=recover)
    admin = open_admin(client)
    assert admin.read_cluster().cluster_id == "abc"
    client.cluster = failed("_TIMED_OUT", "a new trouble")
    with pytest.raises(DeadlineError) as caught:
        admin.read_cluster()
    assert caught.value.cause == "a new trouble"


def test_a_fault_that_is_not_kafkas_is_not_dressed_up():
    future = Future()
    future.set_exception(ZeroDivisionError("ours"))
    with pytest.raises(ZeroDivisionError):
        open_admin(FakeAdminClient(cluster=future)).read_cluster()


# The real librdkafka from here on; no broker is needed to be refused.


def test_a_refused_connection_is_unreachable_within_seconds_and_prints_nothing(capfd, free_port, monkeypatch):
    monkeypatch.setattr("seamark.kafka.clients._GRACE_SECONDS", 0.3)
    with KafkaAdmin({"bootstrap.servers": f"127.0.0.1:{free_port}"}, timeout_seconds=8) as admin:
        with pytest.raises(UnreachableError) as caught:
            admin.read_cluster()
        # "All brokers are down" is said once only; the next call must not wait for it.
        reading = admin.read_topics(["t"])
    assert "Connection refused" in caught.value.cause
    assert isinstance(reading.failures["t"], UnreachableError)
    assert capfd.readouterr() == ("", "")


def test_settings_that_librdkafka_refuses_are_named_without_their_secrets():
    config = {"bootstrap.servers": ADDRESS, "security.protocol": "hunter2", "sasl.password": "hunter2"}
    with pytest.raises(InvalidSettingError) as caught:
        KafkaAdmin(config)
    assert 'Invalid value "(sensitive)" for configuration property "security.protocol"' in caught.value.cause
    assert "hunter2" not in str(caught.value.as_dict())


def test_repr_shows_the_address_only():
    client = FakeAdminClient()
    admin = KafkaAdmin({"bootstrap.servers": ADDRESS, "sasl.password": "hunter2"}, build_client=client.build)
    assert repr(admin) == "KafkaAdmin('broker-1:9092')"
