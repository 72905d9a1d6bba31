"""The records of a source's offsets become what Connect would have written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from seamark.changes.comparison import compare_places
from seamark.changes.look import Look
from seamark.changes.precondition import POSITION
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.changes.world import World
from seamark.core.offset import Offset
from seamark.errors import RefusedError
from seamark.kafka.records_held import HeldRecord
from seamark.offsets.codec.codec import decode_value
from seamark.offsets.held_offset import WriteRoute
from seamark.offsets.port import OFFSETS
from seamark.offsets.repair.mending import MendRule, build_mended, find_records
from seamark.offsets.stillness import refuse_moving
from seamark.offsets.write.steps import WriteOffsets


@dataclass(frozen=True, slots=True)
class MendStep(Step):
    """What the steps of one mending have in common: whose, in which topic, and by which rules."""

    cluster: str
    name: str
    topic: str
    rules: tuple[MendRule, ...]

    # Whether it looks at what was mended; its rules are those of `settle_rule`.
    settled: ClassVar[bool] = True

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def read(self, world: World) -> tuple[dict[str, HeldRecord], list[HeldRecord]]:
        """The records that lie there by their places, and for all rules what shall lie there."""
        holding = world.use(OFFSETS)(self.cluster, self.name).read_topic(self.topic)
        mended = [
            record
            for rule in self.rules
            for record in build_mended(
                find_records(holding.records, rule),
                rule,
                topic=self.topic,
                home=holding.find_home,
                settled=self.settled,
            )
        ]
        return {record.place: record for record in holding.records}, mended


@step_kind("mend-offsets")
@dataclass(frozen=True, slots=True)
class MendOffsets(MendStep):
    """Every spelling that a task may look for, and every copy of it, gets the same value.

    Which value that is, is read when the connector has stopped. The images show the bytes at each place.
    """

    aspect: ClassVar[str] = POSITION
    repeats: ClassVar[bool] = True
    settled: ClassVar[bool] = False

    def describe(self) -> str:
        count = len(self.rules)
        return f"put the records of {count} offset{'' if count == 1 else 's'} of {self.subject} right, to the byte"

    def intend(self, world: World) -> Intent:
        held, wanted = self.read(world)
        extra = {"records": [record.to_dict() for record in wanted]}
        return Intent(before=_build_image(wanted, held), after=_build_wanted(wanted), extra=extra)

    def perform(self, world: World, intent: Intent) -> None:
        refuse_moving(world, self.cluster, self.name)
        records = [HeldRecord.from_dict(record) for record in intent.extra["records"]]
        world.use(OFFSETS)(self.cluster, self.name).write(records)

    def observe(self, world: World, intent: Intent) -> Observed:
        wanted = [HeldRecord.from_dict(record) for record in intent.extra["records"]]
        holding = world.use(OFFSETS)(self.cluster, self.name).read_topic(self.topic)
        now = _build_image(wanted, {record.place: record for record in holding.records})
        return compare_places(now, intent, "offsets")

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        before: Mapping[str, Any] = intent.before["offsets"]
        records = [HeldRecord.from_dict(record) for record in intent.extra["records"]]
        back = tuple(
            HeldRecord.from_dict({**record.to_dict(), "value": before.get(record.place)}) for record in records
        )
        taken = {record.place: decode_value(record.value).offset for record in back}
        offsets = tuple(Offset(rule.partition, self._find_offset(rule, taken)) for rule in self.rules)
        return WriteOffsets(self.cluster, self.name, offsets, WriteRoute.TOPIC, back)

    def _find_offset(self, rule: MendRule, values: Mapping[str, Any]) -> Any:
        return values.get(HeldRecord(self.topic, rule.where, rule.key).place)


@step_kind("verify-mended")
@dataclass(frozen=True, slots=True)
class VerifyMended(Look, MendStep):
    """Right before the connector may run, its records are looked at again: each is what it should be."""

    aspect: ClassVar[str] = "verified"
    expires: ClassVar[bool] = True

    def describe(self) -> str:
        return f"verify the records of {self.subject} in topic {self.topic}"

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        if wrong := self._find_wrong(world):
            raise RefusedError(
                f"the records of {self.subject} are not what they should be: somebody else writes them",
                cause=f"it is not so at {', '.join(wrong[:5])}",
                hint=f"find out who; then: seamark offsets show {self.cluster}/{self.name}",
            )

    def observe(self, world: World, intent: Intent) -> Observed:
        del intent
        return Observed.BEFORE if self._find_wrong(world) else Observed.AFTER

    def _find_wrong(self, world: World) -> list[str]:
        held, wanted = self.read(world)
        now, then = _build_image(wanted, held)["offsets"], _build_wanted(wanted)["offsets"]
        return [place for place in then if now[place] != then[place]]


def _build_image(wanted: Sequence[HeldRecord], held: Mapping[str, HeldRecord]) -> dict[str, Any]:
    """What lies at the places of these records. No record and a tombstone are the same."""
    return {
        "offsets": {
            record.place: held[record.place].to_dict()["value"] if record.place in held else None for record in wanted
        }
    }


def _build_wanted(wanted: Sequence[HeldRecord]) -> dict[str, Any]:
    return {"offsets": {record.place: record.to_dict()["value"] for record in wanted}}
