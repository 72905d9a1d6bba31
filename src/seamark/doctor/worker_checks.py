"""Check workers and brokers: reachability, clocks, plugins, states and versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from seamark.connect.capability import Capability, build_capabilities
from seamark.connect.model import Connector, Plugin, State, Worker
from seamark.connectors.model import Health, build_health
from seamark.connectors.worker_views import describe_imbalance
from seamark.connectors.workers import count_by_worker_id, find_imbalances, list_worker_ids, match_worker_ids
from seamark.context.urls import build_worker_id
from seamark.core.readings import Finding, Severity
from seamark.core.secrets import mask_text
from seamark.doctor.advisories import build_release, find_worker_advisories, list_broker_advisories
from seamark.doctor.evidence import Check, ClusterEvidence, Evidence, build_unexamined, or_ok
from seamark.errors import SeamarkError

_CLOCK = "clock"
# An HTTP Date has whole seconds and is as old as the transit of the response: below 2 s nothing can be concluded.
_NOTICEABLE_SECONDS = 2.0
# A JDBC source with a timestamp column loses rows when clocks differ by more than its delay, and 30 s is beyond any
# usual delay; tokens and certificates begin to fail at about the same difference.
_HARMFUL_SECONDS = 30.0


def examine_clocks(evidence: Evidence) -> Iterator[Finding]:
    """Check clock: every worker's clock agrees with the local one, by the Date header of its response."""
    for cluster in evidence.clusters:
        for worker in cluster.workers_up:
            subject = f"{cluster.name} {worker.url}"
            skew = worker.clock_skew_seconds
            if skew is None:
                yield Finding(
                    _CLOCK,
                    Severity.INFO,
                    subject,
                    "not examined: its answer has no Date header",
                    "compare its clock manually",
                )
                continue
            words = f"its clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine's"
            if abs(skew) > _HARMFUL_SECONDS:
                yield Finding(_CLOCK, Severity.ERROR, subject, words, "synchronize both machines with NTP")
            elif abs(skew) > _NOTICEABLE_SECONDS:
                yield Finding(_CLOCK, Severity.WARNING, subject, words, "synchronize both machines with NTP")
            else:
                yield Finding(_CLOCK, Severity.OK, subject, "its clock agrees with this machine's")


CLOCK_CHECKS = (Check(_CLOCK, examine_clocks),)


_PLUGINS = "connect.plugins"


def examine_plugins(evidence: Evidence) -> Iterator[Finding]:
    """Check connect.plugins: all workers have the same plugins, and those that the connectors need."""
    for cluster in evidence.clusters:
        told = {url: found for url, found in cluster.plugins.items() if not isinstance(found, SeamarkError)}
        for url, found in cluster.plugins.items():
            if isinstance(found, SeamarkError):
                yield build_unexamined(_PLUGINS, subject=f"{cluster.name} {url}", error=found)
        if not told:
            if not cluster.plugins:
                words = "not examined: no worker responded"
                yield Finding(_PLUGINS, Severity.WARNING, cluster.name, words, "see connect.reachable")
            continue
        faults = (*_find_missing(cluster, told), *_find_different(cluster.name, told), *_find_unrunnable(cluster, told))
        who = f"{len(told)} workers have the same " if len(told) > 1 else ""
        words = f"{who}{len(next(iter(told.values())))} connector plugins"
        yield from or_ok(faults, _PLUGINS, cluster.name, words)


def is_class_of(configured: str, class_name: str) -> bool:
    """Return whether `connector.class` is this plugin: by full name, last part, or that without "Connector"."""
    short = class_name.rpartition(".")[2]
    return configured in {class_name, short, short.removesuffix("Connector")}


def _find_missing(cluster: ClusterEvidence, told: Mapping[str, tuple[Plugin, ...]]) -> Iterator[Finding]:
    by_url = {url: {plugin.class_name for plugin in plugins} for url, plugins in told.items()}
    everything = sorted(set().union(*by_url.values()))
    for class_name in everything:
        lacking = [url for url, classes in by_url.items() if class_name not in classes]
        if not lacking:
            continue
        users = _list_users(cluster, class_name)
        severity = Severity.ERROR if users else Severity.WARNING
        words = f"{class_name} is missing on {', '.join(lacking)}"
        if users:
            words += f"; {_name_some(users)} may be assigned to it and fail"
        yield Finding(_PLUGINS, severity, cluster.name, words, "install the plugin there and restart the worker")


