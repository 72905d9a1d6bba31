"""Each check of the Connect side: a case that fires and one that does not."""

from dataclasses import replace

import pytest

from seamark.connect.model import Plugin, State
from seamark.core.readings import Severity
from seamark.doctor import topic_checks as groups
from seamark.doctor import worker_checks as balance
from seamark.doctor import worker_checks as clock
from seamark.doctor import worker_checks as plugins
from seamark.doctor import worker_checks as reach
from seamark.doctor import worker_checks as states
from seamark.doctor import worker_checks as versions
from seamark.doctor.advisories import ADVISORIES, find_worker_advisories
from seamark.doctor.evidence import ClusterEvidence, Evidence
from seamark.errors import UnreachableError
from seamark.kafka.worker_group import WorkerGroup
from tests.unit.fleet.builders import SOURCE_CLASS, connector, context, kafka_cluster, settings, sink, worker

ONE, TWO = "http://127.0.0.1:8083", "http://127.0.0.1:8084"
GONE = UnreachableError("nobody answers", hint="start it")


def evidence(*clusters, kafka=None):
    found = kafka_cluster() if kafka is None else kafka
    return Evidence(context(*(c.settings for c in clusters)), address="127.0.0.1:9092", kafka=found, clusters=clusters)


def cluster(*workers, name="game", connectors=(), told=None, **changes):
    return ClusterEvidence(
        settings(name, **changes), workers=workers or (worker(),), connectors=connectors, plugins=told or {}
    )


def look(examine, *clusters, **options):
    """Findings by severity, then their texts."""
    return [(found.severity, found.subject, found.message) for found in examine(evidence(*clusters, **options))]


def severities(examine, *clusters, **options):
    return [severity for severity, _, _ in look(examine, *clusters, **options)]


# connect.reachable


def test_an_answering_worker_is_fine():
    assert look(reach.examine_workers, cluster()) == [(Severity.OK, f"game {ONE}", "responds, Connect 4.3.1")]


def test_a_silent_worker_is_an_error_with_its_reason():
    found = look(reach.examine_workers, cluster(worker(), worker(TWO, error="Connection refused")))
    assert found[1] == (Severity.ERROR, f"game {TWO}", "does not respond: Connection refused")


def test_a_cluster_without_a_client_is_an_error():
    broken = replace(cluster(), workers=GONE)
    assert severities(reach.examine_workers, broken) == [Severity.ERROR]


def test_a_worker_that_only_the_states_name_is_told():
    found = look(
        reach.examine_workers,
        cluster(
            worker(), connectors=(connector("a"), connector("b", worker_id="x:1"), connector("c", worker_id="y:1"))
        ),
    )
    assert [entry for entry in found if entry[0] is Severity.INFO] == [
        (Severity.INFO, "game x:1", "1 tasks run on this worker, which is not in the context"),
        (Severity.INFO, "game y:1", "1 tasks run on this worker, which is not in the context"),
    ]


def test_a_dead_worker_is_no_stranger():
    dead = cluster(worker(), worker(TWO, error="refused"), connectors=(connector("b", worker_id="127.0.0.1:8084"),))
    assert severities(reach.examine_workers, dead) == [Severity.OK, Severity.ERROR]


# connect.same-cluster


def test_workers_and_brokers_of_one_kafka_are_fine():
    assert severities(reach.examine_same_cluster, cluster(worker(), worker(TWO))) == [Severity.OK]


def test_workers_of_two_kafkas_are_an_error():
    (found,) = look(reach.examine_same_cluster, cluster(worker(), worker(TWO, kafka_cluster_id="kafka-2")))
    assert found[0] is Severity.ERROR
    assert f"{TWO} uses kafka-2" in found[2]


def test_brokers_of_another_kafka_are_an_error():
    (found,) = look(reach.examine_same_cluster, cluster(), kafka=kafka_cluster(cluster_id="other"))
    assert found == (Severity.ERROR, "game", "the workers use Kafka cluster kafka-1, the context's brokers are other")


def test_same_cluster_needs_a_worker_and_brokers_that_answer():
    assert severities(reach.examine_same_cluster, cluster(worker(error="refused"))) == [Severity.WARNING]
    assert severities(reach.examine_same_cluster, cluster(), kafka=GONE) == [Severity.WARNING]


