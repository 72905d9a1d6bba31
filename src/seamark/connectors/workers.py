"""The workers of a fleet, and what runs on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from seamark.changes.timing import GroupReading
from seamark.connect.api import ConnectPort
from seamark.connect.capability import Capability
from seamark.connect.clusters import Clusters
from seamark.connect.model import Connector, ConnectorStatus, Plugin, State, Task, Worker
from seamark.connect.plugins import CONNECTOR_TYPES, FleetPlugin, build_fleet_plugins, lists_all_types
from seamark.context.urls import build_worker_id
from seamark.core.readings import Reading, fan_out
from seamark.errors import NotFoundError, SeamarkError, UsageError
from seamark.report.words import render_names

if TYPE_CHECKING:
    from seamark.kafka.worker_group import WorkerGroup


def read_fleet_plugins(
    clusters: Clusters, *, cluster: str | None = None, types: Collection[str] = ()
) -> Reading[FleetPlugin]:
    """Read the plugins of every worker, of these types or of all.

    A worker that does not respond is in `failures`, as `CLUSTER URL`; so is a Connect cluster that can't list a
    requested type, by its name.
    """
    names = clusters.names if cluster is None else (clusters.settings(cluster).name,)
    places = {f"{name} {url}": (name, url) for name in names for url in clusters.settings(name).urls}
    answers = fan_out(
        {
            place: partial(clusters.client(name).read_plugins, url, connectors_only=False)
            for place, (name, url) in places.items()
        }
    )
    told: dict[str, dict[str, tuple[Plugin, ...]]] = {}
    for place, plugins in answers.results.items():
        name, url = places[place]
        told.setdefault(name, {})[url] = plugins
    failures: dict[str, SeamarkError] = dict(answers.failures)
    for name in told if set(types) - set(CONNECTOR_TYPES) else ():
        if not all(map(lists_all_types, told[name].values())):
            failures |= _find_too_old(clusters.client(name), name)
    found = (plugin for name, by_worker in told.items() for plugin in build_fleet_plugins(name, by_worker))
    return Reading(items=tuple(plugin for plugin in found if not types or plugin.type in types), failures=failures)


def _find_too_old(client: ConnectPort, cluster: str) -> dict[str, SeamarkError]:
    try:
        client.read_capabilities().require(Capability.ALL_PLUGINS, doing="list plugins that are not connectors")
    except SeamarkError as error:
        return {cluster: error}
    return {}


# A task in one of these states runs nowhere; its worker ID is that of the last worker.
_NOWHERE = frozenset({State.UNASSIGNED, State.DESTROYED})


@dataclass(frozen=True, slots=True)
class Imbalance:
    """Connectors or tasks of a Connect cluster that are distributed unevenly over its workers.

    Attributes:
        cluster: The Connect cluster.
        kind: `connectors` or `tasks`, which Connect balances separately.
        busiest: The URL of the worker that runs the most of them.
        most: How many run there.
        idlest: The URL of the worker that runs the fewest of them.
        least: How many run there.
    """

    cluster: str
    kind: str
    busiest: str
    most: int
    idlest: str
    least: int


@dataclass(frozen=True, slots=True)
class WorkerDetail:
    """One worker with what Connect reports on it.

    Attributes:
        worker: The worker, with the number of its connectors and tasks.
        worker_id: Its ID in states (host:port), "" if no state can be matched to its URL.
        connectors: The connectors that run on it, without their tasks.
        tasks: The tasks that run on it, each with its connector.
        others: The other workers of its Connect cluster.
        imbalances: How the Connect cluster is unbalanced.
        missing: Plugins that other workers have and it lacks, or has in another version only.
        group: The worker group; None if the context doesn't lead to it, or it couldn't be read.
        failures: What could not be read, by name: connectors, plugins or worker group.
    """

    worker: Worker
    worker_id: str = ""
    connectors: tuple[Connector, ...] = ()
    tasks: tuple[tuple[Connector, Task], ...] = ()
    others: tuple[Worker, ...] = ()
    imbalances: tuple[Imbalance, ...] = ()
    missing: tuple[FleetPlugin, ...] = ()
    group: WorkerGroup | None = None
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)

    @property
    def is_member(self) -> bool | None:
        """Whether it is in the worker group; None if that is unknown."""
        return None if self.group is None else self.group.has(self._id)

    @property
    def is_leader(self) -> bool | None:
        """Whether it assigns connectors and tasks to the workers; None if that is unknown."""
        if self.group is None or not self.group.leader:
            return None
        return build_worker_id(self.group.leader) == self._id

    @property
    def _id(self) -> str:
        return self.worker_id or build_worker_id(self.worker.url)


class Workers:
    """Every worker that a context names."""

    def __init__(
        self, clusters: Clusters, *, read_members: Callable[[str], WorkerGroup | None] = lambda _: None
    ) -> None:
        """Create the API. `read_members` returns the worker group of a Connect cluster, or None if it is unknown."""
        self._clusters = clusters
        self._read_members = read_members

    def list(self) -> Reading[Worker]:
        """Return all workers. One that does not respond is an item with its `error`, not a failure."""
        answers = self._clusters.ask(read_workers)
        items = tuple(worker for workers in answers.results.values() for worker in workers)
        return Reading(items=items, failures=answers.failures)

    def get(self, name: str, *, cluster: str | None = None) -> WorkerDetail:
        """Return a worker in detail, by its URL, or by its ID as states name it (host:port).

        Args:
            name: The URL or the worker ID.
            cluster: The Connect cluster, if several have a worker of that name.

        Raises:
            NotFoundError: The context has no such worker.
            UsageError: Several Connect clusters have it.
        """
        clusters = self._clusters.names if cluster is None else (self._clusters.settings(cluster).name,)
        found = self._find_urls(name, clusters) or self._find_by_states(name, clusters)
        where = list(dict.fromkeys(known for known, _ in found))
        if len(found) > 1 and len(where) == 1:
            urls = [url for _, url in found]
            raise UsageError(
                f"worker ID {name} is that of {len(urls)} URLs",
                cause=", ".join(urls),
                hint="pass one of the URLs",
                context={"worker": name},
            )
        if len(found) > 1:
            raise UsageError(
                f"worker {name} is in {len(where)} Connect clusters",
                cause=", ".join(where),
                hint=f"choose one of them: --cluster {where[0]}",
                context={"worker": name},
            )
        return self._read(*found[0])

    def _find_urls(self, name: str, clusters: Sequence[str]) -> Sequence[tuple[str, str]]:
        wanted = name.rstrip("/")
        urls = [(cluster, url) for cluster in clusters for url in self._clusters.settings(cluster).urls]
        exact = [found for found in urls if found[1].rstrip("/") == wanted]
        return exact or [found for found in urls if build_worker_id(found[1]) == wanted.lower()]

    def _find_by_states(self, name: str, clusters: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Find a worker whose states name it differently than the context does.

        Raises:
            NotFoundError: There is none.
        """
        answers = self._clusters.ask(lambda client: (client.read_workers(), client.read_connectors()), names=clusters)
        for cluster, (workers, connectors) in answers.results.items():
            ids = match_worker_ids(workers, seen=list_worker_ids(connectors))
            if urls := [url for url, worker_id in ids.items() if worker_id == name]:
                return [(cluster, urls[0])]
        known = [url for cluster in clusters for url in self._clusters.settings(cluster).urls]
        silent = f"; no answer from {', '.join(answers.failures)}" if answers.failures else ""
        raise NotFoundError(
            f"the context has no worker {name}",
            cause=f"its workers: {', '.join(known) or 'none'}{silent}",
            hint="list the workers: seamark workers list",
            context={"worker": name},
        )

    def _read(self, cluster: str, url: str) -> WorkerDetail:
        client = self._clusters.client(cluster)
        workers = client.read_workers()
        up = [worker.url for worker in workers if worker.is_up]
        calls: dict[str, Callable[[], Any]] = {"worker group": lambda: self._read_members(cluster)}
        if up:
            calls["connectors"] = client.read_connectors
        if url in up:
            calls["plugins"] = lambda: _find_lacking(client, cluster, urls=up, url=url)
        found = fan_out(calls)
        group, missing = found.results.get("worker group"), found.results.get("plugins", ())
        connectors = tuple(sorted(found.results.get("connectors", ()), key=lambda connector: connector.name))
        seen = list_worker_ids(connectors) | (group.members if group is not None else frozenset())
        ids = match_worker_ids(workers, seen=seen) if "connectors" in found.results else {}
        # What ran on a worker that is down now is still shown under its ID.
        own = ids.get(url) or (build_worker_id(url) if build_worker_id(url) in seen else "")
        counted = count_work(workers, connectors, ids=ids) if "connectors" in found.results else workers
        (worker,) = (one for one in counted if one.url == url)
        # An idle URL at which the group has no member isn't that of an idle worker.
        others = [one for one in counted if group is not None and group.has(ids.get(one.url, "")) is False]
        compared = [one for one in counted if one.connectors or one.tasks or one not in others]
        placed = [self._clusters.types.clean(one) for one in connectors if own and own in list_worker_ids([one])]
        return WorkerDetail(
            worker,
            own,
            connectors=tuple(one for one in placed if _find_host(one.status) == own),
            tasks=tuple((one, task) for one in placed for task in _list_placed(one.status) if task.worker_id == own),
            others=tuple(one for one in counted if one.url != url),
            imbalances=find_imbalances(compared),
            missing=missing,
            group=group,
            failures=found.failures,
        )


