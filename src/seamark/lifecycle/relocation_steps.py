"""A source's offsets are carried from one offsets topic to another, to the byte, while it is stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from seamark.changes.comparison import compare_places
from seamark.changes.look import Look
from seamark.changes.precondition import POSITION
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.changes.world import World
from seamark.errors import RefusedError
from seamark.kafka.records_held import HeldRecord
from seamark.offsets.held_offset import TopicHolding
from seamark.offsets.port import OFFSETS
from seamark.offsets.stillness import refuse_moving
from seamark.topics.topic import CreateTopic


@dataclass(frozen=True, slots=True)
class _Carried(Step):
    """What the two steps about carried offsets share."""

    cluster: str
    name: str
    source: str
    target: str

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def _read(self, world: World) -> tuple[TopicHolding, tuple[HeldRecord, ...]]:
        """What the target holds, and what it shall hold."""
        port = world.use(OFFSETS)(self.cluster, self.name)
        source, target = port.read_topic(self.source), port.read_topic(self.target)
        return target, build_carried(source, target, subject=self.subject)


@step_kind("carry-offsets")
@dataclass(frozen=True, slots=True)
class CarryOffsets(_Carried):
    """The topic `target` gets the newest record of every key of the connector in `source`, with the same bytes.

    What is carried is read when it is done: a running source moves on until its stop. A key that only the target has,
    from a time when the connector used it before, is taken away there. Undoing it carries them back, as they are then.
    """

    aspect: ClassVar[str] = POSITION
    repeats: ClassVar[bool] = True

    def describe(self) -> str:
        return f"carry the offsets of {self.subject} from topic {self.source} to topic {self.target}, to the byte"

    def intend(self, world: World) -> Intent:
        held, wanted = self._read(world)
        return Intent(before=_build_image(wanted, held), after=_build_wanted(wanted))

    def perform(self, world: World, intent: Intent) -> None:
        refuse_moving(world, self.cluster, self.name)
        records = [
            HeldRecord.from_dict(found)
            for place, found in intent.after["records"].items()
            if intent.before["records"].get(place) != found
        ]
        world.use(OFFSETS)(self.cluster, self.name).write(records, into=self.target)

    def observe(self, world: World, intent: Intent) -> Observed:
        wanted = tuple(HeldRecord.from_dict(found) for found in intent.after["records"].values())
        held = world.use(OFFSETS)(self.cluster, self.name).read_topic(self.target)
        return compare_places(_build_image(wanted, held), intent, "records")

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        del intent
        return CarryOffsets(self.cluster, self.name, self.target, self.source)


@step_kind("verify-carried")
@dataclass(frozen=True, slots=True)
class VerifyCarried(Look, _Carried):
    """Right before the connector uses the other topic, that holds what the one does that it used."""

    aspect: ClassVar[str] = "verified"

    def describe(self) -> str:
        return f"verify the offsets of {self.subject} in topic {self.target}"

    def perform(self, world: World, intent: Intent) -> str:
        del intent
        held, wanted = self._read(world)
        if wrong := self._find_wrong(held, wanted):
            raise RefusedError(
                f"topic {self.target} does not hold what topic {self.source} does of {self.subject}",
                cause=f"they differ in {', '.join(wrong[:5])}",
                hint="find out who writes them",
            )
        count = sum(record.value is not None for record in wanted)
        return f"{count} offset" + ("" if count == 1 else "s")

    def observe(self, world: World, intent: Intent) -> Observed:
        del intent
        return Observed.BEFORE if self._find_wrong(*self._read(world)) else Observed.AFTER

    def _find_wrong(self, held: TopicHolding, wanted: Sequence[HeldRecord]) -> list[str]:
        found = _build_image(wanted, held)["records"]
        return [place for place, one in _build_wanted(wanted)["records"].items() if found[place] != one]


@step_kind("make-offsets-topic")
@dataclass(frozen=True, slots=True)
class MakeOffsetsTopic(CreateTopic):
    """The topic for a connector's own offsets. Undoing the change leaves it: it holds a copy of what was carried."""

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        del intent
        return None


def build_carried(source: TopicHolding, target: TopicHolding, *, subject: str) -> tuple[HeldRecord, ...]:
    """The records that make a topic hold what another one does of a connector.

    A key goes where it lies already; a new one where a Java producer puts it.
    """
    values: dict[bytes, bytes | None] = {}
    for record in source.records:
        if values.get(record.key, record.value) != record.value:
            raise RefusedError(
                f"nobody can tell which record holds the offsets of {subject}; nothing was changed",
                cause=f"{record.key!r} is on several partitions of {source.topic}, and they differ",
                hint="seamark offsets show shows all of them",
            )
        values[record.key] = record.value
    places: dict[bytes, list[int]] = {}
    for record in target.records:
        places.setdefault(record.key, []).append(record.partition)
    carried = []
    for key in sorted({*values, *places}):
        value = values.get(key)
        homes = places.get(key) or ([target.find_home(key)] if value is not None else [])
        carried += [HeldRecord(target.topic, partition, key, value) for partition in sorted(homes)]
    return tuple(carried)


def _build_wanted(records: Sequence[HeldRecord]) -> dict[str, Any]:
    return {"records": {record.place: record.to_dict() for record in records}}


def _build_image(records: Sequence[HeldRecord], held: TopicHolding) -> dict[str, Any]:
    """What a topic holds at the places of these records. No record and a tombstone are the same."""
    now: Mapping[str, HeldRecord] = {record.place: record for record in held.records}
    return {
        "records": {
            record.place: {**record.to_dict(), "value": now[record.place].to_dict()["value"]}
            if record.place in now
            else {**record.to_dict(), "value": None}
            for record in records
        }
    }
