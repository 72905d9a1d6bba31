"""A first look at a real fleet: one FileStream source of the same name on Connect 4.3.1 and on 3.5.2."""

import uuid
from dataclasses import replace

import pytest

from seamark.connect.model import State
from seamark.connectors.model import Health, build_health
from seamark.context import open_context
from seamark.core.readings import Severity
from seamark.core.refs import ConnectorType
from seamark.errors import NotFoundError, UsageError
from seamark.fleet import open_fleet
from tests.integration.rest import call_until
from tests.integration.waits import wait_for

CLUSTERS = ("connect", "connect-3-5-2")
LINES = "one\ntwo\nthree\n"


def is_running(status, answer):
    return status == 200 and [task["state"] for task in answer["tasks"]] == ["RUNNING"]


def has_read_all(status, answer):
    return status == 200 and answer["offsets"] and answer["offsets"][0]["offset"] == {"position": len(LINES)}


@pytest.fixture(scope="module")
def source(stack, tmp_path_factory):
    """The name of a source that runs in both clusters and has read its whole file."""
    name = f"fleet-{uuid.uuid4().hex[:8]}"
    file = tmp_path_factory.mktemp("fleet") / "in.txt"
    file.write_text(LINES)
    config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": name}
    places = [f"{stack.connect[cluster].urls[0]}/connectors/{name}" for cluster in CLUSTERS]
    try:
        for place in places:
            call_until(f"{place}/config", lambda status, _: status in {200, 201}, method="PUT", body=config)
        for place in places:
            call_until(f"{place}/status", is_running)
            call_until(f"{place}/offsets", has_read_all)
        yield name, file
    finally:
        for place in places:
            call_until(place, lambda status, _: status in {204, 404}, method="DELETE")


@pytest.fixture
def fleet(stack):
    context = open_context(stack.context, environ={"SEAMARK_CONFIG": stack.context_file})
    with open_fleet(context=context) as opened:
        yield opened


def test_reach_finds_every_worker_and_the_brokers(fleet, stack):
    findings = fleet.check_connectivity()
    assert [found.severity for found in findings] == [Severity.OK] * 5
    urls = [url for cluster in CLUSTERS for url in stack.connect[cluster].urls]
    assert [found.subject.split()[-1] for found in findings] == [*urls, stack.kafka.bootstrap_servers]


def test_status_counts_the_fleet(fleet, source):
    name, _ = source

    def is_well(found):
        return all(name not in [troubled.name for troubled in one.troubled] for one in found.clusters)

    # In a neighbour's rebalance it shows UNASSIGNED for a moment.
    status = wait_for(fleet.status, is_well, f"{name} to be well in both clusters")
    assert status.failures == {}
    assert [(found.name, found.version) for found in status.clusters] == [
        ("connect", "4.3.1"),
        ("connect-3-5-2", "3.5.2"),
    ]
    for found in status.clusters:
        assert (found.workers_up, found.workers) == (2, 2)
        assert found.tasks >= 1
        assert found.health[Health.HEALTHY] >= 1
        assert sum(found.health.values()) == found.connectors


def test_connectors_are_listed_with_config_and_status(fleet, source):
    name, file = source

    def is_healthy(reading):
        return all(build_health(found.status) is Health.HEALTHY for found in reading if found.name == name)

    # In a neighbour's rebalance it shows UNASSIGNED for a moment.
    reading = wait_for(fleet.connectors.list, is_healthy, f"{name} to be healthy")
    assert reading.is_complete
    mine = [found for found in reading if found.name == name]
    assert [found.cluster for found in mine] == list(CLUSTERS)
    for found in mine:
        assert found.type is ConnectorType.SOURCE
        assert found.config["file"] == str(file)


def test_one_needs_the_cluster_where_a_name_stands_twice(fleet, source):
    name, _ = source
    with pytest.raises(UsageError) as caught:
        fleet.connectors.get(name)
    assert caught.value.cause == f"connect/{name}, connect-3-5-2/{name}"
    wait_for(
        lambda: fleet.connectors.get(f"connect/{name}").status.state,
        lambda state: state is State.RUNNING,
        f"{name} to run, behind whatever rebalance",
    )


def test_one_that_is_nowhere_is_not_found(fleet):
    with pytest.raises(NotFoundError):
        fleet.connectors.get("nobody-has-this-name")


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_offsets_of_a_file_source_are_its_position(fleet, source, cluster):
    name, file = source
    owned = fleet.offsets.get(f"{cluster}/{name}")
    assert (owned.owner, owned.route, owned.notes) == (f"{cluster}/{name}", "store", ())
    (offset,) = owned.offsets
    assert offset.partition == {"filename": str(file)}
    assert offset.offset == {"position": len(LINES)}


def test_workers_tell_what_runs_on_them(fleet, source):
    reading = fleet.workers.list()
    assert reading.is_complete
    for cluster in CLUSTERS:
        workers = [found for found in reading if found.cluster == cluster]
        assert len(workers) == 2
        assert all(found.is_up for found in workers)
        assert sum(found.tasks for found in workers) >= 1
        assert sum(found.connectors for found in workers) >= 1


def test_workers_are_shown_with_their_group_and_what_runs_on_them(fleet, source, stack):
    name, _ = source
    endpoint = stack.connect["connect"]

    def read():
        return [fleet.workers.get(url) for url in endpoint.urls]

    def is_settled(found):
        # A rebalance that another test's connector starts moves tasks, and its members have no leader for a moment.
        hosts = [one for one in found for connector, _ in one.tasks if connector.name == name]
        return len(hosts) == 1 and sorted(str(one.is_leader) for one in found) == ["False", "True"]

    found = wait_for(read, is_settled, f"{name} on one worker, and one leader")
    assert [(one.group.name, one.is_member, one.missing, one.failures) for one in found] == [
        (endpoint.group_id, True, (), {})
    ] * 2
    assert found[0].worker.kafka_cluster_id == found[1].worker.kafka_cluster_id != ""
    by_id = fleet.workers.get(found[1].worker_id)
    assert by_id.worker.url == endpoint.urls[1]


def test_another_url_of_a_worker_is_not_taken_for_an_idle_worker(stack):
    context = open_context(stack.context, environ={"SEAMARK_CONFIG": stack.context_file})
    settings = context.connect["connect"]
    alias = settings.urls[0].replace("127.0.0.1", "localhost")
    settings = replace(settings, urls=(*settings.urls, alias))
    with open_fleet(context=replace(context, connect={"connect": settings})) as fleet:
        # While the workers of a neighbour's test rebalance, brokers don't name the members.
        found = wait_for(lambda: fleet.workers.get(alias), lambda one: one.is_member is not None, "members to be known")
        assert (found.worker.is_up, found.is_member, found.is_leader, found.tasks) == (True, False, False, ())
        balance = [one for one in fleet.doctor.examine() if one.check == "connect.balance"]
    assert balance
    assert all(alias not in one.message for one in balance if one.severity is Severity.WARNING)