def _find_different(cluster: str, told: Mapping[str, tuple[Plugin, ...]]) -> Iterator[Finding]:
    versions: dict[str, dict[str, frozenset[str]]] = {}
    for url, plugins in told.items():
        for plugin in plugins:
            # From 4.1 on a worker may have several versions of one plugin.
            at = versions.setdefault(plugin.class_name, {})
            at[url] = at.get(url, frozenset()) | {plugin.version}
    for class_name, at in sorted(versions.items()):
        if len(set(at.values())) > 1:
            words = ", ".join(f"{'+'.join(sorted(found))} on {url}" for url, found in at.items())
            fix = "install the same version on every worker and restart them one by one"
            yield Finding(_PLUGINS, Severity.WARNING, cluster, f"{class_name} differs: {words}", fix)


def _find_unrunnable(cluster: ClusterEvidence, told: Mapping[str, tuple[Plugin, ...]]) -> Iterator[Finding]:
    """Find connectors whose plugin is on no worker."""
    if isinstance(cluster.connectors, SeamarkError):
        yield build_unexamined(_PLUGINS, subject=cluster.name, error=cluster.connectors)
        return
    known = {plugin.class_name for plugins in told.values() for plugin in plugins}
    lost: dict[str, list[str]] = {}
    for connector in cluster.connectors:
        if connector.plugin and not any(is_class_of(connector.plugin, class_name) for class_name in known):
            lost.setdefault(connector.plugin, []).append(connector.name)
    for class_name, users in sorted(lost.items()):
        words = f"{class_name} is missing on every worker; {_name_some(users)} can't run"
        yield Finding(_PLUGINS, Severity.ERROR, cluster.name, words, "install the plugin on every worker")


def _list_users(cluster: ClusterEvidence, class_name: str) -> list[str]:
    if isinstance(cluster.connectors, SeamarkError):
        return []
    return [found.name for found in cluster.connectors if found.plugin and is_class_of(found.plugin, class_name)]


