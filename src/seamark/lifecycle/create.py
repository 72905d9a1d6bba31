"""A new connector that does not begin at its beginning: created stopped, given its offsets, then run.

Workers before 3.7 create none that is stopped. There the offsets are written first, while nobody is there to use them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.changes.planned import Planned
from seamark.connect.capability import Capability
from seamark.connect.connector import Connector
from seamark.connect.plugin_type import find_type
from seamark.connectors.config import build_config
from seamark.core.refs import ConnectorType
from seamark.errors import NotFoundError
from seamark.kafka.api import BROKERS
from seamark.lifecycle.actions import CreateWithOffsets
from seamark.lifecycle.leftovers import says_nothing_held
from seamark.offsets.move.made_anew import SavedTopics
from seamark.offsets.move.sink_targets import clamp_offsets
from seamark.offsets.move.targets import read_owner_file
from seamark.offsets.port import OFFSETS
from seamark.offsets.semantics.plugin_semantics import read_meaning
from seamark.offsets.standing import refuse_blind, require_group_id
from seamark.offsets.stores.override_config import reads_elsewhere
from seamark.offsets.write.plans import refuse_wrong
from seamark.offsets.write.route import Route, choose_route
from seamark.offsets.write.shared_groups import read_shared
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.changes.world import World
    from seamark.connect.clusters import Clusters
    from seamark.connectors.plans import ConnectorPlans
    from seamark.context import Context
    from seamark.core.offset import Offset

_STOPPED = "STOPPED"


def plan_create_with_offsets(
    plans: ConnectorPlans,
    name: str,
    given: Mapping[str, Any],
    path: Path,
    *,
    cluster: str | None,
    state: str,
    clusters: Clusters,
    context: Context,
) -> Planned:
    """The plan: create it stopped, write the offsets, verify them, and only then let it run.

    Where the offsets can't be written it stays stopped: run without them, it would begin at its beginning. Where it
    can't be created stopped, it is not created before they are written.
    """
    where, state = plans.choose_cluster(cluster), state.upper()
    client, settings, world = clusters.client(where), clusters.settings(where), plans.planner.world
    is_first = client.read_capabilities().has(Capability.INITIAL_STATE)
    planned = plans.create(name, given, cluster=where, state=_STOPPED if is_first else state)
    config = build_config(name, given)
    connector = Connector(name, where, find_type(client.read_plugins(), config["connector.class"]), config)
    saved = read_owner_file(path, owner=connector.owner)
    offsets = tuple(found for found in saved.offsets if found.offset is not None)
    if not offsets:
        raise NotFoundError(f"{path} holds no offsets of {name}")
    refuse_wrong(connector, read_meaning(connector, client), offsets)
    notes: list[str] = []
    if connector.type is ConnectorType.SINK:
        offsets, notes = _guard_sink(connector, offsets, saved.topics, world=world, clusters=clusters, context=context)
    action = CreateWithOffsets(where, name, config, offsets, state)
    if not is_first:
        require_group_id(context, settings)
        route = _choose_first(connector, offsets, world=world)
        action = replace(action, route=route.step.route, records=route.step.records)
        notes += ["its offsets are written before it is created: its workers create none that is stopped", *route.notes]
    return plans.planner.plan(
        f"create {name} with {render_count(len(offsets), 'offset')}",
        [action],
        notes=(*(note for note in planned.plan.notes if not says_nothing_held(name, note)), *notes),
    )


def _choose_first(connector: Connector, offsets: Sequence[Offset], *, world: World) -> Route:
    """Return how offsets are written before their connector is there."""
    port = world.use(OFFSETS)(connector.cluster, connector.name, kept=connector)
    refuse_blind(port)
    held = port.read([found.partition for found in offsets])
    return choose_route(connector, held, offsets, has_rest=False, complete=port.complete)


def _guard_sink(
    connector: Connector,
    offsets: tuple[Offset, ...],
    topics: Mapping[str, str] | None,
    *,
    world: World,
    clusters: Clusters,
    context: Context,
) -> tuple[tuple[Offset, ...], list[str]]:
    """The offsets of a new sink within the log; refused where they are of other topics, or others are in its group."""
    kafka = world.use(BROKERS) if context.has_brokers else None
    notes = SavedTopics(topics, kafka=kafka).refuse_other(connector.owner, offsets, connector)
    notes += read_shared(clusters).refuse_foreign(connector, offsets)
    # A sink on another Kafka cluster has its log there, and Connect alone can say whether its offsets are in it.
    if kafka is None or reads_elsewhere(connector):
        return offsets, notes
    clamped, said = clamp_offsets(kafka(), offsets)
    return clamped, [*said, *notes]
