"""Who takes part in a cut-over: sinks, sources and groups, each with what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.connect.switching import switch_sink, switch_source
from seamark.copies.cutover.action import CutoverGroup
from seamark.copies.cutover.undo import CutoverConnector
from seamark.copies.plan.readers import CopyReader, CopyUsers, ReaderKind
from seamark.core.refs import parse_owner
from seamark.errors import RefusedError
from seamark.offsets.write.guards import require_run_state
from seamark.topics.report import Use

if TYPE_CHECKING:
    from seamark.changes.world import World
    from seamark.connect.clusters import Clusters
    from seamark.connect.connector import Connector

ISOLATION, COMMITTED = "consumer.override.isolation.level", "read_committed"
_CONNECTOR = "connector/"
_ELSEWHERE = ("consumer.override.bootstrap.servers", "producer.override.bootstrap.servers")


@dataclass(frozen=True, slots=True)
class ConnectorRole:
    """A connector that takes part, as it is now and as the plan switches it."""

    connector: Connector
    planned: CutoverConnector

    @property
    def config(self) -> Mapping[str, str | None]:
        """Its config after the switch; None where a key is removed."""
        return {**self.connector.config, **self.planned.values}


@dataclass(frozen=True, slots=True)
class CutoverOptions:
    """The options of a cutover.

    `leave` are groups that stay with the source. `sources` are connectors that write to it, though nothing tells so.
    With `read_committed` sinks are told to read committed records only, so that debris is nothing to them;
    `accept_debris` takes the repeats. With `in_place` the source is made anew under its own name from the target.
    """

    missing: str = ""
    level: str = "standard"
    leave: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    read_committed: bool = False
    accept_debris: bool = False
    accept_zombies: bool = False
    in_place: bool = False


class CutoverParticipants:
    """Finds who takes part in the cut-over from one topic to another."""

    def __init__(
        self, source: str, target: str, *, options: CutoverOptions, clusters: Clusters, world: World, users: CopyUsers
    ) -> None:
        self._source = source
        self._target = target
        self._options = options
        self._clusters = clusters
        self._world = world
        self._users = users

    def list_sinks(self) -> tuple[ConnectorRole, ...]:
        """The sinks that read the source. Sinks of one group are named together."""
        readers = [reader for reader in self._users.readers if reader.kind is ReaderKind.SINK]
        names = dict.fromkeys(name for reader in readers for name in reader.name.split(", "))
        return tuple(self._build_sink(name) for name in names)

    def list_sources(self) -> tuple[ConnectorRole, ...]:
        """The sources that write to it: those of which it is known, and those that were named."""
        known = [user.subject for user in self._users.writers if user.use is Use.WRITES]
        names = [one.removeprefix(_CONNECTOR) for one in known if one.startswith(_CONNECTOR)]
        return tuple(self._build_source(name) for name in dict.fromkeys((*names, *self._options.sources)))

    def list_groups(self, sinks: Sequence[ConnectorRole]) -> tuple[CutoverGroup, ...]:
        """Every group that is carried over.

        Raises:
            RefusedError: somebody is in one that is no sink's.
        """
        chosen = [reader for reader in self._users.readers if reader.group and reader.group not in self._options.leave]
        self._refuse_active(chosen)
        by_name = {role.connector.owner: role for role in sinks}
        return tuple(
            CutoverGroup(reader.group, sees_debris=self._sees_debris(reader, by_name))
            for reader in {reader.group: reader for reader in chosen}.values()
        )

    def list_notes(self) -> tuple[str, ...]:
        """What is not done for anybody, by name."""
        notes = [f"{group} stays with {self._source}: it is left as it is" for group in self._options.leave]
        named = {f"{_CONNECTOR}{name}" for name in self._options.sources}
        for user in self._users.writers:
            if user.use is Use.MAY_WRITE and user.subject not in named:
                name = user.subject.removeprefix(_CONNECTOR)
                notes.append(f"{user.subject} may write to {self._source}; if it does: --source {name}")
        return tuple(notes)

    def _build_sink(self, name: str) -> ConnectorRole:
        connector = self._read(name)
        if self._options.in_place:
            return self._build(connector, {})
        values = dict(switch_sink(connector.owner, connector.config, source=self._source, target=self._target))
        if self._options.read_committed and connector.config.get(ISOLATION) != COMMITTED:
            values[ISOLATION] = COMMITTED
        return self._build(connector, values)

    def _build_source(self, name: str) -> ConnectorRole:
        connector = self._read(name)
        if self._options.in_place:
            return self._build(connector, {})
        return self._build(connector, switch_source(connector.config, source=self._source, target=self._target))

    def _build(self, connector: Connector, values: Mapping[str, str | None]) -> ConnectorRole:
        if elsewhere := [key for key in _ELSEWHERE if connector.config.get(key)]:
            raise RefusedError(
                f"{connector.owner} uses another Kafka cluster than this copy, and can't be turned over",
                cause=f"its config has {', '.join(elsewhere)}",
                hint="stop it and turn it yourself; or copy the topic where it is",
            )
        state = require_run_state(connector, self._world)
        return ConnectorRole(connector, CutoverConnector(connector.cluster, connector.name, state, values))

    def _read(self, name: str) -> Connector:
        ref = parse_owner(name)
        cluster = ref.cluster
        if not cluster:
            (cluster,) = self._clusters.names
        return self._clusters.client(cluster).read_connector(ref.name)

    def _refuse_active(self, readers: Sequence[CopyReader]) -> None:
        busy = [reader for reader in readers if reader.kind is ReaderKind.GROUP and reader.is_active]
        if busy:
            raise RefusedError(
                f"somebody reads {self._source} that seamark can't stop; nothing was changed",
                cause=", ".join(f"group {reader.group} is {reader.state}" for reader in busy),
                hint=f"stop its members, or leave it with the source: --leave {busy[0].group}",
            )

    def _sees_debris(self, reader: CopyReader, sinks: Mapping[str, ConnectorRole]) -> bool:
        # A landing reads committed records only.
        if self._options.accept_debris or reader.kind is ReaderKind.LANDING:
            return False
        own = [sinks[name] for name in reader.name.split(", ") if name in sinks]
        if not own:
            # Nobody can tell how a consumer reads; most read all.
            return True
        return any(role.config.get(ISOLATION) != COMMITTED for role in own)
