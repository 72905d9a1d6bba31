"""Plans that change a connector's offsets: stopped, proven, written, verified, and running again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from seamark.change.steps.offsets import WriteOffsets
from seamark.change.steps.preview import CheckPreview
from seamark.change.steps.stopped import build_config_pin, name_workers, pin_config, surround
from seamark.errors import RefusedError, UsageError
from seamark.fleet.lock_names import build_lock_notes, build_locks
from seamark.fleet.moving.access import build_access_notes
from seamark.fleet.moving.effect import build_offset_effect, find_how
from seamark.fleet.moving.guards import find_quiet_seconds, find_workers, require_run_state
from seamark.fleet.moving.progress import build_progress
from seamark.fleet.moving.rest_offsets import build_rest_notes
from seamark.fleet.moving.route import choose_route
from seamark.fleet.moving.standing import build_ends, choose_standing, refuse_blind
from seamark.fleet.plan_draft import build_plan
from seamark.fleet.planned import Planned
from seamark.fleet.positions.meaning import read_meaning
from seamark.fleet.sealed_keys import SealedKeys
from seamark.model.connector import Connector
from seamark.model.finding import Severity
from seamark.model.held_offset import HeldOffset
from seamark.model.offset import Offset, spell_identity, spell_offset
from seamark.model.plan import Plan
from seamark.model.preview import DEFAULT_TOLERANCE, Tolerance, sum_previews
from seamark.offsets.meaning import Meaning

if TYPE_CHECKING:
    from seamark.change.actor import Actor
    from seamark.change.journal import Journal
    from seamark.change.step import Step
    from seamark.context import Context
    from seamark.fleet.clusters import Clusters
    from seamark.fleet.world import FleetWorld


class OffsetPlans:
    """Plans for the offsets of connectors. Nothing is changed here; `fleet.apply` does it."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        world: Callable[[], FleetWorld],
        actor: Callable[[], Actor],
        journal: Callable[[], Journal],
    ) -> None:
        self._context = context
        self._clusters = clusters
        self._world = world
        self._actor = actor
        self._sealed = SealedKeys(journal)

    def write(
        self,
        connector: Connector,
        offsets: Sequence[Offset],
        *,
        title: str,
        accepts_zombies: bool = False,
        notes: Sequence[str] = (),
        tolerance: Tolerance = DEFAULT_TOLERANCE,
        wait_seconds: float | None = None,
    ) -> Planned:
        """Give these partitions these offsets; None forgets one. What is so already is left out.

        The plan counts what is read again and skipped, and counts it once more when the connector stands still: beyond
        the `tolerance` nothing is written, and its run state is restored. When it runs again, its first new position is
        waited for and looked at: `wait_seconds` long, or as long as its workers need to store one.
        """
        _refuse_twice(offsets)
        client, settings = self._clusters.client(connector.cluster), self._clusters.settings(connector.cluster)
        standing = choose_standing(connector, client, settings=settings, context=self._context, sealed=self._sealed)
        meaning = read_meaning(connector, client)
        refuse_wrong(connector, meaning, offsets)
        port = self._world().offsets(connector.cluster, connector.name)
        held = port.read([found.partition for found in offsets])
        needed = [(found, wanted) for found, wanted in zip(held, offsets, strict=True) if not _is_same(found, wanted)]
        if not needed:
            return Planned(self._build_plan(title, ()), steps=())
        route = choose_route(
            connector,
            [found for found, _ in needed],
            [wanted for _, wanted in needed],
            has_rest=standing.has_rest,
            complete=port.complete,
        )
        step = replace(route.step, kept=standing.kept)
        if standing.kept is not None:
            refuse_blind(port)
        previews = port.preview(step.offsets)
        check = CheckPreview(
            connector.cluster, connector.name, step.offsets, sum_previews(previews), tolerance, standing.kept
        )
        former = [Offset(found.partition, found.offset) for found, _ in needed]
        steps = self._guard(
            connector, step, check, accepts_zombies=accepts_zombies, former=former, wait_seconds=wait_seconds
        )
        plan = self._build_plan(
            title,
            steps,
            locks=build_locks(connector.name, [connector.config], kind=connector.type, settings=settings),
            notes=(
                *notes,
                *route.notes,
                *standing.notes,
                *build_access_notes(steps, clusters=self._clusters, context=self._context, brokers=self._world().kafka),
                *build_rest_notes(self._context, settings),
                *_build_warnings(meaning, [wanted for _, wanted in needed]),
                *build_lock_notes(settings, kinds=[connector.type]),
            ),
        )
        effect = build_offset_effect(connector, meaning, needed, previews, how=find_how(steps))
        return Planned(plan, steps=steps, effects=(effect,))

    def _build_plan(
        self, title: str, steps: Sequence[Step], *, locks: Sequence[str] = (), notes: Sequence[str] = ()
    ) -> Plan:
        return build_plan(
            title,
            steps,
            context=self._context.name,
            world=self._world(),
            actor=self._actor(),
            locks=locks,
            notes=notes,
        )

    def _guard(
        self,
        connector: Connector,
        step: WriteOffsets,
        check: CheckPreview,
        *,
        accepts_zombies: bool,
        former: Sequence[Offset],
        wait_seconds: float | None,
    ) -> tuple[Step, ...]:
        """The write with all that goes before and after it."""
        state = require_run_state(connector, self._world())
        proof, *rest = surround(step, quiet_seconds=find_quiet_seconds(self._context), accepts_zombies=accepts_zombies)
        inner = name_workers((proof, check, *rest), {step.subject: find_workers(connector)})
        inner = pin_config(inner, {step.subject: build_config_pin(connector.config, self._world())})
        progress = build_progress(
            connector.cluster,
            connector.name,
            step.offsets,
            former,
            context=self._context,
            settings=self._clusters.settings(connector.cluster),
            wait_seconds=wait_seconds,
        )
        stop, restore = build_ends(connector, state, step.kept)
        return (stop, *inner, *restore, *(progress if state == "RUNNING" else ()))