# connect.versions


def test_one_recent_version_is_fine():
    assert look(versions.examine_versions, cluster()) == [(Severity.OK, "game", "every worker runs 4.3.1")]


def test_mixed_versions_are_a_warning():
    (found,) = look(versions.examine_versions, cluster(worker(), worker(TWO, version="4.2.0")))
    assert found == (Severity.WARNING, "game", "the workers run different versions: 4.2.0, 4.3.1")


@pytest.mark.parametrize(
    ("version", "words"),
    [("3.4.1", "neither stop connectors nor return offsets"), ("3.5.2", "return offsets but not change them")],
)
def test_old_versions_say_what_they_can_not_do(version, words):
    (found,) = look(versions.examine_versions, cluster(worker(version=version)))
    assert found[0] is Severity.WARNING
    assert words in found[2]


def test_confluents_numbers_are_read_as_kafkas():
    assert severities(versions.examine_versions, cluster(worker(version="7.6.1-ccs"))) == [Severity.OK]
    assert severities(versions.examine_versions, cluster(worker(version="7.5.1-ccs"))) == [Severity.WARNING]


def test_an_unreadable_version_is_told():
    assert Severity.INFO in severities(versions.examine_versions, cluster(worker(version="nightly")))


def test_no_version_at_all_is_not_examined():
    assert severities(versions.examine_versions, cluster(worker(error="refused"))) == [Severity.WARNING]


# connect.known-bad


def test_3_5_2_has_at_least_five_published_faults():
    found = look(versions.examine_known_bad, cluster(worker(version="3.5.2")))
    ids = {message.split()[0] for _, _, message in found}
    assert {severity for severity, _, _ in found} == {Severity.WARNING}
    assert ids == {"CVE-2026-35554", "CVE-2026-33558", "CVE-2025-27818", "CVE-2025-27817", "CVE-2024-31141"}


def test_4_3_1_has_none():
    assert severities(versions.examine_known_bad, cluster()) == [Severity.OK]


def test_a_vendors_build_is_left_to_its_vendor():
    assert severities(versions.examine_known_bad, cluster(worker(version="7.5.1-ccs"))) == [Severity.INFO]


@pytest.mark.parametrize(
    ("number", "ids"),
    [
        ((2, 3, 0), {"CVE-2019-12399", "CVE-2021-38153", "CVE-2023-25194", "CVE-2024-31141", "CVE-2025-27818"}),
        ((3, 3, 2), {"CVE-2023-25194", "CVE-2024-31141", "CVE-2025-27817", "CVE-2025-27818", "CVE-2026-35554"}),
        ((3, 7, 0), {"CVE-2024-31141", "CVE-2025-27817", "CVE-2025-27818", "CVE-2026-35554"}),
        ((3, 7, 1), {"CVE-2025-27817", "CVE-2025-27818", "CVE-2026-35554"}),
        ((3, 9, 1), {"CVE-2026-35554"}),
        ((4, 0, 0), {"CVE-2026-35554"}),
    ],
)
def test_ranges_have_the_published_ends(number, ids):
    assert {found.id for found in find_worker_advisories(number)} == ids | {"CVE-2026-33558"}


@pytest.mark.parametrize("number", [(3, 9, 2), (4, 0, 2), (4, 1, 2), (4, 2, 0), (4, 3, 1)])
def test_fixed_releases_are_clean(number):
    assert find_worker_advisories(number) == ()


@pytest.mark.parametrize("advisory", ADVISORIES, ids=lambda found: found.id)
def test_no_advisory_names_an_affected_release_as_its_fix(advisory):
    assert advisory.fixed
    for version in advisory.fixed:
        assert not advisory.affects(tuple(map(int, version.split("."))))


def test_brokers_are_told_of_only_where_there_are_some():
    (found,) = versions.examine_known_bad_brokers(evidence(cluster()))
    assert "CVE-2024-56128 (fixed in 3.7.2, 3.8.1, 3.9.0)" in found.message
    assert list(versions.examine_known_bad_brokers(Evidence(context()))) == []


# connect.plugins

