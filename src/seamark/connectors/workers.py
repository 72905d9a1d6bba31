"""The workers of a fleet, and what runs on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial

from seamark.changes.timing import GroupReading
from seamark.connect.api import ConnectPort
from seamark.connect.capability import Capability
from seamark.connect.clusters import Clusters
from seamark.connect.model import Connector, ConnectorStatus, Plugin, State, Worker
from seamark.connect.plugins import CONNECTOR_TYPES, FleetPlugin, build_fleet_plugins, lists_all_types
from seamark.context.urls import build_worker_id
from seamark.core.readings import Reading, fan_out
from seamark.errors import SeamarkError
from seamark.report.words import render_names


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


class Workers:
    """Every worker that a context names."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    def list(self) -> Reading[Worker]:
        """Return all workers. One that does not respond is an item with its `error`, not a failure."""
        answers = self._clusters.ask(read_workers)
        items = tuple(worker for workers in answers.results.values() for worker in workers)
        return Reading(items=items, failures=answers.failures)


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


def count_work(workers: Iterable[Worker], connectors: Iterable[Connector]) -> tuple[Worker, ...]:
    """Return the workers with the number of connectors and tasks whose states name them."""
    workers = tuple(workers)
    by_connector, by_task = count_by_worker_id(connectors)
    ids = match_worker_ids(workers, seen=set(by_connector) | set(by_task))
    return tuple(
        replace(worker, connectors=by_connector[ids[worker.url]], tasks=by_task[ids[worker.url]])
        if worker.url in ids
        else worker
        for worker in workers
    )


def match_worker_ids(workers: Iterable[Worker], *, seen: set[str]) -> dict[str, str]:
    """Return the worker ID (its advertised host:port) of each URL.

    A URL whose host:port no state names is matched only if one such URL and one such ID are left, because they can only
    be the same worker. A worker that is up and idle has no ID in any state; it keeps its own address, and its counts
    are zero, if all IDs are accounted for.
    """
    up = [worker.url for worker in workers if worker.is_up]
    ids = {url: build_worker_id(url) for url in up if build_worker_id(url) in seen}
    unmatched = [url for url in up if url not in ids]
    strangers = seen - set(ids.values())
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
        status = connector.status
        if status is None:
            continue
        if status.worker_id and status.state not in _NOWHERE:
            by_connector[status.worker_id] += 1
        by_task.update(task.worker_id for task in status.tasks if task.worker_id and task.state not in _NOWHERE)
    return by_connector, by_task
