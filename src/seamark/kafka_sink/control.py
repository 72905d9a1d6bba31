"""Control records: what a task of a job wrote to Kafka, kept in the transaction of what it wrote.

A record's key says which task of which job; the newest record of a key says how far the task has come. A task that
runs again, for whatever reason, reads it first. Those of a copy also say which offsets went where: they are its only
memory. How one looks in Kafka is `control_codec`'s to say.
"""

from __future__ import annotations

import json
import re
import zlib
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import xor
from typing import Any

from seamark.core import strict_json as strict
from seamark.core.strict_json import VERSION_FIELD, StoredFormat, check_format
from seamark.errors import FormatVersionError, RefusedError, UsageError

_HEX = re.compile(r"[0-9a-f]{32}", re.ASCII)
_CHECKSUM_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Checksum:
    """Two sums over 64-bit hashes of records that come out the same in any order.

    Either alone misses something: the sum is blind for two errors that cancel out, the xor for a record that is there
    twice too often.
    """

    sum: int = 0
    xor: int = 0

    @classmethod
    def of(cls, hashes: array[int]) -> Checksum:
        """Of many records, by their hashes; of negative ones, as Spark has them, the bits are taken."""
        return cls(sum(hashes) & _CHECKSUM_MASK, reduce(xor, hashes, 0) & _CHECKSUM_MASK)

    def combine(self, other: Checksum) -> Checksum:
        """The checksum of two sets of records together."""
        return Checksum((self.sum + other.sum) & _CHECKSUM_MASK, self.xor ^ other.xor)

    @property
    def text(self) -> str:
        """Both as 32 hexadecimal digits: JSON's numbers are not safe beyond 53 bits."""
        return f"{self.sum:016x}{self.xor:016x}"

    @classmethod
    def from_text(cls, value: object) -> Checksum:
        """Read what `text` gave."""
        digits = strict.read_text(value, what="a checksum")
        if not _HEX.fullmatch(digits):
            raise UsageError("invalid checksum", cause="expected 32 hexadecimal digits")
        return cls(int(digits[:16], 16), int(digits[16:], 16))


@dataclass(frozen=True, slots=True)
class Run:
    """Records that a task took from one source partition to one target partition, in order.

    In the target they lie side by side: the task is the only writer there, and sorts by source partition and offset. In
    the source there may be others between them. So the nth record is the nth offset of the target.
    """

    source: int
    target: int
    count: int
    first_source: int
    last_source: int
    first_target: int
    last_target: int
    checksum: Checksum = Checksum()

    def __post_init__(self) -> None:
        """Refuse what can't be one run. A task that sees this before its commit aborts."""
        taken = self.last_target - self.first_target + 1
        if self.count < 1 or self.last_source - self.first_source + 1 < self.count:
            raise self._refuse(
                f"{self.count} records don't fit into source offsets {self.first_source} to {self.last_source}"
            )
        if taken != self.count:
            raise self._refuse(
                f"{self.count} records occupy {taken} offsets of the target, {self.first_target} to "
                f"{self.last_target}: another producer wrote between them"
            )

    def _refuse(self, cause: str) -> RefusedError:
        return RefusedError(
            f"the records copied from partition {self.source} to partition {self.target} are not contiguous",
            cause=cause,
            hint="stop all other producers of the target topic, then run the copy again; finished tasks are not "
            "repeated",
        )

    def to_list(self) -> list[int | str]:
        """The run as JSON takes it."""
        return [
            self.source,
            self.target,
            self.count,
            self.first_source,
            self.last_source,
            self.first_target,
            self.last_target,
            self.checksum.text,
        ]

    @classmethod
    def from_list(cls, data: object) -> Run:
        """Read what `to_list` gave."""
        *numbers, checksum = strict.read_list(data, what="a run", length=8)
        source, target, count, *ends = (strict.read_count(number, what="a number of a run") for number in numbers)
        first_source, last_source, first_target, last_target = ends
        return cls(
            source,
            target,
            count,
            first_source=first_source,
            last_source=last_source,
            first_target=first_target,
            last_target=last_target,
            checksum=Checksum.from_text(checksum),
        )


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
            raise UsageError(f"{self} has a query, a batch and a part that contradict each other")

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
            raise UsageError(f"the control record of {self.claim} has only some of the fields of a topic copy")
        if self.copied is None:
            return
        if not self.is_done:
            # Its source may have lost rows when the task is repeated, so that it can't be resumed midway.
            raise UsageError(f"{self.claim} is one transaction and can't be partly done")
        if not 0 <= self.claim.task < self.copied.tasks:
            raise UsageError(f"task {self.claim.task} does not exist: the slice has {self.copied.tasks} tasks")
        if self.copied.count != self.amount.records:
            raise UsageError(f"its runs have {self.copied.count} records, but its total is {self.amount.records}")

    @property
    def runs(self) -> tuple[Run, ...]:
        """Which offsets of a topic copy were written where; empty for other jobs."""
        return self.copied.runs if self.copied is not None else ()


