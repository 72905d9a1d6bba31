"""Apply and undo plans, through the journal of a context."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import seamark.fleet.kinds  # noqa: F401 - plans are decoded here
from seamark.changes.actor import Actor
from seamark.changes.environment import Environment
from seamark.changes.executor import Executor
from seamark.changes.history import read_closed, read_plan
from seamark.changes.identity import ClusterNames
from seamark.changes.images import find_key_names
from seamark.changes.journal import Ending, Entry, EntryKind, JournalPort, Opening, find_spec
from seamark.changes.keys import check_key
from seamark.changes.outcome import ChangeResult, Progress
from seamark.changes.plan import Plan, PlannedChange, find_masked_keys, read_plan_file, write_plan_file
from seamark.changes.planner import Planner, check_confirmed, check_plan
from seamark.changes.preconditions import BEFORE, aspect_of, check_preconditions, is_expected, reseal
from seamark.changes.recovery import Recovery
from seamark.changes.registration import Registrations
from seamark.changes.signing import SealingEnvironment, SealKey, check_signatures
from seamark.changes.step import Step, build_step
from seamark.changes.timing import FLEET_PACE, Pace, build_timing
from seamark.changes.undo import build_undo_plan
from seamark.changes.without_journal import FileSpool
from seamark.connect.clusters import Clusters
from seamark.connectors.config import check_configs
from seamark.connectors.policy import check_config_writes, check_new_names
from seamark.core.refs import Ref
from seamark.errors import PermissionDeniedError, RefusedError, SeamarkError
from seamark.fleet.environment import LiveEnvironment
from seamark.fleet.identity import check_coverage
from seamark.offsets.write.rights import check_denied, find_missing
from seamark.policy.permissions import Access
from seamark.specs.ownership import build_undo_field, find_owners, read_claims, refresh_spec

if TYPE_CHECKING:
    from seamark.context import Context


_AGAIN = "create a new plan"


def read_saved_plan(path: Path) -> Plan:
    """Read a plan file; every kind of action is known here."""
    return read_plan_file(path)


def refuse_hidden(plan: Plan) -> None:
    """Raise for a plan whose secrets were omitted when it was saved."""
    hidden = find_masked_keys(plan)
    if hidden:
        raise RefusedError(
            "the plan doesn't contain the secrets that it needs",
            cause=f"omitted when it was saved: {', '.join(hidden)}",
            hint="create a new plan and apply it at once, or write the values as secret:// references",
        )


def refuse_unexpected(plan: Plan, steps: Sequence[Step]) -> None:
    """Raise for a plan file that lacks a precondition of its steps."""
    wanted = {aspect_of(step) for step in steps if is_expected(step)}
    if missing := sorted(wanted - {found.subject for found in plan.preconditions if found.kind == BEFORE}):
        raise RefusedError(
            "the plan lacks preconditions for what it changes",
            cause=f"no precondition for: {', '.join(missing)}",
            hint=f"{_AGAIN}: this one was edited",
        )


def save_plan(planned: PlannedChange, path: Path, *, find_changes: Callable[[Plan], Changes]) -> SeamarkError | None:
    """Save a plan in a file that only its owner can read. Returns why the file can't be applied, if it can't."""
    plan = planned.plan
    if not plan.is_empty or planned.blocked_by is not None:
        try:
            plan = find_changes(plan).save(planned)
        except SeamarkError as error:
            write_plan_file(planned.plan, path)
            return error
    write_plan_file(plan, path)
    return None


class Changes:
    """The only way to change a context."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        world: LiveEnvironment,
        planner: Planner,
        actor: Actor,
        journal: Callable[[], JournalPort],
        access: Access,
        names: ClusterNames | None = None,
    ) -> None:
        self._names = names
        self._access = access
        self._context = context
        self._clusters = clusters
        self._world = world
        self._planner = planner
        self._actor = actor
        self._journal = journal
        self._registrations = Registrations(
            journal,
            actor=actor,
            find_keys=world.keys.read,
            now=world.clock.now,
            ttl_seconds=context.journal.plan_ttl_seconds,
        )

    def apply(
        self,
        planned: PlannedChange | Plan,
        *,
        progress: Progress | None = None,
        pace: Pace | None = None,
        confirm: str = "",
    ) -> ChangeResult:
        """Apply a plan. A plan without actions changes nothing, not even the journal.

        Raises:
            SeamarkError: The plan is incomplete, is refused, or can't be recorded.
        """
        if isinstance(planned, Plan):
            planned = self.review(planned)
        planned.check_complete()
        plan = planned.plan
        if plan.is_empty:
            return ChangeResult("", title=plan.title, ending=Ending.DONE, steps=())
        self._check_allowed(plan, confirm)
        check_key(self._journal(), self._world.keys)
        check_coverage(plan, planned.steps, self._context)
        check_denied(find_missing(planned.needs.rights, context=self._context, brokers=self._world.kafka))
        executor = self._build_executor(progress, pace=pace or FLEET_PACE)
        return executor.apply(plan, planned.steps, check=self._registrations.check_unused if plan.id else None)

    def review(self, plan: Plan, *, validate: bool = True) -> PlannedChange:
        """Check whether a saved plan can be applied here and now, and return its effects.

        Raises:
            RefusedError: It is for other clusters, lacks secrets, locks or preconditions, violates the policy, or a
                plugin rejects a config.
            StalePlanError: The plan is out of date.
        """
        check_key(self._journal(), self._world.keys)
        self._registrations.check(plan)
        refuse_hidden(plan)
        check_new_names(
            [name for action in plan.actions for name in action.find_new_names()], self._clusters, self._context
        )
        prepared = self._planner.prepare(plan.actions)
        check_config_writes(prepared.needs.configs, self._clusters, self._context)
        check_coverage(plan, prepared.steps, self._context)
        refuse_unexpected(plan, prepared.steps)
        check_preconditions(plan, prepared.steps, self._world)
        notes = check_configs(prepared.needs.configs, self._clusters, self._world) if validate else ()
        filled = refresh_spec(prepared.fill(plan), self._journal, self._names)
        # The plan may have been created under another name of this context.
        filled = replace(filled, context=self._context.name, notes=tuple(dict.fromkeys([*filled.notes, *notes])))
        return PlannedChange(filled, prepared.steps, prepared.effects, needs=prepared.needs, is_saved=True)

    def undo(self, change: str) -> PlannedChange:
        """Plan the undo of a closed change. Raises if a resource has changed since."""
        check_key(self._journal(), self._world.keys)
        entries = self._journal().read(change)
        keys = self._world.keys.read()
        key = _find_key(entries, keys.keys)
        check_signatures(entries, key.seal)
        # Use the entries that were checked: a second read might return others.
        past = read_closed(entries)
        reads, world = self._planner.open_reads(len(past.plan.actions)), cast("Environment", self._world)
        if key != keys.current:
            # The images of the change are sealed with a key that has been rotated since.
            reads, world = reads.over(SealingEnvironment(reads.world, key)), SealingEnvironment(world, key)
        plan, prepared = build_undo_plan(
            past, change=entries[0].change, reads=reads, actor=self._actor, prepare=self._planner.prepare
        )
        plan = replace(self._carry_spec(plan, entries), context=self._context.name).with_pace(self._context.pace)
        # Sealed before the check: a change between the two is detected here, or when the plan is applied.
        sealed = plan if key == keys.current else reseal(plan, prepared.steps, self._world)
        check_preconditions(plan, prepared.steps, world)
        return PlannedChange(sealed, prepared.steps, prepared.effects, needs=prepared.needs)

    def _carry_spec(self, plan: Plan, entries: Sequence[Entry]) -> Plan:
        """Add the owners of the connectors after the undo to its plan, if the change came from a spec."""
        spec = find_spec(entries[0].body)
        if not spec:
            return plan
        claims = read_claims(spec, self._journal, self._names)
        return replace(plan, spec=build_undo_field(entries, claims, find_owners(plan)))

    def recovery(self, progress: Progress | None = None) -> Recovery:
        """Return the recovery of changes that a crash left open."""
        return Recovery(self._build_executor(progress, pace=FLEET_PACE))

    def _check_allowed(self, plan: Plan, confirm: str) -> None:
        """Raise for what the roles don't allow, and for what isn't confirmed in a protected context."""
        try:
            check_plan(plan, self._access, self._context, read_labels=self._read_labels)
        except PermissionDeniedError as error:
            self._record_refusal(plan, error)
            raise
        check_confirmed(plan, self._context, confirm)

    def _read_labels(self, connectors: Sequence[Ref]) -> Sequence[Mapping[str, str]]:
        return [found.labels for found in self._world.labels.read_all(connectors)]

    def _record_refusal(self, plan: Plan, error: PermissionDeniedError) -> None:
        """Record a denied change, if the journal can be written."""
        opening = Opening(
            change=self._actor.new_id(),
            title=f"not allowed: {plan.title}",
            by=self._actor.name,
            at=self._actor.timestamp(),
            nonce=self._actor.new_nonce(),
            locks=(),
            body={"refused": error.as_dict(), "actor": {**self._actor.facts, "plan_sha256": plan.sha256}},
        )
        with suppress(SeamarkError):
            writer = self._journal().begin(opening)
            try:
                writer.append(EntryKind.CLOSE, {"ending": str(Ending.FAILED)})
            finally:
                writer.release()

    def check_open(self, entries: Sequence[Entry], confirm: str | None = None) -> None:
        """Raise for a change that doesn't name its clusters, or whose secrets have another key, before it is resumed.

        With `confirm`, raise also for what the roles don't allow, or what isn't confirmed in a protected context.
        """
        check_key(self._journal(), self._world.keys)
        # The key is rotated only while no change is open: an open one has the current key.
        key = _find_key(entries, (self._world.keys.read().current,))
        check_signatures(entries, key.seal)
        plan = read_plan(entries)
        check_coverage(plan, [build_step(step) for step in plan.steps], self._context)
        if confirm is not None:
            self._check_allowed(plan, confirm)

    def save(self, planned: PlannedChange) -> Plan:
        """Register a plan that is about to be saved in a file. Returns the plan with its ID.

        Raises:
            PermissionDeniedError: No role allows the plan's actions, or the context is read-only.
            SeamarkError: The plan is incomplete, or the journal can't be written.
        """
        planned.check_complete()
        check_plan(planned.plan, self._access, self._context, read_labels=self._read_labels)
        check_key(self._journal(), self._world.keys)
        return self._registrations.register(planned.plan)

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


def _find_key(entries: Sequence[Entry], keys: Sequence[SealKey]) -> SealKey:
    """Return the key that a change was written with, among these.

    Raises:
        RefusedError: It is another key, or there are several: the secrets of the change would all look changed.
    """
    names = find_key_names([entry.body for entry in entries])
    found = next((key for key in keys if names <= {key.name}), None)
    if found is None:
        raise RefusedError(
            f"change {entries[0].change} was written with another journal key than yours; no changes were made",
            cause=f"it has key {', '.join(sorted(names))}, yours is {', '.join(key.name for key in keys)}",
            hint=f"add the key of {entries[0].by} to the keys of this context, as a further line",
        )
    return found
