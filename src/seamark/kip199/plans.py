"""Plans of `connect-offsets --import`: pairs into the topic or the file of a worker, where nobody uses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.changes.planned import Planned
from seamark.core.offset import Offset
from seamark.errors import RefusedError, SeamarkError, UnsupportedError
from seamark.kip199.actions import WriteOffsetsFile
from seamark.kip199.standalone_file import StandaloneFile
from seamark.kip199.targets import PairChange, build_notes, build_targets
from seamark.kip199.topic_plan import TopicImport, find_reason
from seamark.offsets.codec.file_change import change_file
from seamark.offsets.codec.javamap import JavaMap, read_java_map
from seamark.offsets.stores.file_store import build_file_reading
from seamark.offsets.write.plans import merge, plan_write
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.changes.action import Action
    from seamark.context import ConnectSettings
    from seamark.offsets.port import OffsetDependencies

_NO_FILE = JavaMap((), 0)


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import would do. Where it may not be done now, `refusal` says why, and there is no plan."""

    planned: Planned
    pairs: tuple[PairChange, ...]
    notes: tuple[str, ...] = ()
    refusal: SeamarkError | None = None


@dataclass(frozen=True, slots=True)
class Imports:
    """Plans imports into the one worker of a context. Nothing is changed here."""

    deps: OffsetDependencies

    def plan(self, wanted: Mapping[str, Sequence[Offset]]) -> ImportPlan:
        """Give these partitions these offsets; None takes one away. What is not named stays as it is."""
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
    ) -> Planned | None:
        """Through the REST API of a standalone worker that is up, where all named connectors are there and stopped."""
        try:
            known = {one.name: one for one in self.deps.clusters.client(settings.name).read_connectors()}
            if any(name not in known or find_reason(known[name]) for name in wanted):
                return None
            planned = [plan_write(self.deps, known[name], wanted[name], title=title) for name in wanted]
        except SeamarkError:
            # Who uses the file is said in any case.
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
            refusal.hint = "delete these connectors first, which leaves their offsets, or stop all workers"
            return ImportPlan(self._plan(title), tuple(pairs), tuple(notes), refusal)
        except RefusedError as refusal:
            return ImportPlan(self._plan(title), tuple(pairs), tuple(notes), refusal)
        parts = [one for one in planned if not one.is_empty] or [self._plan(title)]
        return ImportPlan(merge(title, parts), tuple(pairs), tuple(notes))

    def _plan(self, title: str, actions: Sequence[Action] = ()) -> Planned:
        return self.deps.planner.plan(title, actions, reads=self.deps.planner.open_reads(1).over(self.deps.world))
