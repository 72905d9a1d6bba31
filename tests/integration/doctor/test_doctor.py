"""The doctor on real servers: silent on a healthy stack, and it sees each planted fault."""

import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from seamark.context import open_context
from seamark.core.readings import Severity
from seamark.errors import NotFoundError
from seamark.fleet import open_fleet
from seamark.kafka.admin import KafkaAdmin
from tests.integration.waits import await_topic

SHARED_CONTEXT = """
contexts:
  planted:
    kafka:
      bootstrap.servers: {brokers}
    connect:
      connect:
        urls: [{url}, "http://127.0.0.1:1"]
        worker_config: worker.properties
        offsets_topic: {deleted}
        config_topic: {missing}
        status_topic: {status}
"""


@pytest.fixture(scope="module")
def healthy(stack):
    """Everything the doctor says of the 4.3.1 cluster."""
    context = open_context(stack.context, environ={"SEAMARK_CONFIG": stack.context_file})
    with open_fleet(context=replace(context, connect={"connect": context.connect["connect"]})) as fleet:
        return fleet.doctor.examine()


@pytest.fixture(scope="module")
def wrong_topic(stack):
    """A topic that is not compacted."""
    name = f"doctor-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap_servers})
    topic = NewTopic(name, num_partitions=2, replication_factor=1, config={"cleanup.policy": "delete"})
    admin.create_topics([topic])[name].result(timeout=30)
    await_topic(admin, name, 2)
    yield name
    admin.delete_topics([name])[name].result(timeout=30)


@pytest.fixture(scope="module")
def planted(stack, wrong_topic, tmp_path_factory):
    """Everything the doctor says of a context with five faults in it."""
    folder, endpoint = tmp_path_factory.mktemp("doctor"), stack.connect["connect"]
    worker = Path(endpoint.worker_config).read_text()
    (folder / "worker.properties").write_text(f"{worker}\nconsumer.group.id=all-sinks\n")
    text = SHARED_CONTEXT.format(
        brokers=stack.kafka.bootstrap_servers,
        url=endpoint.urls[0],
        deleted=wrong_topic,
        missing=f"{wrong_topic}-missing",
        status=endpoint.status_topic,
    )
    (folder / "seamark.yaml").write_text(text)
    with open_fleet(context=open_context("planted", cwd=folder, environ={})) as fleet:
        return fleet.doctor.examine()


def find(findings, check, *, severity=Severity.ERROR):
    return [found for found in findings if found.check == check and found.severity is severity]


def test_a_healthy_cluster_has_no_error(healthy):
    # Other tests of the run have connectors that fail, and sinks that share a group; that is no fault of the stack.
    others = {"connectors.state", "connect.consumer-group"}
    errors = [found for found in healthy if found.severity is Severity.ERROR and found.check not in others]
    assert errors == []


def test_every_check_could_look(healthy):
    assert [found for found in healthy if found.message.startswith("not examined") and found.check != "clock"] == []


def test_internal_topics_acls_and_plugins_of_a_healthy_cluster_are_fine(healthy, stack):
    endpoint = stack.connect["connect"]
    topics = {found.subject for found in find(healthy, "connect.topics", severity=Severity.OK)}
    names = (endpoint.offsets_topic, endpoint.config_topic, endpoint.status_topic)
    assert topics == {f"connect {name}" for name in names}
    assert len(find(healthy, "kafka.acls", severity=Severity.OK)) == 1
    (plugins,) = find(healthy, "connect.plugins", severity=Severity.OK)
    assert plugins.message.startswith("2 workers have the same")


def test_the_old_cluster_has_at_least_five_published_faults(stack):
    context = open_context(stack.context, environ={"SEAMARK_CONFIG": stack.context_file})
    with open_fleet(context=replace(context, connect={"old": context.connect["connect-3-5-2"]})) as fleet:
        findings = fleet.doctor.examine()
    faults = find(findings, "connect.known-bad", severity=Severity.WARNING)
    assert len({found.message.split()[0] for found in faults}) >= 5
    (version,) = find(findings, "connect.versions", severity=Severity.WARNING)
    assert "3.5.2 can return offsets but not change them" in version.message


def test_a_topic_that_is_not_compacted_is_found(planted, wrong_topic):
    found = [entry for entry in find(planted, "connect.topics") if entry.subject == f"connect {wrong_topic}"]
    assert ["cleanup.policy is delete" in entry.message for entry in found] == [True]
    assert "cleanup.policy=compact" in found[0].fix


def test_too_few_copies_are_found(planted, wrong_topic):
    (found,) = [
        entry
        for entry in find(planted, "connect.topics", severity=Severity.WARNING)
        if entry.subject == f"connect {wrong_topic}"
        and "replicas" in entry.message
        and "min.insync" not in entry.message
    ]
    assert found.message.startswith("1 of 3 replicas")


def test_a_missing_topic_is_found(planted, wrong_topic):
    found = [entry for entry in find(planted, "connect.topics") if entry.subject == f"connect {wrong_topic}-missing"]
    assert ["does not exist" in entry.message for entry in found] == [True]


def test_a_worker_wide_group_is_found(planted):
    (found,) = find(planted, "connect.consumer-group")
    assert "consumer.group.id=all-sinks" in found.message


def test_a_url_where_nobody_answers_is_found(planted):
    (found,) = find(planted, "connect.reachable")
    assert found.subject == "connect http://127.0.0.1:1"


def test_the_adapter_reads_topics_ends_and_groups(stack, wrong_topic):
    with KafkaAdmin({"bootstrap.servers": stack.kafka.bootstrap_servers}) as admin:
        cluster = admin.read_cluster()
        reading = admin.read_topics([wrong_topic, "no-such-topic"])
        ends = admin.read_end_offsets([(wrong_topic, 0), (wrong_topic, 1)])
        groups = admin.read_groups(["no-such-group"])
        with pytest.raises(NotFoundError):
            admin.read_end_offsets([("no-such-topic", 0)])
    assert (cluster.cluster_id, len(cluster.brokers)) == (stack.kafka.cluster_id, 3)
    (found,) = reading.items
    assert (found.config("cleanup.policy"), found.replication_factor, len(found.partitions)) == ("delete", 1, 2)
    assert found.configs["cleanup.policy"].source == "DYNAMIC_TOPIC_CONFIG"
    assert isinstance(reading.failures["no-such-topic"], NotFoundError)
    assert ends == {(wrong_topic, 0): 0, (wrong_topic, 1): 0}
    assert [(group.name, group.state, group.members) for group in groups] == [("no-such-group", "DEAD", 0)]