@dataclass(frozen=True, slots=True)
class ControlReading:
    """Control records by job. They are incomplete where an open transaction hides some."""

    records: Mapping[str, tuple[ControlRecord, ...]]
    is_whole: bool = True


FORMAT = StoredFormat("control record", 3)

_KEYS = (
    VERSION_FIELD, "job", "part", "query", "batch", "task",
    "records", "bytes", "sum", "done", "transactions", "copy", "run",
)  # fmt: skip
_COPY_KEYS = ("tasks", "hash", "runs")


def encode_control(record: ControlRecord) -> bytes:
    """The value of the record in Kafka. The same record is always the same bytes."""
    claim = record.claim
    body: dict[str, Any] = {
        **FORMAT.field,
        "job": claim.job,
        "part": claim.part,
        "query": claim.query,
        "batch": claim.batch if claim.query else None,
        "task": claim.task,
        "records": record.amount.records,
        "bytes": record.amount.bytes,
        "sum": record.amount.sum,
        "done": record.is_done,
        "transactions": record.transactions,
        "copy": None if record.copied is None else _encode_copied(record.copied),
        "run": record.run,
    }
    return json.dumps(body, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def decode_control(value: bytes, *, place: str) -> ControlRecord:
    """Read what `encode_control` gave. Anything else is refused: to pass over a record would be to write twice."""
    try:
        return _decode(value, place=place)
    except FormatVersionError:
        raise
    except (UsageError, RefusedError) as error:
        raise RefusedError(
            f"the control record {place} can't be read",
            cause=f"{error.message}: {error.cause}" if error.cause else error.message,
            hint="stop the other producers of this topic: only seamark may write to a control topic",
        ) from None


def _encode_copied(copied: Copied) -> dict[str, Any]:
    return {"tasks": copied.tasks, "hash": copied.hash_name, "runs": [run.to_list() for run in copied.runs]}


def _decode(value: bytes, *, place: str) -> ControlRecord:
    body = strict.read_json(value, what="its value")
    check_format(FORMAT, body, where=f"the control record {place}")
    fields = strict.read_object(body, keys=_KEYS, what="its value")
    batch = strict.read_optional_count(fields["batch"], what="its batch")
    return ControlRecord(
        Claim(
            strict.read_text(fields["job"], what="its job"),
            task=strict.read_count(fields["task"], what="its task"),
            query=strict.read_text(fields["query"], what="its query"),
            batch=-1 if batch is None else batch,
            part=strict.read_text(fields["part"], what="its part"),
        ),
        amount=Amount(
            strict.read_count(fields["records"], what="the count of its records"),
            bytes=strict.read_count(fields["bytes"], what="the count of its bytes"),
            sum=strict.read_count(fields["sum"], what="the sum of its hashes"),
        ),
        is_done=strict.read_truth(fields["done"], what="its field done"),
        transactions=strict.read_count(fields["transactions"], what="the count of its transactions"),
        copied=None if fields["copy"] is None else _decode_copied(fields["copy"]),
        run=strict.read_text(fields["run"], what="its run"),
    )


def _decode_copied(value: object) -> Copied:
    fields = strict.read_object(value, keys=_COPY_KEYS, what="its copy")
    return Copied(
        strict.read_count(fields["tasks"], what="the number of its tasks"),
        runs=tuple(map(Run.from_list, strict.read_list(fields["runs"], what="its runs"))),
        hash_name=strict.read_text(fields["hash"], what="the name of its hash"),
    )
