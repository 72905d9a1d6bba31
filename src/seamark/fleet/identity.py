"""Determine the identities of a context's clusters from the clusters themselves."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from seamark.changes.identity import ConnectIdentity, Identity, build_wrong_connect, build_wrong_kafka
from seamark.changes.locks import (
    build_scoped_owner,
    cluster_lock,
    connector_lock,
    group_lock,
    labels_lock,
    loggers_lock,
)
from seamark.changes.plan import Plan
from seamark.changes.step import Step
from seamark.connect.clusters import Clusters
from seamark.connect.config import find_group
from seamark.connect.model import Connector, Worker
from seamark.context.urls import build_worker_id
from seamark.core.readings import fan_out
from seamark.core.refs import CONNECTOR, GLOB, TOPIC, ConnectorType, OwnerPatterns, parse_owner
from seamark.errors import RefusedError, SeamarkError
from seamark.kafka.model import KafkaCluster

if TYPE_CHECKING:
    from typing import Protocol

    from seamark.context import ConnectSettings, Context


if TYPE_CHECKING:

    class _Kafka(Protocol):
        def read_cluster(self) -> KafkaCluster: ...

    FindGroup = Callable[[Sequence[str]], Sequence[str]]

# A plan of 1,000 connectors needs the same few names 1,000 times.
_KEPT_SECONDS = 60.0


class Identities:
    """Reads the identities of one context's clusters."""

    def __init__(
        self,
        context: Context,
        clusters: Clusters,
        *,
        open_kafka: Callable[[], _Kafka],
        find_groups: FindGroup | None = None,
    ) -> None:
        """Create the reader. `find_groups` returns the worker groups that have members at these URLs."""
        self._context = context
        self._clusters = clusters
        self._open_kafka = open_kafka
        self._find_groups = find_groups or self._read_groups
        self._known: dict[tuple[str, ...], tuple[float, Identity]] = {}
        self._read_only: dict[str, ConnectIdentity] = {}
        self._lock = Lock()

    def read(self, names: Collection[str]) -> Identity:
        """Return the identity of the Kafka cluster and of these Connect clusters, as they report it now.

        Raises:
            RefusedError: A Connect cluster uses another Kafka cluster than the context, or its worker group can't be
                determined.
            UnreachableError: A cluster doesn't respond.
        """
        chosen = {name: self._clusters.settings(name) for name in names}
        if chosen and all(_is_standalone(settings) for settings in chosen.values()):
            return Identity("", {name: _build_standalone(settings) for name, settings in chosen.items()})
        kafka_id = self._read_kafka_id()
        found = fan_out({name: partial(self._read_connect, settings, kafka_id) for name, settings in chosen.items()})
        for error in found.failures.values():
            raise error
        return Identity(kafka_id, {name: found.results[name] for name in chosen})

    def find(self, names: Collection[str]) -> Identity:
        """Return the identity as `read` does, or a cached one of up to a minute ago: for planning, not for an apply."""
        key = tuple(sorted(names))
        with self._lock:
            known = self._known.get(key)
            if known is None or time.monotonic() - known[0] > _KEPT_SECONDS:
                known = self._known[key] = (time.monotonic(), self.read(names))
        return known[1]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the Connect clusters of the context."""
        return self._clusters.names

    def identify(self, name: str) -> ConnectIdentity | None:
        """Return the identity of a Connect cluster; None if it can't be determined."""
        try:
            return self.find([name]).connect[name]
        except SeamarkError:
            return None

    def find_for_reading(self, name: str) -> ConnectIdentity:
        """Return the identity of a Connect cluster as far as the journal is read by it, with one request at most.

        A change needs `read`, which asks every worker whether it uses the Kafka cluster of the context.

        Raises:
            RefusedError: The worker group can't be determined.
            UnreachableError: The brokers or, without brokers, the workers don't respond.
        """
        with self._lock:
            known = self._read_only.get(name)
        if known is None:
            known = self._read_for_reading(self._clusters.settings(name))
            with self._lock:
                self._read_only[name] = known
        return known

    def _read_for_reading(self, settings: ConnectSettings) -> ConnectIdentity:
        if _is_standalone(settings):
            return _build_standalone(settings)
        if self._context.has_brokers:
            group = settings.group_id or self._find_group(settings, settings.urls)
            return ConnectIdentity(self._read_kafka_id(), group)
        found = self._clusters.client(settings.name).read_any_worker()
        return ConnectIdentity(found.kafka_cluster_id, "", tuple(sorted(map(build_worker_id, settings.urls))))

    def find_scope(self, name: str) -> str:
        """Return the part of a lock's name that identifies a Connect cluster, the same in every context.

        That is its worker group. Without brokers the group is unknown, and the Kafka cluster ID is used for all Connect
        clusters on it: such locks exclude more than necessary.
        """
        return _build_scope(self.find([name]).connect[name])

    def match(self, plan: Plan) -> dict[str, str]:
        """Return the names that the Connect clusters of a plan have in this context, by the names in the plan.

        Raises:
            RefusedError: The context doesn't have a cluster of the plan.
        """
        expected = plan.identity
        if not expected.is_local and (found := self._read_kafka_id()) != expected.kafka_cluster_id:
            raise build_wrong_kafka(expected, found, context=plan.context)
        return {
            name: self._match_connect(name, wanted, context=plan.context) for name, wanted in expected.connect.items()
        }

    def _match_connect(self, name: str, wanted: ConnectIdentity, *, context: str) -> str:
        """Return the name of a plan's Connect cluster in this context. One of the same name is checked first."""
        seen: list[str] = []
        for own in sorted(self._clusters.names, key=lambda one: one != name):
            try:
                found = self.read([own]).connect[own]
            except SeamarkError as error:
                if own == name:
                    raise
                seen.append(f"{own}: {error.message}")
                continue
            if wanted.matches(found):
                return own
            seen.append(f"{own} is {found}")
        raise build_wrong_connect(name, wanted, "; ".join(seen) or "there is no Connect cluster", context=context)

    def _read_kafka_id(self) -> str:
        if not self._context.has_brokers:
            return ""
        found = self._open_kafka().read_cluster().cluster_id
        if not found:
            raise RefusedError(
                "the brokers don't report their cluster ID; no changes were made",
                hint="check bootstrap.servers of the context",
            )
        return found

    def _read_connect(self, settings: ConnectSettings, kafka_id: str) -> ConnectIdentity:
        if _is_standalone(settings):
            return _build_standalone(settings)
        client = self._clusters.client(settings.name)
        workers = [worker for worker in client.read_workers() if worker.is_up]
        if not workers:
            if kafka_id and settings.group_id is not None:
                # Offsets may be imported while all workers are down; the context then defines the worker group.
                return ConnectIdentity(kafka_id, settings.group_id)
            client.read_capabilities()
            workers = [worker for worker in client.read_workers() if worker.is_up]
        found = _read_same_id(settings.name, workers)
        if not self._context.has_brokers:
            statuses = client.read_statuses().values()
            ids = {status.worker_id for status in statuses if status.worker_id}
            ids |= {task.worker_id for status in statuses for task in status.tasks if task.worker_id}
            # A Connect cluster without connectors has no statuses; then only the addresses are known.
            return ConnectIdentity(found, "", tuple(sorted(ids or {build_worker_id(worker.url) for worker in workers})))
        if found != kafka_id:
            raise RefusedError(
                f"Connect cluster {settings.name} uses another Kafka cluster than the context; no changes were made",
                cause=f"its workers use {found}, bootstrap.servers of context {self._context.name} is {kafka_id}",
                hint="correct bootstrap.servers, or move this Connect cluster to the context of its Kafka cluster",
                context={"cluster": settings.name},
            )
        return ConnectIdentity(found, settings.group_id or self._find_group(settings, [one.url for one in workers]))

    def _find_group(self, settings: ConnectSettings, urls: Sequence[str]) -> str:
        groups = self._find_groups(urls)
        if len(groups) == 1:
            return groups[0]
        raise RefusedError(
            f"can't determine the worker group of Connect cluster {settings.name}; no changes were made",
            cause=f"groups with a member at its URLs: {', '.join(groups) or 'none'}",
            hint=f"add the workers' group.id to the context: connect.{settings.name}.group_id",
            context={"cluster": settings.name, "setting": f"connect.{settings.name}.group_id"},
        )

    def _read_groups(self, urls: Sequence[str]) -> Sequence[str]:
        from seamark.kafka.worker_group import find_worker_groups  # noqa: PLC0415

        return find_worker_groups(self._context.kafka.client_config(), urls)


