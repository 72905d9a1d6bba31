"""Undo: build the plan that reverses a closed change from the before-images in the journal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seamark.changes.action import Action, ActionHistory, PastStep, Reads
from seamark.changes.actor import Actor
from seamark.changes.history import ChangeHistory
from seamark.changes.images import build_fingerprint
from seamark.changes.outcome import GOOD
from seamark.changes.plan import Plan, PlannedStep, PlannedSteps, build_tasks
from seamark.changes.planner import Prepared, build_preconditions
from seamark.changes.planner import prepare as prepare_actions
from seamark.changes.preconditions import BEFORE, aspect_of, build_stale
from seamark.changes.step import CanNotUndo, Intent, Outcome, Precondition, Step
from seamark.errors import RefusedError

# A request that may have happened is undone, too. If it didn't happen, its undo has nothing to do.
_TAKEN_BACK = frozenset({Outcome.DONE, Outcome.UNKNOWN})
_LEFT = _TAKEN_BACK | {Outcome.NOTHING_TO_DO}

Prepare = Callable[[Sequence[Action], Reads], Prepared]


@dataclass(frozen=True, slots=True)
class UndoDraft:
    """The actions that undo a change, the last one first.

    `left` maps each aspect to the fingerprint of the image that the change is known to have left. The fingerprint is
    None for an aspect that was changed with an unknown outcome.
    """

    actions: tuple[Action, ...]
    left: Mapping[str, str | None]
    notes: tuple[str, ...]

    def expect(self, step: Step, *, change: str) -> Precondition | None:
        """Build the precondition that a step finds what the change left; None if the change didn't touch it."""
        expected = self.left.get(aspect_of(step))
        if expected is None:
            return None
        return Precondition(
            BEFORE,
            subject=aspect_of(step),
            expected=expected,
            words=f"the {step.aspect} of {step.subject} is unchanged since change {change}",
        )


def build_undo_draft(past: ChangeHistory, *, change: str) -> UndoDraft:
    """Build the actions that undo the lasting effects of a change.

    Raises:
        RefusedError: some actions can't be undone; the error names all of them.
    """
    tasks = build_tasks(past.plan)
    acted = _find_lasting(past, tasks)
    lasting = {task.lane for task in acted}
    backs: list[Action] = []
    can_not: list[str] = []
    end = len(tasks)
    for action, count in zip(reversed(past.plan.actions), reversed(past.plan.step_counts), strict=True):
        own, end = [tasks[number] for number in range(end - count, end)], end - count
        if action.sequence not in lasting:
            continue
        history = ActionHistory(
            tuple(PastStep(task.step, past.intent_of(task.number), past.outcomes.get(task.number)) for task in own)
        )
        if not any(one.may_have_acted for one in history.steps):
            continue
        back = action.build_undo(history)
        if isinstance(back, CanNotUndo):
            can_not.append(back.because if back.names_step else f"{own[0].step.describe()}: {back.because}")
        elif back is not None:
            backs.append(back)
    if can_not:
        raise build_not_undoable(change, can_not)
    return UndoDraft(tuple(backs), _find_left(past, tasks, {task.aspect for task in acted}), _build_notes(past, tasks))


def build_undo_preconditions(
    draft: UndoDraft, prepared: Prepared, reads: Reads, *, change: str
) -> tuple[Precondition, ...]:
    """Build the preconditions of an undo: each aspect is as the change left it, or else as it is now.

    Aspects whose outcome is unknown have no precondition. The order is that of the change.
    """
    unknown = {aspect for aspect, expected in draft.left.items() if expected is None}
    built = build_preconditions(prepared, reads, expect=lambda step: draft.expect(step, change=change))
    places = {aspect: place for place, aspect in enumerate(draft.left)}
    known = (one for one in built if one.subject not in unknown)
    return tuple(sorted(known, key=lambda one: places.get(one.subject, len(places))))


def build_not_undoable(change: str, reasons: Sequence[str]) -> RefusedError:
    """Build the error for a change that can't be undone."""
    return RefusedError(
        f"change {change} can't be undone",
        cause="; ".join(reasons),
        hint="restore the previous values by hand",
    )


