"""Plan changes of a connector's offsets: stop, check, write, verify, and run again."""

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
from seamark.groups.targets import OFFSET
from seamark.offsets.model import DEFAULT_SAFETY, SafetyOptions
from seamark.offsets.quiesce import choose_quiesce_method
from seamark.offsets.read.preview import sum_previews
from seamark.offsets.read.rest import build_rest_mode_notes
from seamark.offsets.semantics import OffsetSemantics
from seamark.offsets.semantics.sinks import find_spot, read_number
from seamark.offsets.write.action import ChangeOffsets, choose_route, is_same
from seamark.offsets.write.guards import build_config_pin
from seamark.offsets.write.rights import SharedGroups, build_rights_notes, read_shared

if TYPE_CHECKING:
    from seamark.kafka.api import BrokerPort
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
    """Plan these offsets for these partitions; None deletes one. Partitions that already have the offset are omitted.

    The plan counts what is reprocessed and skipped, and counts it again when the connector has stopped: beyond the
    tolerance of `safety` nothing is written, and its state is restored. `shared` are the sinks of all Connect clusters,
    if they are already read.
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
    reads = planner.build_reads(world)
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
        raise UsageError(f"duplicate partition: {', '.join(twice)}")


def refuse_wrong(connector: Connector, meaning: OffsetSemantics, offsets: Sequence[Offset]) -> None:
    """Raise for offsets that the connector's tasks could not read."""
    wrong = [
        f"{spell_identity(found.partition)}: {finding.message}"
        for found in offsets
        for finding in meaning.check(found.partition, found.offset)
        if finding.severity is Severity.ERROR and found.offset is not None
    ]
    if wrong:
        raise RefusedError(
            f"invalid offsets for {connector.owner}; no changes were made",
            cause="; ".join(wrong),
            hint=f"compare with the stored offsets: seamark offsets show {connector.owner}",
        )


def _build_warnings(meaning: OffsetSemantics, offsets: Sequence[Offset]) -> list[str]:
    """Return warnings for offsets that work, but are probably not intended."""
    return [
        f"{finding.subject}: {finding.message}; {finding.fix}"
        if finding.fix
        else f"{finding.subject}: {finding.message}"
        for found in offsets
        for finding in meaning.check(found.partition, found.offset)
        if finding.severity is Severity.WARNING and found.offset is not None
    ]


def merge(title: str, planned: Sequence[PlannedChange]) -> PlannedChange:
    """Merge several plans into one: a step sequence for each owner, so that a failure does not affect the others."""
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


def clamp_offsets(kafka: BrokerPort, offsets: Sequence[Offset]) -> tuple[tuple[Offset, ...], list[str]]:
    """Limit offsets to the range of the log, and return notes about the changed ones.

    For an offset out of range auto.offset.reset decides, which may select the other end.
    """
    spots = {spot for found in offsets if (spot := find_spot(found.partition)) and found.offset is not None}
    bounds = kafka.read_bounds(sorted(spots)).require_complete(what="the bounds") if spots else {}
    clamped, notes = [], []
    for found in offsets:
        spot, number = find_spot(found.partition), read_number(found.offset, OFFSET)
        if spot is None or number is None or spot not in bounds:
            clamped.append(found)
            continue
        inside = min(max(number, bounds[spot].earliest), bounds[spot].latest)
        if inside != number:
            log = f"{bounds[spot].earliest} to {bounds[spot].latest}"
            notes.append(f"{spot[0]}-{spot[1]}: {number} is outside of the log ({log}): {inside} is used instead")
        clamped.append(Offset(found.partition, {OFFSET: inside}))
    return tuple(clamped), notes
