"""The records of a source's offsets become what Connect would have written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from seamark.change.failpoint import reach
from seamark.change.precondition import POSITION
from seamark.change.step import CanNotUndo, Intent, Observed, Step
from seamark.change.steps.config import compare_places
from seamark.change.steps.look import Look
from seamark.change.steps.offsets import WriteOffsets
from seamark.change.steps.stillness import refuse_moving
from seamark.change.world import World
from seamark.errors import RefusedError, SeamarkError, UnknownOutcomeError
from seamark.model.held_offset import HeldRecord, WriteRoute
from seamark.model.offset import Offset
from seamark.model.plan import StepData
from seamark.offsets.codec import decode_value
from seamark.offsets.mending import Mended, MendRule, build_mended, find_records

# A worker polls its offsets topic all the time. What is emptied is read before what comes so much later, so that the
# value is the last that a running worker hears; well within the time that a step may send.
_PAUSE_SECONDS = 2.0
# As long as a step may take until it begins: see `ChangeTiming.begin_seconds`.
_LONGEST_PAUSE_SECONDS = _PAUSE_SECONDS + 5.0


@dataclass(frozen=True, slots=True)
class MendStep:
    """What the steps of one mending have in common: whose, in which topic, and by which rules."""

    cluster: str
    name: str
    topic: str
    rules: tuple[MendRule, ...]
    clean: bool = False
    only: bool = False

    settle_seconds: ClassVar[float] = 60.0
    kind: ClassVar[str]
    # Whether it looks at what was mended; its rules are those of `settle_rule`.
    settled: ClassVar[bool] = True

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        arguments = {
            "cluster": self.cluster,
            "name": self.name,
            "topic": self.topic,
            "rules": [rule.to_dict() for rule in self.rules],
            "clean": self.clean,
            "only": self.only,
        }
        return StepData(self.kind, self.subject, arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        rules = tuple(MendRule.from_dict(rule) for rule in data.arguments["rules"])
        return cls(**{**data.arguments, "rules": rules})

    def read(self, world: World) -> tuple[dict[str, HeldRecord], list[Mended]]:
        """The records that lie there by their places, and for each rule what shall lie there."""
        holding = world.offsets(self.cluster, self.name).read_topic(self.topic)
        mended = [
            build_mended(
                find_records(holding.records, rule),
                rule,
                topic=self.topic,
                home=holding.find_home,
                clean=self.clean,
                only=self.only,
                settled=self.settled,
            )
            for rule in self.rules
        ]
        return {record.place: record for record in holding.records}, mended


@dataclass(frozen=True, slots=True)
class MendOffsets(MendStep):
    """Every spelling that a task may look for gets the same value, and the rest a tombstone, or that value too.

    Which value that is, is read when the connector has stopped. It is at home before anything is emptied: wherever this
    ends, it is not lost. The places in `gone` are those that the rest of the plan cleans: no other one is emptied. The
    images show the bytes at each place.
    """

    kind: ClassVar[str] = "mend-offsets"
    aspect: ClassVar[str] = POSITION
    drifts: ClassVar[bool] = False
    acts: ClassVar[bool] = True
    repeats: ClassVar[bool] = True
    settled: ClassVar[bool] = False

    gone: tuple[str, ...] = ()

    def describe(self) -> str:
        count = len(self.rules)
        return f"put the records of {count} offset{'' if count == 1 else 's'} of {self.subject} right, to the byte"

    def intend(self, world: World) -> Intent:
        held, mended = self.read(world)
        gone = [record for one in mended for record in one.gone]
        self._refuse_others([record for record in gone if record.place not in self.gone])
        # What is emptied goes before what holds a value, over all partitions.
        wanted = [*gone, *(record for one in mended for record in one.records if record not in one.gone)]
        extra = {"records": [record.to_dict() for record in wanted], "gone": [record.place for record in gone]}
        return Intent(before=_build_image(wanted, held), after=_build_wanted(wanted), extra=extra)

    def perform(self, world: World, intent: Intent) -> None:
        refuse_moving(world, self.cluster, self.name)
        records = [HeldRecord.from_dict(record) for record in intent.extra["records"]]
        port = world.offsets(self.cluster, self.name)
        emptied = [record for record in records if record.place in intent.extra["gone"]]
        kept = [record for record in records if record not in emptied]
        if not emptied:
            port.write(kept)
            return
        before, after = intent.before["offsets"], intent.after["offsets"]
        port.write([*(record for record in kept if before[record.place] != after[record.place]), *emptied])
        reach("between-writes")
        _pause(world)
        try:
            # Once more: a running worker that heard of the tombstones has forgotten the value.
            port.write(kept)
        except SeamarkError as error:
            if isinstance(error, UnknownOutcomeError):
                raise
            raise UnknownOutcomeError(
                f"{_count_were(len(emptied))} emptied, and the value was not written once more",
                cause=f"{error.message}: {error.cause}",
                hint=error.hint,
            ) from error

    def observe(self, world: World, intent: Intent) -> Observed:
        wanted = [HeldRecord.from_dict(record) for record in intent.extra["records"]]
        holding = world.offsets(self.cluster, self.name).read_topic(self.topic)
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

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        data = MendStep.to_data(self, lane=lane, always=always)
        return replace(data, arguments={**data.arguments, "gone": list(self.gone)})

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        rules = tuple(MendRule.from_dict(rule) for rule in data.arguments["rules"])
        return cls(**{**data.arguments, "rules": rules, "gone": tuple(data.arguments["gone"])})

    def _refuse_others(self, others: Sequence[HeldRecord]) -> None:
        """Refuse to empty what nobody would clean out of the log: its tombstone would stay, and hide the value."""
        if others:
            places = ", ".join(
                f"{one.topic}-{one.partition} {one.key.decode(errors='backslashreplace')}" for one in others[:5]
            )
            raise RefusedError(
                f"records of {self.subject} came since the plan was made that it does not clean; nothing was changed",
                cause=f"they are at {places}",
                hint="make the plan anew and look at it; whoever writes there may write again",
            )

    def _find_offset(self, rule: MendRule, values: Mapping[str, Any]) -> Any:
        return values.get(HeldRecord(self.topic, rule.where, rule.key).place)


@dataclass(frozen=True, slots=True)
class VerifyMended(Look, MendStep):
    """Right before the connector may run, its records are looked at again: each is what it should be."""

    kind: ClassVar[str] = "verify-mended"
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
        held, mended = self.read(world)
        wanted = [record for one in mended for record in one.records]
        now, then = _build_image(wanted, held)["offsets"], _build_wanted(wanted)["offsets"]
        there = {record.place for one in mended for record in one.gone if record.place in held}
        return [place for place in then if now[place] != then[place] or place in there]


def _count_were(number: int) -> str:
    return "1 record was" if number == 1 else f"{number} records were"


def _pause(world: World) -> None:
    began_at = world.clock.now()
    world.clock.sleep(_PAUSE_SECONDS)
    if world.clock.now() - began_at > _LONGEST_PAUSE_SECONDS:
        # Somebody else may have the change by now.
        raise UnknownOutcomeError("this process was stopped between two records; the rest was not written")


def _build_image(wanted: Sequence[HeldRecord], held: Mapping[str, HeldRecord]) -> dict[str, Any]:
    """What lies at the places of these records. No record and a tombstone are the same."""
    return {
        "offsets": {
            record.place: held[record.place].to_dict()["value"] if record.place in held else None for record in wanted
        }
    }


def _build_wanted(wanted: Sequence[HeldRecord]) -> dict[str, Any]:
    return {"offsets": {record.place: record.to_dict()["value"] for record in wanted}}
