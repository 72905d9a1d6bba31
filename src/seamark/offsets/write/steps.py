"""Steps that change a connector's offsets while it is stopped."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from seamark.changes.action import GuardStep
from seamark.changes.environment import Environment
from seamark.changes.preconditions import POSITION
from seamark.changes.step import CanNotUndo, ConnectorSubject, Intent, Observed, Step, compare_places, step_kind
from seamark.core.offsets import Offset, OffsetMap, spell_identity, spell_offset
from seamark.errors import RefusedError, SeamarkError
from seamark.kafka.model import HeldRecord
from seamark.offsets.codec.codec import decode_key, decode_value
from seamark.offsets.model import DEFAULT_TOLERANCE, CurrentOffset, Tolerance, WriteRoute
from seamark.offsets.port import OFFSETS
from seamark.offsets.quiesce import ConnectorSnapshot, open_offsets, refuse_moving
from seamark.offsets.read.preview import Total, sum_previews

# A count may reach the time limit of the database for each of many tables; the budget for all counts is half of this.
_SETTLE_SECONDS = 60.0


@step_kind("check-preview")
@dataclass(frozen=True, slots=True)
class CheckPreview(ConnectorSubject, GuardStep):
    """Counts the distance from a stopped connector's offsets to `offsets`, and compares it with the plan.

    A source that ran until the stop has progressed. Beyond the tolerance, the result is not what the user confirmed.
    """

    aspect: ClassVar[str] = "preview"
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS

    offsets: tuple[Offset, ...]
    planned: Total
    tolerance: Tolerance = DEFAULT_TOLERANCE

    def describe(self) -> str:
        return f"recount the effect of the new offsets of {self.subject}"

    def find_refusal(self, world: Environment) -> SeamarkError | None:
        """Count, and compare the counts with the plan."""
        trouble = self._find_trouble(sum_previews(world.use(OFFSETS)(self.cluster, self.name).preview(self.offsets)))
        if not trouble:
            return None
        return RefusedError(
            f"the effect of the new offsets of {self.subject} has changed since the plan",
            cause=trouble,
            hint="create a new plan, or allow more with --tolerance N or N%; the connector's state is restored",
        )

    def _find_trouble(self, found: Total) -> str:
        """Return what is beyond the tolerance; "" if nothing is."""
        for words, planned, now in (
            ("reprocessed", self.planned.again, found.again),
            ("skipped", self.planned.skipped, found.skipped),
        ):
            allowed = self.tolerance.allow(planned, self.planned.unit)
            if now > allowed:
                return f"{now} {found.unit} would be {words}; the plan has {planned}, and up to {allowed} is allowed"
        if found.unknown > self.planned.unknown:
            return (
                f"{found.unknown - self.planned.unknown} partitions that were counted in the plan can't be counted now"
            )
        return ""


@step_kind("check-no-other-offsets")
@dataclass(frozen=True, slots=True)
class CheckNoOtherOffsets(ConnectorSubject, GuardStep):
    """Checks, directly before all offsets of a connector are deleted, that it has none except those of the plan.

    A connector that ran until its stop may have stored an offset for another partition. With `kept` the connector is
    created later.
    """

    aspect: ClassVar[str] = "partitions"
    expires: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS

    partitions: tuple[OffsetMap, ...]
    kept: ConnectorSnapshot | None = None

    def describe(self) -> str:
        return f"check that {self.subject} has no other offsets"

    def find_refusal(self, world: Environment) -> SeamarkError | None:
        """Compare the stored partitions with those of the plan."""
        planned = {spell_identity(one) for one in self.partitions}
        held = open_offsets(world, self.cluster, self.name, self.kept).read_all()
        stored = [one for one in held if one.offset is not None or one.ambiguity]
        others = [spelled for one in stored if (spelled := spell_identity(one.partition)) not in planned]
        if not others:
            return None
        return RefusedError(
            f"{self.subject} has offsets that the plan doesn't delete",
            cause=f"stored since the plan: {', '.join(others[:5])}",
            hint="create a new plan",
        )


# The quiet time before the write: a task that ends may still flush its offsets for `task.shutdown.graceful.timeout.ms`,
# 5 s by default, after Connect has shown its connector as stopped.
QUIET_SECONDS = 6.0
_WAYS = {
    WriteRoute.REST: "through REST",
    WriteRoute.TOPIC: "in its topic",
    WriteRoute.GROUP: "in its consumer group",
}


@step_kind("write-offsets")
@dataclass(frozen=True, slots=True)
class WriteOffsets(ConnectorSubject, Step):
    """Sets the offsets of the given partitions, or deletes those that are None. Other partitions stay unchanged.

    With the route TOPIC exactly `records` are written, in their order, and the images contain their bytes. With the
    other routes the images contain offsets: Connect encodes them itself, and a group has no bytes. The connector is
    stopped, or it does not exist and `kept` is its last known state.
    """

    shows_positions: ClassVar[bool] = True
    aspect: ClassVar[str] = POSITION
    repeats: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS

    offsets: tuple[Offset, ...]
    route: WriteRoute = WriteRoute.REST
    records: tuple[HeldRecord, ...] = ()
    kept: ConnectorSnapshot | None = None

    def read_positions(self, image: Any) -> Iterator[Offset]:
        values: Mapping[str, str | None] = (image or {}).get("offsets", {})
        if self.route is not WriteRoute.TOPIC:
            for identity, spelled in values.items():
                yield Offset(json.loads(identity), None if spelled is None else json.loads(spelled))
            return
        # With this route the image contains bytes, by the locations of the records.
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
            words.append(f"delete {_count(gone)}")
        return f"{' and '.join(words) or 'set no offset'} of {self.subject} {_WAYS[self.route]}"

    def intend(self, world: Environment) -> Intent:
        held = self._read(world)
        ambiguities = [found.ambiguity for found in held if found.ambiguity]
        if ambiguities and self.route is not WriteRoute.TOPIC:
            raise RefusedError(
                f"can't determine which record the tasks of {self.subject} use; no changes were made",
                cause="; ".join(ambiguities),
                hint=f"list them with seamark offsets show {self.cluster}/{self.name}; repair them with seamark "
                "offsets repair",
            )
        return Intent(
            before=self._build_image(held),
            after=self.build_after(),
            # What undo may need in addition to the image, and what users can look up in the journal.
            extra={"records": [record.to_dict() for found in held for record in found.records]},
        )

    def perform(self, world: Environment, intent: Intent) -> None:
        del intent
        # A running task would overwrite the new offsets. With REST Connect checks this; for topics only this check
        # does.
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
        # The last location written is the first one restored.
        return replace(self, records=records[::-1])

    def read_image(self, world: Environment) -> dict[str, Any]:
        """Read the current values of what this step writes."""
        return self._build_image(self._read(world))

    def build_after(self) -> dict[str, Any]:
        """Return the values after this step."""
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
    """Build offsets as the journal stores them: as text, because 1, 1.0 and true are equal only in Python."""
    return {"offsets": {spell_identity(found.partition): spell_offset(found.offset) for found in held}}


def read_spelled(text: str | None) -> OffsetMap | None:
    """Parse an offset of an image."""
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
    """Copies every offset of the stopped connector `source` to `name`. Both have one Connect cluster and one config.

    The offsets are read when they are copied, not when the plan is created: a running source progresses until it stops.
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
        return f"copy the offsets of connector/{self.cluster}/{self.source} to {self.subject}"

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
class VerifyCopied(GuardStep):
    """Checks, directly before the new connector may run, that it has the offsets of the other one."""

    aspect: ClassVar[str] = "verified"

    cluster: str
    source: str
    name: str

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        return f"read back and verify the offsets of {self.subject}"

    def find_refusal(self, world: Environment) -> SeamarkError | None:
        """Compare the offsets of both connectors."""
        wanted = read_copied(world, self.cluster, self.source)
        held = world.use(OFFSETS)(self.cluster, self.name).read([found.partition for found in wanted])
        wrong = [
            spell_identity(one.partition)
            for one, other in zip(wanted, held, strict=True)
            if spell_offset(one.offset) != spell_offset(other.offset) or other.ambiguity
        ]
        if not wrong:
            return None
        return RefusedError(
            f"the offsets of {self.subject} differ from those of connector/{self.cluster}/{self.source}",
            cause=f"they differ in {', '.join(wrong[:5])}",
            hint="find and stop the other writer",
        )


def read_copied(world: Environment, cluster: str, source: str) -> Sequence[CurrentOffset]:
    """Read a connector's offsets if REST can write them for another one. Raises otherwise."""
    held = [
        found for found in world.use(OFFSETS)(cluster, source).read_all() if found.offset is not None or found.ambiguity
    ]
    ambiguities = [found.ambiguity for found in held if found.ambiguity]
    # A task that encodes its keys differently from REST would not find what REST writes under its new name.
    odd = [
        f"{spell_identity(found.partition)} has a key encoding that REST doesn't use"
        for found in held
        if not all(decode_key(record.key).is_rest_spelling for record in found.records)
    ]
    if ambiguities or odd:
        raise RefusedError(
            f"the offsets of connector/{cluster}/{source} can't be copied to another connector; no changes were made",
            cause="; ".join([*ambiguities, *odd]),
            hint=f"list them with seamark offsets show {cluster}/{source}",
        )
    return held


def _build_offsets(spelled: Mapping[str, str | None]) -> tuple[Offset, ...]:
    return tuple(Offset(json.loads(partition), read_spelled(offset)) for partition, offset in spelled.items())
