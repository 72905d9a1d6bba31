"""The connectors of a fleet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from seamark.connect.clusters import Clusters
from seamark.connect.model import Connector
from seamark.core.readings import Reading
from seamark.core.refs import parse_owner
from seamark.errors import NotFoundError, PartialError, SeamarkError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from seamark.changes.plan import PlannedChange
    from seamark.connect.plugins import FleetPlugin
    from seamark.connectors.plans import ConnectorPlans

Owners = str | Connector | Iterable[str | Connector]
"""Whom a verb is for: NAME, CLUSTER/NAME, a connector as it was read, or several of them."""


class LifecyclePlans(Protocol):
    """Plans the verbs that change a connector together with its offsets."""

    def create(
        self, name: str, given: Mapping[str, Any], path: Path, *, cluster: str | None, state: str
    ) -> PlannedChange:
        """Plan a new connector that continues from the offsets in a file."""
        ...

    def rename(self, connector: Connector, name: str, *, accept_loss: bool) -> PlannedChange:
        """Plan another name for a connector."""
        ...


class Connectors:
    """Every connector of every Connect cluster of a context.

    The verbs (create, change, set, delete, rename, pause, resume, stop, restart) each give a plan and change nothing.
    """

    def __init__(
        self, clusters: Clusters, *, plans: Callable[[], ConnectorPlans], lifecycle: Callable[[], LifecyclePlans]
    ) -> None:
        self._clusters = clusters
        self._plans = plans
        self._lifecycle = lifecycle

    def all(self, *, cluster: str | None = None) -> Reading[Connector]:
        """All connectors, or those of one cluster. Sorted by name within each cluster.

        A cluster that does not answer is in `failures`; a wrong cluster name is an error.
        """
        names = None
        if cluster is not None:
            self._clusters.settings(cluster)
            names = [cluster]
        answers = self._clusters.ask(lambda client: client.read_connectors(), names=names)
        items = tuple(
            self._clusters.types.clean(connector)
            for found in answers.results.values()
            for connector in sorted(found, key=lambda connector: connector.name)
        )
        return Reading(items=items, failures=answers.failures)

    def one(self, owner: str) -> Connector:
        """The connector NAME or CLUSTER/NAME.

        A bare NAME must stand in exactly one cluster, and every cluster must have answered:
        otherwise nobody knows which one is meant.
        """
        cluster, name = self.split_owner(owner)
        if cluster is not None:
            return self._clean(self._clusters.client(cluster).read_connector(name))
        answers = self._clusters.ask(lambda client: client.read_connector(name))
        failures = {where: error for where, error in answers.failures.items() if not isinstance(error, NotFoundError)}
        found = tuple(answers.results.values())
        if len(found) > 1:
            raise _ambiguous(name, found)
        if failures:
            raise _undecided(name, found, failures)
        if not found:
            raise _absent(name, self._clusters.names)
        return self._clean(found[0])

    def read_types(self, connectors: Iterable[Connector]) -> None:
        """Read the types of the connectors' plugins. Where that fails, all values of a plugin count as secrets."""
        self._clusters.types.read(connectors)

    def _clean(self, connector: Connector) -> Connector:
        self.read_types([connector])
        return self._clusters.types.clean(connector)

    def plugins(self, *, cluster: str | None = None) -> Reading[FleetPlugin]:
        """The connector plugins, and on which workers each is missing or of another version.

        A worker that does not answer is in `failures`, as `CLUSTER URL`.
        """
        from seamark.connectors.workers import read_fleet_plugins  # noqa: PLC0415

        return read_fleet_plugins(self._clusters, cluster=cluster)

    def create(
        self,
        name: str,
        config: Mapping[str, Any],
        *,
        cluster: str | None = None,
        state: str = "RUNNING",
        offsets: Path | None = None,
    ) -> PlannedChange:
        """Plan a new connector. The plan says which offsets or group of that name exist already.

        `offsets` is the file of an export: the connector is created stopped, given what the file says of it, and runs
        only then.

        Raises:
            AlreadyExistsError: there is one of that name.
            UnsupportedError: a worker is older than 3.7, and the state is not RUNNING.
        """
        if offsets is not None:
            return self._lifecycle().create(name, config, offsets, cluster=cluster, state=state)
        return self._plans().create(name, config, cluster=cluster, state=state)

    def change(self, owner: str | Connector, config: Mapping[str, Any]) -> PlannedChange:
        """Plan a whole new config of a connector."""
        return self._plans().change(self._resolve(owner), config)

    def set(self, owner: str | Connector, changes: Mapping[str, Any]) -> PlannedChange:
        """Plan a change of some keys of a connector's config; None takes a key out."""
        return self._plans().set(self._resolve(owner), changes)

    def delete(self, owners: Owners) -> PlannedChange:
        """Plan the end of connectors. The plan says what stays behind."""
        return self._plans().delete(self._resolve_all(owners))

    def rename(self, owner: str | Connector, name: str, *, accept_loss: bool = False) -> PlannedChange:
        """Plan another name for a connector: one of that name is created with its config, and it is deleted.

        From Connect 3.7 on its offsets go along, as they are when it has stopped.

        Raises:
            RefusedError: a worker is older, its positions would be lost, and `accept_loss` was not given; or nobody
                can tell what it holds. The cause says which.
            AlreadyExistsError: there is one of that name.
        """
        return self._lifecycle().rename(self._resolve(owner), name, accept_loss=accept_loss)

    def pause(self, owners: Owners) -> PlannedChange:
        """Plan that connectors wait; their tasks stay where they are."""
        return self._plans().set_state(self._resolve_all(owners), "PAUSED")

    def resume(self, owners: Owners) -> PlannedChange:
        """Plan that connectors run."""
        return self._plans().set_state(self._resolve_all(owners), "RUNNING")

    def stop(self, owners: Owners) -> PlannedChange:
        """Plan that connectors stop; their tasks end. Connect has it from 3.5 on."""
        return self._plans().set_state(self._resolve_all(owners), "STOPPED")

    def restart(self, owners: Owners) -> PlannedChange:
        """Plan that failed connectors and tasks are started again; what runs is left alone."""
        return self._plans().restart(self._resolve_all(owners))

    def _resolve(self, owner: str | Connector) -> Connector:
        return owner if isinstance(owner, Connector) else self.one(owner)

    def _resolve_all(self, owners: Owners) -> tuple[Connector, ...]:
        given = [owners] if isinstance(owners, str | Connector) else list(owners)
        found = [self._resolve(owner) for owner in given]
        return tuple({connector.owner: connector for connector in found}.values())

    def split_owner(self, owner: str) -> tuple[str | None, str]:
        """Cluster and name of an owner. A name may hold a slash: only a known cluster counts as one."""
        ref = parse_owner(owner)
        if ref.name and ref.cluster in self._clusters.names:
            return ref.cluster, ref.name
        if not owner:
            raise UsageError("an owner is needed", hint="give NAME or CLUSTER/NAME")
        return None, owner


def _ambiguous(name: str, found: tuple[Connector, ...]) -> UsageError:
    owners = [connector.owner for connector in found]
    return UsageError(
        f"connector {name} stands in {len(found)} clusters",
        cause=", ".join(owners),
        hint=f"say which one, as in {owners[0]}",
        context={"connector": name},
    )


def _undecided(name: str, found: tuple[Connector, ...], failures: Mapping[str, SeamarkError]) -> SeamarkError:
    if len(failures) == 1 and not found:
        # With one cluster the plain reason is what people need to see.
        (error,) = failures.values()
        return error
    silent = ", ".join(failures)
    example = found[0].owner if found else f"CLUSTER/{name}"
    return PartialError(
        f"can't tell which {name} is meant: {silent} did not answer",
        failures=failures,
        hint=f"name the cluster, as in {example}",
        context={"connector": name},
    )


def _absent(name: str, clusters: tuple[str, ...]) -> NotFoundError:
    where = ", ".join(clusters) or "no Connect cluster: the context has none"
    return NotFoundError(
        f"there is no connector {name}",
        cause=f"looked in {where}",
        hint="see `seamark connectors list`",
        context={"connector": name},
    )
