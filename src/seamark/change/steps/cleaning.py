"""Records are taken out of the log of a compacted topic, tombstones and all, while a change goes on.

A tombstone says nothing to a task only at home: on another partition it hides the value, until compaction takes it
away, by default a day after its segment was closed. So the topic is cleaned at once, and its configs come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, ClassVar, Self

from seamark.change.precondition import POSITION
from seamark.change.step import CanNotUndo, Intent, Observed, Step
from seamark.change.steps.look import Look
from seamark.change.steps.mend import MendStep
from seamark.change.steps.read import read_status, tell_run_state
from seamark.change.steps.stillness import refuse_moving, require_stopped
from seamark.change.steps.topic_change import AlterTopicConfig
from seamark.change.steps.topic_image import require_topic
from seamark.change.world import World
from seamark.errors import DeadlineError, SeamarkError
from seamark.model.held_offset import HeldRecord
from seamark.model.plan import StepData
from seamark.offsets.codec import decode_key, encode_key
from seamark.offsets.grouping import build_home, is_task_key

# A segment is closed by the first record that comes so long after its first one; only closed ones are cleaned. The
# tombstone goes with the second cleaning, so long after the first: a worker that just reads the topic from its
# beginning has that time to come past it. The rest lets the cleaner begin, however little there is to do.
CLEANING = {
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.0",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "10000",
}
# Longer than `segment.ms`, so that each record closes a segment.
_ROLL_SECONDS = 2.0
# The cleaner sleeps 15 s (`log.cleaner.backoff.ms`), and two of its rounds and `delete.retention.ms` are needed: 45 s.
# Four times as much is for brokers that have other topics to clean.
CLEAN_SECONDS = 180.0
_NOBODY = "seamark"


@dataclass(frozen=True, slots=True)
class LendTopicConfig(AlterTopicConfig):
    """Configs of a topic for a while. With `returns` it is the way back within the same change: no undo has to."""

    kind: ClassVar[str] = "lend-topic-config"

    returns: bool = False

    def describe(self) -> str:
        if self.returns:
            return f"put the config of {self.subject} back"
        said = ", ".join(f"{key}={value}" for key, value in self.values.items())
        return f"lend {self.subject} for a while {said}"

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        del intent
        return None

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        arguments = {"name": self.name, "values": dict(self.values), "remove": list(self.remove)}
        return StepData(self.kind, self.subject, arguments | {"returns": self.returns}, lane=lane, always=always)


@dataclass(frozen=True, slots=True)
class AwaitCleaned(Look):
    """Waits until `gone`, which hold no value any more, are out of the log.

    They are of connectors of `cluster`, or of the one that `elsewhere` has for their name: several may share a topic.
    Meanwhile it writes tombstones under a key of nobody's: only a new record closes a segment. That changes nothing for
    anybody, whenever it is done.
    """

    kind: ClassVar[str] = "await-cleaned"
    aspect: ClassVar[str] = "cleaned"
    settle_seconds: ClassVar[float] = CLEAN_SECONDS

    cluster: str
    topic: str
    gone: tuple[HeldRecord, ...]
    seconds: float = CLEAN_SECONDS
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        return f"topic/{self.topic}"

    def describe(self) -> str:
        return f"have the brokers clean {_count(len(self.gone))} out of {self.subject}"

    def perform(self, world: World, intent: Intent) -> str:
        del intent
        clock = world.clock
        began_at = clock.now()
        trouble: SeamarkError | None = None
        while True:
            try:
                left = self._find_left(world)
                if not left:
                    return f"gone after {clock.now() - began_at:.0f} s"
                self._roll(world, left)
                trouble = None
            except SeamarkError as error:
                # A broker that dies meanwhile is no reason to give up: there is time.
                trouble = error
            if clock.now() - began_at >= self.seconds:
                raise self._build_late(trouble)
            clock.sleep(_ROLL_SECONDS)

    def observe(self, world: World, intent: Intent) -> Observed:
        del intent
        return Observed.BEFORE if self._find_left(world) else Observed.AFTER

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        arguments = {
            "cluster": self.cluster,
            "topic": self.topic,
            "gone": [record.to_dict() for record in self.gone],
            "seconds": self.seconds,
            "elsewhere": dict(self.elsewhere),
        }
        return StepData(self.kind, self.subject, arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        gone = tuple(HeldRecord.from_dict(record) for record in data.arguments["gone"])
        return cls(**{**data.arguments, "gone": gone})

    def _find_left(self, world: World) -> list[HeldRecord]:
        owners = dict.fromkeys(decode_key(record.key).connector or "" for record in self.gone)
        there = {
            record.place
            for owner in owners
            for record in world.offsets(self.elsewhere.get(owner, self.cluster), owner).read_topic(self.topic).records
        }
        return [record for record in self.gone if record.place in there]

    def _roll(self, world: World, left: Sequence[HeldRecord]) -> None:
        home = build_home(len(require_topic(world, self.topic).partitions))
        for partition in sorted({record.partition for record in left}):
            keys = (encode_key(_NOBODY, {"cleaning": number}) for number in count())
            key = next(key for key in keys if home(key) == partition)
            world.left_offsets(self.cluster).write([HeldRecord(self.topic, partition, key)])

    def _build_late(self, trouble: SeamarkError | None) -> SeamarkError:
        return DeadlineError(
            f"the brokers did not clean {self.subject} within {self.seconds:g} s",
            cause=trouble.message if trouble else "an open transaction keeps them from it, or they have much to clean",
            hint="its records get the same value, and its config comes back; seamark doctor names open transactions",
        )


@dataclass(frozen=True, slots=True)
class LevelRecords(MendStep):
    """The end of a cleaning, however it went: no tombstone is left that hides a value.

    One that is still in the log, and that a task may look for, gets the value that lies at home, where the mending put
    it first. And that is written once more: a worker that heard of the tombstones has forgotten it. Where the connector
    runs and nothing is hidden, there is nothing to do; nor where the mending was never begun, as it `closes` that.
    """

    kind: ClassVar[str] = "level-records"
    aspect: ClassVar[str] = POSITION
    drifts: ClassVar[bool] = True
    acts: ClassVar[bool] = True
    closes: ClassVar[bool] = True

    def describe(self) -> str:
        return f"have the workers read the offsets of {self.subject} again"

    def intend(self, world: World) -> Intent:
        records = self._find_records(world)
        times = self._read_times(world) if records else {}
        return Intent(
            before={"times": times},
            after={"newer": True} if records else {"times": times},
            extra={"records": [record.to_dict() for record in records]},
        )

    def perform(self, world: World, intent: Intent) -> None:
        records = [HeldRecord.from_dict(record) for record in intent.extra["records"]]
        if records:
            # Whoever runs by now has moved on. One that stands still has not, and a large topic is not read twice.
            refuse_moving(world, self.cluster, self.name)
            world.offsets(self.cluster, self.name).write(records)

    def observe(self, world: World, intent: Intent) -> Observed:
        before: Mapping[str, Any] = intent.before["times"]
        keys = (decode_key(HeldRecord.from_dict(record).key).key for record in intent.extra["records"])
        written = {key.identity for key in keys if key is not None}
        now = self._read_times(world)
        is_newer = all(set(now[name]) - set(before.get(name, ())) for name in written)
        return Observed.AFTER if is_newer else Observed.BEFORE

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        # What it wrote lies where the mending wrote, and goes with that.
        del intent
        return None

    def _find_records(self, world: World) -> list[HeldRecord]:
        held, mended = self.read(world)
        homes = [record for found in mended for record in found.homes if record.value is not None]
        # A copy that still has a value was not come to: it hides no more than before.
        levelled = [
            replace(record, value=found.homes[0].value)
            for found in mended
            for record in found.gone
            if found.homes[0].value is not None and _is_tombstone(held.get(record.place)) and is_task_key(record.key)
        ]
        # Where nobody can tell, it is asked again: a stopped one must not pass for one that runs.
        # By one answer alone: the next may come out of a rebalance that has just begun.
        status = read_status(world, self.cluster, self.name)
        state = None if status is None else tell_run_state(status, self.subject)
        if levelled or state == "STOPPED":
            require_stopped(status, self.subject)
            return [*levelled, *homes]
        return []

    def _read_times(self, world: World) -> dict[str, list[int]]:
        """When each partition was written, of all that is left."""
        partitions = [rule.partition for rule in self.rules]
        writes = world.offsets(self.cluster, self.name).read_writes(partitions)
        return {
            rule.identity: sorted(one.at_ms or 0 for one in found)
            for rule, found in zip(self.rules, writes, strict=True)
        }


def _is_tombstone(record: HeldRecord | None) -> bool:
    return record is not None and record.value is None


def _count(number: int) -> str:
    return f"{number} record" + ("" if number == 1 else "s")
