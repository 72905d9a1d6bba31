"""Each check of the Kafka side and of the context: a case that fires and one that does not."""

from pathlib import Path

import pytest

from seamark.context import Origin, OriginKind, Secret
from seamark.context.value import Value
from seamark.core.readings import Severity
from seamark.doctor import security_checks as permissions
from seamark.doctor import security_checks as security
from seamark.doctor import topic_checks as topics
from seamark.doctor import worker_checks as reach
from seamark.doctor.evidence import ClusterEvidence, Evidence
from seamark.errors import AuthorizationError, NotFoundError, UnreachableError
from seamark.kafka.groups import GroupStatus
from tests.unit.fleet.builders import EVERYTHING, context, kafka_cluster, settings, sink, topic, worker

GONE = UnreachableError("the brokers are away", hint="start them")
GOOD = (topic("game-offsets", partitions=25), topic("game-configs"), topic("game-status", partitions=5))


def evidence(*found, kafka=None, clusters=None, groups=None, given=None, address="127.0.0.1:9092"):
    clusters = clusters or (ClusterEvidence(settings(), workers=(worker(),)),)
    return Evidence(
        given or context(*(cluster.settings for cluster in clusters)),
        address=address,
        kafka=kafka_cluster() if kafka is None else kafka,
        clusters=clusters,
        topics={status.name: status for status in {item.name: item for item in (*GOOD, *found)}.values()},
        groups=groups or {},
    )


def faults(examine, world):
    """What is not fine, as (severity, subject, message)."""
    found = tuple(examine(world))
    assert found
    return [(f.severity, f.subject, f.message) for f in found if f.severity is not Severity.OK]


def one_fault(examine, world):
    (found,) = faults(examine, world)
    return found


# kafka.reachable


def test_brokers_that_answer_are_fine():
    (found,) = reach.examine_brokers(evidence())
    assert (found.severity, found.subject) == (Severity.OK, "127.0.0.1:9092")
    assert found.message.startswith("3 brokers of Kafka cluster kafka-1: 1 at 127.0.0.1:9091")


def test_brokers_that_do_not_answer_are_an_error():
    assert one_fault(reach.examine_brokers, evidence(kafka=GONE))[0] is Severity.ERROR


# connect.topics


def test_good_topics_are_fine():
    assert faults(topics.examine_topics, evidence()) == []


@pytest.mark.parametrize("policy", ["delete", "compact,delete", "delete,compact", ""])
def test_anything_but_compact_is_an_error(policy):
    found = one_fault(topics.examine_topics, evidence(topic("game-offsets", cleanup_policy=policy)))
    assert found[:2] == (Severity.ERROR, "game game-offsets")
    assert f"cleanup.policy is {policy or 'unknown'}" in found[2]


def test_a_missing_topic_is_an_error():
    world = evidence()
    world.topics["game-status"] = NotFoundError("gone")
    found = one_fault(topics.examine_topics, world)
    assert found[:2] == (Severity.ERROR, "game game-status")
    assert "does not exist" in found[2]


def test_a_config_topic_with_several_partitions_is_an_error():
    found = one_fault(topics.examine_topics, evidence(topic("game-configs", partitions=3)))
    assert found[0] is Severity.ERROR
    assert "3 partitions" in found[2]


def test_too_few_copies_are_a_warning_unless_there_are_no_more_brokers():
    single = topic("game-offsets", replicas=(1,), min_insync_replicas="1")
    found = one_fault(topics.examine_topics, evidence(single))
    assert (found[0], "1 of 3 replicas" in found[2]) == (Severity.WARNING, True)
    alone = [topic(status.name, replicas=(1,), min_insync_replicas="1") for status in GOOD]
    assert faults(topics.examine_topics, evidence(*alone, kafka=kafka_cluster(brokers=1))) == []


@pytest.mark.parametrize(
    ("least", "severity"), [("4", Severity.WARNING), ("3", Severity.WARNING), ("1", Severity.INFO), ("2", None)]
)
def test_min_insync_replicas(least, severity):
    found = faults(topics.examine_topics, evidence(topic("game-offsets", min_insync_replicas=least)))
    assert [entry[0] for entry in found] == ([severity] if severity else [])