def _find_lacking(client: ConnectPort, cluster: str, *, urls: Sequence[str], url: str) -> tuple[FleetPlugin, ...]:
    """Return the plugins that another worker has and the worker at `url` hasn't, in any version or in that one.

    Raises:
        SeamarkError: A worker didn't report its plugins; a part would look like all of them.
    """
    answers = fan_out({one: partial(client.read_plugins, one, connectors_only=False) for one in urls})
    for error in answers.failures.values():
        raise error
    plugins = build_fleet_plugins(cluster, answers.results)
    return tuple(plugin for plugin in plugins if url in plugin.missing or url in dict(plugin.others))


def read_workers(client: ConnectPort) -> tuple[Worker, ...]:
    """Read the workers of one Connect cluster with their counts."""
    workers = client.read_workers()
    if not any(worker.is_up for worker in workers):
        return workers
    try:
        connectors = client.read_connectors()
    except SeamarkError:
        # The counts are optional; which workers are up is what was requested.
        return workers
    return count_work(workers, connectors)


def count_work(
    workers: Iterable[Worker], connectors: Iterable[Connector], *, ids: Mapping[str, str] | None = None
) -> tuple[Worker, ...]:
    """Return the workers with the number of connectors and tasks whose states name them.

    `ids` are the worker IDs of their URLs, if those are known already.
    """
    workers = tuple(workers)
    by_connector, by_task = count_by_worker_id(connectors)
    if ids is None:
        ids = match_worker_ids(workers, seen=set(by_connector) | set(by_task))
    return tuple(
        replace(worker, connectors=by_connector[ids[worker.url]], tasks=by_task[ids[worker.url]])
        if worker.url in ids
        else worker
        for worker in workers
    )


