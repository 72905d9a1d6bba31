"""Sinks whose targets are known: S3 and JDBC, and the file of Kafka's own example."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from seamark.offsets.semantics.consequences import Consequence, Harm
from seamark.offsets.semantics.fields import is_set
from seamark.offsets.semantics.sink import SinkMeaning

_AIVEN_S3 = "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector"
_S3_CLASSES = frozenset(
    {_AIVEN_S3, "io.aiven.kafka.connect.s3.S3SinkConnector", "io.confluent.connect.s3.S3SinkConnector"}
)
_JDBC_CLASSES = frozenset({"io.aiven.connect.jdbc.JdbcSinkConnector", "io.confluent.connect.jdbc.JdbcSinkConnector"})
_VARIABLE = re.compile(r"\{\{\s*(\w+)")
# Where the name holds the time of writing, no object is ever written twice.
_CLOCK_VARIABLES = frozenset({"timestamp", "utc_date", "local_date"})


class S3SinkMeaning(SinkMeaning):
    """S3 sinks of Aiven and Confluent: objects named by where they start."""

    family: ClassVar[str] = "S3 sink"

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """By its class."""
        del config
        return connector_class in _S3_CLASSES

    def explain_rewind(self) -> Consequence:
        """By how objects are named."""
        if self.connector_class.startswith("io.confluent."):
            return self._explain_confluent()
        template = self.config.get("file.name.template") or ""
        names = f"{template} {self.config.get('aws.s3.prefix') or self.config.get('file.name.prefix') or ''}"
        used = set(_VARIABLE.findall(names))
        if "key" in used:
            return Consequence(
                Harm.OVERWRITES,
                "objects are named by key: each is written again, with an older record until the sink has caught up",
            )
        source = (self.config.get("file.name.timestamp.source") or self.config.get("timestamp.source") or "").lower()
        if used & _CLOCK_VARIABLES and source != "event":
            return Consequence(
                Harm.DUPLICATES, "object names hold the time of writing: the records are written again as new objects"
            )
        return Consequence(
            Harm.DUPLICATES,
            "an object that starts at the same record is overwritten, and may then hold more or fewer records; "
            "the others stay, so that records may be in two objects",
        )

    def _explain_confluent(self) -> Consequence:
        scheduled = is_set(self.config, "rotate.schedule.interval.ms")
        if scheduled and (self.config.get("rotate.schedule.interval.ms") or "").strip() not in ("-1", "0"):
            if (self.config.get("enable.conditional.writes") or "true").strip().lower() == "true":
                return Consequence(
                    Harm.NOTHING,
                    "objects that are there already are not written again: the sink skips forward past them",
                )
            return Consequence(
                Harm.DUPLICATES, "objects are cut by the clock: the records are written again into overlapping objects"
            )
        return Consequence(
            Harm.OVERWRITES,
            "from the start of an object on, with the same flush.size and partitioner, the same objects are written "
            "again; from inside an object, records will be in two of them",
        )


class JdbcSinkMeaning(SinkMeaning):
    """JDBC sinks of Aiven and Confluent: rows, by insert.mode and pk.mode."""

    family: ClassVar[str] = "JDBC sink"

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """By its class."""
        del config
        return connector_class in _JDBC_CLASSES

    def explain_rewind(self) -> Consequence:
        """By the mode of its writes."""
        mode = (self.config.get("insert.mode") or "insert").strip().lower()
        key = (self.config.get("pk.mode") or "none").strip().lower()
        if mode in {"upsert", "update"}:
            return Consequence(
                Harm.OVERWRITES,
                f"insert.mode {mode}: rows are overwritten, none is there twice; older values stand in place of newer "
                "ones until the sink has caught up",
            )
        if mode not in {"insert", "multi"}:
            return Consequence(Harm.UNKNOWN, f"insert.mode {mode} is not known to seamark")
        if key == "none":
            return Consequence(
                Harm.DUPLICATES,
                f"insert.mode {mode} without a primary key of its own: each record becomes a second row, "
                "or the task fails where the table has a unique key",
            )
        return Consequence(
            Harm.FAILURE, f"insert.mode {mode} with pk.mode {key}: the rows are there already, and the task fails"
        )

    def explain_skip(self) -> Consequence:
        """Rows are missing."""
        deletes = (self.config.get("delete.enabled") or "").strip().lower() == "true"
        more = ", and rows that should be deleted stay" if deletes else ""
        return Consequence(Harm.LOSS, f"the rows of the records between are missing or stay as they were{more}")


class FileSinkMeaning(SinkMeaning):
    """Kafka's own file sink: it appends lines."""

    family: ClassVar[str] = "file sink"

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """By its class."""
        del config
        return connector_class == "org.apache.kafka.connect.file.FileStreamSinkConnector"

    def explain_rewind(self) -> Consequence:
        """It appends."""
        return Consequence(Harm.DUPLICATES, "the lines are appended to the file once more")
