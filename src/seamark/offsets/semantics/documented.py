"""Shapes of offsets that connectors document, or whose source was read, and that were not run here.

They are good for a name, for missing fields and for a warning; not for an order or a count.
"""

from __future__ import annotations

from dataclasses import dataclass

from seamark.core.offset import OffsetMap
from seamark.offsets.semantics.fields import Notes, is_integer


@dataclass(frozen=True, slots=True)
class DocumentedShape:
    """Whose shape it is: `classes` are starts of class names, `fields` the fields of its partition."""

    owner: str
    classes: tuple[str, ...]
    fields: frozenset[str]
    needed: tuple[str, ...] = ()
    integers: tuple[str, ...] = ()
    advice: str = ""
    unfinished: tuple[str, ...] = ()

    def check(self, notes: Notes, offset: OffsetMap) -> None:
        """Missing fields, fields of a wrong type, a snapshot that is not finished, and what must be known of it."""
        for key in self.needed:
            if offset.get(key) is None:
                notes.error(f"{key} is missing", f"{self.owner} needs it to start")
        notes.check_integers(offset, [key for key in self.integers if not is_integer(offset.get(key))])
        if any(offset.get(key) not in (None, False) for key in self.unfinished):
            notes.warn("a snapshot is not finished", "do not edit this offset; forget it, or let the snapshot end")
        if self.advice:
            notes.tell(self.advice)


_DEBEZIUM = "io.debezium.connector."
SHAPES = (
    DocumentedShape(
        "Debezium SQL Server",
        (f"{_DEBEZIUM}sqlserver.",),
        frozenset({"server", "database"}),
        integers=("event_serial_no",),
        advice="commit_lsn must lie inside the retention of the change tables",
        unfinished=("snapshot",),
    ),
    DocumentedShape(
        "Debezium MySQL",
        (f"{_DEBEZIUM}mysql.", f"{_DEBEZIUM}mariadb.", f"{_DEBEZIUM}binlog."),
        frozenset({"server"}),
        needed=("file",),
        integers=("pos", "row", "event", "ts_sec", "server_id"),
        advice="where gtids is there it counts, not file and pos; the schema history must reach back as far",
        unfinished=("snapshot",),
    ),
    DocumentedShape(
        "Debezium Oracle",
        (f"{_DEBEZIUM}oracle.",),
        frozenset({"server"}),
        needed=("scn",),
        advice="scn, commit_scn and snapshot_scn are texts and move together",
        unfinished=("snapshot",),
    ),
    DocumentedShape(
        "Debezium MongoDB",
        (f"{_DEBEZIUM}mongodb.",),
        frozenset({"server_id"}),
        integers=("sec", "ord"),
        advice="a resume token can't be made by hand: use one that was saved, or forget the offset",
        unfinished=("initsync",),
    ),
    DocumentedShape(
        "Debezium MongoDB",
        (f"{_DEBEZIUM}mongodb.",),
        frozenset({"rs", "server_id"}),
        integers=("sec", "ord"),
        advice="a resume token can't be made by hand: use one that was saved, or forget the offset",
        unfinished=("initsync",),
    ),
    DocumentedShape(
        "MongoDB source",
        ("com.mongodb.kafka.connect.",),
        frozenset({"ns"}),
        needed=("_id",),
        advice="a resume token can't be made by hand: use one that was saved, or forget the offset",
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
        advice="line and ts are texts, not numbers",
    ),
    DocumentedShape(
        "Salesforce source",
        ("com.github.jcustenborder.kafka.connect.salesforce.",),
        frozenset(),
        advice="Salesforce keeps what a replay id points to for 24 to 72 hours",
    ),
    DocumentedShape(
        "Salesforce source",
        ("io.osodevops.",),
        frozenset({"sobject"}),
        needed=("replayId",),
        advice="Salesforce keeps what a replay id points to for 24 to 72 hours",
    ),
)


def find_shape(connector_class: str, partition: OffsetMap) -> DocumentedShape | None:
    """The documented shape of that class with that partition."""
    fields = set(partition)
    fitting = (one for one in SHAPES if connector_class.startswith(one.classes) and one.fields == fields)
    return next(fitting, None)
