"""Actions on a record that a sink can't process: find it by trying, and skip it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from seamark.changes.action import (
    Action,
    ActionHistory,
    ConfigWrite,
    Needs,
    Reads,
    StepSequence,
    When,
    action_kind,
    needs_permission,
)
from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.changes.locks import topic_lock
from seamark.changes.step import CanNotUndo, ConnectorSubject, Intent
from seamark.connect.model import Connector, State, fold_trace
from seamark.connectors.run_state import SetRunState
from seamark.core.offsets import Offset
from seamark.dead_letters.overrides import Lent, tells_truth
from seamark.dead_letters.search import FoundBy, Poison, build_search
from seamark.dead_letters.steps import (
    AwaitProgress,
    CreateDeadLetterTopic,
    OverrideConfig,
    RunTemporarily,
    SendToDeadLetter,
)
from seamark.groups.targets import OFFSET, build_partition
from seamark.kafka.api import BROKERS
from seamark.kafka.model import RecordLocation
from seamark.offsets.port import PLANNING
from seamark.offsets.stores.topic import check_record_topic
from seamark.offsets.write.action import Quiesced, find_unrestored_state, read_quiesced, undo_write
from seamark.offsets.write.guards import VerifyOffsets
from seamark.offsets.write.rights import find_offset_rights
from seamark.offsets.write.steps import WriteOffsets
from seamark.policy.permissions import Permission, Right
from seamark.report.words import build_time, render_bytes, render_count, render_number, render_time

if TYPE_CHECKING:
    from seamark.changes.step import Step


_MOST_SHOWN = 64
_FOUND_BY = {
    FoundBy.DECODING: "the first record that its converters can't read",
    FoundBy.TRACE: "the record in the trace of the task",
    FoundBy.SINGLE_RECORDS: "the record at which it stops when it processes single records",
    FoundBy.OPERATOR: "the record that you passed",
}


def build_skip_effect(
    connector: Connector, poison: Poison, *, topic: str, is_delivering: bool, is_dead_letter: bool, shown: bytes | None
) -> Effect:
    """Build the line of the sink, with its committed offset and what happens to the record."""
    place = poison.place
    before = place.offset - poison.position
    delivered = f"at most {render_count(before, 'record')} delivered first, 1 skipped" if before else "1 record skipped"
    field = FieldChange(
        f"{place.topic}-{place.partition}",
        f"next record {render_number(poison.position)}",
        f"next record {render_number(place.offset + 1)}",
        note=delivered,
    )
    tasks = len(connector.status.tasks) if connector.status else 0
    return Effect(
        ChangeKind.CHANGE,
        f"connector/{connector.owner}",
        f"skips 1 record: task {poison.failure.task} failed with {_shorten(poison.failure.exception)}",
        (field,),
        tasks=tasks * 2 if is_delivering else tasks,
        consequences=tuple(_build_consequences(poison, topic=topic, is_dead_letter=is_dead_letter, shown=shown)),
    )


def _build_consequences(poison: Poison, *, topic: str, is_dead_letter: bool, shown: bytes | None) -> Iterator[str]:
    size = poison.size
    key = "no key" if size.key is None else f"key {render_bytes(size.key)}"
    value = "no value (a tombstone)" if size.value is None else f"value {render_bytes(size.value)}"
    moment = render_time(build_time(size.timestamp_ms)) if size.timestamp_ms >= 0 else "no time"
    yield (
        f"the record: {poison.place} · {moment} · {key} · {value}"
        + (f" · {render_count(size.headers, 'header')}" if size.headers else "")
    )
    yield f"identified as: {_FOUND_BY[poison.found_by]}" + (f" ({poison.reason})" if poison.reason else "")
    if shown is not None:
        more = " …" if len(shown) > _MOST_SHOWN else ""
        yield f"its value: {shown[:_MOST_SHOWN].hex(' ')}{more}"
        yield f"the error: {poison.failure.message}"
    yield (
        f"it is already in the dead letter queue {topic}"
        if is_dead_letter
        else f"it will be sent to the dead letter queue {topic}, with its offset and the error"
    )


def build_search_effect(connector: Connector, lent: Lent, *, is_sure: bool) -> Effect:
    """Build the line of a plan that only finds the record."""
    tasks = len(connector.status.tasks) if connector.status else 0
    fields = tuple(FieldChange(key, connector.config.get(key), value, note="temporary") for key, value in lent.items())
    return Effect(
        ChangeKind.CHANGE,
        f"connector/{connector.owner}",
        f"processes single records until it fails: {say_failure(connector)}",
        fields,
        tasks=tasks * 2,
        consequences=(
            "good records are delivered; no record is skipped, and its config is restored",
            "then seamark shows the plan to skip the failing record"
            if is_sure
            else "then it stops at a record; seamark doesn't know this connector class and asks you to confirm the "
            "record",
        ),
    )


def _shorten(exception: str) -> str:
    return exception.rpartition(".")[2] or "no trace"


def say_failure(connector: Connector) -> str:
    """Describe which tasks failed and why, without the trace's message, which may contain record data."""
    failed = [task for task in (connector.status.tasks if connector.status else ()) if task.state is State.FAILED]
    kinds = {fold_trace(task.trace).root.partition(":")[0].rpartition(".")[2] for task in failed} - {""}
    named = ", ".join(str(task.id) for task in failed)
    return f"task {named} FAILED" + (f", {', '.join(sorted(kinds))}" if kinds else "")