def find_imbalances(workers: Iterable[Worker]) -> tuple[Imbalance, ...]:
    """Return how the workers of each Connect cluster are unbalanced; nothing if they are balanced.

    Connect balances connectors and tasks separately, each to a difference of at most one: KIP-415, and since 3.4
    `IncrementalCooperativeAssignor.performLoadBalancingRevocations`. Connectors without tasks and tasks that failed
    count, because they stay assigned. Workers that are down and those whose counts are unknown are left out.
    """
    by_cluster: dict[str, list[Worker]] = {}
    for worker in workers:
        if worker.is_up and worker.connectors is not None and worker.tasks is not None:
            by_cluster.setdefault(worker.cluster, []).append(worker)
    found = (
        _compare(cluster, kind, {worker.url: count(worker) or 0 for worker in known})
        for cluster, known in by_cluster.items()
        for kind, count in _COUNTS.items()
    )
    return tuple(one for one in found if one.most - one.least > 1)


_COUNTS: Mapping[str, Callable[[Worker], int | None]] = {
    "connectors": lambda worker: worker.connectors,
    "tasks": lambda worker: worker.tasks,
}


def _compare(cluster: str, kind: str, counts: Mapping[str, int]) -> Imbalance:
    busiest, idlest = max(counts, key=lambda url: counts[url]), min(counts, key=lambda url: counts[url])
    return Imbalance(cluster, kind, busiest, counts[busiest], idlest, counts[idlest])


