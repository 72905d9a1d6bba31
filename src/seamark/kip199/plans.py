"""Plans of `connect-offsets --import`: write pairs to the topic or file of a worker while they aren't in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.changes.plan import PlannedChange
from seamark.connect.api import WORKER_URLS
from seamark.connect.model import Connector, State
from seamark.core.offsets import Offset, spell_identity
from seamark.core.refs import ConnectorType
from seamark.errors import RefusedError, SeamarkError, UnsupportedError
from seamark.kafka.model import HeldRecord
from seamark.kip199.action import ImportOffsets, PairChange, Target, WriteOffsetsFile, build_notes, build_targets
from seamark.kip199.steps import StandaloneFile
from seamark.offsets.codec.java_map import JavaMap, change_file, read_java_map
from seamark.offsets.port import OFFSETS
from seamark.offsets.stores.file import build_file_reading
from seamark.offsets.stores.topic import build_home
from seamark.offsets.write.plans import merge, plan_write
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.changes.action import Action
    from seamark.changes.environment import Environment
    from seamark.connect.api import ConnectPort
    from seamark.context import ConnectSettings
    from seamark.offsets.port import OffsetDependencies
    from seamark.offsets.stores.topic import Home, TopicStore


# The worker group is read twice, because a worker that restarts leaves it briefly.
_BETWEEN_SECONDS = 1.0
# Each worker reads the status topic on its own, so one still lists the tasks of a stopped connector when another no
# longer does (seen under load with two workers of 4.3.1).
_STOPPING_READS = 10


@dataclass(frozen=True, slots=True)
class Survey:
    """The existing connectors, which are changed through Connect; no worker runs the others.

    `refusal` names the connectors in use, or the reason why that can't be determined.
    """

    there: tuple[Connector, ...] = ()
    refusal: SeamarkError | None = None


class TopicImport:
    """Reads the workers and their offsets topic."""

    def __init__(
        self,
        settings: ConnectSettings,
        *,
        client: ConnectPort,
        world: Environment,
        store: TopicStore,
    ) -> None:
        self._settings = settings
        self._client = client
        self._world = world
        self._store = store

    def read_survey(self, names: Mapping[str, object]) -> Survey:
        """Check whether every named connector is stopped or absent, or all workers are down."""
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
        """Read a connector; wait for one that is stopping."""
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
        """Return what changes, the action for connectors that no worker runs, and notes."""
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
        """Return what an import changes for existing connectors, whose tasks may use their own offsets topic."""
        pairs = []
        for name, offsets in wanted.items():
            held = self._world.use(OFFSETS)(self._settings.name, name).read([one.partition for one in offsets])
            pairs += [
                PairChange(name, one.partition, found.offset, one.offset)
                for one, found in zip(offsets, held, strict=True)
            ]
        return pairs

    def _are_down(self) -> bool:
        """Return whether the worker group is empty in two reads."""
        if self._world.use(WORKER_URLS)(self._settings.name):
            return False
        self._world.clock.sleep(_BETWEEN_SECONDS)
        return not self._world.use(WORKER_URLS)(self._settings.name)

    def _build_hidden(self, error: SeamarkError) -> RefusedError:
        return RefusedError(
            "workers are running, and seamark can't determine whether these connectors are stopped; "
            "no changes were made",
            cause=f"the group {self._settings.group_id} has members; {error.message}",
            hint=f"make {', '.join(self._settings.urls)} reachable from this machine, or stop all workers",
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
            f"can't determine the topic partition of {target.pair.connector} {spell_identity(target.pair.partition)}; "
            "no changes were made",
            cause="the workers use a custom partitioner",
            hint="run the connector until a worker has stored an offset, or use "
            "seamark connectors create --offsets-file",
        )
    return found


def find_reason(connector: Connector) -> str:
    """Return why the offsets of an existing connector can't be imported; "" if they can."""
    if connector.type is ConnectorType.SINK:
        return f"{connector.name} is a sink: use seamark offsets import"
    status = connector.status
    if status is None:
        return f"{connector.name} has no status"
    if status.state is State.STOPPED and not status.tasks:
        return ""
    tasks = len(status.tasks)
    return f"{connector.name} is {status.state} with {tasks} task{'' if tasks == 1 else 's'}"


def _build_refusal(wrong: Sequence[str]) -> RefusedError:
    return RefusedError(
        "these connectors must be stopped or not exist, or all workers must be down; no changes were made",
        cause="; ".join(wrong),
        hint="stop them (seamark connectors stop, Connect 3.5 and later), or stop all workers",
    )


