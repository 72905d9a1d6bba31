"""Delete connectors together with their offsets, in one change that can be undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Self

from seamark.changes.action import (
    Action,
    ActionHistory,
    Needs,
    Reads,
    StepSequence,
    When,
    action_kind,
    in_turn,
    needs_permission,
)
from seamark.changes.effect import Effect
from seamark.changes.plan import PlannedChange
from seamark.changes.step import CanNotUndo, ConnectorSubject, Intent, step_kind
from seamark.connect.capability import Capability
from seamark.connect.clusters import Clusters
from seamark.connect.model import Connector
from seamark.connectors.run_state import SetRunState
from seamark.connectors.steps import CreateConnector, DeleteConnector, say_tasks
from seamark.core.offsets import Offset
from seamark.core.readings import fan_out
from seamark.core.refs import ConnectorType, spell_aspect
from seamark.errors import UsageError
from seamark.kafka.api import BROKERS
from seamark.kafka.model import HeldRecord
from seamark.lifecycle.actions import CreateWithOffsets, StepView, view_step
from seamark.offsets.codec.codec import as_rest_map, decode_key, decode_value, encode_value
from seamark.offsets.model import CurrentOffset, WriteRoute
from seamark.offsets.port import PLANNING, SNAPSHOTS
from seamark.offsets.quiesce import choose_quiesce_method
from seamark.offsets.semantics import OffsetSemantics
from seamark.offsets.stores.topic import is_task_key
from seamark.offsets.write.action import (
    STOPPED,
    Quiesced,
    build_quiesced,
    check_write,
    choose_route,
    find_unrestored_state,
    find_written,
    undo_write,
)
from seamark.offsets.write.guards import VerifyOffsets, build_config_pin
from seamark.offsets.write.rights import SharedGroups, build_rights_notes, find_offset_rights, read_shared
from seamark.offsets.write.steps import CheckNoOtherOffsets, WriteOffsets
from seamark.policy.permissions import Permission, Right
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.connectors.plans import ConnectorPlans
    from seamark.context import Context

# Not all offsets of a hundred tables are shown; all of them are in the plan's actions.
_SHOWN = 5


@step_kind("delete-after-offsets")
@dataclass(frozen=True, slots=True)
class DeleteAfterOffsets(DeleteConnector):
    """Deletes a connector whose offsets are deleted already."""

    def describe(self) -> str:
        return f"delete {self.subject}"


@dataclass(frozen=True, slots=True)
class DeleteSeen:
    """What `DeleteWithOffsets` reads: the connector, its offsets, and what the deletion finds."""

    quiesced: Quiesced
    delete: StepView
    held: tuple[CurrentOffset, ...]
    meaning: OffsetSemantics = field(repr=False)
    rights: frozenset[Right]


@action_kind("delete-with-offsets")
@needs_permission(Permission.DELETE, Permission.CHANGE_OFFSETS)
@dataclass(frozen=True, slots=True)
class DeleteWithOffsets(ConnectorSubject, Action):
    """Delete a connector and all its offsets. Those in `offsets` are None; with the route TOPIC `records` are written.

    The offsets are deleted first, while the connector is stopped, because Connect changes the offsets of existing
    connectors only, and because the checks of the stop need its config and status. If that fails, the state of the
    connector is restored. From then on nothing starts it: without its offsets it would begin again. If it can't be
    deleted, the change stays open, so that the locks keep it stopped. `config` is the fingerprint of the config that
    the offsets were planned for.
    """

    offsets: tuple[Offset, ...]
    route: WriteRoute = WriteRoute.REST
    records: tuple[HeldRecord, ...] = ()
    config: str = ""

    @property
    def write(self) -> WriteOffsets:
        """Return the step that deletes the offsets."""
        return WriteOffsets(self.cluster, self.name, self.offsets, self.route, self.records)

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[DeleteSeen]:
        """Read the connectors, with one scan of each offsets topic."""
        reads.world.use(SNAPSHOTS).expect(action.name for action in actions)
        answers = fan_out({str(number): partial(action.read, reads) for number, action in enumerate(actions)})
        for error in answers.failures.values():
            raise error
        return list(answers.results.values())

    def read(self, reads: Reads) -> DeleteSeen:
        """Read one connector and its offsets."""
        snapshot, planning = reads.world.use(SNAPSHOTS).open(self.cluster, self.name), reads.use(PLANNING)
        check_write(self.write, snapshot.connector, planning)
        return DeleteSeen(
            build_quiesced(snapshot.connector, reads),
            view_step(DeleteAfterOffsets(self.cluster, self.name), reads),
            tuple(snapshot.read([one.partition for one in self.offsets])),
            snapshot.meaning,
            frozenset(find_offset_rights(self.write, snapshot.connector, planning)),
        )

    def steps(self, seen: DeleteSeen) -> StepSequence:
        """Return the steps: stop, check, delete the offsets, verify, delete the connector."""
        quiesced = seen.quiesced
        before = (quiesced.stop, quiesced.build_proof(config=self.config), self._guard)
        delete = seen.delete.step
        # A step with this condition only looks at the steps before it: after the offsets are deleted, it is never due.
        back = (
            ()
            if quiesced.state == STOPPED
            else ((SetRunState(self.cluster, self.name, quiesced.state), When.FALLBACK),)
        )
        if not self.offsets:
            return (*in_turn(*before, delete), *back)
        return (
            *in_turn(*before, self.write),
            *back,
            # Without its offsets it must not start: the change stays open until it is deleted.
            (VerifyOffsets(self.write, self.config), When.INSISTS),
            (delete, When.INSISTS),
        )

    def needs(self, seen: DeleteSeen) -> Needs:
        """Return the connector's locks, and the permissions to read and write its offsets."""
        return Needs(seen.quiesced.locks | seen.delete.seen.locks, seen.rights)

    def effects(self, seen: DeleteSeen) -> tuple[Effect, ...]:
        """Return one line for the connector, with the offsets that are deleted."""
        ends = say_tasks(seen.delete.seen.tasks, "ends", "end")
        words = f"delete with {render_count(len(self.offsets), 'offset')}: {ends}"
        places = [seen.meaning.describe(found.partition, found.offset) for found in seen.held]
        consequences = [f"deletes the offset of {where}: {place}" for where, place in places[:_SHOWN]]
        if len(places) > _SHOWN:
            consequences.append(f"… and of {render_count(len(places) - _SHOWN, 'partition')} more")
        return (replace(seen.delete.build_effect(), words=words, consequences=tuple(consequences)),)

    def notes(self, seen: DeleteSeen) -> tuple[str, ...]:
        """Return a note if the deletion can't be undone."""
        return seen.delete.step.notes(seen.delete.seen)

    def find_intents(self, seen: DeleteSeen) -> Mapping[str, Intent]:
        """Return the state and the config of the connector."""
        step = seen.delete.step
        return {**seen.quiesced.find_intents(), spell_aspect(step.subject, step.aspect): seen.delete.seen.intent}

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that creates the connector again with its offsets, to the byte, and then runs it."""
        if refusal := past.find_refusal():
            return refusal
        creates = past.undo_all(DeleteAfterOffsets, CreateConnector)
        state = _find_previous_state(past)
        if not creates:
            return self._undo_offsets(past)
        create = replace(creates[0], state=state or creates[0].state)
        back = _restore_bytes(past)
        if back is None:
            return create
        return CreateWithOffsets(
            self.cluster, self.name, create.config, back.offsets, create.state, back.route, back.records
        )

    @property
    def _guard(self) -> CheckNoOtherOffsets:
        return CheckNoOtherOffsets(self.cluster, self.name, tuple(one.partition for one in self.offsets))

    def _undo_offsets(self, past: ActionHistory) -> Action | None:
        """Return the action for a connector that still exists."""
        restores = find_unrestored_state(past)
        if (back := _restore_bytes(past)) is not None:
            return undo_write(back, restores=restores)
        return SetRunState(self.cluster, self.name, restores) if restores else None


def _find_previous_state(past: ActionHistory) -> str:
    """Return the state of the connector before it was stopped; "" if it was stopped already."""
    stops = past.find_all(SetRunState)
    before = stops[0].intent.before if stops and stops[0].intent is not None else None
    return "" if before is None else str(before["state"])


def _restore_bytes(past: ActionHistory) -> WriteOffsets | None:
    """Return the step that restores the deleted offsets as they were; None if none were deleted.

    REST encodes each offset in its own way, such as with its fields in another order. If that isn't how it was stored,
    the records are written, as the journal has them.
    """
    written, back = past.find(WriteOffsets), past.undo_last(WriteOffsets, WriteOffsets)
    if written is None or written.intent is None or back is None:
        return None
    intent = written.intent
    records = tuple(HeldRecord.from_dict(record) for record in intent.extra.get("records", ()))
    # A record that no task reads isn't changed by the deletion.
    records = tuple(record for record in records if is_task_key(record.key) and record.value is not None)
    if back.route is WriteRoute.REST and not all(is_rest_record(record) for record in records):
        back = replace(back, route=WriteRoute.TOPIC, records=records[::-1])
    return replace(back, offsets=find_written(back))


def is_rest_record(record: HeldRecord) -> bool:
    """Return whether REST would write these bytes for the offset in the record."""
    offset = decode_value(record.value).offset
    return (
        offset is not None
        and decode_key(record.key).is_rest_spelling
        and encode_value(as_rest_map(offset)) == record.value
    )


def plan_delete_with_offsets(
    plans: ConnectorPlans, connectors: Sequence[Connector], *, clusters: Clusters, context: Context
) -> PlannedChange:
    """Plan to delete connectors and their offsets: one action and one step sequence for each.

    Raises:
        UnsupportedError: the workers can't stop a connector.
        RefusedError: the offsets are ambiguous, or those of a sink also belong to other owners.
    """
    if not connectors:
        raise UsageError("nothing to delete: no connector is given", hint="pass NAME or CLUSTER/NAME")
    planner = plans.planner
    reads = planner.open_reads(len(connectors))
    reads.world.use(SNAPSHOTS).expect(one.name for one in connectors)
    shared = read_shared(clusters) if any(one.type is ConnectorType.SINK for one in connectors) else None
    answers = fan_out(
        {
            one.owner: partial(_plan_one, plans, one, reads, clusters=clusters, context=context, shared=shared)
            for one in connectors
        }
    )
    for error in answers.failures.values():
        raise error
    planned = [answers.results[one.owner] for one in connectors]
    named = connectors[0].name if len(connectors) == 1 else f"{len(connectors)} connectors"
    return planner.plan(
        f"delete {named} with offsets",
        [action for action, _ in planned],
        notes=dict.fromkeys(note for _, notes in planned for note in notes),
        reads=reads,
    )


def _plan_one(
    plans: ConnectorPlans,
    connector: Connector,
    reads: Reads,
    *,
    clusters: Clusters,
    context: Context,
    shared: SharedGroups | None,
) -> tuple[DeleteWithOffsets, tuple[str, ...]]:
    """Return the action for one connector, and notes."""
    client, settings = clusters.client(connector.cluster), clusters.settings(connector.cluster)
    quiesce = choose_quiesce_method(connector, client, settings=settings)
    snapshot = reads.world.use(SNAPSHOTS).open(connector.cluster, connector.name, connector)
    held = [one for one in snapshot.read_all() if one.offset is not None or one.ambiguity]
    wanted = [Offset(one.partition, None) for one in held]
    notes = (*quiesce.notes, *plans.build_state_note(connector))
    if shared is not None and connector.type is ConnectorType.SINK:
        notes += shared.refuse_foreign(connector, wanted)
    # Only from 3.7 on, an undo can create the connector stopped and then restore its offsets through REST. Before that,
    # they are written before it is created, without REST.
    has_rest = quiesce.has_rest and (
        client.read_capabilities().has(Capability.INITIAL_STATE) or context.verify == "rest"
    )
    route = choose_route(connector, held, wanted, has_rest=has_rest, complete=snapshot.complete)
    action = DeleteWithOffsets(
        connector.cluster,
        connector.name,
        route.step.offsets,
        route.step.route,
        route.step.records,
        build_config_pin(connector.config, reads.world, cluster=connector.cluster),
    )
    rights = find_offset_rights(action.write, connector, reads.use(PLANNING))
    missing = build_rights_notes(rights, context=context, brokers=plans.planner.world.use(BROKERS))
    return action, (*notes, *route.notes, *missing)