def match_worker_ids(workers: Iterable[Worker], *, seen: set[str]) -> dict[str, str]:
    """Return the worker ID (its advertised host:port) of each URL.

    A URL whose host:port no state names is matched only if one such URL and one such ID are left, because they can only
    be the same worker. A worker that is up and idle has no ID in any state; it keeps its own address, and its counts
    are zero, if all IDs are accounted for.
    """
    workers = tuple(workers)
    up = [worker.url for worker in workers if worker.is_up]
    ids = {url: build_worker_id(url) for url in up if build_worker_id(url) in seen}
    unmatched = [url for url in up if url not in ids]
    # States still name a worker that has just died: its ID isn't that of another worker.
    strangers = seen - set(ids.values()) - {build_worker_id(worker.url) for worker in workers if not worker.is_up}
    if not strangers:
        return ids | {url: build_worker_id(url) for url in unmatched}
    if len(unmatched) == 1 and len(strangers) == 1:
        return ids | {unmatched[0]: next(iter(strangers))}
    return ids


_MOVING = frozenset({State.UNASSIGNED, State.RESTARTING})
_ASSIGNED = frozenset({State.RUNNING, State.PAUSED})


def build_group_reading(
    statuses: Mapping[str, ConnectorStatus], loads: Mapping[str, frozenset[str]] | None
) -> GroupReading:
    """Build what the executor needs to know of the workers of a Connect cluster.

    `loads` are the connectors of each worker of the group, None if the group can't be read. A worker that was killed
    leaves its tasks shown as RUNNING until they are assigned to other workers, so each worker of a status must be a
    member. A worker that is too old to report its URL can't be compared.
    """
    parts = {(name, "connector"): (status.state, status.worker_id) for name, status in statuses.items()}
    parts |= {
        (name, f"task {task.id}"): (task.state, task.worker_id)
        for name, status in statuses.items()
        for task in status.tasks
    }
    state = frozenset(parts.items()), frozenset((loads or {}).items())
    moving = sorted(f"{name} ({part} {found})" for (name, part), (found, _) in parts.items() if found in _MOVING)
    if moving:
        return GroupReading(f"not assigned or restarting: {render_names(moving)}", state)
    if loads is None or not all(url.startswith("http") for url in loads):
        return GroupReading("", state)
    at_work = {worker for found, worker in parts.values() if found in _ASSIGNED and worker}
    lost = sorted(at_work - {build_worker_id(url) for url in loads})
    return GroupReading(f"not in the worker group: {render_names(lost)}" if lost else "", state)


def count_by_worker_id(connectors: Iterable[Connector]) -> tuple[Counter[str], Counter[str]]:
    """Return the number of connectors and of tasks for each worker ID."""
    by_connector: Counter[str] = Counter()
    by_task: Counter[str] = Counter()
    for connector in connectors:
        if host := _find_host(connector.status):
            by_connector[host] += 1
        by_task.update(task.worker_id for task in _list_placed(connector.status))
    return by_connector, by_task


def list_worker_ids(connectors: Iterable[Connector]) -> set[str]:
    """Return the IDs of all workers that the connectors' states name."""
    by_connector, by_task = count_by_worker_id(connectors)
    return set(by_connector) | set(by_task)


def _find_host(status: ConnectorStatus | None) -> str:
    """Return the ID of the worker that runs a connector; "" if none does."""
    return "" if status is None or status.state in _NOWHERE else status.worker_id


def _list_placed(status: ConnectorStatus | None) -> Iterable[Task]:
    """Return the tasks that run on some worker."""
    return [task for task in (status.tasks if status else ()) if task.worker_id and task.state not in _NOWHERE]