FILE_SOURCE = Plugin(SOURCE_CLASS, "source", "4.3.1")
JDBC = Plugin("io.aiven.connect.jdbc.JdbcSourceConnector", "source", "6.10.0")


def test_equal_plugins_are_fine():
    told = {ONE: (FILE_SOURCE, JDBC), TWO: (JDBC, FILE_SOURCE)}
    found = look(plugins.examine_plugins, cluster(told=told, connectors=(connector("a"),)))
    assert found == [(Severity.OK, "game", "2 workers have the same 2 connector plugins")]


def test_a_plugin_missing_on_a_worker_is_a_warning_and_with_a_user_an_error():
    told = {ONE: (FILE_SOURCE, JDBC), TWO: (JDBC,)}
    (found,) = look(plugins.examine_plugins, cluster(told=told))
    assert found == (Severity.WARNING, "game", f"{SOURCE_CLASS} is missing on {TWO}")
    (found,) = look(plugins.examine_plugins, cluster(told=told, connectors=(connector("a"),)))
    assert found == (Severity.ERROR, "game", f"{SOURCE_CLASS} is missing on {TWO}; a may be assigned to it and fail")


def test_different_versions_are_a_warning():
    told = {ONE: (FILE_SOURCE,), TWO: (replace(FILE_SOURCE, version="4.2.0"),)}
    (found,) = look(plugins.examine_plugins, cluster(told=told))
    assert found == (Severity.WARNING, "game", f"{SOURCE_CLASS} differs: 4.3.1 on {ONE}, 4.2.0 on {TWO}")


def test_several_versions_on_every_worker_are_fine():
    both = (FILE_SOURCE, replace(FILE_SOURCE, version="4.2.0"))
    assert severities(plugins.examine_plugins, cluster(told={ONE: both, TWO: both[::-1]})) == [Severity.OK]


def test_a_class_on_no_worker_is_an_error_that_names_some_of_its_connectors():
    lost = tuple(connector(f"c{number}", config={"connector.class": "com.example.Gone"}) for number in range(5))
    (found,) = look(plugins.examine_plugins, cluster(told={ONE: (JDBC,)}, connectors=lost))
    assert found == (
        Severity.ERROR,
        "game",
        "com.example.Gone is missing on every worker; c0, c1, c2 and 2 more can't run",
    )


@pytest.mark.parametrize("alias", [SOURCE_CLASS, "FileStreamSourceConnector", "FileStreamSource"])
def test_connects_short_names_are_understood(alias):
    users = (connector("a", config={"connector.class": alias}),)
    assert severities(plugins.examine_plugins, cluster(told={ONE: (FILE_SOURCE,)}, connectors=users)) == [Severity.OK]


def test_plugins_that_can_not_be_read_are_told():
    assert severities(plugins.examine_plugins, cluster(told={ONE: GONE})) == [Severity.WARNING]
    assert severities(plugins.examine_plugins, cluster()) == [Severity.WARNING]


# connect.consumer-group


def test_sinks_with_groups_of_their_own_are_fine():
    found = look(groups.examine_groups, cluster(connectors=(sink("a"), sink("b"))))
    assert found == [(Severity.OK, "dev", "2 sinks, each with its own group")]


def test_a_worker_wide_group_is_an_error():
    (found,) = look(groups.examine_groups, cluster(consumer_group_id="all", connectors=(sink("a"), sink("b"))))
    assert found[0] is Severity.ERROR
    assert "consumer.group.id=all" in found[2]


def test_without_the_workers_config_nobody_knows():
    assert severities(groups.examine_groups, cluster(worker_config=None)) == [Severity.INFO]


def test_two_sinks_that_share_an_override_are_an_error():
    shared = {"config": {"consumer.override.group.id": "one"}}
    found = look(groups.examine_groups, cluster(connectors=(sink("a", **shared), sink("b", **shared), sink("c"))))
    assert found == [
        (Severity.ERROR, "one", "game/a, game/b share one group: each gets only a part of the records"),
    ]


