"""`seamark.landing`: how the tasks of a landing write. A partition is one task, and its range one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from itertools import chain
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from seamark.core import strict
from seamark.errors import RefusedError, RejectedError, UsageError
from seamark.kafka_sink.telling import tell
from seamark.pipelines.binding import Binding
from seamark.pipelines.land_binding import check_bound
from seamark.pipelines.land_database import URL_OPTION, open_landing_database
from seamark.pipelines.land_frame import PARTITION
from seamark.pipelines.land_rows import write_rows
from seamark.pipelines.landing import Landing
from seamark.tables.ledger_entry import Entry, Step
from seamark.tables.postgres.landing_rows import RowSink
from seamark.tables.postgres.landing_table import Landed


@dataclass(frozen=True, slots=True)
class RangeMessage(WriterCommitMessage):
    """What a task tells the driver. One without records does not know its partition, and tells nothing.

    `refusal` is the message, cause and hint of the error where its records can't be rows. It is told and not raised,
    because Spark would run the task four times, and find the same each time.
    """

    partition: int | None = None
    landed: Landed = field(default_factory=Landed)
    refusal: tuple[str, str, str] | None = None


class LandingSink(DataSource):
    """The sink as Spark knows it. It belongs to `run_landing`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "seamark.landing"

    @tell
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002 - Spark's words
        """The writer of one batch."""
        if overwrite:
            raise UsageError("a landing overwrites nothing", hint='mode("append")')
        steps = strict.read_list(strict.read_json(self.options["steps"], what="steps"), what="steps")
        return LandingWriter(
            Landing.from_dict(strict.read_json(self.options["landing"], what="a landing")),
            steps={entry[2]: Step(Entry(*entry), end) for entry, end in steps},
            url=self.options[URL_OPTION],
            counts=self.options.get("counts", ""),
            binding=_read_binding(self.options.get("binding", "")),
            spent=int(self.options.get("spent", "0")),
        )


def build_options(
    landing: Landing,
    steps: Sequence[Step],
    *,
    url: str,
    counts: Path,
    binding: Binding | None = None,
    spent: int = 0,
) -> dict[str, str]:
    """The options that `LandingSink` reads. `spent` is how many dead letters the run has written before."""
    spelled = [[astuple(one.entry), one.end] for one in steps]
    return {
        "landing": json.dumps(landing.to_dict()),
        "steps": json.dumps(spelled),
        "counts": str(counts),
        "binding": "" if binding is None else json.dumps(binding.to_dict()),
        "spent": str(spent),
        URL_OPTION: url,
    }


@dataclass
class LandingWriter(DataSourceArrowWriter):
    """Writes the tasks of one batch."""

    landing: Landing
    steps: Mapping[int, Step]
    url: str = field(repr=False)
    counts: str = ""
    binding: Binding | None = None
    spent: int = 0

    @tell
    def write(self, iterator: Iterator[pa.RecordBatch]) -> RangeMessage:
        """Land one range, on an executor."""
        batches = (batch for batch in iterator if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return RangeMessage()
        partition = first.column(PARTITION)[0].as_py()
        rows = _expect_one(chain([first], batches), partition)
        if self.binding is not None:
            rows = check_bound(rows, self.landing, self.binding, partition=partition)
        step = self.steps[partition]
        refusals: list[RejectedError] = []

        def write(sink: RowSink) -> None:
            try:
                write_rows(self.landing, sink, rows, step=step, spent=self.spent)
            except RejectedError as error:
                refusals.append(error)
                raise

        try:
            database = open_landing_database(self.landing, self.url)
            landed = database.land(step, write, is_strict=self.landing.dead_letters is None)
        except RejectedError as error:
            if error not in refusals:
                raise
            return RangeMessage(partition, refusal=(error.message, error.cause, error.hint))
        return RangeMessage(partition, landed)

    @tell
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Tell the driver's own process what was landed: this runs in another one."""
        found = [one for one in messages if isinstance(one, RangeMessage) and one.partition is not None]
        if self.counts:
            told = {one.partition: {**asdict(one.landed), "refusal": one.refusal} for one in found}
            Path(self.counts).write_text(json.dumps(told), encoding="utf-8")

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing to do: what is landed stays, and what is not is not there."""


def _expect_one(batches: Iterator[pa.RecordBatch], partition: int) -> Iterator[pa.RecordBatch]:
    """The batches of one partition. Another one among them would be counted to the wrong entry."""
    for batch in batches:
        numbers = batch.column(PARTITION)
        if set(numbers.unique().to_pylist()) != {partition}:
            raise RefusedError(
                "a task got records of more than one partition",
                hint="leave minPartitions, maxRecordsPerPartition and adaptive execution out",
            )
        yield batch


def _read_binding(text: str) -> Binding | None:
    return Binding.from_dict(strict.read_json(text, what="a binding")) if text else None
