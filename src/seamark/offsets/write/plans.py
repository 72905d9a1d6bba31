"""Plans that change a connector's offsets: stopped, proven, written, verified, and running again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from seamark.changes.identity import merge_identities
from seamark.changes.plan import PlannedChange
from seamark.changes.planner import merge_needs
from seamark.connect.model import Connector
from seamark.core.offsets import Offset, spell_identity
from seamark.core.readings import Severity
from seamark.core.refs import ConnectorType
from seamark.errors import RefusedError, UsageError
from seamark.offsets.quiesce import choose_quiesce_method
from seamark.offsets.read.rest import build_rest_mode_notes
from seamark.offsets.semantics import OffsetSemantics
from seamark.offsets.write.action import ChangeOffsets, choose_route, is_same
from seamark.offsets.write.guards import build_config_pin
from seamark.offsets.write.preview import DEFAULT_SAFETY, SafetyOptions, sum_previews
from seamark.offsets.write.rights import SharedGroups, build_rights_notes, read_shared

if TYPE_CHECKING:
    from seamark.offsets.port import OffsetDependencies


def plan_write(
    deps: OffsetDependencies,
    connector: Connector,
    offsets: Sequence[Offset],
    *,
    title: str,
    safety: SafetyOptions = DEFAULT_SAFETY,
    notes: Sequence[str] = (),
    shared: SharedGroups | None = None,
) -> PlannedChange:
    """Give these partitions these offsets; None forgets one. What is so already is left out.

    The plan counts what is reprocessed and skipped, and counts it again when the connector has stopped: beyond the
    tolerance of `safety` nothing is written, and its state is restored. `shared` are the sinks of all clusters, where
    they are read already.
    """
    if connector.type is ConnectorType.SINK:
        notes = (*notes, *(shared or read_shared(deps.clusters)).refuse_foreign(connector, offsets))
    _refuse_twice(offsets)
    snapshot, world, planner = deps.open_snapshot(connector), deps.world, deps.planner
    connector, settings = snapshot.connector, deps.clusters.settings(connector.cluster)
    quiesce = choose_quiesce_method(connector, deps.clusters.client(connector.cluster), settings=settings)
    refuse_wrong(connector, snapshot.meaning, offsets)
    held = snapshot.read([found.partition for found in offsets])
    needed = [(found, wanted) for found, wanted in zip(held, offsets, strict=True) if not is_same(found, wanted)]
    reads = planner.open_reads(1).over(world)
    if not needed:
        return planner.plan(title, (), reads=reads)
    route = choose_route(
        connector,
        [found for found, _ in needed],
        [wanted for _, wanted in needed],
        has_rest=quiesce.has_rest,
        complete=snapshot.complete,
    )
    action = ChangeOffsets(
        connector.cluster,
        connector.name,
        route.step.offsets,
        route.step.route,
        route.step.records,
        tolerance=safety.tolerance,
        wait_seconds=safety.wait_seconds,
        accepts_zombies=safety.accepts_zombies,
        config=build_config_pin(connector.config, world, cluster=connector.cluster),
    )
    seen = action.read(reads)
    action = replace(action, planned=sum_previews(seen.previews))
    return planner.plan(
        title,
        [action],
        notes=(
            *notes,
            *route.notes,
            *quiesce.notes,
            *build_rights_notes(seen.rights, context=deps.context, brokers=world.kafka),
            *build_rest_mode_notes(deps.context, settings),
            *_build_warnings(snapshot.meaning, [wanted for _, wanted in needed]),
        ),
        reads=reads,
        known={0: seen},
    )


def _refuse_twice(offsets: Sequence[Offset]) -> None:
    names = [spell_identity(found.partition) for found in offsets]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"a partition is named twice: {', '.join(twice)}")


def refuse_wrong(connector: Connector, meaning: OffsetSemantics, offsets: Sequence[Offset]) -> None:
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


def _build_warnings(meaning: OffsetSemantics, offsets: Sequence[Offset]) -> list[str]:
    """What works, and is likely not what somebody wanted."""
    return [
        f"{finding.subject}: {finding.message}; {finding.fix}"
        if finding.fix
        else f"{finding.subject}: {finding.message}"
        for found in offsets
        for finding in meaning.check(found.partition, found.offset)
        if finding.severity is Severity.WARNING and found.offset is not None
    ]


def merge(title: str, planned: Sequence[PlannedChange]) -> PlannedChange:
    """Several plans as one: a lane for each owner, so that one that fails leaves the others alone."""
    first = planned[0].plan
    plans = [found.plan for found in planned]
    plan = replace(
        first,
        title=title,
        actions=tuple(action for one in plans for action in one.actions),
        step_counts=tuple(count for one in plans for count in one.step_counts),
        steps=tuple(step for one in plans for step in one.steps),
        locks=tuple(sorted({lock for one in plans for lock in one.locks})),
        preconditions=tuple(found for one in plans for found in one.preconditions),
        notes=tuple(dict.fromkeys(note for one in plans for note in one.notes)),
        identity=merge_identities(one.identity for one in plans),
    )
    return PlannedChange(
        plan,
        steps=tuple(step for found in planned for step in found.steps),
        effects=tuple(effect for found in planned for effect in found.effects),
        needs=merge_needs(found.needs for found in planned),
    )