def _find_left(past: ChangeHistory, tasks: PlannedSteps, touched: Collection[str]) -> dict[str, str | None]:
    """Return the fingerprint of what the change left of each aspect that it touched; None if that is unknown."""
    left: dict[str, str | None] = {}
    for task in tasks:
        outcome = past.outcomes.get(task.number, Outcome.DID_NOT_HAPPEN)
        # A step that didn't happen left what the previous step left.
        if task.aspect not in touched or outcome is Outcome.DID_NOT_HAPPEN:
            continue
        intent = past.intent_of(task.number)
        is_known = (
            outcome in GOOD
            and intent is not None
            and not past.is_another_since(tasks.of_subject(task.step.subject), task.number)
        )
        left[task.aspect] = build_fingerprint(intent.after) if is_known and intent is not None else None
    return left


def build_undo_plan(
    past: ChangeHistory, *, change: str, reads: Reads, actor: Actor, prepare: Prepare = prepare_actions
) -> tuple[Plan, Prepared]:
    """Plan the undo of a closed change.

    Args:
        past: the history of the change from the journal.
        change: the ID of the change.
        reads: the reads that planning may use.
        actor: the user who undoes the change.
        prepare: the function that prepares the actions.

    Returns:
        The plan, and what was derived from its actions.

    Raises:
        RefusedError: a part of the change can't be undone.
        StalePlanError: another operator has undone a part of it already.
    """
    draft = build_undo_draft(past, change=change)
    prepared = prepare(draft.actions, reads)
    _refuse_reached(prepared)
    met = tuple(f"{one.action.subject} is already in its previous state and is not changed" for one in prepared.met)
    plan = Plan(
        title=f"undo {past.plan.title}",
        context=past.plan.context,
        made_at=actor.timestamp(),
        made_by=actor.name,
        preconditions=build_undo_preconditions(draft, prepared, reads, change=change),
        notes=(*draft.notes, *met, *prepared.undo_notes),
        undoes=change,
        identity=past.plan.identity,
    )
    return prepared.fill(plan), prepared


def _refuse_reached(prepared: Prepared) -> None:
    """Refuse the undo if a resource isn't as the change left it, but already as the undo wants it."""
    moved = [
        aspect
        for one in prepared.met
        if not one.action.reaches_by_itself
        for aspect in one.action.find_intents(one.seen)
    ]
    if moved:
        raise build_stale(moved)


def _find_lasting(past: ChangeHistory, tasks: Sequence[PlannedStep]) -> list[PlannedStep]:
    """Return the steps to undo, without those of sequences that left everything as they found it.

    A sequence that only stopped and started a connector, for example, needs no undo.
    """
    acted = [task for task in tasks if task.number in past.intents and past.outcomes.get(task.number) in _TAKEN_BACK]
    lanes: dict[str, list[PlannedStep]] = {}
    for task in acted:
        lanes.setdefault(task.lane, []).append(task)
    # Steps that found their target state already count, too: another operator may have restored it.
    ends = {task.aspect: task for task in tasks if past.outcomes.get(task.number) in _LEFT}
    lasting = {lane for lane, of_lane in lanes.items() if not _is_even(past, of_lane, ends)}
    return [task for task in acted if task.lane in lasting]


def _is_even(past: ChangeHistory, acted: Sequence[PlannedStep], ends: Mapping[str, PlannedStep]) -> bool:
    first: dict[str, Intent] = {}
    for task in acted:
        first.setdefault(task.aspect, past.intents[task.number][0])
    return all(_leaves(past, ends[aspect], intent.before) for aspect, intent in first.items())


def _leaves(past: ChangeHistory, task: PlannedStep, image: Any) -> bool:
    """Return whether a step is known to have left this image."""
    intent = past.intent_of(task.number)
    return past.outcomes[task.number] in GOOD and intent is not None and bool(intent.after == image)


def _build_notes(past: ChangeHistory, tasks: Sequence[PlannedStep]) -> tuple[str, ...]:
    return tuple(
        f"the {task.step.aspect} of {task.step.subject} is not changed: another process changed it during the change"
        for task in tasks
        if past.outcomes.get(task.number) is Outcome.FOREIGN
    )