def check_coverage(plan: Plan, steps: Sequence[Step], context: Context) -> None:
    """Raise for a plan that doesn't state which clusters its steps are for: seamark writes that into every plan.

    Raises:
        RefusedError: A cluster is missing.
    """
    needed = {name for step in steps for name in step.find_clusters()}
    missing = sorted(needed - set(plan.identity.connect))
    is_kafka_missing = context.has_brokers and not plan.identity.kafka_cluster_id and not plan.identity.is_local
    if missing or (is_kafka_missing and steps):
        raise RefusedError(
            "the plan doesn't identify the clusters that it changes; no changes were made",
            cause=f"no identity of {', '.join(missing) or 'the Kafka cluster'}",
            hint="create a new plan and review it: this one was edited",
        )


def rename_clusters(context: Context, names: Mapping[str, str]) -> Context:
    """Return the context with the names that a plan uses for its Connect clusters.

    Other Connect clusters keep their names, unless the plan uses the name for another one. Settings stay those of the
    context, so that a plan can't choose which policy applies to a Connect cluster.
    """
    own = {known: name for name, known in names.items()}
    taken = set(names)
    connect, policies = {}, {}
    for known, settings in context.connect.items():
        name = own.get(known, known)
        while known not in own and name in taken:
            name += "+"
        connect[name] = replace(settings, name=name, known_as=settings.known_as or known)
        if known in context.cluster_policies:
            policies[name] = context.cluster_policies[known]
    return replace(context, connect=connect, cluster_policies=policies, own_journal=context.journal)