def _refuse_twice(offsets: Sequence[Offset]) -> None:
    names = [spell_identity(found.partition) for found in offsets]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"a partition is named twice: {', '.join(twice)}")


def refuse_wrong(connector: Connector, meaning: Meaning, offsets: Sequence[Offset]) -> None:
    """Refuse what the connector's tasks could not read."""
    wrong = [
        f"{spell_identity(found.partition)}: {finding.message}"
        for found in offsets
        for finding in meaning.check(found.partition, found.offset)
        if finding.severity is Severity.ERROR and found.offset is not None
    ]
    if wrong:
        raise RefusedError(
            f"these are no offsets for {connector.owner}; nothing was changed",
            cause="; ".join(wrong),
            hint=f"seamark offsets show {connector.owner} shows what its offsets look like",
        )


def _is_same(held: HeldOffset, wanted: Offset) -> bool:
    return not held.doubt and spell_offset(held.offset) == spell_offset(wanted.offset)


def _build_warnings(meaning: Meaning, offsets: Sequence[Offset]) -> list[str]:
    """What works, and is likely not what somebody wanted."""
    return [
        f"{finding.subject}: {finding.message}; {finding.fix}"
        if finding.fix
        else f"{finding.subject}: {finding.message}"
        for found in offsets
        for finding in meaning.check(found.partition, found.offset)
        if finding.severity is Severity.WARNING and found.offset is not None
    ]


def merge(title: str, planned: Sequence[Planned]) -> Planned:
    """Several plans as one: a lane for each owner, so that one that fails leaves the others alone."""
    first = planned[0].plan
    plans = [found.plan for found in planned]
    plan = replace(
        first,
        title=title,
        steps=tuple(step for one in plans for step in one.steps),
        locks=tuple(sorted({lock for one in plans for lock in one.locks})),
        preconditions=tuple(found for one in plans for found in one.preconditions),
        notes=tuple(dict.fromkeys(note for one in plans for note in one.notes)),
    )
    return Planned(
        plan,
        steps=tuple(step for found in planned for step in found.steps),
        effects=tuple(effect for found in planned for effect in found.effects),
    )