STOPPED, RUNNING = "STOPPED", "RUNNING"
# Dead letter records wait for a person to examine them, who may be on vacation.
_KEPT = {"retention.ms": "-1", "cleanup.policy": "delete"}


@action_kind("find-failing-record")
@needs_permission(Permission.OPERATE, Permission.CHANGE_CONFIG)
@dataclass(frozen=True, slots=True)
class FindFailingRecord(ConnectorSubject, Action):
    """Make a failed sink process record by record, until its committed offset shows at which one it fails.

    `lent` are temporary values of its config; None removes a key.
    """

    lent: Lent

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[Quiesced]:
        """Read the sinks."""
        return [read_quiesced(action.cluster, action.name, reads) for action in actions]

    def steps(self, seen: Quiesced) -> StepSequence:
        """Return the steps: stop, set the temporary config, process, stop, restore the config, start."""
        return (*build_delivery(seen, self.lent), (_build_start(self), When.ALWAYS))

    def needs(self, seen: Quiesced) -> Needs:
        """Return the sink's locks, and the temporary config for the policy."""
        return Needs(seen.locks, configs=(build_lent_write(seen, self.lent),))

    def effects(self, seen: Quiesced) -> tuple[Effect, ...]:
        """Return one line for the sink."""
        is_sure = tells_truth(seen.connector, self.lent)
        return (build_search_effect(seen.connector, self.lent, is_sure=is_sure),)

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that restores what the search didn't restore: usually nothing."""
        return build_restore(self, past)


@dataclass(frozen=True, slots=True)
class SkipSeen:
    """What `SkipRecord` reads: the sink, and whether the dead letter topic exists and has the record."""

    quiesced: Quiesced
    is_new: bool
    parking: SendToDeadLetter
    parked: Intent
    rights: frozenset[Right]

    @property
    def is_dead_letter(self) -> bool:
        """Whether the record is already in the dead letter topic."""
        return not self.is_new and bool(self.parked.before["parked"])


@action_kind("skip-record")
@needs_permission(Permission.CHANGE_OFFSETS)
@dataclass(frozen=True, slots=True)
class SkipRecord(ConnectorSubject, Action):
    """Deliver all records before one that a sink can't process, send that one to the dead letter topic, and continue.

    `topic` is the dead letter topic, which is created if it doesn't exist. `lent` are temporary values of the sink's
    config while it processes record by record; without them no records are delivered before the failing one.
    """

    record: Poison
    topic: str
    lent: Lent = field(default_factory=dict)
    accepts_zombies: bool = False

    @property
    def write(self) -> WriteOffsets:
        """The step that commits the offset after the record."""
        place = self.record.place
        offset = Offset(build_partition(place.spot), {OFFSET: place.offset + 1})
        return WriteOffsets(self.cluster, self.name, (offset,))

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[SkipSeen]:
        """Read the sinks and the dead letter topics."""
        return [action.read(reads) for action in actions]

    def read(self, reads: Reads) -> SkipSeen:
        """Read the sink and the dead letter topic."""
        check_record_topic(self.topic, reads.use(PLANNING).context)
        quiesced = read_quiesced(self.cluster, self.name, reads)
        parking = SendToDeadLetter(self.cluster, self.name, self.record.place, self.topic, self.record.failure)
        return SkipSeen(
            quiesced,
            not reads.world.use(BROKERS)().read_topics([self.topic]).items,
            parking,
            parking.intend(reads.world),
            frozenset(find_offset_rights(self.write, quiesced.connector, reads.use(PLANNING))),
        )

    def steps(self, seen: SkipSeen) -> StepSequence:
        """Return the steps: deliver, stop, send to the dead letter topic, commit, verify, start, wait for progress."""
        stopped = (seen.quiesced.stop, seen.quiesced.build_proof(accepts_zombies=self.accepts_zombies))
        begin = (
            build_delivery(seen.quiesced, self.lent, self.record.place, accepts_zombies=self.accepts_zombies)
            if self.lent
            else _in_turn(stopped)
        )
        create = [CreateDeadLetterTopic(self.topic, partitions=1, configs=_KEPT)] if seen.is_new else []
        write = self.write
        return (
            *begin,
            *_in_turn((*create, seen.parking, write, VerifyOffsets(write))),
            (_build_start(self), When.ALWAYS),
            (AwaitProgress(self.cluster, self.name, self.record.place), When.TURN),
        )

    def needs(self, seen: SkipSeen) -> Needs:
        """Return the locks of the sink and a new topic, the ACLs to commit, and the temporary config for the policy."""
        locks = {*seen.quiesced.locks, *((topic_lock(self.topic),) if seen.is_new else ())}
        configs = (build_lent_write(seen.quiesced, self.lent),) if self.lent else ()
        return Needs(frozenset(locks), seen.rights, configs)

    def effects(self, seen: SkipSeen) -> tuple[Effect, ...]:
        """Return one line for the sink."""
        return (self.build_effect(seen),)

    def build_effect(self, seen: SkipSeen, *, shown: bytes | None = None) -> Effect:
        """Build the line for the sink, with the record's value if `shown` is given."""
        return build_skip_effect(
            seen.quiesced.connector,
            self.record,
            topic=f"{self.topic} (a new topic)" if seen.is_new else self.topic,
            is_delivering=bool(self.lent),
            is_dead_letter=seen.is_dead_letter,
            shown=shown,
        )

    def find_intents(self, seen: SkipSeen) -> Mapping[str, Intent]:
        """Return whether the record is in the dead letter topic, because finding out reads the whole topic."""
        return {f"{seen.parking.subject}#{seen.parking.aspect}": seen.parked}

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that commits the previous offset; the dead letter record stays."""
        written = past.undo_all(WriteOffsets, WriteOffsets)
        return undo_write(written[0], restores=find_unrestored_state(past)) if written else build_restore(self, past)


@action_kind("return-config")
@needs_permission(Permission.CHANGE_CONFIG)
@dataclass(frozen=True, slots=True)
class ReturnConfig(ConnectorSubject, Action):
    """Restore the values that keys of a sink's config had before they were changed temporarily.

    `restores` is the state to restore if it isn't the sink's state at planning.
    """

    values: Lent
    restores: str = ""

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[Quiesced]:
        """Read the sinks."""
        return [read_quiesced(action.cluster, action.name, reads) for action in actions]

    def steps(self, seen: Quiesced) -> StepSequence:
        """Return the steps: stop, restore the config, restore the state.

        The sink is stopped because before Connect 3.9 running tasks don't get all new values.
        """
        state = self.restores or seen.state
        restore = SetRunState(self.cluster, self.name, state)
        if all(seen.connector.config.get(key) == value for key, value in self.values.items()):
            return () if state == seen.state else ((restore, When.ALWAYS),)
        back = OverrideConfig(self.cluster, self.name, self.values, returns=True)
        return (*_in_turn((seen.stop, back)), *(() if state == STOPPED else ((restore, When.ALWAYS),)))

    def needs(self, seen: Quiesced) -> Needs:
        """Return the sink's locks, and the config for the policy."""
        return Needs(seen.locks, configs=(build_lent_write(seen, self.values),))

    def effects(self, seen: Quiesced) -> tuple[Effect, ...]:
        """Return one line for each step."""
        return tuple(Effect(ChangeKind.CHANGE, step.subject, step.describe()) for step, _ in self.steps(seen))

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that restores the state; the temporary config isn't set again."""
        return build_restore(self, past)


