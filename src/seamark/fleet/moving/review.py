"""What the writes of offsets in a plan mean now, where the plan was made earlier or out of the journal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from seamark.change.steps.offsets import WriteOffsets
from seamark.change.steps.run_state import SetRunState
from seamark.errors import NotFoundError
from seamark.fleet.moving.effect import How, build_offset_effect, build_record_change, find_how
from seamark.fleet.planned import Planned
from seamark.fleet.positions.meaning import read_meaning
from seamark.model.effect import Effect, FieldChange
from seamark.model.held_offset import HeldOffset, HeldRecord, WriteRoute
from seamark.model.offset import Offset, spell_identity
from seamark.offsets.codec import decode_key, decode_value

if TYPE_CHECKING:
    from seamark.fleet.clusters import Clusters
    from seamark.fleet.world import FleetWorld


def explain_offsets(planned: Planned, *, clusters: Clusters, world: FleetWorld) -> Planned:
    """The plan with one line for each owner whose offsets it writes: what is read again or skipped, counted now."""
    effects: list[Effect] = list(planned.effects)
    for step in planned.steps:
        if not isinstance(step, WriteOffsets):
            continue
        others = [one for one in planned.steps if one.acts and one.subject == step.subject and one is not step]
        if not all(isinstance(one, SetRunState) for one in others):
            continue
        effect = _read_effect(step, clusters=clusters, world=world, how=find_how(others))
        place = next((number for number, found in enumerate(effects) if found.subject == step.subject), None)
        if effect is None or place is None:
            continue
        kept = [found for found in effects if found.subject != step.subject]
        effects = [*kept[:place], effect, *kept[place:]]
    return replace(planned, effects=tuple(effects))


def _read_effect(step: WriteOffsets, *, clusters: Clusters, world: FleetWorld, how: How) -> Effect | None:
    client = clusters.client(step.cluster)
    offsets = find_written(step)
    try:
        connector = client.read_connector(step.name)
        port = world.offsets(step.cluster, step.name)
        held = port.read([found.partition for found in offsets])
        previews = port.preview(offsets)
    except NotFoundError:
        return None
    needed = list(zip(held, offsets, strict=True))
    effect = build_offset_effect(connector, read_meaning(connector, client), needed, previews, how=how)
    return replace(effect, fields=(*effect.fields, *_build_records(step, held)))


def _build_records(step: WriteOffsets, held: Sequence[HeldOffset]) -> Iterator[FieldChange]:
    """Each record that changes, where those of one partition will not say the same: the way back from a mending."""
    now = {record.place: record for found in held for record in found.records}
    values: dict[str, set[bytes | None]] = {}
    for record in step.records:
        values.setdefault(_identify(record), set()).add(record.value)
    for record in step.records:
        before = now.get(record.place)
        if len(values[_identify(record)]) > 1 and (before is None or before.value != record.value):
            yield build_record_change(before, record)


def _identify(record: HeldRecord) -> str:
    key = decode_key(record.key).key
    return record.place if key is None else spell_identity(key.partition)


def find_written(step: WriteOffsets) -> tuple[Offset, ...]:
    """The offsets that a step leaves. By the route TOPIC its records say it, the last one of each key."""
    if step.route is not WriteRoute.TOPIC:
        return step.offsets
    found: dict[str, Offset] = {}
    for record in step.records:
        key = decode_key(record.key).key
        if key is not None:
            found[spell_identity(key.partition)] = Offset(key.partition, decode_value(record.value).offset)
    return tuple(found.values())