def test_a_missing_copy_now_is_a_warning_and_no_leader_an_error():
    found = one_fault(topics.examine_topics, evidence(topic("game-offsets", partitions=2, isr=(1, 2))))
    assert found == (Severity.WARNING, "game game-offsets", "partition 0, 1 is under-replicated")
    found = one_fault(topics.examine_topics, evidence(topic("game-offsets", leader=None)))
    assert found[0] is Severity.ERROR


def test_topics_that_nobody_named_are_told_with_the_setting_to_add():
    unknown = ClusterEvidence(settings(offsets_topic=None, status_topic=None, worker_config=None), workers=())
    (found,) = [f for f in topics.examine_topics(evidence(clusters=(unknown,))) if f.severity is Severity.INFO]
    assert found.message.startswith("the offsets and status topic is unknown")
    assert found.fix == "set worker_config in connect.game, or offsets_topic, status_topic"


def test_configs_that_may_not_be_read_are_told():
    denied = topic("game-offsets")
    object.__setattr__(denied, "configs", {})
    object.__setattr__(denied, "configs_error", "not allowed to read the configs")
    found = one_fault(topics.examine_topics, evidence(denied))
    assert (found[0], found[2]) == (
        Severity.WARNING,
        "cleanup.policy not examined: not allowed to read the configs",
    )


def test_topics_behind_silent_or_denying_brokers_are_not_examined():
    assert [entry[0] for entry in faults(topics.examine_topics, evidence(kafka=GONE))] == [Severity.WARNING] * 3
    world = evidence()
    world.topics["game-offsets"] = AuthorizationError("not allowed", hint="grant DESCRIBE")
    assert one_fault(topics.examine_topics, world)[0] is Severity.WARNING


def test_two_clusters_on_one_topic_are_told():
    shared = {"offsets_topic": "game-offsets", "config_topic": "game-configs", "status_topic": "game-status"}
    pair = tuple(ClusterEvidence(settings(name, **shared), workers=()) for name in ("game", "lake"))
    found = faults(topics.examine_topics, evidence(clusters=pair))
    assert found == [
        (Severity.WARNING, "game-offsets", "the Connect clusters game, lake share this offsets topic"),
        (Severity.ERROR, "game-configs", "the Connect clusters game, lake share this config topic"),
        (Severity.ERROR, "game-status", "the Connect clusters game, lake share this status topic"),
    ]


# kafka.acls


def test_without_an_authorizer_everything_is_allowed():
    group = {"connect-lake": GroupStatus("connect-lake", "STABLE", 1, EVERYTHING)}
    assert faults(permissions.examine_acls, evidence(groups=group)) == []


def test_missing_operations_on_a_topic_are_named():
    world = evidence(topic("game-offsets", may=frozenset({"DESCRIBE", "WRITE"})))
    (found,) = [f for f in permissions.examine_acls(world) if f.severity is not Severity.OK]
    assert (found.severity, found.subject) == (Severity.WARNING, "topic game-offsets")
    assert found.message == "not allowed: DESCRIBE_CONFIGS, READ"
    assert found.fix == "grant DESCRIBE_CONFIGS, READ on topic game-offsets to the principal of this context"


def test_what_only_a_change_needs_is_told_apart():
    world = evidence(topic("game-offsets", may=EVERYTHING - {"WRITE"}))
    assert one_fault(permissions.examine_acls, world) == (
        Severity.INFO,
        "topic game-offsets",
        "not allowed: WRITE; needed only to change offsets",
    )


def test_the_cluster_and_denied_things_are_compared_too():
    world = evidence(kafka=kafka_cluster(may=frozenset()), groups={"connect-lake": AuthorizationError("no")})
    world.topics["game-status"] = AuthorizationError("no")
    assert faults(permissions.examine_acls, world) == [
        (Severity.WARNING, "the Kafka cluster", "not allowed: DESCRIBE"),
        (Severity.WARNING, "topic game-status", "not allowed: DESCRIBE, DESCRIBE_CONFIGS, READ"),
        (Severity.WARNING, "group connect-lake", "not allowed: DESCRIBE"),
        (Severity.INFO, "group connect-lake", "not allowed: READ, DELETE; needed only to change offsets"),
    ]