def _build_scope(found: ConnectIdentity) -> str:
    return found.group or found.file or f"kafka-{found.kafka_cluster_id}"


def _is_standalone(settings: ConnectSettings) -> bool:
    return settings.offsets_file is not None and settings.group_id is None


def _build_standalone(settings: ConnectSettings) -> ConnectIdentity:
    return ConnectIdentity(file=f"{socket.gethostname()}:{settings.offsets_file}")


def _read_same_id(name: str, workers: Sequence[Worker]) -> str:
    ids = {worker.url: worker.kafka_cluster_id for worker in workers}
    distinct = sorted(set(ids.values()))
    if len(distinct) == 1 and distinct[0]:
        return distinct[0]
    raise RefusedError(
        f"the workers of Connect cluster {name} don't report one Kafka cluster; no changes were made",
        cause=", ".join(f"{url}: {found or '(none)'}" for url, found in ids.items()) or "no worker responds",
        hint="check the URLs of the context: all of them must lead to workers of one Connect cluster",
        context={"cluster": name},
    )


class FleetLocks:
    """The lock names of one context's Connect clusters."""

    def __init__(self, clusters: Clusters, identities: Identities) -> None:
        self._clusters = clusters
        self._identities = identities

    def find_connector(
        self, cluster: str, name: str, configs: Sequence[Mapping[str, str]], *, kind: ConnectorType
    ) -> frozenset[str]:
        """Return the locks of a connector, with all the configs that it has or will have.

        A connector of unknown type takes the locks of a source and of a sink.
        """
        settings, workers = self._clusters.settings(cluster), self._identities.find_scope(cluster)
        locks = set() if kind is ConnectorType.SINK else {connector_lock(name, workers=workers)}
        if kind is not ConnectorType.SOURCE:
            locks |= {group_lock(find_group(name, config, settings), workers=workers) for config in configs}
        return frozenset(locks)

    def find_cluster(self, cluster: str) -> str:
        """Return the lock of a whole Connect cluster."""
        return cluster_lock(self._identities.find_scope(cluster))

    def find_loggers(self, cluster: str) -> str:
        """Return the lock of the log levels of a Connect cluster's workers."""
        return loggers_lock(self._identities.find_scope(cluster))

    def find_labels(self, cluster: str, name: str) -> str:
        """Return the lock of a connector's labels."""
        return labels_lock(name, workers=self._identities.find_scope(cluster))

    def find_groups(self, groups: Sequence[str]) -> Sequence[frozenset[str]]:
        """Return the locks of consumer groups; a sink's group is one of its Connect cluster."""
        from seamark.groups.lag import read_owners  # noqa: PLC0415

        clusters = read_owners(self._clusters).clusters
        return [
            frozenset({group_lock(group, workers=self._identities.find_scope(found) if found else "")})
            for group, found in ((group, clusters.get(group, "")) for group in groups)
        ]

    def find_patterns(self, owners: Sequence[str | Connector]) -> OwnerPatterns:
        """Return the patterns by which locks in the journal name these owners; a connector isn't requested again.

        A sink has the lock of its group, whose name its config can override. A Connect cluster that doesn't respond
        isn't an error, because the journal can be read without it: then all connectors of the name match.
        """
        return OwnerPatterns(tuple(dict.fromkeys(text for owner in owners for text in self._find_texts(owner))))

    def _find_texts(self, owner: str | Connector) -> Iterator[str]:
        if isinstance(owner, Connector):
            yield self._scope(owner.name, owner.cluster)
            yield from self._find_group(owner)
            return
        found = parse_owner(owner)
        if found.kind != CONNECTOR or found.cluster == TOPIC:
            yield owner
            return
        clusters = [found.cluster] if found.cluster in self._clusters.names else self._clusters.names
        name = found.name if found.cluster in self._clusters.names else owner
        yield self._scope(name, found.cluster) if found.cluster in self._clusters.names else owner
        for cluster in clusters if not GLOB & set(name) else ():
            with suppress(SeamarkError):
                yield from self._find_group(self._clusters.client(cluster).read_connector(name))

    def _scope(self, name: str, cluster: str) -> str:
        try:
            # To read the journal, the group of the context is enough: nothing is changed under this name.
            group = self._clusters.settings(cluster).group_id
            workers = group or _build_scope(self._identities.find_for_reading(cluster))
            return build_scoped_owner(name, workers=workers)
        except SeamarkError:
            return name

    def _find_group(self, connector: Connector) -> Iterator[str]:
        if connector.type is ConnectorType.SINK:
            yield f"group/{find_group(connector.name, connector.config, self._clusters.settings(connector.cluster))}"