def build_delivery(
    seen: Quiesced, lent: Lent, place: RecordLocation | None = None, *, accepts_zombies: bool = False
) -> Iterator[tuple[Step, When]]:
    """Yield the steps that process record by record until the sink fails, then stop it and restore its config.

    The sink is stopped for each change of the config: before 3.9, running tasks didn't get a changed consumer override.
    """
    cluster, name, config = seen.connector.cluster, seen.connector.name, seen.connector.config
    proof = seen.build_proof(accepts_zombies=accepts_zombies)
    yield from _in_turn((seen.stop, proof, OverrideConfig(cluster, name, lent)))
    yield from _in_turn((RunTemporarily(cluster, name, RUNNING), *build_search(cluster, name, place)))
    yield RunTemporarily(cluster, name, STOPPED), When.ALWAYS
    yield OverrideConfig(cluster, name, {key: config.get(key) for key in lent}, returns=True), When.ALWAYS
    yield seen.build_proof(accepts_zombies=accepts_zombies), When.TURN


def build_lent_write(seen: Quiesced, lent: Lent) -> ConfigWrite:
    """Return the config with the temporary values, for the policy."""
    connector = seen.connector
    merged = {**connector.config, **lent}
    config = {key: value for key, value in merged.items() if value is not None}
    return ConfigWrite(connector.cluster, connector.name, config, is_validated=False)


def build_restore(action: ConnectorSubject, past: ActionHistory) -> Action | CanNotUndo | None:
    """Return the action that restores a config that is still temporary, and a state that isn't restored."""
    restores = find_unrestored_state(past)
    lent = past.find_all(OverrideConfig)
    is_returned = len(lent) > 1 and lent[-1].is_good
    if not is_returned and (refusal := past.find_refusal()):
        return refusal
    back = past.undo_all(OverrideConfig, OverrideConfig)
    if back and not is_returned:
        return ReturnConfig(action.cluster, action.name, back[-1].values, restores)
    return SetRunState(action.cluster, action.name, restores) if restores else None


def _build_start(action: ConnectorSubject) -> SetRunState:
    """Build the step that starts the sink, because a failed sink is meant to run."""
    return SetRunState(action.cluster, action.name, RUNNING)


def _in_turn(steps: Iterable[Step]) -> Iterator[tuple[Step, When]]:
    return ((step, When.TURN) for step in steps)
