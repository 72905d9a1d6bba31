"""Records of an offsets topic whose connectors no worker runs are written anew, or taken away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from seamark.changes.comparison import compare_image
from seamark.changes.last_look import take_last_look
from seamark.changes.precondition import POSITION
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.changes.world import World
from seamark.kafka.records_held import HeldRecord
from seamark.offsets.port import LEFT_OFFSETS
from seamark.offsets.write.unused import LOOK_SECONDS, name_left, refuse_used

# As for the offsets of connectors: a topic whose leader moves is back within a minute.
_SETTLE_SECONDS = 60.0


@step_kind("write-records")
@dataclass(frozen=True, slots=True)
class WriteRecords(Step):
    """Exactly these records are written to the workers' topic, in their order.

    `owners` are the connectors that they speak of. None of them may be there, in none of `clusters`, which share the
    topic: a task would not see what is written, and write over it. With `may_be_down` all workers may be down instead.
    Several steps of a plan on the same owners differ in `part`: their images are of different records.
    """

    aspect: ClassVar[str] = POSITION
    repeats: ClassVar[bool] = True
    # It looks itself, twice and right before it acts, that none of the owners is there.
    proves: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS

    clusters: tuple[str, ...]
    owners: tuple[str, ...]
    records: tuple[HeldRecord, ...]
    may_be_down: bool = False
    part: int = 1

    @property
    def subject(self) -> str:
        return name_left(self.clusters, self.owners) + ("" if self.part == 1 else f", part {self.part}")

    def describe(self) -> str:
        gone = sum(record.value is None for record in self.records)
        words = [f"write {_count(left)}"] if (left := len(self.records) - gone) else []
        if gone:
            words.append(f"take {_count(gone)} away")
        return f"{' and '.join(words)} of {self.subject} in the topic"

    def intend(self, world: World) -> Intent:
        return Intent(before=self._read_image(world), after=_build_image(self.records))

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        take_last_look(world, self.subject, lambda: self._look_twice(world))
        world.use(LEFT_OFFSETS)(self.clusters[0]).write(self.owners, self.records)

    def observe(self, world: World, intent: Intent) -> Observed:
        now = self._read_image(world)
        seen = compare_image(now, intent)
        if seen is not Observed.FOREIGN:
            return seen
        known = all(value in (intent.before[place], intent.after[place]) for place, value in now.items())
        return Observed.BETWEEN if known else Observed.FOREIGN

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        before: Mapping[str, Any] = intent.before
        records = (HeldRecord.from_dict({**record.to_dict(), "value": before[record.place]}) for record in self.records)
        return replace(self, records=tuple(records)[::-1])

    def _look_twice(self, world: World) -> None:
        refuse_used(world, self.clusters, self.owners, may_be_down=self.may_be_down)
        world.clock.sleep(LOOK_SECONDS)
        refuse_used(world, self.clusters, self.owners, may_be_down=self.may_be_down)

    def _read_image(self, world: World) -> dict[str, Any]:
        found = world.use(LEFT_OFFSETS)(self.clusters[0]).read(self.owners)
        held = {record.place: record for record in found}
        return _build_image([held.get(record.place, replace(record, value=None)) for record in self.records])


def _build_image(records: Sequence[HeldRecord]) -> dict[str, Any]:
    return {record.place: record.to_dict()["value"] for record in records}


def _count(number: int) -> str:
    return f"{number} record" + ("s" if number != 1 else "")
