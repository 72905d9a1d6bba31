"""What the writes of offsets in a plan mean now, where the plan was made earlier or out of the journal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from seamark.change.steps.offsets import WriteOffsets
from seamark.change.steps.run_state import SetRunState
from seamark.errors import NotFoundError
from seamark.fleet.offset_effect import build_offset_effect
from seamark.fleet.offset_meaning import read_meaning
from seamark.fleet.planned import Planned
from seamark.model.held_offset import WriteRoute
from seamark.model.offset import Offset, spell_identity
from seamark.offsets.codec import decode_key, decode_value

if TYPE_CHECKING:
    from seamark.fleet.clusters import Clusters
    from seamark.fleet.world import FleetWorld
    from seamark.model.effect import Effect


def explain_offsets(planned: Planned, *, clusters: Clusters, world: FleetWorld) -> Planned:
    """The plan with one line for each owner whose offsets it writes: what is read again or skipped, counted now."""
    effects: list[Effect] = list(planned.effects)
    for step in planned.steps:
        if not isinstance(step, WriteOffsets):
            continue
        others = [one for one in planned.steps if one.acts and one.subject == step.subject and one is not step]
        if not all(isinstance(one, SetRunState) for one in others):
            continue
        effect = _read_effect(step, clusters=clusters, world=world, is_stopped=not others)
        place = next((number for number, found in enumerate(effects) if found.subject == step.subject), None)
        if effect is None or place is None:
            continue
        kept = [found for found in effects if found.subject != step.subject]
        effects = [*kept[:place], effect, *kept[place:]]
    return replace(planned, effects=tuple(effects))


def _read_effect(step: WriteOffsets, *, clusters: Clusters, world: FleetWorld, is_stopped: bool) -> Effect | None:
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
    return build_offset_effect(connector, read_meaning(connector, client), needed, previews, is_stopped=is_stopped)


def find_written(step: WriteOffsets) -> tuple[Offset, ...]:
    """The offsets that a step leaves. By the route TOPIC its records say it, the last one of each key."""
    if step.route is WriteRoute.REST:
        return step.offsets
    found: dict[str, Offset] = {}
    for record in step.records:
        key = decode_key(record.key).key
        if key is not None:
            found[spell_identity(key.partition)] = Offset(key.partition, decode_value(record.value).offset)
    return tuple(found.values())
