"""Plans of `connect-offsets --import`: pairs into the topic or the file of a worker, where nobody uses them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.change.locks import file_lock
from seamark.change.steps.offset_file import VerifyOffsetFile, WriteOffsetFile
from seamark.errors import RefusedError, SeamarkError, UnsupportedError
from seamark.fleet.kip199.targets import Action, build_notes, build_targets
from seamark.fleet.kip199.topic_plan import TopicImport, find_reason
from seamark.fleet.moving.plans import merge
from seamark.fleet.plan_draft import build_plan
from seamark.fleet.planned import Planned
from seamark.model.effect import Effect, FieldChange, Sign
from seamark.model.offset import Offset, spell_identity, spell_offset
from seamark.offsets.file_change import change_file
from seamark.offsets.file_store import build_file_reading
from seamark.offsets.file_swap import build_digest
from seamark.offsets.javamap import JavaMap, read_java_map
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.change.actor import Actor
    from seamark.change.step import Step
    from seamark.context import ConnectSettings, Context
    from seamark.fleet.clusters import Clusters
    from seamark.fleet.moving.plans import OffsetPlans
    from seamark.fleet.positions.stores import OffsetStores
    from seamark.fleet.world import FleetWorld

_NO_FILE = JavaMap((), 0)


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import would do. Where it may not be done now, `refusal` says why, and there is no plan."""

    planned: Planned
    actions: tuple[Action, ...]
    notes: tuple[str, ...] = ()
    refusal: SeamarkError | None = None


class Imports:
    """Plans imports into the one worker of a context. Nothing is changed here."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        world: FleetWorld,
        stores: Callable[[], OffsetStores],
        plans: Callable[[], OffsetPlans],
        actor: Actor,
    ) -> None:
        self._context = context
        self._clusters = clusters
        self._world = world
        self._stores = stores
        self._plans = plans
        self._actor = actor

    def plan(self, wanted: Mapping[str, Sequence[Offset]]) -> ImportPlan:
        """Give these partitions these offsets; None takes one away. What is not named stays as it is."""
        (name,) = self._clusters.names
        settings = self._clusters.settings(name)
        title = f"import offsets of {render_count(len(wanted), 'connector')} into {name}"
        if not wanted:
            return ImportPlan(self._build_plan(title, (), ()), ())
        if settings.offsets_file is not None:
            return self._plan_file(settings, wanted, title)
        return self._plan_topic(settings, wanted, title)

    def _plan_file(self, settings: ConnectSettings, wanted: Mapping[str, Sequence[Offset]], title: str) -> ImportPlan:
        port = self._world.offset_file(settings.name)
        content, path = port.read(), str(port.path)
        java_map = _NO_FILE if content is None else read_java_map(content, name=path)
        actions, targets = build_targets(build_file_reading(java_map, store=f"file {path}", owners=wanted), wanted)
        try:
            port.refuse_held()
        except RefusedError as refusal:
            live = self._plan_live(settings, wanted, title) if port.is_answering() else None
            return ImportPlan(
                live or self._build_plan(title, (), ()), tuple(actions), refusal=None if live else refusal
            )
        changed = change_file(content, {key: one.value for one in targets for _, key in one.keys}, name=path)
        steps: tuple[Step, ...] = ()
        if targets:
            digest = build_digest(changed) or ""
            steps = WriteOffsetFile(settings.name, path, changed), VerifyOffsetFile(settings.name, path, digest)
        locks = [file_lock(path, host=socket.gethostname())]
        effect = build_import_effect(f"file{path}", [one.action for one in targets])
        planned = self._build_plan(title, steps, locks, effects=(effect,))
        return ImportPlan(planned, tuple(actions), tuple(build_notes(targets)))

    def _plan_live(
        self, settings: ConnectSettings, wanted: Mapping[str, Sequence[Offset]], title: str
    ) -> Planned | None:
        """Through the REST API of a standalone worker that is up, where all named connectors are there and stopped."""
        try:
            known = {one.name: one for one in self._clusters.client(settings.name).read_connectors()}
            if any(name not in known or find_reason(known[name]) for name in wanted):
                return None
            planned = [self._plans().write(known[name], wanted[name], title=title) for name in wanted]
        except SeamarkError:
            # Who uses the file is said in any case.
            return None
        return merge(title, planned)

    def _plan_topic(self, settings: ConnectSettings, wanted: Mapping[str, Sequence[Offset]], title: str) -> ImportPlan:
        topic = TopicImport(
            self._context,
            settings,
            client=self._clusters.client(settings.name),
            world=self._world,
            store=self._stores().find_topic(settings.name),
        )
        survey = topic.read_survey(wanted)
        there = {connector.name for connector in survey.there}
        idle = {name: offsets for name, offsets in wanted.items() if name not in there}
        actions, steps, locks, notes = topic.build_steps(idle)
        actions += topic.build_other_actions({name: wanted[name] for name in there})
        names = list(wanted)
        actions.sort(key=lambda one: names.index(one.connector))
        if survey.refusal is not None:
            return ImportPlan(self._build_plan(title, (), ()), tuple(actions), tuple(notes), survey.refusal)
        needed = [one for one in actions if one.is_needed and one.connector in idle]
        effects = [build_import_effect(steps[-1].subject, needed)] if steps else []
        planned = [self._build_plan(title, steps, locks, effects=effects)] if steps else []
        try:
            planned += [
                self._plans().write(connector, wanted[connector.name], title=title) for connector in survey.there
            ]
        except UnsupportedError as refusal:
            refusal.hint = "delete these connectors first, which leaves their offsets, or stop all workers"
            return ImportPlan(self._build_plan(title, (), ()), tuple(actions), tuple(notes), refusal)
        except RefusedError as refusal:
            return ImportPlan(self._build_plan(title, (), ()), tuple(actions), tuple(notes), refusal)
        parts = [one for one in planned if not one.is_empty] or [self._build_plan(title, (), ())]
        return ImportPlan(merge(title, parts), tuple(actions), tuple(notes))

    def _build_plan(
        self, title: str, steps: Sequence[Step], locks: Sequence[str], *, effects: Sequence[Effect] = ()
    ) -> Planned:
        plan = build_plan(title, steps, context=self._context.name, world=self._world, actor=self._actor, locks=locks)
        return Planned(plan, steps=tuple(steps), effects=tuple(effects) if steps else ())


def build_import_effect(subject: str, actions: Sequence[Action]) -> Effect:
    """The line of a plan: which pairs change."""
    fields = tuple(
        FieldChange(
            f"{one.connector} {spell_identity(one.partition)}", spell_offset(one.before), spell_offset(one.after)
        )
        for one in actions
    )
    return Effect(Sign.CHANGE, subject, f"{render_count(len(fields), 'pair')} written", fields)