def test_acls_behind_silent_brokers_are_not_examined():
    assert one_fault(permissions.examine_acls, evidence(kafka=GONE))[0] is Severity.WARNING
    world = evidence(groups={"connect-lake": UnreachableError("no coordinator")})
    assert one_fault(permissions.examine_acls, world)[1] == "group connect-lake"


# context.secrets

IN_FILE = Origin(OriginKind.FILE, "seamark.yaml", line=7, path=Path("seamark.yaml"))


def test_a_literal_password_is_a_warning_that_does_not_show_it():
    given = context(values=[Value("kafka.sasl.password", "hunter2", origin=IN_FILE)])
    found = one_fault(security.examine_secrets, evidence(given=given))
    assert found == (Severity.WARNING, "kafka.sasl.password", "plain text in seamark.yaml:7")


def test_a_password_from_elsewhere_is_fine():
    given = context(values=[Value("kafka.sasl.password", "hunter2", origin=Origin(OriginKind.ENVIRONMENT, "X"))])
    assert faults(security.examine_secrets, evidence(given=given)) == []


@pytest.mark.parametrize(
    ("url", "is_fault"),
    [("http://connect-1:8083", True), ("https://connect-1:8083", False), ("http://localhost:8083", False)],
)
def test_credentials_over_plain_http(url, is_fault):
    cluster = ClusterEvidence(settings(urls=(url,), username="ops", password=Secret("hunter2")), workers=())
    assert bool(faults(security.examine_secrets, evidence(clusters=(cluster,)))) is is_fault


# connect.security


@pytest.mark.parametrize(
    ("url", "is_fault"),
    [
        ("http://connect-1:8083", True),
        ("http://10.0.0.1:8083", True),
        ("https://connect-1:8083", False),
        ("http://127.0.0.1:8083", False),
        ("http://[::1]:8083", False),
        ("http://worker.localhost:8083", False),
    ],
)
def test_plain_http_beyond_this_machine_is_told(url, is_fault):
    cluster = ClusterEvidence(settings(urls=(url,)), workers=())
    assert [f[0] for f in faults(security.examine_rest, evidence(clusters=(cluster,)))] == [Severity.INFO] * is_fault


def test_certificates_that_are_not_verified_are_a_warning():
    cluster = ClusterEvidence(settings(urls=("https://c:8083",), verify=False), workers=())
    assert one_fault(security.examine_rest, evidence(clusters=(cluster,)))[0] is Severity.WARNING


# kafka.security


def kafka_faults(address="broker-1:9092", **config):
    config = {key.replace("_", "."): value for key, value in config.items()}
    given = context(kafka={"bootstrap.servers": address, **config})
    return faults(security.examine_kafka, evidence(given=given, address=address))


def test_encrypted_and_verified_is_fine():
    assert kafka_faults(security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512") == []


def test_plaintext_is_fine_on_this_machine_and_told_beyond():
    assert kafka_faults("127.0.0.1:9092,localhost:9093") == []
    assert [found[0] for found in kafka_faults("127.0.0.1:9092,broker-2:9092")] == [Severity.INFO]


def test_scram_without_tls_names_the_cve():
    (found,) = kafka_faults(security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256")
    assert found[0] is Severity.WARNING
    assert "CVE-2024-56128" in found[2]
    (found,) = kafka_faults(security_protocol="sasl_plaintext", sasl_mechanism="PLAIN")
    assert "CVE" not in found[2]


@pytest.mark.parametrize(
    "setting",
    [{"enable_ssl_certificate_verification": "false"}, {"ssl_endpoint_identification_algorithm": "none"}],
)
def test_brokers_that_are_not_verified_are_a_warning(setting):
    (found,) = kafka_faults(security_protocol="SSL", **setting)
    assert found[0] is Severity.WARNING
    assert "impersonate a broker" in found[2]


def test_a_sink_is_known_by_its_group():
    cluster = ClusterEvidence(settings(consumer_group_id="all"), workers=())
    assert cluster.find_group(sink("a")) == "all"
    assert cluster.find_group(sink("a", config={"consumer.override.group.id": "own"})) == "own"
    assert ClusterEvidence(settings(), workers=()).find_group(sink("a")) == "connect-a"


def test_an_address_that_is_none_is_not_on_this_machine():
    assert not security.is_loopback("kafka://[::1:9092")
    assert security.is_loopback("kafka://[::1]:9092")
