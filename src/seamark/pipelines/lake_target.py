"""A landing's table in a lake: a batch is one commit, which has its files and its offsets."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from seamark.errors import RejectedError
from seamark.pipelines.bad_records import WrittenLetters
from seamark.pipelines.binding import Binding
from seamark.pipelines.lake_frame import build_lake_frame
from seamark.pipelines.lake_schema import require_fit
from seamark.pipelines.lake_sink import LakeSink, build_options
from seamark.pipelines.landing import BatchLanded, Landing
from seamark.spark.session import active_session, register_sink
from seamark.tables.delta.files import DataFile
from seamark.tables.delta.landings import enter_landing
from seamark.tables.delta.place import LakePlace
from seamark.tables.delta.table import LakeTable, Position
from seamark.tables.ledger_entry import Entry, Step


class LakeTarget:
    """Where `run_landing` lands in a lake."""

    def __init__(self, landing: Landing, lake: LakePlace) -> None:
        self._landing = landing
        self._lake = lake
        self._table = LakeTable(lake.below(landing.table), owner=landing.owner)
        self._letters = WrittenLetters(landing)
        self._seen: Position | None = None
        # Who watches must not take a commit of ours for another's.
        self._committing = threading.Lock()

    def prepare(self, spark: SparkSession) -> None:
        """Have Spark know the sink, and the lake know the landing. A table that does not fit is refused."""
        require_fit(self._table, self._landing)
        register_sink(spark, LakeSink)
        enter_landing(self._lake, self._landing.owner, table=self._landing.table)

    def read(self) -> dict[tuple[str, int], Entry]:
        """What the last commit says."""
        return self._table.read_position().entries

    def claim(self, firsts: Iterable[Entry]) -> list[Entry]:
        """Begin where the table stands. Nobody is kept out: of two runs the one that commits first has its batch.

        A partition that the table does not know is entered at once: a next run must begin there too, also where this
        one lands nothing, and `latest` will be elsewhere by then.
        """
        wanted = list(firsts)
        with self._committing:
            self._seen = self._table.enter(wanted)
            found = self._seen.entries
        return [found[first.key] for first in wanted]

    def watch(self, entries: Sequence[Entry]) -> None:  # noqa: ARG002 - they have one place
        """Another commit says that somebody has landed or moved them. Ours is said anew before Delta cleans it away."""
        with self._committing:
            if self._seen is not None:
                self._table.require(self._seen)
                self._seen = self._table.renew(self._seen)

    def bind(self, binding: Binding) -> None:
        """Nothing to check: a lake's table only takes more rows."""

    def build_rows(self, records: DataFrame) -> DataFrame:
        """The columns of the table, and what is told of each record."""
        return build_lake_frame(records, self._landing)

    def land(self, rows: DataFrame, steps: Sequence[Step], *, number: int, folder: Path) -> BatchLanded:
        """Write the files of a batch, and commit them."""
        if not steps:
            # Spark begins with a batch even where there is nothing to read.
            return BatchLanded(number, rows=0, deleted=0, dead=0)
        told = folder / f"files-{number}"
        offsets = sum(step.end - step.entry.next_offset for step in steps)
        options = build_options(self._landing, self._table.at, told=told, offsets=offsets, spent=self._letters.written)
        with active_session(rows.sparkSession):
            rows.write.format(LakeSink.name()).mode("append").options(**options).save()
        found = json.loads(told.read_text(encoding="utf-8"))
        told.unlink()
        for message, cause, hint in found["refusals"]:
            raise RejectedError(message, cause=cause, hint=hint)
        # Before the commit: if too many are bad, nothing of the batch is landed.
        self._letters.add(found["letters"])
        files = [DataFile(**one) for one in found["files"]]
        with self._committing:
            seen = self._seen or self._table.read_position()
            self._seen = self._table.commit(files, [step.after for step in steps], seen=seen)
        count, dead = sum(file.rows for file in files), sum(one["dead"] for one in found["letters"])
        return BatchLanded(number, rows=count - dead, deleted=0, dead=dead)
