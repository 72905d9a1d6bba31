"""Where a landing lands: what `run_landing` asks of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from seamark.pipelines.binding import Binding
from seamark.pipelines.landing import BatchLanded
from seamark.tables.ledger_entry import Entry, Step


class LandTarget(Protocol):
    """A place for rows, with the offsets that came with them."""

    def prepare(self, spark: SparkSession) -> None:
        """Make what is needed to begin."""

    def read(self) -> dict[tuple[str, int], Entry]:
        """The offsets that are held, by the topic's id and the partition."""

    def claim(self, firsts: Iterable[Entry]) -> list[Entry]:
        """Take partitions; one that is not held begins as it stands in `firsts`."""

    def watch(self, entries: Sequence[Entry]) -> None:
        """Look whether these are still held.

        Raises:
            FencedError: another run has taken them.
            UnreachableError: nobody answers; what is held is not known.
        """

    def bind(self, binding: Binding) -> None:
        """Have every task check that the keys of its records belong in its partition."""

    def build_rows(self, records: DataFrame) -> DataFrame:
        """The rows of the topic's records, as `land` takes them."""

    def land(self, rows: DataFrame, steps: Sequence[Step], *, number: int, folder: Path) -> BatchLanded:
        """Land a batch of rows. Afterwards every step is done, or it raises.

        Raises:
            FencedError: another run has taken or moved what this one held.
        """
