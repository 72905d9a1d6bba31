"""Builds plans: read the state of every subject, omit what is already done, and record the preconditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from seamark.changes.action import Action, ConfigWrite, Needs, Reads, StepSequence, build_step_data
from seamark.changes.actor import Actor
from seamark.changes.effect import Effect
from seamark.changes.environment import Environment, SnapshotEnvironment
from seamark.changes.identity import Identity
from seamark.changes.permissions import build_denied
from seamark.changes.plan import Plan, PlannedChange
from seamark.changes.preconditions import aspect_of, build_precondition, build_sealed, is_expected
from seamark.changes.step import STEPS, Intent, Precondition, Step
from seamark.changes.timing import plan_patiently
from seamark.core.refs import CONNECTOR, Port, Ref, parse_subject
from seamark.core.secrets import PLUGIN_KEYS
from seamark.errors import RefusedError, SeamarkError
from seamark.policy.permissions import Access, Labels, Right, find_confirmation

if TYPE_CHECKING:
    from seamark.context import Context, PaceSettings


ReadLabels = Callable[[Sequence[Ref]], Sequence[Mapping[str, str]]]
"""Reads the labels of connectors. Connect clusters have the names that the plan uses."""


def check_plan(plan: Plan, access: Access, context: Context, *, read_labels: ReadLabels | None = None) -> None:
    """Refuse a plan with an action that no role allows.

    A role with labels must match the present labels of a connector and, if the plan changes them, the new ones; and the
    new ones must not allow more than the present ones do. Labels that can't be read match no such role.

    Raises:
        PermissionDeniedError: an action isn't allowed on one of its resources, or the context is read-only.
    """
    found, trouble = _read_present_labels(plan, access, read_labels)
    denied: dict[str, None] = {}
    end = 0
    for action, count in zip(plan.actions, plan.step_counts, strict=True):
        steps, end = plan.steps[end : end + count], end + count
        new = action.find_new_labels()
        labels: dict[Ref | None, tuple[Labels, ...]] = {}
        for subject in {step.subject for step in steps if STEPS[step.kind].acts}:
            target, present = _find_target(subject, context), found.get(subject)
            labels[target] = (present,) if new is None else (present, new)
            if gained := access.find_gained(target, present, new) if new is not None else ():
                denied[f"change-config on {target}: the new labels would also allow {', '.join(gained)}"] = None
        denied |= dict.fromkeys(access.find_denied(action.find_permissions(), sorted(labels, key=str), labels))
    if denied:
        raise build_denied(plan.title, (*denied, *([f"labels can't be read: {trouble}"] if trouble else [])))


def _read_present_labels(
    plan: Plan, access: Access, read_labels: ReadLabels | None
) -> tuple[Mapping[str, Mapping[str, str]], str]:
    """Return the labels of the plan's connectors by subject, and why they can't be read; nothing if no role has any."""
    subjects = sorted({step.subject for step in plan.steps if parse_subject(step.subject).kind == CONNECTOR})
    if not access.needs_labels or not subjects or read_labels is None:
        return {}, ""
    try:
        labels = read_labels([parse_subject(subject) for subject in subjects])
    except SeamarkError as error:
        return {}, error.message
    return dict(zip(subjects, labels, strict=True)), ""


def find_plan_confirmation(plan: Plan, context: Context) -> str:
    """Return the name that confirms a plan."""
    return find_confirmation((action.subject for action in plan.actions), context.name)


def check_confirmed(plan: Plan, context: Context, confirm: str) -> None:
    """Refuse a change of a protected context that isn't confirmed by name.

    Raises:
        RefusedError: the name is missing or another one.
    """
    check_named(context, find_plan_confirmation(plan, context), confirm)


def check_named(context: Context, wanted: str, confirm: str) -> None:
    """Refuse a change that isn't confirmed by name if the context is protected.

    Raises:
        RefusedError: the name is missing or another one.
    """
    if context.protected and confirm != wanted:
        raise RefusedError(
            f"context {context.name} is protected; no changes were made",
            cause=f"the change is confirmed with {confirm!r}" if confirm else "the change isn't confirmed by name",
            hint=f"review the plan, then confirm it: --confirm {wanted}",
            context={"confirm": wanted},
        )


def _find_target(subject: str, context: Context) -> Ref:
    """Return the resource under this context's own name for its Connect cluster; other contexts' names may differ."""
    found = parse_subject(subject)
    settings = context.connect.get(found.cluster)
    return Ref(found.kind, found.name, (settings.known_as or found.cluster) if settings else found.cluster)


Expect = Callable[[Step], "Precondition | None"]
"""Returns the precondition of a step if it is known from elsewhere: an undo knows what a change left."""


@dataclass(frozen=True, slots=True)
class PreparedAction:
    """An action with everything that was derived from it."""

    action: Action
    seen: Any = field(repr=False)
    sequence: StepSequence = field(repr=False)
    effects: tuple[Effect, ...]
    notes: tuple[str, ...]
    needs: Needs = field(repr=False)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Actions with everything that was derived from them; those with nothing to do are in `met`."""

    items: tuple[PreparedAction, ...]
    met: tuple[PreparedAction, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every step in order, with its secrets."""
        return tuple(step for item in self.items for step, _ in item.sequence)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The lines of the plan."""
        return tuple(effect for item in self.items for effect in item.effects)

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of the actions, each sentence once."""
        return tuple(dict.fromkeys(note for item in self.items for note in item.notes))

    @property
    def undo_notes(self) -> tuple[str, ...]:
        """The notes of actions that undo a change, each sentence once."""
        return tuple(dict.fromkeys(note for item in self.items for note in item.action.undo_notes(item.seen)))

    @property
    def needs(self) -> Needs:
        """The needs of all actions."""
        return merge_needs(item.needs for item in self.items)

    def fill(self, plan: Plan) -> Plan:
        """Return the plan with its actions, their steps and their locks."""
        return replace(
            plan,
            actions=tuple(item.action for item in self.items),
            steps=tuple(
                data for item in self.items for data in build_step_data(item.sequence, lane=item.action.sequence)
            ),
            step_counts=tuple(len(item.sequence) for item in self.items),
            locks=tuple(sorted(self.needs.locks)),
        )


def prepare(actions: Sequence[Action], reads: Reads, *, known: Mapping[int, Any] | None = None) -> Prepared:
    """Read the state that all actions need, with one call per class of actions, and derive everything else.

    `known` contains what has been read already, by the number of the action.

    Raises:
        RefusedError: one of them must not be done.
    """
    seen: dict[int, Any] = dict(known or {})
    unread: dict[type[Action], list[int]] = {}
    for number, action in enumerate(actions):
        if number not in seen:
            unread.setdefault(type(action), []).append(number)
    for cls, numbers in unread.items():
        answers = cls.inspect([actions[number] for number in numbers], reads)
        seen.update(zip(numbers, answers, strict=True))
    items = [
        PreparedAction(
            action,
            seen[number],
            action.steps(seen[number]),
            effects=action.effects(seen[number]),
            notes=action.notes(seen[number]),
            needs=action.needs(seen[number]),
        )
        for number, action in enumerate(actions)
    ]
    return Prepared(tuple(one for one in items if one.sequence), tuple(one for one in items if not one.sequence))


def build_preconditions(prepared: Prepared, reads: Reads, *, expect: Expect | None = None) -> tuple[Precondition, ...]:
    """Build a precondition from the first step on each aspect of a subject. Later steps find what earlier ones left."""
    first: dict[str, tuple[Step, Mapping[str, Intent]]] = {}
    for item in prepared.items:
        known = item.action.find_intents(item.seen)
        for step, _ in item.sequence:
            if is_expected(step):
                first.setdefault(aspect_of(step), (step, known))
    built, images = [], []
    for step, known in first.values():
        found = expect(step) if expect is not None else None
        if found is None:
            intent = known.get(aspect_of(step)) or step.intend(reads.world)
            images.append(intent.before)
            found = build_precondition(step, intent)
        built.append(found)
    return (*built, *build_sealed(images))


def merge_needs(needs: Iterable[Needs]) -> Needs:
    """Return the combined needs of several actions."""
    found = list(needs)
    wide = Counter(one.wide_lock for one in found if one.wide_lock)
    locks: set[str] = set()
    rights: set[Right] = set()
    configs: list[ConfigWrite] = []
    for one in found:
        locks |= {one.wide_lock} if wide[one.wide_lock] > 1 else one.locks
        rights |= one.rights
        configs += one.configs
    return Needs(frozenset(locks), frozenset(rights), tuple(configs))


# Reading a whole Connect cluster costs about as much as a dozen single reads.
_MANY = 12


class Planner:
    """Creates the plans of one context."""

    def __init__(
        self,
        context: str,
        world: Environment,
        *,
        actor: Actor,
        find_identity: Callable[[Collection[str]], Identity],
        ports: Mapping[Port[Any], Any] | None = None,
        open_world: Callable[[], Environment] | None = None,
        pace: PaceSettings | None = None,
    ) -> None:
        """Create a planner.

        `open_world` opens the environment that one plan reads, which may cache answers; the default is the live
        `world`. `pace` is that of the context.
        """
        self._pace = pace
        self._context = context
        self._world = world
        self._actor = actor
        self._find_identity = find_identity
        self._ports = ports
        self._open_world = open_world or (lambda: world)

    @property
    def world(self) -> Environment:
        """The environment that the steps read."""
        return self._world

    def plan(
        self,
        title: str,
        actions: Sequence[Action],
        *,
        notes: Iterable[str] = (),
        spec: Mapping[str, Any] | None = None,
        reads: Reads | None = None,
        known: Mapping[int, Any] | None = None,
    ) -> PlannedChange:
        """Create the plan of these actions. Actions with nothing to do are omitted.

        `known` contains what has been read already, by the number of the action.
        """
        prepared, reads = self._prepare(actions, reads, known=known)
        notes = (*notes, *_build_type_notes(actions))
        steps = prepared.steps
        clusters = dict.fromkeys(name for step in steps for name in step.find_clusters())
        plan = Plan(
            title=title,
            context=self._context,
            made_at=self._actor.timestamp(),
            made_by=self._actor.name,
            preconditions=build_preconditions(prepared, reads),
            notes=(*notes, *prepared.notes) if prepared.items else (),
            spec=spec or {},
            # A plan without steps affects no cluster.
            identity=self._find_identity(tuple(clusters)) if steps else Identity(),
        )
        filled = prepared.fill(plan).with_pace(self._pace)
        return PlannedChange(filled, steps, prepared.effects, needs=prepared.needs)

    def prepare(
        self, actions: Sequence[Action], reads: Reads | None = None, *, known: Mapping[int, Any] | None = None
    ) -> Prepared:
        """Derive everything from actions. Waits, though not for long, for a state that a rebalance hides."""
        return self._prepare(actions, reads, known=known)[0]

    def _prepare(
        self, actions: Sequence[Action], reads: Reads | None, *, known: Mapping[int, Any] | None
    ) -> tuple[Prepared, Reads]:
        def attempt() -> tuple[Prepared, Reads]:
            # Opened for each attempt: an answer that a rebalance made incomplete must not be kept.
            chosen = reads or self.open_reads(len(actions))
            return prepare(actions, chosen, known=known), chosen

        return plan_patiently(attempt, self._world.clock)

    def open_reads(self, count: int) -> Reads:
        """Return the reads that planning may use. For many actions, each Connect cluster is read once."""
        world = self._open_world()
        return self.build_reads(SnapshotEnvironment(world) if count > _MANY else world)

    def build_reads(self, world: Environment) -> Reads:
        """Return the reads that planning may use, over an environment that is already open."""
        return Reads(world, self._ports)


def _build_type_notes(actions: Iterable[Action]) -> tuple[str, ...]:
    """Build notes for plugins whose types can't be read: the plan's text hides their values without an explanation."""
    clusters = sorted({cluster for action in actions if (cluster := getattr(action, "cluster", ""))})
    return tuple(
        f"{cluster}: the types of plugin {plugin} can't be read, so all its values are treated as secrets ({cause})"
        for cluster in clusters
        for plugin, cause in PLUGIN_KEYS.find_causes(cluster).items()
    )
