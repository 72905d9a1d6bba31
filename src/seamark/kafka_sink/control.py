"""Control records: what a task of a job wrote to Kafka, kept in the transaction of what it wrote.

A record's key says which task of which job; the newest record of a key says how far the task has come. A task that
runs again, for whatever reason, reads it first. Those of a copy also say which offsets went where: they are its only
memory. How one looks in Kafka is `control_codec`'s to say.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from seamark.errors import UsageError
from seamark.kafka_sink.copy_run import Run

CONTROL_TOPIC = "seamark-control"
"""Where control records are kept by default."""

# JSON readers elsewhere take no more than 63 bits.
_AMOUNT_MASK = (1 << 63) - 1

CONTROL_PARTITIONS = 8
"""The partitions that tasks are spread over: the first eight. A topic that is grown later changes nothing."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Which piece of work a task does. `query` and `batch` are those of a stream, `part` is the slice of a copy."""

    job: str
    task: int
    query: str = ""
    batch: int = -1
    part: str = ""

    def __post_init__(self) -> None:
        """Refuse what is neither a batch job's, nor a stream's, nor a copy's."""
        if bool(self.query) != (self.batch >= 0) or (self.query and self.part):
            raise UsageError(f"{self} has a query, a batch and a part that don't go together")

    @property
    def transactional_id(self) -> str:
        """What every attempt at this task writes under: who takes it last, fences the others.

        A stream's batches and a copy's slices share it, so that a late attempt of an old one is fenced as well.
        """
        return f"seamark.sink.{self.job}.{self.task}"

    @property
    def family(self) -> str:
        """What the keys of all tasks of this job begin with."""
        return f"{self.job}/{self.query}/" if self.query else f"{self.job}/"

    @property
    def key(self) -> bytes:
        """The key of its control records.

        It has no batch: the newest batch of a stream is all that counts. It has the part: a copy needs the records of
        all its slices, and compaction must leave them.
        """
        part = f"{self.part}/" if self.part else ""
        return f"{self.family}{part}{self.task}".encode()

    @property
    def partition(self) -> int:
        """The partition of the control topic that holds its records."""
        return zlib.crc32(self.key) % CONTROL_PARTITIONS

    def __str__(self) -> str:
        """In words, for messages."""
        where = f"task {self.task} of job {self.job}"
        if self.part:
            return f"{where}, slice {self.part}"
        return f"{where}, batch {self.batch}" if self.batch >= 0 else where


def build_first_claim(query: str) -> Claim:
    """What a stream leaves in its first batch, whatever rows that has: by it the control topic knows the stream."""
    return Claim(f"{query}.begun", task=0)


def build_batch_claim(query: str, batch: int) -> Claim:
    """Build the claim under which a stream records who began a batch, before any row of it is written."""
    return Claim(f"{query}.batch", task=0, query=query, batch=batch)


@dataclass(frozen=True, slots=True)
class Amount:
    """So many records, the bytes of their keys and values, and the sum of the hashes of the records.

    Two inputs that differ here are not the same. The sum is the same in any order of the records. Of a copy it is 0:
    its runs have checksums of their own.
    """

    records: int = 0
    bytes: int = 0
    sum: int = 0

    def __add__(self, other: Amount) -> Amount:
        """Both together."""
        return Amount(self.records + other.records, self.bytes + other.bytes, (self.sum + other.sum) & _AMOUNT_MASK)

    def __str__(self) -> str:
        """In words, for messages."""
        return f"{self.records} records of {self.bytes} bytes"


@dataclass(frozen=True, slots=True)
class Copied:
    """What a task of a copy adds to its record: it is one of `tasks` of its slice, and which offsets went where.

    The runs are by source, target and offset. Two partitions have several where something came in between, such as the
    late marker of another transaction. A task that had nothing to write has none. `hash_name` says how records were
    hashed for the checksums.
    """

    tasks: int
    runs: tuple[Run, ...] = ()
    hash_name: str = "xxhash64"

    def __post_init__(self) -> None:
        """Refuse runs that are not in order."""
        if not all(_follows(first, second) for first, second in pairwise(self.runs)):
            raise UsageError("the runs of a control record are not in order, or overlap")

    @property
    def count(self) -> int:
        """How many records the runs have."""
        return sum(run.count for run in self.runs)


def _follows(first: Run, second: Run) -> bool:
    pairs = (first.source, first.target), (second.source, second.target)
    if pairs[0] != pairs[1]:
        return pairs[0] < pairs[1]
    return first.last_source < second.first_source and first.last_target < second.first_target


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """What is written of a claim. `amount` and `copied` count from the task's first row, over all its transactions.

    `run` is the run of a stream that began a batch, in the record of `build_batch_claim`.
    """

    claim: Claim
    amount: Amount
    is_done: bool
    transactions: int = 1
    copied: Copied | None = None
    run: str = ""

    def __post_init__(self) -> None:
        """Refuse a copy's record that contradicts itself."""
        if bool(self.claim.part) != (self.copied is not None):
            raise UsageError(f"the record of {self.claim} is half a copy's")
        if self.copied is None:
            return
        if not self.is_done:
            # Its rows come from a source that may have lost some when they are read again: nobody could go on midway.
            raise UsageError(f"{self.claim} is one transaction, and can't be half done")
        if not 0 <= self.claim.task < self.copied.tasks:
            raise UsageError(f"there is no task {self.claim.task} among {self.copied.tasks}")
        if self.copied.count != self.amount.records:
            raise UsageError(f"its runs have {self.copied.count} records, and it says {self.amount.records}")

    @property
    def runs(self) -> tuple[Run, ...]:
        """Which offsets of a copy went where; none, where it is no copy."""
        return self.copied.runs if self.copied is not None else ()


@dataclass(frozen=True, slots=True)
class ControlReading:
    """Control records by job. They are not whole where a transaction that nobody has ended hides some."""

    records: Mapping[str, tuple[ControlRecord, ...]]
    is_whole: bool = True
