"""`seamark.pipeline.delta`: the tasks of a pipeline write data files of a Delta table; the driver commits them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from seamark.core import strict_json as strict
from seamark.errors import RejectedError, UnreachableError, UsageError
from seamark.kafka_sink.spark import keep_error_details
from seamark.pipelines.bad_records import BadRecords, build_refusal
from seamark.pipelines.spark_frame import PARTITION, REASON
from seamark.tables.definition import Landing
from seamark.tables.delta.files import DataFile, TableWriter
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.schema import build_file_schema, build_table_schema
from seamark.tables.delta.technology import DATE_COLUMN
from seamark.tables.model import OFFSET

# Spark does not show options whose names have this word.
PLACE_OPTION = "lake.secret"


@dataclass(frozen=True, slots=True)
class FilesMessage(WriterCommitMessage):
    """What a task tells the driver."""

    files: tuple[DataFile, ...] = ()
    records: int = 0
    dead: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    refusal: tuple[str, str, str] | None = None


class LakeSink(DataSource):
    """The sink as Spark knows it. It belongs to `run_landing`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "seamark.pipeline.delta"

    @keep_error_details
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """The writer of one batch."""
        if overwrite:
            raise UsageError("a pipeline can't overwrite its table", hint='use mode("append")')
        return LakeWriter(
            Landing.from_dict(strict.read_json(self.options["landing"], what="a pipeline")),
            TableLocation.from_json(self.options[PLACE_OPTION]),
            told=self.options["told"],
            offsets=int(self.options["offsets"]),
            spent=int(self.options["spent"]),
        )


def build_options(landing: Landing, place: TableLocation, *, told: Path, offsets: int, spent: int) -> dict[str, str]:
    """The options that `LakeSink` reads.

    Args:
        landing: The pipeline.
        place: The table.
        told: A file of the driver's, for what its other process knows.
        offsets: How many offsets the batch has.
        spent: How many dead letters the run has written before.
    """
    return {
        "landing": json.dumps(landing.to_dict()),
        PLACE_OPTION: place.to_json(),
        "told": str(told),
        "offsets": str(offsets),
        "spent": str(spent),
    }


@dataclass
class LakeWriter(DataSourceArrowWriter):
    """Writes the tasks of one batch."""

    landing: Landing
    place: TableLocation = field(repr=False)
    told: str
    offsets: int
    spent: int

    @keep_error_details
    def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesMessage:
        """Write the files of one task, on an executor.

        Raises:
            UnreachableError: The store could not be written to.
        """
        try:
            return self._write(iterator)
        except RejectedError as error:
            # Told and not raised: Spark would run the task four times, and find the same each time.
            return FilesMessage(refusal=(error.message, error.cause, error.hint))
        except OSError as error:
            raise UnreachableError(
                f"could not write to {self.place.url}",
                cause=" ".join(str(error).split())[:300],
                hint="check that the storage of the lake is reachable, and the permissions of its keys",
            ) from error

    def _write(self, iterator: Iterator[pa.RecordBatch]) -> FilesMessage:
        partition = DATE_COLUMN if self.landing.date_from else ""
        writer = TableWriter(self.place, build_file_schema(self.landing), partition=partition)
        schema = build_table_schema(self.landing)
        bad = BadRecords(self.landing, spot=self.landing.topic, offsets=self.offsets, spent=self.spent)
        for batch in iterator:
            if not batch.num_rows:
                continue
            reasons = Counter(pc.drop_null(batch.column(REASON)).to_pylist())
            if reasons and self.landing.dead_letters is None:
                first = batch.filter(pc.is_valid(batch.column(REASON)))
                raise build_refusal(
                    self.landing,
                    f"record {self.landing.topic}-{first.column(PARTITION)[0]}@{first.column(OFFSET)[0]}",
                    reason=first.column(REASON)[0].as_py(),
                )
            bad.add(reasons, records=batch.num_rows)
            writer.write(batch.select(schema.names).cast(schema))
        bad.end()
        return FilesMessage(tuple(writer.close()), bad.records, bad.dead, dict(bad.reasons))

    @keep_error_details
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Tell the driver's own process which files count: this runs in another one."""
        found = [one for one in messages if isinstance(one, FilesMessage)]
        files = [file.to_dict() for one in found for file in one.files]
        refusals = [one.refusal for one in found if one.refusal is not None]
        letters = [{"records": one.records, "dead": one.dead, "reasons": one.reasons} for one in found]
        Path(self.told).write_text(json.dumps({"files": files, "letters": letters, "refusals": refusals}))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing to do: no commit names the files."""
