"""Offset formats that connectors document, or whose source code was read, and that were not tested here.

They are sufficient for a name, for missing fields and for a warning, but not for an order or a count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Protocol

from seamark.core.offsets import Certainty, Distance, OffsetMap, Order, Unit, spell_identity
from seamark.core.readings import Finding
from seamark.offsets.semantics.fields import (
    HIGHEST,
    LOWEST,
    Notes,
    build_point_in_time,
    is_integer,
    read_integer,
    show_fields,
)


class Harm(StrEnum):
    """The effect on the data if an offset is moved, as one keyword."""

    NOTHING = "nothing"
    DUPLICATES = "duplicates"
    OVERWRITES = "overwrites"
    LOSS = "loss"
    FAILURE = "failure"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Consequence:
    """The effect of a rewind or a skip on the target. `words` is a sentence for the user who confirms it."""

    harm: Harm
    words: str


@dataclass(frozen=True, slots=True)
class DocumentedShape:
    """A documented format: `classes` are prefixes of class names, `fields` the fields of its partition."""

    owner: str
    classes: tuple[str, ...]
    fields: frozenset[str]
    needed: tuple[str, ...] = ()
    integers: tuple[str, ...] = ()
    advice: str = ""
    unfinished: tuple[str, ...] = ()
    # Fields of the offset that are seconds since the epoch.
    seconds: tuple[str, ...] = ()

    def check(self, notes: Notes, offset: OffsetMap) -> None:
        """Check for missing fields, wrong types and unfinished snapshots, and add the notes of the format."""
        for key in self.needed:
            if offset.get(key) is None:
                notes.error(f"{key} is missing", f"{self.owner} needs it to start")
        notes.check_integers(offset, [key for key in self.integers if not is_integer(offset.get(key))])
        if any(offset.get(key) not in (None, False) for key in self.unfinished):
            notes.warn(
                "a snapshot is not finished",
                "don't edit this offset; reset it, or wait until the snapshot has finished",
            )
        if self.advice:
            notes.info(self.advice)


_DEBEZIUM = "io.debezium.connector."
SHAPES = (
    DocumentedShape(
        "Debezium SQL Server",
        (f"{_DEBEZIUM}sqlserver.",),
        frozenset({"server", "database"}),
        integers=("event_serial_no",),
        advice="commit_lsn must be within the retention of the change tables",
        unfinished=("snapshot",),
    ),
    DocumentedShape(
        "Debezium MySQL",
        (f"{_DEBEZIUM}mysql.", f"{_DEBEZIUM}mariadb.", f"{_DEBEZIUM}binlog."),
        frozenset({"server"}),
        needed=("file",),
        integers=("pos", "row", "event", "ts_sec", "server_id"),
        advice="if gtids is set, it is used instead of file and pos; the schema history must cover the offset",
        unfinished=("snapshot",),
        seconds=("ts_sec",),
    ),
    DocumentedShape(
        "Debezium Oracle",
        (f"{_DEBEZIUM}oracle.",),
        frozenset({"server"}),
        needed=("scn",),
        advice="scn, commit_scn and snapshot_scn are strings and must be changed together",
        unfinished=("snapshot",),
    ),
    DocumentedShape(
        "Debezium MongoDB",
        (f"{_DEBEZIUM}mongodb.",),
        frozenset({"server_id"}),
        integers=("sec", "ord"),
        advice="a resume token can't be written by hand: use a saved one, or reset the offset",
        unfinished=("initsync",),
        seconds=("sec",),
    ),
    DocumentedShape(
        "Debezium MongoDB",
        (f"{_DEBEZIUM}mongodb.",),
        frozenset({"rs", "server_id"}),
        integers=("sec", "ord"),
        advice="a resume token can't be written by hand: use a saved one, or reset the offset",
        unfinished=("initsync",),
        seconds=("sec",),
    ),
    DocumentedShape(
        "MongoDB source",
        ("com.mongodb.kafka.connect.",),
        frozenset({"ns"}),
        needed=("_id",),
        advice="a resume token can't be written by hand: use a saved one, or reset the offset",
        unfinished=("copy",),
    ),
    DocumentedShape(
        "S3 source",
        ("io.aiven.kafka.connect.s3.source.",),
        frozenset({"bucket", "objectKey"}),
        integers=("recordCount",),
        advice="the order of its partition's fields may differ from one start of the worker to the next",
    ),
    DocumentedShape(
        "Azure Blob source",
        ("io.aiven.kafka.connect.azure.source.",),
        frozenset({"container", "blobName"}),
        integers=("recordCount",),
        advice="the order of its partition's fields may differ from one start of the worker to the next",
    ),
    DocumentedShape(
        "Lenses cloud source",
        ("io.lenses.streamreactor.connect.",),
        frozenset({"container", "prefix"}),
        needed=("path", "line"),
        advice="line and ts are strings, not numbers",
    ),
    DocumentedShape(
        "Salesforce source",
        ("com.github.jcustenborder.kafka.connect.salesforce.",),
        frozenset(),
        advice="Salesforce keeps the events of a replay ID for 24 to 72 hours",
    ),
    DocumentedShape(
        "Salesforce source",
        ("io.osodevops.",),
        frozenset({"sobject"}),
        needed=("replayId",),
        advice="Salesforce keeps the events of a replay ID for 24 to 72 hours",
    ),
)


def find_shape(connector_class: str, partition: OffsetMap) -> DocumentedShape | None:
    """Return the documented format for that class and partition."""
    fields = set(partition)
    fitting = (one for one in SHAPES if connector_class.startswith(one.classes) and one.fields == fields)
    return next(fitting, None)


class GenericMeaning:
    """Any source. It supports the formats that connectors document, and does not guess an order from them.

    A third-party family can inherit from it and override only what it can determine better.
    """

    family: ClassVar[str] = "source"

    def __init__(self, connector_class: str, config: Mapping[str, str]) -> None:
        self.connector_class = connector_class
        self.config = config

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """Match every connector."""
        del connector_class, config
        return True

    def check(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[Finding, ...]:
        """Check only what Connect itself rejects, and what a documented format forbids."""
        notes = Notes(self.describe_partition(partition))
        check_primitives(notes, partition)
        if offset is None:
            return notes.result()
        check_primitives(notes, offset)
        shape = self._find_shape(partition)
        if shape is not None:
            shape.check(notes, offset)
        return notes.result()

    def compare(self, left: OffsetMap | None, right: OffsetMap | None) -> Order:
        """Return EQUAL for the same offset; every other answer would be a guess."""
        if left is None or right is None:
            return Order.EQUAL if left is right else Order.UNKNOWN
        return Order.EQUAL if spell_identity(left) == spell_identity(right) else Order.UNKNOWN

    def describe(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[str, str]:
        """Return both unchanged."""
        return self.describe_partition(partition), "nothing" if offset is None else show_fields(offset)

    def find_times(self, partition: OffsetMap, offset: OffsetMap) -> Mapping[str, datetime]:
        """Return the points in time that an offset contains, by the names of their fields."""
        shape = self._find_shape(partition)
        found = {key: read_integer(offset, key) for key in (shape.seconds if shape is not None else ())}
        times = {key: build_point_in_time(count, per_second=1) for key, count in found.items()}
        return {key: time for key, time in times.items() if time is not None}

    def describe_partition(self, partition: OffsetMap) -> str:
        """Return the partition unchanged; a documented format adds its connector."""
        shape = self._find_shape(partition)
        text = show_fields(partition)
        return f"{shape.owner}: {text}" if shape is not None else text

    def explain_rewind(self) -> Consequence:
        """Describe a rewind: a source sends again what it reprocesses."""
        return Consequence(Harm.DUPLICATES, "the rows are duplicated in its topics")

    def explain_skip(self) -> Consequence:
        """Describe a skip: a source does not send what it skips."""
        return Consequence(Harm.LOSS, "the rows never reach its topics")

    def build_distance(self, partition: OffsetMap, start: OffsetMap | None, end: OffsetMap | None) -> Distance:
        """Return an unknown distance."""
        del partition, start, end
        return Distance(
            Unit.RECORDS, None, Certainty.UNKNOWN, reason="seamark doesn't know the offset semantics of this connector"
        )

    def _find_shape(self, partition: OffsetMap) -> DocumentedShape | None:
        return find_shape(self.connector_class, partition)


def check_primitives(notes: Notes, fields: OffsetMap) -> None:
    """Add an error for what Connect rejects: it accepts texts, 64-bit numbers, true, false and null."""
    for key, value in fields.items():
        if not isinstance(value, str | int | float | bool | None):
            notes.error(f"{key} is a list or a map", "Connect accepts only strings, numbers, true, false and null")
        elif isinstance(value, int) and not isinstance(value, bool) and not LOWEST <= value <= HIGHEST:
            notes.error(f"{key} is beyond 64 bits", "Connect would silently read another number")


class OffsetSemantics(Protocol):
    """The semantics of one connector's offsets.

    A connector family is a class: `matches` states whether a connector belongs to it, and an instance is created for
    one connector. It does no I/O and changes nothing. Its input was read from outside and may be anything: it never
    raises for invalid input, but reports it in `check` and returns UNKNOWN elsewhere.
    """

    family: ClassVar[str]

    def __init__(self, connector_class: str, config: Mapping[str, str]) -> None:
        """Create the semantics for the connector with that config."""

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """Return whether a connector belongs to this family."""
        ...

    def check(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[Finding, ...]:
        """Return what is wrong with an offset: ERROR if the task would fail or the offset is never read."""
        ...

    def compare(self, left: OffsetMap | None, right: OffsetMap | None) -> Order:
        """Compare `left` with `right`: BEFORE if it was reached earlier. Both are of one partition."""
        ...

    def describe(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[str, str]:
        """Return a partition and an offset as short texts."""
        ...

    def explain_rewind(self) -> Consequence:
        """Describe the effect on the target if the offset moves back."""
        ...

    def explain_skip(self) -> Consequence:
        """Describe the effect on the target if the offset moves ahead."""
        ...

    def build_distance(self, partition: OffsetMap, start: OffsetMap | None, end: OffsetMap | None) -> Distance:
        """Return the count between two offsets, to be run by the caller.

        `start` None is where the connector would start without an offset, `end` None is the current end.
        """
        ...
