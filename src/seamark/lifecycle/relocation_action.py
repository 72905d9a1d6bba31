"""The action that gives a source another offsets topic, and carries its offsets there while it is stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Self

from seamark.changes.action import (
    LOCKS,
    Action,
    ActionHistory,
    ConfigWrite,
    Needs,
    Reads,
    StepSequence,
    action_kind,
    needs_permission,
)
from seamark.changes.effect import Effect, FieldChange, Sign
from seamark.changes.images import find_typed, split_secrets
from seamark.changes.locks import topic_lock
from seamark.changes.step import CanNotUndo, Step
from seamark.connect.config import OWN_OFFSETS_TOPIC
from seamark.connectors.connector import PutConfig
from seamark.connectors.run_state import SetRunState
from seamark.core.fanout import read_all
from seamark.core.offset import Offset
from seamark.errors import StalePlanError, UnsupportedError
from seamark.lifecycle.relocation_steps import CarryOffsets, MakeOffsetsTopic, VerifyCarried, build_carried
from seamark.offsets.held_offset import TopicHolding
from seamark.offsets.port import OFFSETS, PLANNING
from seamark.offsets.stores.record_topics import check_record_topic
from seamark.offsets.write.actions import Quiesced, find_unrestored_state, read_quiesced
from seamark.offsets.write.progress import build_progress
from seamark.policy.permission import Permission
from seamark.policy.rights import Right
from seamark.report.words import render_count

# Records are written one after the other, each acknowledged: some milliseconds each, and a step has 20 s for sending.
_MOST_OFFSETS = 2000


@dataclass(frozen=True, slots=True)
class OffsetsTopicShape:
    """How a new offsets topic is created."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RelocationSeen:
    """What `RelocateOffsets` reads: the configs now and then, how many offsets are carried, what they are now."""

    quiesced: Quiesced
    present: Mapping[str, str] = field(repr=False)
    config: Mapping[str, str] = field(repr=False)
    is_there: bool
    count: int
    locks: frozenset[str]
    progress: tuple[Step, ...]
    typed: frozenset[str] = frozenset()


