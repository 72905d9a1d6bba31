"""Build the plans for changes of connectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from seamark.changes.action import Action
from seamark.changes.images import find_typed, reveal_config, split_secrets
from seamark.changes.plan import PlannedChange
from seamark.changes.planner import Planner
from seamark.connect.api import ConnectPort
from seamark.connect.capability import Capability
from seamark.connect.clusters import Clusters
from seamark.connect.config import OWN_OFFSETS_TOPIC
from seamark.connect.model import Connector
from seamark.connect.plugins import find_type
from seamark.connectors.actions import (
    RESTART_STABLE_SECONDS,
    STABLE_SECONDS,
    ApplyConnector,
    OnFailure,
    RestartConnector,
    SetConnectorState,
    find_stable_seconds,
)
from seamark.connectors.config import build_config
from seamark.connectors.policy import refuse_name, refuse_violations
from seamark.connectors.run_state import SetRunState
from seamark.connectors.steps import DeleteConnector
from seamark.core.readings import Reading
from seamark.core.refs import ConnectorType
from seamark.errors import AlreadyExistsError, NotFoundError, RefusedError, UsageError
from seamark.kafka.groups import GroupStatus

if TYPE_CHECKING:
    from seamark.context import ConnectSettings, Context


def build_topic_note(connector: Connector, config: Mapping[str, str]) -> tuple[str, ...]:
    """Return a note if a source's config names another offsets topic: Connect does not move its offsets."""
    before, after = connector.config.get(OWN_OFFSETS_TOPIC), config.get(OWN_OFFSETS_TOPIC)
    if before == after or connector.type is ConnectorType.SINK:
        return ()
    where = f"--topic {after}" if after else "--worker-topic"
    words = f"another {OWN_OFFSETS_TOPIC}: it resumes from its offsets there, or starts from the beginning"
    return (f"{connector.name}: {words}. To copy its offsets: seamark offsets relocate {connector.owner} {where}",)


def _cut_name(connector: Connector) -> dict[str, str]:
    return {key: value for key, value in connector.config.items() if key != "name"}


def _build_rename_hint(connector: Connector, name: object) -> str:
    return f"rename the connector: seamark connectors rename {connector.owner} {name or 'NEW'}"


STATES = ("RUNNING", "PAUSED", "STOPPED")
_VERBS = {"RUNNING": "resume", "PAUSED": "pause", "STOPPED": "stop"}


class LeftoverReader(Protocol):
    """Reads what connectors leave behind, and what already exists under the name of a new one."""

    def before_create(
        self, name: str, config: Mapping[str, str], *, kind: ConnectorType, settings: ConnectSettings
    ) -> tuple[str, ...]:
        """Return notes on the offsets and the group that already exist under that name."""
        ...

    def after_delete(self, connector: Connector, *, client: ConnectPort, settings: ConnectSettings) -> tuple[str, ...]:
        """Return notes on what a deleted connector leaves behind."""
        ...

    def describe_starts(self, connectors: Sequence[Connector]) -> Mapping[str, str]:
        """Return, by owner, where new source connectors start."""
        ...

    def read_groups(self, names: Sequence[str]) -> Reading[GroupStatus]:
        """Return the states of consumer groups."""
        ...


