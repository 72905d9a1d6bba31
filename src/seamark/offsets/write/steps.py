"""A connector's offsets are changed, while it is stopped."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from seamark.changes.action import CheckStep
from seamark.changes.environment import Environment
from seamark.changes.preconditions import POSITION
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, compare_places, step_kind
from seamark.core.offsets import Offset, OffsetMap, spell_identity, spell_offset
from seamark.errors import RefusedError
from seamark.kafka.model import HeldRecord
from seamark.offsets.codec.codec import decode_key, decode_value
from seamark.offsets.model import CurrentOffset, WriteRoute
from seamark.offsets.port import OFFSETS
from seamark.offsets.quiesce import ConnectorSnapshot, open_offsets, refuse_moving
from seamark.offsets.write.preview import DEFAULT_TOLERANCE, Tolerance, Total, sum_previews

# A count may run into the time limit of the database for each of many tables; the budget of all is half of this.
_SETTLE_SECONDS = 60.0


@step_kind("check-preview")
@dataclass(frozen=True, slots=True)
class CheckPreview(CheckStep):
    """A stopped connector's way from where it stands to `offsets` is counted, and held against what the plan said.

    A source that ran until the stop has moved on. Beyond the tolerance it is not what somebody said yes to.
    """

    aspect: ClassVar[str] = "preview"
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS

    cluster: str
    name: str
    offsets: tuple[Offset, ...]
    planned: Total
    tolerance: Tolerance = DEFAULT_TOLERANCE

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        return f"count again what the new offsets of {self.subject} mean"

    def perform(self, world: Environment, intent: Intent) -> None:
        del intent
        found = self._count(world)
        trouble = self._find_trouble(found)
        if trouble:
            raise RefusedError(
                f"the new offsets of {self.subject} mean something else than when the plan was made",
                cause=trouble,
                hint="its run state is restored; make the plan anew, or allow more: --tolerance N or N%",
            )

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del intent
        return Observed.BEFORE if self._find_trouble(self._count(world)) else Observed.AFTER

    def _count(self, world: Environment) -> Total:
        return sum_previews(world.use(OFFSETS)(self.cluster, self.name).preview(self.offsets))

    def _find_trouble(self, found: Total) -> str:
        """What is beyond the tolerance; "" where nothing is."""
        for words, planned, now in (
            ("read again", self.planned.again, found.again),
            ("skipped", self.planned.skipped, found.skipped),
        ):
            allowed = self.tolerance.allow(planned, self.planned.unit)
            if now > allowed:
                return f"{now} {found.unit} would be {words}; the plan said {planned}, and up to {allowed} is allowed"
        if found.unknown > self.planned.unknown:
            return f"{found.unknown - self.planned.unknown} partitions that were counted for the plan can't be any more"
        return ""


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
    kept: ConnectorSnapshot | None = None

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

    def intend(self, world: Environment) -> Intent:
        held = self._read(world)
        ambiguities = [found.ambiguity for found in held if found.ambiguity]
        if ambiguities and self.route is not WriteRoute.TOPIC:
            raise RefusedError(
                f"nobody can tell which record holds the offsets of {self.subject}; nothing was changed",
                cause="; ".join(ambiguities),
                hint=f"seamark offsets show {self.cluster}/{self.name} shows all of them",
            )
        return Intent(
            before=self._build_image(held),
            after=self.build_after(),
            # What undo may need beside the image, and what a person can look up in the journal.
            extra={"records": [record.to_dict() for found in held for record in found.records]},
        )

    def perform(self, world: Environment, intent: Intent) -> None:
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

    def observe(self, world: Environment, intent: Intent) -> Observed:
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

    def read_image(self, world: Environment) -> dict[str, Any]:
        """What is held now, of what this step writes."""
        return self._build_image(self._read(world))

    def build_after(self) -> dict[str, Any]:
        """What is held when it is done."""
        if self.route is not WriteRoute.TOPIC:
            return build_image(self.offsets)
        return {"offsets": {record.place: record.to_dict()["value"] for record in self.records}}

    def _read(self, world: Environment) -> Sequence[CurrentOffset]:
        port = open_offsets(world, self.cluster, self.name, self.kept)
        return port.read([found.partition for found in self.offsets])

    def _build_image(self, held: Sequence[CurrentOffset]) -> dict[str, Any]:
        if self.route is not WriteRoute.TOPIC:
            return build_image(held)
        values = {record.place: record.to_dict()["value"] for found in held for record in found.records}
        return {"offsets": {record.place: values.get(record.place) for record in self.records}}


def build_image(held: Sequence[Offset | CurrentOffset]) -> dict[str, Any]:
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


@step_kind("copy-offsets")
@dataclass(frozen=True, slots=True)
class CopyOffsets(Step):
    """The connector `name` gets every offset of `source`, which has stopped. Both are of one cluster and one config.

    What is copied is read when it is done, not when the plan is made: a running source moves on until its stop.
    """

    aspect: ClassVar[str] = POSITION
    repeats: ClassVar[bool] = True

    cluster: str
    source: str
    name: str

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        return f"give {self.subject} the offsets of connector/{self.cluster}/{self.source}"

    def intend(self, world: Environment) -> Intent:
        held = read_copied(world, self.cluster, self.source)
        after = build_image(held)
        return Intent(before=self._read_image(world, after["offsets"]), after=after)

    def perform(self, world: Environment, intent: Intent) -> None:
        refuse_moving(world, self.cluster, self.source)
        refuse_moving(world, self.cluster, self.name, is_checked=True)
        world.use(OFFSETS)(self.cluster, self.name).alter(_build_offsets(intent.after["offsets"]))

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return compare_places(self._read_image(world, intent.after["offsets"]), intent, "offsets")

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        return WriteOffsets(self.cluster, self.name, _build_offsets(intent.before["offsets"]))

    def _read_image(self, world: Environment, wanted: Mapping[str, Any]) -> dict[str, Any]:
        held = world.use(OFFSETS)(self.cluster, self.name).read([json.loads(name) for name in wanted])
        return build_image(held)


@step_kind("verify-copied")
@dataclass(frozen=True, slots=True)
class VerifyCopied(CheckStep):
    """Right before the new connector may run, it holds what the other one does."""

    aspect: ClassVar[str] = "verified"

    cluster: str
    source: str
    name: str

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        return f"read back and verify the offsets of {self.subject}"

    def perform(self, world: Environment, intent: Intent) -> None:
        del intent
        if wrong := self._find_wrong(world):
            raise RefusedError(
                f"{self.subject} does not hold what connector/{self.cluster}/{self.source} does",
                cause=f"they differ in {', '.join(wrong[:5])}",
                hint="find out who writes them",
            )

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del intent
        return Observed.BEFORE if self._find_wrong(world) else Observed.AFTER

    def _find_wrong(self, world: Environment) -> list[str]:
        wanted = read_copied(world, self.cluster, self.source)
        held = world.use(OFFSETS)(self.cluster, self.name).read([found.partition for found in wanted])
        return [
            spell_identity(one.partition)
            for one, other in zip(wanted, held, strict=True)
            if spell_offset(one.offset) != spell_offset(other.offset) or other.ambiguity
        ]


def read_copied(world: Environment, cluster: str, source: str) -> Sequence[CurrentOffset]:
    """What a connector holds, where REST can give the same to another one; else a refusal."""
    held = [
        found for found in world.use(OFFSETS)(cluster, source).read_all() if found.offset is not None or found.ambiguity
    ]
    ambiguities = [found.ambiguity for found in held if found.ambiguity]
    # A task that spells its keys in another way than REST does would not find what REST writes under its new name.
    odd = [
        f"{spell_identity(found.partition)} has a key that REST spells in another way"
        for found in held
        if not all(decode_key(record.key).is_rest_spelling for record in found.records)
    ]
    if ambiguities or odd:
        raise RefusedError(
            f"the offsets of connector/{cluster}/{source} can't be given to another one; nothing was changed",
            cause="; ".join([*ambiguities, *odd]),
            hint=f"seamark offsets show {cluster}/{source} shows all of them",
        )
    return held


def _build_offsets(spelled: Mapping[str, str | None]) -> tuple[Offset, ...]:
    return tuple(Offset(json.loads(partition), read_spelled(offset)) for partition, offset in spelled.items())