def test_sinks_of_one_name_in_two_clusters_on_one_kafka_share_a_group():
    lake = cluster(worker(cluster="lake"), name="lake", connectors=(sink("a", cluster="lake"),))
    (found,) = look(groups.examine_groups, cluster(connectors=(sink("a"),)), lake)
    assert (found[0], found[1]) == (Severity.ERROR, "connect-a")
    elsewhere = replace(lake, workers=(worker(cluster="lake", kafka_cluster_id="kafka-2"),))
    assert severities(groups.examine_groups, cluster(connectors=(sink("a"),)), elsewhere) == [Severity.OK]


def test_references_and_sources_are_not_compared():
    reference = {"config": {"consumer.override.group.id": "${file:x:y}"}}
    found = cluster(connectors=(sink("a", **reference), sink("b", **reference), connector("c"), connector("d")))
    assert severities(groups.examine_groups, found) == [Severity.OK]


def test_groups_of_a_silent_cluster_are_not_examined():
    assert severities(groups.examine_groups, cluster(connectors=GONE)) == [Severity.WARNING]


# clock


@pytest.mark.parametrize(
    ("skew", "severity", "words"),
    [
        (1.9, Severity.OK, "agrees"),
        (-1.9, Severity.OK, "agrees"),
        (2.6, Severity.WARNING, "3 s ahead of"),
        (-12.0, Severity.WARNING, "12 s behind"),
        (31.0, Severity.ERROR, "31 s ahead of"),
        (-3600.0, Severity.ERROR, "3600 s behind"),
        (None, Severity.INFO, "no Date header"),
    ],
)
def test_clock_skew(skew, severity, words):
    (found,) = look(clock.examine_clocks, cluster(worker(clock_skew_seconds=skew)))
    assert found[0] is severity
    assert words in found[2]


def test_the_clock_of_a_dead_worker_is_not_looked_at():
    assert look(clock.examine_clocks, cluster(worker(error="refused"))) == []


# connectors.state


def test_running_connectors_are_fine():
    found = look(states.examine_states, cluster(connectors=(connector("a"), connector("b", state=State.PAUSED))))
    assert found == [(Severity.OK, "game", "none of 2 connectors has failed")]


def test_failed_tasks_are_an_error_with_the_first_line_of_the_trace_and_no_secret():
    failed = connector("a", tasks=(State.FAILED, State.RUNNING), trace="Boom: password=hunter2\n\tat x.y.z")
    (found,) = states.examine_states(evidence(cluster(connectors=(failed,))))
    assert (found.severity, found.subject) == (Severity.ERROR, "game/a")
    assert found.message == "1 of 2 tasks FAILED: Boom: password=(sensitive)"
    assert found.fix == "seamark connectors show game/a"


def test_a_failed_connector_and_one_without_tasks_are_errors():
    found = look(
        states.examine_states,
        cluster(connectors=(connector("a", state=State.FAILED, tasks=(), trace="x"), connector("b", tasks=()))),
    )
    assert found == [
        (Severity.ERROR, "game/a", "FAILED: x"),
        (Severity.ERROR, "game/b", "RUNNING without a task: it processes no data"),
    ]


def test_running_without_tasks_is_stopped_and_resumed_since_a_restart_gives_it_none():
    (found,) = states.examine_states(evidence(cluster(connectors=(connector("b", tasks=()),))))
    assert "seamark connectors stop game/b, then seamark connectors resume game/b" in found.fix


def test_unassigned_is_a_warning_because_a_rebalance_may_end():
    found = look(states.examine_states, cluster(connectors=(connector("a", tasks=(State.UNASSIGNED,)),)))
    assert found == [(Severity.WARNING, "game/a", "RUNNING, tasks UNASSIGNED")]


def test_a_long_list_is_cut_and_counted():
    many = tuple(connector(f"c{number}", state=State.FAILED) for number in range(25))
    found = look(states.examine_states, cluster(connectors=many))
    assert len(found) == 21
    assert found[-1] == (Severity.ERROR, "game", "5 more connectors do not run")


def test_states_of_a_silent_cluster_are_not_examined():
    assert severities(states.examine_states, cluster(connectors=GONE)) == [Severity.WARNING]


# connect.balance

SECOND = "127.0.0.1:8084"


def place(first, second=0, **more):
    """Connectors with one task each, so many on each of two workers."""
    here = [connector(f"a{number}") for number in range(first)]
    return (*here, *(connector(f"b{number}", worker_id=SECOND) for number in range(second)), *more.get("rest", ()))


