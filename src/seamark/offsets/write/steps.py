"""A connector's offsets are changed, while it is stopped."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from seamark.changes.comparison import compare_places
from seamark.changes.precondition import POSITION
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.changes.world import World
from seamark.core.offset import Offset, OffsetMap, spell_identity, spell_offset
from seamark.errors import RefusedError
from seamark.kafka.records_held import HeldRecord
from seamark.offsets.codec.codec import decode_key, decode_value
from seamark.offsets.held_offset import HeldOffset, WriteRoute
from seamark.offsets.stillness import Kept, open_offsets, refuse_moving

# A worker reads its offsets topic to the end for each answer, and a group's commit is seen at once. A minute is for a
# topic whose leader moves.
_SETTLE_SECONDS = 60.0
# The quiet before the write: a task that ends may still flush what it holds for `task.shutdown.graceful.timeout.ms`,
# 5 s by default, after Connect has called its connector stopped.
QUIET_SECONDS = 6.0
_WAYS = {
    WriteRoute.REST: "through REST",
    WriteRoute.TOPIC: "in its topic, to the byte",
    WriteRoute.GROUP: "in its consumer group",
}


@step_kind("write-offsets")
@dataclass(frozen=True, slots=True)
class WriteOffsets(Step):
    """The partitions named get other offsets, or none where an offset is None. The others stay as they are.

    By the route TOPIC exactly `records` are written, in their order, and the images show their bytes. By the others the
    images show positions: Connect spells them its own way, and a group has no bytes. The connector is stopped, or it is
    not there, and `kept` is what it was.
    """

    shows_positions: ClassVar[bool] = True
    aspect: ClassVar[str] = POSITION
    repeats: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS

    cluster: str
    name: str
    offsets: tuple[Offset, ...]
    route: WriteRoute = WriteRoute.REST
    records: tuple[HeldRecord, ...] = ()
    kept: Kept | None = None

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def read_positions(self, image: Any) -> Iterator[Offset]:
        values: Mapping[str, str | None] = (image or {}).get("offsets", {})
        if self.route is not WriteRoute.TOPIC:
            for identity, spelled in values.items():
                yield Offset(json.loads(identity), None if spelled is None else json.loads(spelled))
            return
        # By this route the image shows bytes, by the places of the records.
        for record in self.records:
            key = decode_key(record.key).key
            value = values.get(record.place)
            if key is not None:
                yield Offset(key.partition, None if value is None else decode_value(b64decode(value)).offset)

    def describe(self) -> str:
        gone = sum(found.offset is None for found in self.offsets)
        words = []
        if len(self.offsets) > gone:
            words.append(f"set {_count(len(self.offsets) - gone)}")
        if gone:
            words.append(f"forget {_count(gone)}")
        return f"{' and '.join(words) or 'set no offset'} of {self.subject} {_WAYS[self.route]}"

    def intend(self, world: World) -> Intent:
        held = self._read(world)
        if doubts := [found.doubt for found in held if found.doubt] if self.route is not WriteRoute.TOPIC else []:
            raise RefusedError(
                f"nobody can tell which record holds the offsets of {self.subject}; nothing was changed",
                cause="; ".join(doubts),
                hint=f"seamark offsets show {self.cluster}/{self.name} shows all of them",
            )
        return Intent(
            before=self._build_image(held),
            after=self.build_after(),
            # What undo may need beside the image, and what a person can look up in the journal.
            extra={"records": [record.to_dict() for found in held for record in found.records]},
        )

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        # A running task overwrites what is written under it. For REST Connect checks that, for topics nobody does.
        refuse_moving(world, self.cluster, self.name, self.kept, is_checked=self.route is WriteRoute.REST)
        port = open_offsets(world, self.cluster, self.name, self.kept)
        if self.route is WriteRoute.REST:
            port.alter(self.offsets)
        elif self.route is WriteRoute.GROUP:
            port.commit(self.offsets)
        else:
            port.write(self.records)

    def observe(self, world: World, intent: Intent) -> Observed:
        return compare_places(self.read_image(world), intent, "offsets")

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        before = _values(intent.before)
        if self.route is not WriteRoute.TOPIC:
            offsets = tuple(
                Offset(found.partition, read_spelled(before.get(spell_identity(found.partition))))
                for found in self.offsets
            )
            return replace(self, offsets=offsets)
        records = tuple(
            HeldRecord.from_dict({**record.to_dict(), "value": before.get(record.place)}) for record in self.records
        )
        # The last place written is the first one put back.
        return replace(self, records=records[::-1])

    def read_image(self, world: World) -> dict[str, Any]:
        """What is held now, of what this step writes."""
        return self._build_image(self._read(world))

    def build_after(self) -> dict[str, Any]:
        """What is held when it is done."""
        if self.route is not WriteRoute.TOPIC:
            return build_image(self.offsets)
        return {"offsets": {record.place: record.to_dict()["value"] for record in self.records}}

    def _read(self, world: World) -> Sequence[HeldOffset]:
        port = open_offsets(world, self.cluster, self.name, self.kept)
        return port.read([found.partition for found in self.offsets])

    def _build_image(self, held: Sequence[HeldOffset]) -> dict[str, Any]:
        if self.route is not WriteRoute.TOPIC:
            return build_image(held)
        values = {record.place: record.to_dict()["value"] for found in held for record in found.records}
        return {"offsets": {record.place: values.get(record.place) for record in self.records}}


def build_image(held: Sequence[Offset | HeldOffset]) -> dict[str, Any]:
    """Positions as the journal keeps them: as texts, since 1, 1.0 and true are the same for Python, not for a task."""
    return {"offsets": {spell_identity(found.partition): spell_offset(found.offset) for found in held}}


def read_spelled(text: str | None) -> OffsetMap | None:
    """An offset of an image."""
    found: OffsetMap | None = None if text is None else json.loads(text)
    return found


def _values(image: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (image or {}).get("offsets", {})
    return found


def _count(number: int) -> str:
    return f"{number} offset" + ("s" if number != 1 else "")