def _name_some(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


PLUGIN_CHECKS = (Check(_PLUGINS, examine_plugins),)


_BALANCE = "connect.balance"
# The default of scheduled.rebalance.max.delay.ms is 300,000 (DistributedConfig).
_DELAY = "scheduled.rebalance.max.delay.ms (5 minutes by default)"


def examine_balance(evidence: Evidence) -> Iterator[Finding]:
    """Check connect.balance: the numbers of connectors and of tasks per worker differ by at most one."""
    for cluster in evidence.clusters:
        if isinstance(cluster.connectors, SeamarkError):
            yield build_unexamined(_BALANCE, subject=cluster.name, error=cluster.connectors)
            continue
        confirmed = _find_idle_members(cluster, cluster.connectors)
        strangers = [worker for worker in cluster.idle_workers if worker.url not in confirmed]
        known = [worker for worker in cluster.counted_workers if worker.connectors is not None]
        members = [worker for worker in known if worker not in strangers]
        faults = (*_find_uncounted(cluster), *_find_uneven(cluster, members), *_find_idle(cluster, strangers, members))
        connectors, tasks = (sum(count or 0 for count in counts) for counts in _list_counts(members))
        words = f"{connectors} connectors and {tasks} tasks on {len(members)} workers"
        yield from or_ok(faults, _BALANCE, cluster.name, f"{words}, evenly distributed")


def _find_idle_members(cluster: ClusterEvidence, connectors: Sequence[Connector]) -> frozenset[str]:
    """Return the URLs that the brokers report as those of members of the group; none if they weren't asked."""
    if cluster.group is None or isinstance(cluster.group, SeamarkError) or isinstance(cluster.workers, SeamarkError):
        return frozenset()
    members = cluster.group.members
    ids = match_worker_ids(cluster.workers, seen=list_worker_ids(connectors) | members)
    return frozenset(url for url, worker_id in ids.items() if worker_id in members)


def _list_counts(workers: Sequence[Worker]) -> tuple[list[int | None], list[int | None]]:
    return [worker.connectors for worker in workers], [worker.tasks for worker in workers]


def _find_uncounted(cluster: ClusterEvidence) -> Iterator[Finding]:
    for worker in cluster.counted_workers:
        if worker.is_up and worker.connectors is None:
            words = "not examined: no state names a worker at this URL"
            fix = f"if it is a load balancer's URL, add those of its workers to connect.{cluster.name}.urls"
            yield Finding(_BALANCE, Severity.INFO, f"{cluster.name} {worker.url}", words, fix)


def _find_uneven(cluster: ClusterEvidence, members: Sequence[Worker]) -> Iterator[Finding]:
    unassigned = _count_unassigned(cluster)
    fix = (
        f"wait until the {unassigned} unassigned connectors and tasks are assigned: workers wait {_DELAY} for one that "
        "left"
        if unassigned
        # A restart of a connector doesn't start a rebalance; new task configs do (`onTaskConfigUpdate`).
        else f"if this persists for {_DELAY}, stop and resume a connector, because each rebalance balances all of them "
        "(Connect 3.4 and later)"
    )
    for found in find_imbalances(members):
        yield Finding(_BALANCE, Severity.WARNING, cluster.name, describe_imbalance(found), fix)


def _find_idle(cluster: ClusterEvidence, strangers: Sequence[Worker], members: Sequence[Worker]) -> Iterator[Finding]:
    """Find URLs that run nothing, and that the brokers don't report as those of members."""
    if max((count or 0 for counts in _list_counts(members) for count in counts), default=0) < 2:
        return
    for worker in strangers:
        group = cluster.group
        if group is None or isinstance(group, SeamarkError):
            words = "runs nothing, while other workers run several connectors or tasks"
        else:
            words = f"runs nothing, because no member of the worker group {group.name} has this address"
        fix = "if it is a worker that doesn't get tasks within minutes, check that its group.id is that of the others"
        yield Finding(_BALANCE, Severity.INFO, f"{cluster.name} {worker.url}", words, fix)


def _count_unassigned(cluster: ClusterEvidence) -> int:
    if isinstance(cluster.connectors, SeamarkError):
        return 0
    statuses = [connector.status for connector in cluster.connectors if connector.status is not None]
    states = [status.state for status in statuses] + [task.state for status in statuses for task in status.tasks]
    return states.count(State.UNASSIGNED)


BALANCE_CHECKS = (Check(_BALANCE, examine_balance),)


def examine_workers(evidence: Evidence) -> Iterator[Finding]:
    """Check connect.reachable: every URL of the context responds, and the context lists every worker."""
    check = "connect.reachable"
    for cluster in evidence.clusters:
        if isinstance(cluster.workers, SeamarkError):
            yield _unreachable(check, cluster.name, cluster.workers)
            continue
        for worker in cluster.workers:
            subject = f"{cluster.name} {worker.url}"
            if worker.is_up:
                yield Finding(
                    check, Severity.OK, subject, f"responds, Connect {worker.version or 'of unknown version'}"
                )
            else:
                fix = "start the worker, or correct its URL in the context"
                yield Finding(check, Severity.ERROR, subject, f"does not respond: {worker.error}", fix)
        yield from _find_strangers(check, cluster)


def examine_brokers(evidence: Evidence) -> Iterator[Finding]:
    """Check kafka.reachable: the brokers respond."""
    check, subject = "kafka.reachable", evidence.address or evidence.context.name
    kafka = evidence.kafka
    if kafka is None:
        yield Finding(
            check,
            Severity.INFO,
            subject,
            "the context has no brokers: internal topics and ACLs can't be examined",
            "add kafka: {bootstrap.servers: HOST:PORT} to the context",
        )
    elif isinstance(kafka, SeamarkError):
        yield _unreachable(check, subject, kafka)
    else:
        brokers = ", ".join(f"{broker.id} at {broker.host}:{broker.port}" for broker in kafka.brokers)
        count = len(kafka.brokers)
        words = f"{count} broker{'s' if count != 1 else ''} of Kafka cluster {kafka.cluster_id}: {brokers}"
        yield Finding(check, Severity.OK, subject, words)


def examine_same_cluster(evidence: Evidence) -> Iterator[Finding]:
    """Check connect.same-cluster: all workers of a Connect cluster use one Kafka cluster, that of the context."""
    check = "connect.same-cluster"
    for cluster in evidence.clusters:
        ids = {worker.url: worker.kafka_cluster_id for worker in cluster.workers_up if worker.kafka_cluster_id}
        distinct = sorted(set(ids.values()))
        if len(distinct) > 1:
            words = ", ".join(f"{url} uses {found}" for url, found in ids.items())
            fix = (
                "add each Connect cluster as its own entry to the context, because these are workers of different ones"
            )
            yield Finding(
                check, Severity.ERROR, cluster.name, f"the workers use different Kafka clusters: {words}", fix
            )
        elif not distinct:
            yield Finding(
                check,
                Severity.WARNING,
                cluster.name,
                "not examined: no worker returned its Kafka cluster",
                "see connect.reachable",
            )
        elif isinstance(evidence.kafka, SeamarkError):
            yield build_unexamined(check, subject=cluster.name, error=evidence.kafka)
        elif evidence.kafka is not None and evidence.kafka.cluster_id != distinct[0]:
            yield Finding(
                check,
                Severity.ERROR,
                cluster.name,
                f"the workers use Kafka cluster {distinct[0]}, the context's brokers are {evidence.kafka.cluster_id}",
                "correct bootstrap.servers, or move this Connect cluster to the context of its Kafka cluster",
            )
        else:
            yield Finding(check, Severity.OK, cluster.name, f"all workers use Kafka cluster {distinct[0]}")


def _find_strangers(check: str, cluster: ClusterEvidence) -> Iterator[Finding]:
    """Find workers that run something and that the context does not list."""
    if isinstance(cluster.connectors, SeamarkError) or isinstance(cluster.workers, SeamarkError):
        return
    by_connector, by_task = count_by_worker_id(cluster.connectors)
    seen = set(by_connector) | set(by_task)
    known = set(match_worker_ids(cluster.workers, seen=seen).values())
    # A worker that just died is still named in states; it has its own finding.
    known |= {build_worker_id(worker.url) for worker in cluster.workers}
    for stranger in sorted(seen - known):
        yield Finding(
            check,
            Severity.INFO,
            f"{cluster.name} {stranger}",
            f"{by_task[stranger]} tasks run on this worker, which is not in the context",
            f"add its URL to connect.{cluster.name}.urls, so that it is examined too",
        )


def _unreachable(check: str, subject: str, error: SeamarkError) -> Finding:
    words = f"{error.message}: {error.cause}" if error.cause else error.message
    return Finding(check, Severity.ERROR, subject, words, error.hint)


REACHABILITY_CHECKS = (
    Check("connect.reachable", examine_workers),
    Check("kafka.reachable", examine_brokers),
    Check("connect.same-cluster", examine_same_cluster),
)


_STATES = "connectors.state"
_SEVERITIES = {Health.UNHEALTHY: Severity.ERROR, Health.DEGRADED: Severity.ERROR, Health.UNASSIGNED: Severity.WARNING}
# More than a screenful is for `seamark connectors list`.
_MOST_SHOWN = 20
# The first line of a trace is the exception; a message beyond this length is a dump of data.
_MOST_CHARACTERS = 200


def examine_states(evidence: Evidence) -> Iterator[Finding]:
    """Check connectors.state: no connector and no task has failed."""
    for cluster in evidence.clusters:
        if isinstance(cluster.connectors, SeamarkError):
            yield build_unexamined(_STATES, subject=cluster.name, error=cluster.connectors)
            continue
        healths = {connector.owner: build_health(connector.status) for connector in cluster.connectors}
        troubled = [found for found in cluster.connectors if healths[found.owner] in _SEVERITIES]
        for connector in troubled[:_MOST_SHOWN]:
            yield Finding(
                _STATES,
                _SEVERITIES[healths[connector.owner]],
                connector.owner,
                _describe(connector),
                _find_fix(connector),
            )
        if len(troubled) > _MOST_SHOWN:
            words = f"{len(troubled) - _MOST_SHOWN} more connectors do not run"
            yield Finding(
                _STATES, Severity.ERROR, cluster.name, words, f"seamark connectors list --cluster {cluster.name}"
            )
        if not troubled:
            yield Finding(
                _STATES, Severity.OK, cluster.name, f"none of {len(cluster.connectors)} connectors has failed"
            )


def _describe(connector: Connector) -> str:
    status = connector.status
    if status is None:
        return "has no status"
    failed = [task for task in status.tasks if task.state is State.FAILED]
    if status.state is State.FAILED:
        return f"FAILED{_first_line(status.trace)}"
    if failed:
        return f"{len(failed)} of {len(status.tasks)} tasks FAILED{_first_line(failed[0].trace)}"
    if not status.tasks:
        return f"{status.state} without a task: it processes no data"
    return f"{status.state}, tasks {', '.join(sorted({task.state.value for task in status.tasks}))}"


def _find_fix(connector: Connector) -> str:
    status = connector.status
    if status is not None and status.state is State.RUNNING and not status.tasks:
        # Seen on 4.3.1 where a broker died directly after a resume: no rebalance and no restart assigned the task
        # again.
        return (
            f"if this persists, stop and resume it, because a restart doesn't help: seamark connectors stop "
            f"{connector.owner}, "
            f"then seamark connectors resume {connector.owner}"
        )
    return f"seamark connectors show {connector.owner}"


def _first_line(trace: str) -> str:
    line = trace.strip().partition("\n")[0]
    return f": {mask_text(line)[:_MOST_CHARACTERS]}" if line else ""


STATE_CHECKS = (Check(_STATES, examine_states),)


_VERSIONS = "connect.versions"


def examine_versions(evidence: Evidence) -> Iterator[Finding]:
    """Check connect.versions: one version in each Connect cluster, which can stop connectors and write offsets."""
    for cluster in evidence.clusters:
        if versions := _list_versions(cluster):
            words = f"every worker runs {versions[0]}"
            yield from or_ok(_find_bad_versions(cluster.name, versions), _VERSIONS, cluster.name, words)
        else:
            words = "not examined: no worker returned its version"
            yield Finding(_VERSIONS, Severity.WARNING, cluster.name, words, "see connect.reachable")


def _find_bad_versions(cluster: str, versions: tuple[str, ...]) -> Iterator[Finding]:
    if len(versions) > 1:
        words = f"the workers run different versions: {', '.join(versions)}"
        yield Finding(
            _VERSIONS,
            Severity.WARNING,
            cluster,
            words,
            "finish the upgrade: upgrade every worker to the newest of these versions",
        )
    unreadable = [version for version in versions if build_release(version) is None]
    if unreadable:
        words = f"unknown version {', '.join(unreadable)}"
        yield Finding(_VERSIONS, Severity.INFO, cluster, words, "check the features of this build manually")
    can = build_capabilities(cluster, versions)
    if not can.has(Capability.STOP):
        words = f"Connect {can.words} can neither stop connectors nor return offsets (since 3.5)"
        yield Finding(_VERSIONS, Severity.WARNING, cluster, words, "upgrade every worker to 3.6 or later")
    elif not can.has(Capability.WRITE_OFFSETS):
        words = f"Connect {can.words} can return offsets but not change them (since 3.6)"
        yield Finding(_VERSIONS, Severity.WARNING, cluster, words, "upgrade every worker to 3.6 or later")


def examine_known_bad(evidence: Evidence) -> Iterator[Finding]:
    """Check connect.known-bad: no worker runs a release with a published advisory."""
    check = "connect.known-bad"
    for cluster in evidence.clusters:
        for version in _list_versions(cluster):
            release = build_release(version)
            if release is None or release.is_vendor_build:
                words = f"{version} is not a release of Apache Kafka: the fixes in it are unknown"
                yield Finding(check, Severity.INFO, cluster.name, words, "ask its vendor for the CVEs it fixes")
                continue
            advisories = find_worker_advisories(release.number)
            for found in advisories:
                fix = f"upgrade the workers; fixed in {', '.join(found.fixed)}"
                yield Finding(
                    check, Severity.WARNING, cluster.name, f"{found.id} in Connect {version}: {found.words}", fix
                )
            if not advisories:
                yield Finding(check, Severity.OK, cluster.name, f"no known CVE in Connect {version}")


def examine_known_bad_brokers(evidence: Evidence) -> Iterator[Finding]:
    """Check kafka.known-bad: list what to compare the brokers' version with, because they do not report it."""
    if evidence.kafka is None:
        return
    known = "; ".join(f"{found.id} (fixed in {', '.join(found.fixed)})" for found in list_broker_advisories())
    yield Finding(
        "kafka.known-bad",
        Severity.INFO,
        evidence.address or evidence.context.name,
        f"brokers do not report their version; known CVEs are {known}",
        "compare these with the version your brokers run",
    )


def _list_versions(cluster: ClusterEvidence) -> tuple[str, ...]:
    return tuple(sorted({worker.version for worker in cluster.workers_up if worker.version}))


VERSION_CHECKS = (
    Check(_VERSIONS, examine_versions),
    Check("connect.known-bad", examine_known_bad),
    Check("kafka.known-bad", examine_known_bad_brokers),
)