def two(*connectors, group=None, workers=(), **changes):
    return replace(cluster(*(workers or (worker(), worker(TWO))), connectors=connectors, **changes), group=group)


def test_workers_that_differ_by_one_are_balanced():
    assert look(balance.examine_balance, two(*place(3, 2))) == [
        (Severity.OK, "game", "5 connectors and 5 tasks on 2 workers, evenly distributed")
    ]
    assert severities(balance.examine_balance, cluster(connectors=place(9))) == [Severity.OK]
    assert severities(balance.examine_balance, two(*place(1))) == [Severity.OK]


def test_a_difference_of_two_is_a_warning_for_connectors_and_for_tasks():
    found = list(balance.examine_balance(evidence(two(*place(4, 2)))))
    assert [(one.severity, one.message) for one in found] == [
        (Severity.WARNING, f"{kind} are unevenly distributed: 4 on {ONE}, 2 on {TWO}")
        for kind in ("connectors", "tasks")
    ]
    assert "stop and resume a connector" in found[0].fix


def test_while_tasks_are_unassigned_the_fix_is_to_wait():
    moving = connector("u", state=State.UNASSIGNED, tasks=(State.UNASSIGNED,))
    found = next(iter(balance.examine_balance(evidence(two(*place(4, 1, rest=(moving,)))))))
    assert found.fix.startswith("wait until the 2 unassigned connectors and tasks are assigned")
    assert "scheduled.rebalance.max.delay.ms" in found.fix


def test_an_idle_member_of_the_worker_group_is_a_warning():
    group = WorkerGroup("connect-game", "Stable", (ONE, TWO))
    found = look(balance.examine_balance, two(*place(2), group=group))
    assert found == [
        (Severity.WARNING, "game", f"{kind} are unevenly distributed: 2 on {ONE}, 0 on {TWO}")
        for kind in ("connectors", "tasks")
    ]


def test_an_idle_member_of_another_name_is_recognized():
    group = WorkerGroup("connect-game", "Stable", (ONE, "http://connect-2:8083"))
    assert severities(balance.examine_balance, two(*place(2), group=group)) == [Severity.WARNING, Severity.WARNING]


def test_an_idle_url_that_is_not_a_member_is_reported_apart():
    group = WorkerGroup("connect-game", "Stable", (ONE,))
    (found,) = balance.examine_balance(evidence(two(*place(2), group=group)))
    assert (found.severity, found.subject) == (Severity.INFO, f"game {TWO}")
    assert found.message == "runs nothing, because no member of the worker group connect-game has this address"
    assert "group.id" in found.fix


@pytest.mark.parametrize("group", [None, GONE])
def test_without_the_worker_group_an_idle_url_may_be_a_load_balancer(group):
    (found,) = balance.examine_balance(evidence(two(*place(2), group=group)))
    assert (found.severity, found.message) == (
        Severity.INFO,
        "runs nothing, while other workers run several connectors or tasks",
    )
    assert "group.id" in found.fix


def test_an_idle_url_does_not_hide_an_imbalance_of_the_others():
    three = worker("http://127.0.0.1:8085")
    found = look(balance.examine_balance, two(*place(4, 2), workers=(worker(), worker(TWO), three)))
    assert [severity for severity, _, _ in found] == [Severity.WARNING, Severity.WARNING, Severity.INFO]
    assert f"4 on {ONE}, 2 on {TWO}" in found[0][2]


def test_a_load_balancer_alone_is_not_examined():
    lb = cluster(worker("http://lb"), connectors=(connector("a"), connector("b", worker_id="y:1")))
    (found,) = balance.examine_balance(evidence(lb))
    assert (found.severity, found.message) == (Severity.INFO, "not examined: no state names a worker at this URL")


def test_the_balance_of_unread_connectors_is_not_examined():
    assert severities(balance.examine_balance, replace(cluster(), connectors=GONE)) == [Severity.WARNING]


def test_a_worker_that_is_down_does_not_count():
    down = two(*place(4), workers=(worker(), worker(TWO, error="refused")))
    assert severities(balance.examine_balance, down) == [Severity.OK]
