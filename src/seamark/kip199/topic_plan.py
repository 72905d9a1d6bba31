"""An import into the topic of distributed workers: who uses these offsets now, and how each is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.connect.connector import Connector, State
from seamark.connect.ports import WORKER_URLS
from seamark.core.offset import Offset, spell_identity
from seamark.core.refs import ConnectorType
from seamark.errors import RefusedError, SeamarkError
from seamark.kafka.records_held import HeldRecord
from seamark.kip199.actions import ImportOffsets
from seamark.kip199.targets import PairChange, Target, build_notes, build_targets
from seamark.offsets.port import OFFSETS
from seamark.offsets.stores.grouping import build_home

if TYPE_CHECKING:
    from seamark.changes.world import World
    from seamark.connect.api import ConnectPort
    from seamark.context import ConnectSettings
    from seamark.offsets.stores.grouping import Home
    from seamark.offsets.stores.topic_store import TopicStore

# The worker group is looked at twice: a worker that restarts is out of it for a moment.
_BETWEEN_SECONDS = 1.0
# Each worker reads the status topic on its own, so one still lists the tasks of a stopped connector when
# another no longer does (seen under load with two workers of 4.3.1).
_STOPPING_READS = 10


@dataclass(frozen=True, slots=True)
class Survey:
    """The connectors that are there, to be changed through Connect; no worker runs the others.

    `refusal` says which of them are in use, or why nobody can tell.
    """

    there: tuple[Connector, ...] = ()
    refusal: SeamarkError | None = None


class TopicImport:
    """Looks at the workers and at their topic."""

    def __init__(
        self,
        settings: ConnectSettings,
        *,
        client: ConnectPort,
        world: World,
        store: TopicStore,
    ) -> None:
        self._settings = settings
        self._client = client
        self._world = world
        self._store = store

    def read_survey(self, names: Mapping[str, object]) -> Survey:
        """Whether every named connector is stopped or absent, or all workers are down."""
        if self._are_down():
            return Survey()
        try:
            known = {one.name: one for one in self._client.read_connectors()}
            known |= {name: self._read_settled(name) for name in self._client.read_names() if name in names}
        except SeamarkError as error:
            return Survey(refusal=self._build_hidden(error))
        there = [known[name] for name in names if name in known]
        wrong = [why for one in there if (why := find_reason(one))]
        refusal = _build_refusal(wrong) if wrong else None
        return Survey(tuple(there), refusal)

    def _read_settled(self, name: str) -> Connector:
        """Read a connector; one that is stopping is given time to stop."""
        connector = self._client.read_connector(name)
        for _ in range(_STOPPING_READS):
            status = connector.status
            if status is None or status.state is not State.STOPPED or not status.tasks:
                break
            self._world.clock.sleep(_BETWEEN_SECONDS)
            connector = self._client.read_connector(name)
        return connector

    def build_action(
        self, wanted: Mapping[str, Sequence[Offset]]
    ) -> tuple[list[PairChange], ImportOffsets | None, list[str]]:
        """Return what changes, the action for connectors that no worker runs, and what is to be said."""
        if not wanted:
            return [], None, []
        reading = self._store.read(wanted)
        home = build_home(reading.partitions)
        pairs, targets = build_targets(reading, wanted)
        if not targets:
            return pairs, None, []
        owners = tuple(dict.fromkeys(one.pair.connector for one in targets))
        topic = reading.store.removeprefix("topic ")
        records = tuple(record for one in targets for record in _build_records(one, topic, home))
        return pairs, ImportOffsets(self._settings.name, owners, records, may_be_down=True), build_notes(targets)

    def build_other_pairs(self, wanted: Mapping[str, Sequence[Offset]]) -> list[PairChange]:
        """What an import means for connectors that are there: their tasks may read another topic than the workers'."""
        pairs = []
        for name, offsets in wanted.items():
            held = self._world.use(OFFSETS)(self._settings.name, name).read([one.partition for one in offsets])
            pairs += [
                PairChange(name, one.partition, found.offset, one.offset)
                for one, found in zip(offsets, held, strict=True)
            ]
        return pairs

    def _are_down(self) -> bool:
        """Whether nobody is in the worker group, on two looks."""
        if self._world.use(WORKER_URLS)(self._settings.name):
            return False
        self._world.clock.sleep(_BETWEEN_SECONDS)
        return not self._world.use(WORKER_URLS)(self._settings.name)

    def _build_hidden(self, error: SeamarkError) -> RefusedError:
        return RefusedError(
            "workers are up, and nobody can tell whether these connectors are stopped; nothing was changed",
            cause=f"the group {self._settings.group_id} has members; {error.message}",
            hint=f"let {', '.join(self._settings.urls)} be reached from here, or stop all workers",
        )


def _build_records(target: Target, topic: str, home: Home) -> list[HeldRecord]:
    return [
        HeldRecord(topic, _find_home(key, target, home) if where is None else where, key, target.value)
        for where, key in target.keys
    ]


def _find_home(key: bytes, target: Target, home: Home) -> int:
    found = home(key)
    if found is None:
        raise RefusedError(
            f"nobody can tell where {target.pair.connector} {spell_identity(target.pair.partition)} belongs in the "
            "topic; nothing was changed",
            cause="the workers have a partitioner of their own",
            hint="let a worker write it first, or create the connector: seamark connectors create --offsets",
        )
    return found


def find_reason(connector: Connector) -> str:
    """Why the offsets of a connector that is there can't be imported; "" where they can."""
    if connector.type is ConnectorType.SINK:
        return f"{connector.name} is a sink: seamark offsets import"
    status = connector.status
    if status is None:
        return f"{connector.name} has no status"
    if status.state is State.STOPPED and not status.tasks:
        return ""
    tasks = len(status.tasks)
    return f"{connector.name} is {status.state} with {tasks} task{'' if tasks == 1 else 's'}"


def _build_refusal(wrong: Sequence[str]) -> RefusedError:
    return RefusedError(
        "these connectors must be stopped or absent, or all workers down; nothing was changed",
        cause="; ".join(wrong),
        hint="stop them (seamark connectors stop, Connect 3.5 and later), or stop all workers",
    )