_NO_FILE = JavaMap((), 0)


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import would do. If it isn't possible now, `refusal` is the reason, and the plan is empty."""

    planned: PlannedChange
    pairs: tuple[PairChange, ...]
    notes: tuple[str, ...] = ()
    refusal: SeamarkError | None = None


@dataclass(frozen=True, slots=True)
class Imports:
    """Plans imports into the one worker of a context. Makes no changes."""

    deps: OffsetDependencies

    def plan(self, wanted: Mapping[str, Sequence[Offset]]) -> ImportPlan:
        """Plan to set these partitions to these offsets; None deletes one. Other partitions stay unchanged."""
        (name,) = self.deps.clusters.names
        settings = self.deps.clusters.settings(name)
        title = f"import offsets of {render_count(len(wanted), 'connector')} into {name}"
        if not wanted:
            return ImportPlan(self._plan(title), ())
        if settings.offsets_file is not None:
            return self._plan_file(settings, wanted, title)
        return self._plan_topic(settings, wanted, title)

    def _plan_file(self, settings: ConnectSettings, wanted: Mapping[str, Sequence[Offset]], title: str) -> ImportPlan:
        port = StandaloneFile(settings)
        content, path = port.read(), str(port.path)
        java_map = _NO_FILE if content is None else read_java_map(content, name=path)
        pairs, targets = build_targets(build_file_reading(java_map, store=f"file {path}", owners=wanted), wanted)
        try:
            port.refuse_held()
        except RefusedError as refusal:
            live = self._plan_live(settings, wanted, title) if port.is_answering() else None
            return ImportPlan(live or self._plan(title), tuple(pairs), refusal=None if live else refusal)
        changed = change_file(content, {key: one.value for one in targets for _, key in one.keys}, name=path)
        actions = [WriteOffsetsFile(settings.name, path, changed)] if targets else []
        return ImportPlan(self._plan(title, actions), tuple(pairs), tuple(build_notes(targets)))

    def _plan_live(
        self, settings: ConnectSettings, wanted: Mapping[str, Sequence[Offset]], title: str
    ) -> PlannedChange | None:
        """Plan the import through the REST API of a running standalone worker.

        Returns None unless all named connectors exist and are stopped.
        """
        try:
            known = {one.name: one for one in self.deps.clusters.client(settings.name).read_connectors()}
            if any(name not in known or find_reason(known[name]) for name in wanted):
                return None
            planned = [plan_write(self.deps, known[name], wanted[name], title=title) for name in wanted]
        except SeamarkError:
            # In any case, the error reports which worker uses the file.
            return None
        return merge(title, planned)

    def _plan_topic(self, settings: ConnectSettings, wanted: Mapping[str, Sequence[Offset]], title: str) -> ImportPlan:
        topic = TopicImport(
            settings,
            client=self.deps.clusters.client(settings.name),
            world=self.deps.world,
            store=self.deps.world.stores.find_topic(settings.name),
        )
        survey = topic.read_survey(wanted)
        there = {connector.name for connector in survey.there}
        idle = {name: offsets for name, offsets in wanted.items() if name not in there}
        pairs, action, notes = topic.build_action(idle)
        pairs += topic.build_other_pairs({name: wanted[name] for name in there})
        names = list(wanted)
        pairs.sort(key=lambda one: names.index(one.connector))
        if survey.refusal is not None:
            return ImportPlan(self._plan(title), tuple(pairs), tuple(notes), survey.refusal)
        try:
            planned = [self._plan(title, [action])] if action is not None else []
            planned += [
                plan_write(self.deps, connector, wanted[connector.name], title=title) for connector in survey.there
            ]
        except UnsupportedError as refusal:
            refusal.hint = "delete these connectors first, which keeps their offsets, or stop all workers"
            return ImportPlan(self._plan(title), tuple(pairs), tuple(notes), refusal)
        except RefusedError as refusal:
            return ImportPlan(self._plan(title), tuple(pairs), tuple(notes), refusal)
        parts = [one for one in planned if not one.is_empty] or [self._plan(title)]
        return ImportPlan(merge(title, parts), tuple(pairs), tuple(notes))

    def _plan(self, title: str, actions: Sequence[Action] = ()) -> PlannedChange:
        return self.deps.planner.plan(title, actions, reads=self.deps.planner.build_reads(self.deps.world))