class ConnectorPlans:
    """Builds the plans. It reads, and changes nothing."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        planner: Planner,
        leftovers: LeftoverReader,
    ) -> None:
        self._context = context
        self._clusters = clusters
        self.planner = planner
        self.leftovers = leftovers

    def create(
        self,
        name: str,
        given: Mapping[str, Any],
        *,
        cluster: str | None,
        state: str,
        wait_seconds: float = 0.0,
        deletes: bool = False,
    ) -> PlannedChange:
        """Plan a new connector. If it does not run within `wait_seconds`, it is stopped; with `deletes`, deleted."""
        if deletes and (not wait_seconds or state.upper() != "RUNNING"):
            raise UsageError(
                f"{name} can't be deleted on failure, because seamark does not wait until it runs",
                hint="create it as RUNNING and with a wait",
            )
        where = self.choose_cluster(cluster)
        config = build_config(name, given)
        refuse_violations([(name, where, config)], self._context)
        if "connector.class" not in config:
            raise UsageError(f"the config of {name} has no connector.class", hint="set it to the plugin's class")
        if state.upper() not in STATES:
            raise UsageError(f"invalid initial state {state}", hint=f"use one of {', '.join(STATES)}")
        client, settings = self._clusters.client(where), self._clusters.settings(where)
        if state.upper() != "RUNNING":
            doing = f"create connector {name} as {state.upper()}"
            client.read_capabilities().require(Capability.INITIAL_STATE, doing=doing)
        self.refuse_present(where, name)
        kind = find_type(client.read_plugins(), config["connector.class"])
        return self.planner.plan(
            f"create {name}",
            [
                ApplyConnector(
                    where,
                    name,
                    config,
                    state=state.upper(),
                    wait_seconds=wait_seconds,
                    stable_seconds=self._find_stable_seconds(),
                    on_failure=self._choose_end(where, deletes=deletes),
                )
            ],
            notes=(
                *self.leftovers.before_create(name, config, kind=kind, settings=settings),
                *self._build_twin_notes(name, where, config),
            ),
        )

    def _build_twin_notes(self, name: str, cluster: str, config: Mapping[str, str]) -> tuple[str, ...]:
        """Return a note if another connector has the same config: probably it should be renamed."""
        wanted = reveal_config(config, self.planner.world)
        twins = [one for one in self._clusters.client(cluster).read_connectors() if _cut_name(one) == wanted]
        return tuple(
            f"{one.owner} has the same config and would do the same work; to rename it instead: "
            f"seamark connectors rename {one.owner} {name}"
            for one in twins[:1]
        )

    def change(self, connector: Connector, given: Mapping[str, Any], *, wait_seconds: float = 0.0) -> PlannedChange:
        """Plan a complete new config."""
        named = given.get("name", connector.name)
        if named != connector.name and build_config(named, given, present=connector.config) == _cut_name(connector):
            raise UsageError(
                f"the config differs from that of {connector.owner} only in its name, {named}",
                cause="Connect can't change the name of a connector",
                hint=_build_rename_hint(connector, named),
            )
        config = build_config(connector.name, given, present=connector.config)
        return self._put(connector, config, wait_seconds=wait_seconds)

    def set(self, connector: Connector, changes: Mapping[str, Any], *, wait_seconds: float = 0.0) -> PlannedChange:
        """Plan changes of some keys; None removes a key."""
        if "name" in changes:
            raise UsageError(
                "the key name of a config can't be changed", hint=_build_rename_hint(connector, changes["name"])
            )
        removed = [key for key, value in changes.items() if value is None]
        given = {key: value for key, value in changes.items() if value is not None}
        missing = sorted(key for key in removed if key not in connector.config)
        if missing:
            raise UsageError(
                f"{connector.name} has no {', '.join(missing)}", hint="show its config: seamark connectors show NAME"
            )
        present = {key: value for key, value in connector.config.items() if key not in removed and key != "name"}
        new = build_config(connector.name, {"connector.class": connector.plugin} | given, present=connector.config)
        return self._put(connector, present | new, wait_seconds=wait_seconds)

    def delete(self, connectors: Sequence[Connector]) -> PlannedChange:
        """Plan to delete connectors, with notes on what remains."""
        notes = [note for connector in connectors for note in self._build_delete_notes(connector)]
        steps = [DeleteConnector(connector.cluster, connector.name) for connector in connectors]
        return self._build("delete", connectors, steps, notes=notes)

    def read_leftovers(self, cluster: str, name: str) -> tuple[str, ...]:
        """Return notes on what remains when a connector is deleted; none if it does not exist."""
        try:
            return self._build_delete_notes(self._clusters.client(cluster).read_connector(name))
        except NotFoundError:
            return ()

    def set_state(self, connectors: Sequence[Connector], state: str, *, wait_seconds: float = 0.0) -> PlannedChange:
        """Plan to run, pause or stop connectors. Those that don't run within `wait_seconds` get their state back."""
        if state == "STOPPED":
            self._require(connectors, Capability.STOP, verb="stop")
        for connector in connectors:
            if connector.status is None:
                raise RefusedError(
                    f"Connect has no status of {connector.owner} yet",
                    cause="it was created just now, or its status was lost",
                    hint="check it again: seamark connectors show NAME",
                )
        stable = self._find_stable_seconds()
        actions: list[Action] = [
            SetConnectorState(found.cluster, found.name, state, wait_seconds, stable)
            if state == "RUNNING"
            else SetRunState(found.cluster, found.name, state)
            for found in connectors
        ]
        return self._build(_VERBS[state], connectors, actions)

    def restart(
        self,
        connectors: Sequence[Connector],
        *,
        include_running: bool = False,
        task: int | None = None,
        pace: int | None = None,
        wait_seconds: float = 0.0,
    ) -> PlannedChange:
        """Plan to restart failed connectors and tasks, all of them, or one task."""
        if include_running and task is not None:
            raise UsageError("a restart is of all tasks or of one", hint="choose one of the two")
        is_rolling = bool(wait_seconds) and (include_running or task is not None)
        most = (1 if is_rolling else 0) if pace is None else pace
        if pace is not None and (pace < 1 or not wait_seconds):
            raise UsageError("a pace needs a wait, and at least 1 connector at once", hint="set both")
        verb = "restart the failed tasks of"
        if include_running or task is not None:
            verb = "restart" if task is None else f"restart task {task} of"
        if task is None:
            self._require(connectors, Capability.RESTART_TASKS, verb=verb)
        stable = self._find_stable_seconds(RESTART_STABLE_SECONDS if include_running else STABLE_SECONDS)
        actions = [
            RestartConnector(found.cluster, found.name, not include_running, task, most, wait_seconds, stable)
            for found in connectors
        ]
        notes = [f"at most {most} at once; the first that does not run stops the rest"] if most else []
        return self._build(verb, connectors, actions, notes=notes if len(connectors) > 1 else [])

    def _find_stable_seconds(self, usual: float = STABLE_SECONDS) -> float:
        return find_stable_seconds(self._context.journal.in_flight_seconds, usual=usual)

    def _choose_end(self, cluster: str, *, deletes: bool) -> OnFailure:
        if deletes:
            return OnFailure.DELETE
        can_stop = self._clusters.client(cluster).read_capabilities().has(Capability.STOP)
        return OnFailure.STOP if can_stop else OnFailure.PAUSE

    def _put(self, connector: Connector, config: Mapping[str, str], *, wait_seconds: float) -> PlannedChange:
        present = {key: value for key, value in connector.config.items() if key != "name"}
        name, cluster = connector.name, connector.cluster
        refuse_violations([(name, cluster, config)], self._context, present={(cluster, name): present})
        shown, kept = split_secrets(config, present, find_typed(self.planner.world, cluster, present, config))
        action = ApplyConnector(
            connector.cluster,
            connector.name,
            shown,
            keep=kept,
            wait_seconds=wait_seconds,
            stable_seconds=self._find_stable_seconds(),
        )
        prepared = self.planner.prepare([action])
        ((seen, why),) = ((one.seen, action.find_obstacle(one.seen)) for one in (*prepared.items, *prepared.met))
        notes = (*build_topic_note(connector, config), *([f"can't be undone: {why}"] if why else []))
        return self._build("change the config of", [connector], [action], notes=notes, known={0: seen})

    def _build(
        self,
        verb: str,
        connectors: Sequence[Connector],
        steps: Sequence[Action],
        *,
        notes: Iterable[str] = (),
        known: Mapping[int, Any] | None = None,
    ) -> PlannedChange:
        if not connectors:
            raise UsageError(f"nothing to {verb}: no connector is given", hint="pass NAME or CLUSTER/NAME")
        named = connectors[0].name if len(connectors) == 1 else f"{len(connectors)} connectors"
        return self.planner.plan(f"{verb} {named}", steps, notes=notes, known=known)

    def _build_delete_notes(self, connector: Connector) -> tuple[str, ...]:
        client, settings = self._clusters.client(connector.cluster), self._clusters.settings(connector.cluster)
        left = self.leftovers.after_delete(connector, client=client, settings=settings)
        return (*left, *self.build_state_note(connector))

    def build_state_note(self, connector: Connector) -> tuple[str, ...]:
        """Return a note if the workers are too old for an undo, which recreates the connector in its previous state."""
        state = connector.status.state.value if connector.status else "RUNNING"
        capabilities = self._clusters.client(connector.cluster).read_capabilities()
        if state not in ("PAUSED", "STOPPED") or capabilities.has(Capability.INITIAL_STATE):
            return ()
        why = f"that needs Connect 3.7, and a worker runs {capabilities.words}"
        return (f"{connector.name}: an undo can't recreate it as {state}: {why}",)

    def _require(self, connectors: Sequence[Connector], capability: Capability, *, verb: str) -> None:
        for cluster, name in {connector.cluster: connector.name for connector in connectors}.items():
            capabilities = self._clusters.client(cluster).read_capabilities()
            capabilities.require(capability, doing=f"{verb} connector {name}")

    def refuse_present(self, cluster: str, name: str) -> None:
        """Raise if the Connect cluster already has a connector of that name."""
        refuse_name(name, cluster, self._context)
        try:
            self._clusters.client(cluster).read_config(name)
        except NotFoundError:
            return
        raise AlreadyExistsError(
            f"connector {name} already exists",
            cause=f"it is in Connect cluster {cluster}",
            hint=f"choose another name, or update it: seamark connectors update {cluster}/{name} -f FILE",
            context={"cluster": cluster, "connector": name},
        )

    def choose_cluster(self, cluster: str | None) -> str:
        """Return the Connect cluster of that name; without a name, the only one."""
        if cluster is not None:
            return self._clusters.settings(cluster).name
        if len(self._clusters.names) == 1:
            return self._clusters.names[0]
        if not self._clusters.names:
            raise self._context.missing("connect.CLUSTER.urls")
        raise UsageError(
            f"context {self._context.name} has {len(self._clusters.names)} Connect clusters",
            cause=", ".join(self._clusters.names),
            hint="choose one: --cluster NAME",
        )
