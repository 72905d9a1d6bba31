"""A landing's table in PostgreSQL: a partition's range is one transaction, with its offset in the ledger."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from seamark.errors import RefusedError, RejectedError
from seamark.pipelines.bad_records import WrittenLetters
from seamark.pipelines.binding import Binding
from seamark.pipelines.land_database import open_landing_database
from seamark.pipelines.land_frame import build_land_frame
from seamark.pipelines.land_sink import LandingSink, build_options
from seamark.pipelines.landing import BatchLanded, Landing
from seamark.pipelines.layout import build_statements
from seamark.spark.session import active_session, register_sink
from seamark.tables.ledger_entry import Entry, Step
from seamark.tables.postgres.landing import build_fenced

# Deletes are remembered for days, so that it doesn't matter when exactly they are forgotten.
_PURGE_SECONDS = 3600.0


class TableTarget:
    """Where `run_landing` lands in PostgreSQL."""

    def __init__(self, landing: Landing, url: str) -> None:
        self._landing = landing
        self._url = url
        self._database = open_landing_database(landing, url)
        self._binding: Binding | None = None
        self._letters = WrittenLetters(landing)
        self._purged_at = time.monotonic()

    def prepare(self, spark: SparkSession) -> None:
        """Have Spark know the sink, and make the ledger."""
        register_sink(spark, LandingSink)
        # An order that the table doesn't keep would be lost, and one that the pipeline doesn't keep would be wrong.
        columns = self._database.read_columns()
        if columns is not None and (missing := build_statements(self._landing, columns)):
            raise RefusedError(
                f"{self._landing.table} is not as {self._landing.name} needs it",
                cause=f"it lacks: {'; '.join(missing)}",
                hint="seamark land run adds it after it was shown",
            )
        self._database.prepare()

    def bind(self, binding: Binding) -> None:
        """Have every task check that the keys of its records belong in its partition."""
        self._binding = binding

    def read(self) -> dict[tuple[str, int], Entry]:
        """What the ledger says."""
        return self._database.read()

    def claim(self, firsts: Iterable[Entry]) -> list[Entry]:
        """Take partitions from whoever has them."""
        return self._database.claim(firsts)

    def watch(self, entries: Sequence[Entry]) -> None:
        """Another epoch says that somebody has taken a partition."""
        ledger = self._database.read()
        for entry in entries:
            if (found := ledger.get(entry.key)) is None or found.epoch != entry.epoch:
                raise build_fenced(self._landing.owner, entry, found)

    def build_rows(self, records: DataFrame) -> DataFrame:
        """The columns of the table, and what is told of each record."""
        return build_land_frame(records, self._landing)

    def land(self, rows: DataFrame, steps: Sequence[Step], *, number: int, folder: Path) -> BatchLanded:
        """Have each task land its range, and move over those without a record."""
        counts = folder / f"counts-{number}"
        options = build_options(
            self._landing, steps, url=self._url, counts=counts, binding=self._binding, spent=self._letters.written
        )
        try:
            with active_session(rows.sparkSession):
                rows.write.format(LandingSink.name()).mode("append").options(**options).save()
        except PySparkException:
            self._refuse_others(steps)
            raise
        # Not there where Spark had no task.
        told = json.loads(counts.read_text(encoding="utf-8")) if counts.exists() else {}
        counts.unlink(missing_ok=True)
        for _, one in sorted(told.items()):
            if one["refusal"] is not None:
                message, cause, hint = one["refusal"]
                raise RejectedError(message, cause=cause, hint=hint)
        self._settle(steps)
        self._letters.add(told.values())
        if time.monotonic() - self._purged_at > _PURGE_SECONDS:
            self._database.purge_tombstones()
            self._purged_at = time.monotonic()
        names = ("rows", "deleted", "dead")
        return BatchLanded(number, **{name: sum(one[name] for one in told.values()) for name in names})

    def _refuse_others(self, steps: Sequence[Step]) -> None:
        """Say that somebody else has taken or moved a partition, where that is why a batch has failed."""
        ledger = self._database.read()
        for step in steps:
            if (found := ledger.get(step.entry.key)) not in (step.entry, step.after):
                raise build_fenced(self._landing.owner, step.entry, found)

    def _settle(self, steps: Sequence[Step]) -> None:
        """Make sure that every range is landed. One without a record had no task that knew of it."""
        ledger = self._database.read()
        for step in steps:
            found = ledger.get(step.entry.key)
            if found == step.entry:
                self._database.move_empty(step)
            elif found != step.after:
                raise build_fenced(self._landing.owner, step.entry, found)
