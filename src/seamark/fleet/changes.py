"""Applying plans and taking them back, through the journal of a context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import seamark.fleet.action_kinds  # noqa: F401 - plans are decoded here
from seamark.change.actor import Actor
from seamark.change.executor import Executor
from seamark.change.image import find_key_names
from seamark.change.journal import Journal
from seamark.change.plan import Plan
from seamark.change.precondition import check_preconditions
from seamark.change.progress import Progress
from seamark.change.recovery import Recovery
from seamark.change.spool import FileSpool
from seamark.change.timing import build_timing
from seamark.change.undo import build_undo_plan
from seamark.errors import RefusedError
from seamark.fleet.clusters import Clusters
from seamark.fleet.connector_life.validation import check_configs
from seamark.fleet.moving.access import check_denied, find_missing
from seamark.fleet.ownership import build_undo_field, find_owners, read_claims, refresh_spec
from seamark.fleet.planned import Planned
from seamark.fleet.planner import Planner
from seamark.fleet.policy import check_config_writes, check_new_names
from seamark.fleet.review import (
    refuse_foreign_context,
    refuse_hidden,
    refuse_unexpected,
)
from seamark.fleet.world import FleetWorld
from seamark.model.entry import Ending, Entry
from seamark.model.head import find_spec
from seamark.model.pace import FLEET_PACE, Pace
from seamark.model.result import ChangeResult

if TYPE_CHECKING:
    from seamark.context import Context


class Changes:
    """The one way by which a context is changed."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        world: FleetWorld,
        planner: Planner,
        actor: Actor,
        journal: Callable[[], Journal],
    ) -> None:
        self._context = context
        self._clusters = clusters
        self._world = world
        self._planner = planner
        self._actor = actor
        self._journal = journal

    def apply(
        self, planned: Planned | Plan, *, progress: Progress | None = None, pace: Pace | None = None
    ) -> ChangeResult:
        """Carry out a plan. A plan with nothing to do touches nothing, not even the journal."""
        if isinstance(planned, Plan):
            planned = self.review(planned)
        plan = planned.plan
        refuse_foreign_context(plan, self._context.name)
        if plan.is_empty:
            return ChangeResult("", title=plan.title, ending=Ending.DONE, steps=())
        check_denied(find_missing(planned.needs.rights, context=self._context, brokers=self._world.kafka))
        return self._build_executor(progress, pace=pace or FLEET_PACE).apply(plan, planned.steps)

    def review(self, plan: Plan, *, validate: bool = True) -> Planned:
        """A plan that was saved: whether it can be applied here and now, and what it means.

        Raises:
            RefusedError: it is for another context, lacks secrets, locks or preconditions, breaks the policy, or
                a plugin would not take a config.
            StalePlanError: the world has moved since it was made.
        """
        refuse_foreign_context(plan, self._context.name)
        refuse_hidden(plan)
        check_new_names(
            [name for action in plan.actions for name in action.find_new_names()], self._clusters, self._context
        )
        prepared = self._planner.prepare(plan.actions)
        check_config_writes(prepared.needs.configs, self._clusters, self._context)
        refuse_unexpected(plan, prepared.steps)
        check_preconditions(plan, prepared.steps, self._world)
        if validate:
            check_configs(prepared.needs.configs, self._clusters, self._world)
        filled = refresh_spec(prepared.fill(plan), self._journal)
        return Planned(filled, prepared.steps, prepared.effects, needs=prepared.needs)

    def undo(self, change: str) -> Planned:
        """The plan that takes a closed change back. Refused where something has moved since."""
        entries = self._journal().read(change)
        self.check_seals(entries)
        name, past = self.recovery().read_closed(change)
        refuse_foreign_context(past.plan, self._context.name)
        plan, prepared = build_undo_plan(
            past,
            change=name,
            reads=self._planner.open_reads(len(past.plan.actions)),
            actor=self._actor,
            prepare=self._planner.prepare,
        )
        plan = self._carry_spec(plan, entries)
        check_preconditions(plan, prepared.steps, self._world)
        return Planned(plan, prepared.steps, prepared.effects, needs=prepared.needs)

    def _carry_spec(self, plan: Plan, entries: Sequence[Entry]) -> Plan:
        """Let the way back say whose the connectors are after it, where the change came from a spec."""
        spec = find_spec(entries[0].body)
        if not spec:
            return plan
        claims = read_claims(spec, self._journal)
        return replace(plan, spec=build_undo_field(entries, claims, find_owners(plan)))

    def recovery(self, progress: Progress | None = None) -> Recovery:
        """What finishes and closes changes that a crash left open."""
        return Recovery(self._build_executor(progress, pace=FLEET_PACE))

    def check_seals(self, entries: Sequence[Entry]) -> None:
        """Refuse a change whose secrets were sealed with another key: they would all look changed."""
        names = find_key_names([entry.body for entry in entries])
        if not names or names == {self._world.seal_key.name}:
            return
        raise RefusedError(
            f"the secrets of change {entries[0].change} were sealed with another key than yours",
            cause=f"keys {', '.join(sorted(names))}; yours is {self._world.seal_key.name}",
            hint=f"let {entries[0].by} do it, or share one key: journal_key in the context",
        )

    def _build_executor(self, progress: Progress | None, *, pace: Pace) -> Executor:
        return Executor(
            self._journal(),
            self._world,
            actor=self._actor,
            timing=build_timing(self._context.journal.in_flight_seconds),
            progress=progress,
            spool=FileSpool(self._context.journal.spool_folder),
            pace=pace,
        )