@action_kind("relocate-offsets")
@needs_permission(Permission.CHANGE_OFFSETS, Permission.CHANGE_CONFIG)
@dataclass(frozen=True, slots=True)
class RelocateOffsets(Action):
    """Let a source keep its offsets in the topic `target` instead of `source`; all that it holds goes along.

    The config loses `offsets.storage.topic` where the target is the topic of its workers, unless `is_named`. `topic` is
    how the target is created where there is none yet. `config` is the fingerprint of the config that the plan was
    created for; an undo has none. `restores` is the state to restore where it isn't the one that the connector has when
    the plan is prepared. `wait_seconds` is how long the first new offset is waited for.
    """

    # Where the config doesn't name the other topic, there is nothing to carry back.
    reaches_by_itself: ClassVar[bool] = True

    cluster: str
    name: str
    source: str
    target: str
    topic: OffsetsTopicShape | None = None
    is_named: bool = False
    wait_seconds: float | None = None
    accepts_zombies: bool = False
    config: str = ""
    restores: str = ""

    @property
    def subject(self) -> str:
        """The connector."""
        return f"connector/{self.cluster}/{self.name}"

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[RelocationSeen]:
        """Read the connectors, and what both topics hold of them."""
        return read_all((action.subject, partial(action.read, reads)) for action in actions)

    def read(self, reads: Reads) -> RelocationSeen:
        """Read one connector, and what both topics hold of it.

        Raises:
            StalePlanError: the connector uses a third topic by now.
            UnsupportedError: it holds more offsets than are carried at once.
        """
        quiesced, planning = read_quiesced(self.cluster, self.name, reads), reads.use(PLANNING)
        settings, connector = planning.settings(self.cluster), quiesced.connector
        workers = settings.offsets_topic
        if workers is None:
            raise planning.context.missing(f"connect.{self.cluster}.offsets_topic")
        check_record_topic(self.target, planning.context, is_for_offsets=True)
        present = {key: value for key, value in connector.config.items() if key != "name"}
        config = {key: value for key, value in present.items() if key != OWN_OFFSETS_TOPIC}
        if self.target != workers or self.is_named:
            config[OWN_OFFSETS_TOPIC] = self.target
        used = present.get(OWN_OFFSETS_TOPIC) or workers
        if used not in (self.source, self.target):
            raise StalePlanError(
                f"{self.subject} keeps its offsets in another topic by now; no changes were made",
                cause=f"it uses {used}, and the plan carries them from {self.source} to {self.target}",
                hint="create a new plan and review it",
            )
        port = reads.world.use(OFFSETS)(self.cluster, self.name)
        held = tuple(Offset(found.partition, found.offset) for found in port.read_all())
        progress = build_progress(
            self.cluster,
            self.name,
            held,
            (),
            context=planning.context,
            settings=settings,
            wait_seconds=self.wait_seconds,
            carried=True,
        )
        locks = reads.use(LOCKS).find_connector(self.cluster, self.name, [present, config], kind=connector.type)
        return RelocationSeen(
            quiesced,
            present,
            config,
            is_there=used == self.target,
            count=0 if used == self.target else self._count(reads),
            locks=locks | ({topic_lock(self.target)} if self.topic else frozenset()),
            progress=progress if held else (),
            typed=find_typed(reads.world, self.cluster, present),
        )

    def steps(self, seen: RelocationSeen) -> StepSequence:
        """Stop, check, carry the offsets, verify them, name the topic in the config, restore the state.

        Where the offsets can't be carried, the connector continues with the topic that it has and reprocesses nothing.
        """
        if not seen.is_there:
            inner = self._build_inner(seen)
        elif (self.restores or seen.quiesced.state) == seen.quiesced.state:
            return ()
        else:
            inner = ()
        return seen.quiesced.surround(
            inner,
            accepts_zombies=self.accepts_zombies,
            config=self.config,
            restores=self.restores,
            progress=seen.progress,
            is_undo=not self.config,
        )

    def needs(self, seen: RelocationSeen) -> Needs:
        """The locks with both topics, the rights to read both and to write one, the policy's consent to the config."""
        rights = {Right("topic", one, "READ") for one in (self.source, self.target)}
        shown, kept = split_secrets(seen.config, seen.present, seen.typed)
        return Needs(
            seen.locks,
            frozenset({*rights, Right("topic", self.target, "WRITE")}),
            (ConfigWrite(self.cluster, self.name, shown, kept),),
        )

    def effects(self, seen: RelocationSeen) -> tuple[Effect, ...]:
        """One line for the connector, one before it for a topic that is created."""
        key, status = OWN_OFFSETS_TOPIC, seen.quiesced.connector.status
        # An undo carries what is there when it is done.
        what = render_count(seen.count, "offset") if self.config else "its offsets"
        means = "nothing is read again" if seen.count or not self.config else "it begins anew, as it does now"
        effect = Effect(
            Sign.CHANGE,
            self.subject,
            f"stops, takes {what} to topic {self.target}, goes on: {means}",
            (FieldChange(key, seen.present.get(key), seen.config.get(key)),),
            tasks=len(status.tasks) if status else 0,
        )
        return (effect,) if self.topic is None else (_build_topic_effect(self.target, self.topic), effect)

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that carries the offsets back, as they are then. A topic that was created stays."""
        restores = find_unrestored_state(past)
        put = past.find(PutConfig)
        if put is None or put.intent is None or put.intent.before is None:
            return SetRunState(self.cluster, self.name, restores) if restores else None
        is_named = OWN_OFFSETS_TOPIC in put.intent.before["config"]
        return RelocateOffsets(self.cluster, self.name, self.target, self.source, is_named=is_named, restores=restores)

    def _build_inner(self, seen: RelocationSeen) -> tuple[Step, ...]:
        cluster, name, topic = self.cluster, self.name, self.topic
        shown, kept = split_secrets(seen.config, seen.present, seen.typed)
        return (
            *(
                ()
                if topic is None
                else (MakeOffsetsTopic(self.target, topic.partitions, topic.replication_factor, topic.configs),)
            ),
            CarryOffsets(cluster, name, self.source, self.target),
            VerifyCarried(cluster, name, self.source, self.target),
            PutConfig(cluster, name, shown, keep=kept),
        )

    def _count(self, reads: Reads) -> int:
        """Return how many offsets are carried."""
        port = reads.world.use(OFFSETS)(self.cluster, self.name)
        held = TopicHolding(self.target, (), lambda _: 0) if self.topic else port.read_topic(self.target)
        carried = build_carried(port.read_topic(self.source), held, subject=self.subject)
        if len(carried) > _MOST_OFFSETS:
            raise UnsupportedError(
                f"{self.cluster}/{self.name} holds {len(carried)} offsets, too many to be carried at once; "
                "nothing was changed",
                cause=f"up to {_MOST_OFFSETS} are written in the time that a step has",
            )
        return sum(record.value is not None for record in carried)


def _build_topic_effect(name: str, topic: OffsetsTopicShape) -> Effect:
    copies = render_count(topic.replication_factor, "copy", "copies")
    return Effect(
        Sign.CREATE, f"topic/{name}", f"create, compacted, {render_count(topic.partitions, 'partition')}, {copies}"
    )
