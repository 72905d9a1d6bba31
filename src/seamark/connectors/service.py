"""The public API for the connectors of a fleet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from seamark.connect.clusters import Clusters
from seamark.connect.model import Connector
from seamark.connectors.model import build_selection
from seamark.core.readings import Reading
from seamark.core.refs import CONNECTOR, Ref, parse_owner
from seamark.errors import NotFoundError, PartialError, SeamarkError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from seamark.changes.plan import PlannedChange
    from seamark.connect.plugins import FleetPlugin, PluginDefinition
    from seamark.connectors.labels import LabelReader
    from seamark.connectors.plans import ConnectorPlans

WAIT_SECONDS = 60.0
"""How long to wait until a connector and its tasks run, unless a call says otherwise."""

Owners = str | Connector | Iterable[str | Connector]
"""The connectors of a call: NAME, CLUSTER/NAME, a connector as it was read, or several of them."""


class LifecyclePlans(Protocol):
    """Plans changes of a connector together with its offsets."""

    def create(
        self,
        name: str,
        given: Mapping[str, Any],
        path: Path | None,
        *,
        cluster: str | None,
        state: str,
        wait_seconds: float,
    ) -> PlannedChange:
        """Plan a new connector that continues from the offsets in a file, or without a file, starts without offsets."""
        ...

    def delete(self, connectors: Sequence[Connector]) -> PlannedChange:
        """Plan to delete connectors and their offsets."""
        ...

    def rename(self, connector: Connector, name: str, *, allow_offset_loss: bool) -> PlannedChange:
        """Plan a new name for a connector."""
        ...


class Connectors:
    """Every connector of every Connect cluster of a context.

    Each of create, change, set, delete, rename, pause, resume, stop and restart returns a plan and changes nothing.
    """

    def __init__(
        self,
        clusters: Clusters,
        *,
        plans: Callable[[], ConnectorPlans],
        lifecycle: Callable[[], LifecyclePlans],
        labels: Callable[[], LabelReader],
    ) -> None:
        self._clusters = clusters
        self._labels = labels
        self._plans = plans
        self._lifecycle = lifecycle

    def list(self, *, cluster: str | None = None) -> Reading[Connector]:
        """Return all connectors, or those of one Connect cluster, sorted by name within each Connect cluster.

        A Connect cluster that does not respond is in `failures`; a wrong name of a Connect cluster raises.
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

    def read_labels(self, connectors: Iterable[Connector]) -> tuple[Connector, ...]:
        """Return the connectors with their labels, which the journal has. It is read once, as a whole.

        Raises:
            JournalError, UnreachableError: The journal can't be read, or the identity of a Connect cluster.
        """
        found = tuple(connectors)
        held = self._labels().read_all([Ref(CONNECTOR, one.name, one.cluster) for one in found])
        return tuple(replace(one, labels=labels.labels) for one, labels in zip(found, held, strict=True))

    def build_picker(self, labels: Sequence[str]) -> Callable[[Iterable[Connector]], tuple[Connector, ...]]:
        """Return what picks the connectors with these labels, given as KEY=VALUE, KEY!=VALUE or KEY; all without any.

        Raises:
            UsageError: A label is invalid.
        """
        selection = build_selection(labels=labels)
        return lambda found: selection.pick(self.read_labels(found)) if labels else tuple(found)

    def get(self, owner: str) -> Connector:
        """Return the connector NAME or CLUSTER/NAME.

        A bare NAME must exist in exactly one Connect cluster, and every Connect cluster must have responded: otherwise
        the connector is ambiguous.
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
        """Read the types of the connectors' plugins. If that fails, all values of a plugin count as secrets."""
        self._clusters.types.read(connectors)

    def _clean(self, connector: Connector) -> Connector:
        self.read_types([connector])
        return self._clusters.types.clean(connector)

    def plugins(self, *, cluster: str | None = None, types: Collection[str] = ()) -> Reading[FleetPlugin]:
        """Return the plugins, and the workers on which each is missing or has another version.

        `types` are source, sink, transformation, predicate, converter and header_converter; all of them by default. If
        a worker is older than Connect 3.2, its Connect cluster has connectors only. A worker that does not respond is
        in `failures`, as `CLUSTER URL`.
        """
        from seamark.connectors.workers import read_fleet_plugins  # noqa: PLC0415

        return read_fleet_plugins(self._clusters, cluster=cluster, types=types)

    def plugin(self, name: str, *, cluster: str | None = None) -> PluginDefinition:
        """Return a plugin with its config keys, by its class, the last part of it, or its alias.

        Raises:
            NotFoundError: No worker has the plugin.
            UsageError: Several plugins or Connect clusters have the name.
            UnsupportedError: A worker is older than Connect 3.2.
        """
        from seamark.connectors.plugins import read_plugin  # noqa: PLC0415

        return read_plugin(self._clusters, name, cluster=cluster)

    def plugin_definitions(self, *, cluster: str | None = None) -> tuple[PluginDefinition, ...]:
        """Return every connector plugin with its config keys.

        Raises:
            UnsupportedError: A worker is older than Connect 3.2.
            UnreachableError: A worker did not respond.
        """
        from seamark.connectors.plugins import read_connector_plugins  # noqa: PLC0415

        return read_connector_plugins(self._clusters, cluster=cluster)

    def create(
        self,
        name: str,
        config: Mapping[str, Any],
        *,
        cluster: str | None = None,
        state: str = "RUNNING",
        offsets_file: Path | None = None,
        fresh: bool = False,
        wait_seconds: float = WAIT_SECONDS,
        delete_on_failure: bool = False,
    ) -> PlannedChange:
        """Plan a new connector. The plan lists existing offsets or groups of that name.

        `offsets_file` is an export: the connector is created stopped, gets its offsets from the file, and runs only
        then. With `fresh` it starts without offsets: those that exist for its name are deleted in the same change.
        A connector that does not run within `wait_seconds` is a failure; without either, it is stopped then, or deleted
        with `delete_on_failure`. With 0 seconds there is no wait.

        Raises:
            AlreadyExistsError: A connector of that name exists.
            UnsupportedError: A worker is older than 3.7, and the state is not RUNNING.
        """
        if fresh and offsets_file is not None:
            raise UsageError("a connector starts from a file of offsets or without offsets, not both", hint="pass one")
        if fresh or offsets_file is not None:
            if delete_on_failure:
                raise UsageError(
                    "a connector whose offsets are written first can't be deleted on failure",
                    hint="create it, then undo the change if the connector doesn't run",
                )
            return self._lifecycle().create(
                name, config, offsets_file, cluster=cluster, state=state, wait_seconds=wait_seconds
            )
        return self._plans().create(
            name, config, cluster=cluster, state=state, wait_seconds=wait_seconds, deletes=delete_on_failure
        )

    def update(
        self, owner: str | Connector, config: Mapping[str, Any], *, wait_seconds: float = WAIT_SECONDS
    ) -> PlannedChange:
        """Plan a complete new config of a connector.

        If the connector ran and does not run within `wait_seconds`, its previous config is restored. With 0 seconds
        there is no wait.
        """
        return self._plans().change(self._resolve(owner), config, wait_seconds=wait_seconds)

    def set(
        self, owner: str | Connector, changes: Mapping[str, Any], *, wait_seconds: float = WAIT_SECONDS
    ) -> PlannedChange:
        """Plan a change of some keys of a connector's config; None removes a key. `wait_seconds` as for `update`."""
        return self._plans().set(self._resolve(owner), changes, wait_seconds=wait_seconds)

    def delete(self, owners: Owners, *, with_offsets: bool = False) -> PlannedChange:
        """Plan to delete connectors. The plan lists what remains.

        `with_offsets` also deletes the source offsets, or the committed offsets of the sinks' groups, in the same
        change. An undo restores both.

        Raises:
            UnsupportedError: With `with_offsets`, a worker is older than 3.5.
            RefusedError: With `with_offsets`, offsets are ambiguous or also belong to other owners.
        """
        if with_offsets:
            return self._lifecycle().delete(self._resolve_all(owners))
        return self._plans().delete(self._resolve_all(owners))

    def rename(self, owner: str | Connector, name: str, *, allow_offset_loss: bool = False) -> PlannedChange:
        """Plan a new name for a connector: create a connector of that name with its config, and delete the old one.

        From Connect 3.7 on its offsets are copied, as they are when it has stopped.

        Raises:
            RefusedError: A worker is older, the offsets would be lost, and `allow_offset_loss` was not given; or its
                offsets can't be determined. The cause has the details.
            AlreadyExistsError: A connector of that name exists.
        """
        return self._lifecycle().rename(self._resolve(owner), name, allow_offset_loss=allow_offset_loss)

    def pause(self, owners: Owners) -> PlannedChange:
        """Plan to pause connectors; their tasks stay assigned."""
        return self._plans().set_state(self._resolve_all(owners), "PAUSED")

    def resume(self, owners: Owners, *, wait_seconds: float = WAIT_SECONDS) -> PlannedChange:
        """Plan to resume connectors.

        One that does not run within `wait_seconds` is paused or stopped again. With 0 seconds there is no wait.
        """
        return self._plans().set_state(self._resolve_all(owners), "RUNNING", wait_seconds=wait_seconds)

    def stop(self, owners: Owners) -> PlannedChange:
        """Plan to stop connectors; their tasks end. Connect supports it from 3.5 on."""
        return self._plans().set_state(self._resolve_all(owners), "STOPPED")

    def restart(
        self,
        owners: Owners,
        *,
        include_running: bool = False,
        task: int | None = None,
        pace: int | None = None,
        wait_seconds: float = WAIT_SECONDS,
    ) -> PlannedChange:
        """Plan to restart failed connectors and tasks; running ones are not changed.

        Args:
            owners: The connectors.
            include_running: Restart each connector and all its tasks. Paused and stopped connectors are not changed.
            task: Restart this task of each connector.
            pace: How many connectors restart at once; the next begins when one of them runs, and the first that does
                not run stops the rest. By default 1 with `include_running` or `task`, and no limit otherwise.
            wait_seconds: How long to wait until connector and tasks run; 0 for no wait.
        """
        return self._plans().restart(
            self._resolve_all(owners), include_running=include_running, task=task, pace=pace, wait_seconds=wait_seconds
        )

    def _resolve(self, owner: str | Connector) -> Connector:
        return owner if isinstance(owner, Connector) else self.get(owner)

    def _resolve_all(self, owners: Owners) -> tuple[Connector, ...]:
        given = [owners] if isinstance(owners, str | Connector) else list(owners)
        found = [self._resolve(owner) for owner in given]
        return tuple({connector.owner: connector for connector in found}.values())

    def split_owner(self, owner: str) -> tuple[str | None, str]:
        """Split an owner into Connect cluster and name. A name may have a slash: only known Connect clusters count."""
        ref = parse_owner(owner)
        if ref.name and ref.cluster in self._clusters.names:
            return ref.cluster, ref.name
        if not owner:
            raise UsageError("no connector is given", hint="pass NAME or CLUSTER/NAME")
        return None, owner


def _ambiguous(name: str, found: tuple[Connector, ...]) -> UsageError:
    owners = [connector.owner for connector in found]
    return UsageError(
        f"connector {name} exists in {len(found)} Connect clusters",
        cause=", ".join(owners),
        hint=f"name the Connect cluster, as in {owners[0]}",
        context={"connector": name},
    )


def _undecided(name: str, found: tuple[Connector, ...], failures: Mapping[str, SeamarkError]) -> SeamarkError:
    if len(failures) == 1 and not found:
        # With one Connect cluster, the plain cause is the most useful error.
        (error,) = failures.values()
        return error
    silent = ", ".join(failures)
    example = found[0].owner if found else f"CLUSTER/{name}"
    return PartialError(
        f"can't determine which {name} is meant: {silent} did not respond",
        failures=failures,
        hint=f"name the Connect cluster, as in {example}",
        context={"connector": name},
    )


def _absent(name: str, clusters: tuple[str, ...]) -> NotFoundError:
    where = ", ".join(clusters) or "none (the context has none)"
    return NotFoundError(
        f"connector {name} does not exist",
        cause=f"Connect clusters searched: {where}",
        hint="list the connectors: seamark connectors list",
        context={"connector": name},
    )
