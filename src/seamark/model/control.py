"""Control records: what a task of a job wrote to Kafka, kept in the transaction of what it wrote.

A record's key says which task of which job; the newest record of a key says how far the task has come. A task that
runs again, for whatever reason, reads it first.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any

from seamark.errors import RejectedError

CONTROL_TOPIC = "seamark-control"
"""Where control records are kept by default."""

CONTROL_PARTITIONS = 8
"""The partitions that tasks are spread over: the first eight. A topic that is grown later changes nothing."""

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Claim:
    """Which piece of work a task does. `query` and `batch` are those of a stream, and empty for a batch job."""

    job: str
    task: int
    query: str = ""
    batch: int = -1

    @property
    def transactional_id(self) -> str:
        """What every attempt at this task writes under: who takes it last, fences the others.

        A stream's batches share it, so that a late attempt of an old batch is fenced as well.
        """
        return f"seamark.sink.{self.job}.{self.task}"

    @property
    def family(self) -> str:
        """What the keys of all tasks of this job begin with."""
        return f"{self.job}/{self.query}/" if self.query else f"{self.job}/"

    @property
    def key(self) -> bytes:
        """The key of its control records. It has no batch: the newest batch of a stream is all that counts."""
        return f"{self.family}{self.task}".encode()

    @property
    def partition(self) -> int:
        """The partition of the control topic that holds its records."""
        return zlib.crc32(self.key) % CONTROL_PARTITIONS

    def __str__(self) -> str:
        """In words, for messages."""
        where = f"task {self.task} of job {self.job}"
        return f"{where}, batch {self.batch}" if self.batch >= 0 else where


@dataclass(frozen=True, slots=True)
class Amount:
    """So many records, and the bytes of their keys and values. Two inputs that differ here are not the same."""

    records: int = 0
    bytes: int = 0

    def __add__(self, other: Amount) -> Amount:
        """Both together."""
        return Amount(self.records + other.records, self.bytes + other.bytes)

    def __str__(self) -> str:
        """In words, for messages."""
        return f"{self.records} records of {self.bytes} bytes"


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """What is written of a claim. `amount` counts from the task's first row, over all its transactions."""

    claim: Claim
    amount: Amount
    is_done: bool
    transactions: int = 1

    def to_json(self) -> bytes:
        """The value of the record."""
        body: dict[str, Any] = {
            "format": _FORMAT,
            "job": self.claim.job,
            "task": self.claim.task,
            "records": self.amount.records,
            "bytes": self.amount.bytes,
            "done": self.is_done,
            "transactions": self.transactions,
        }
        if self.claim.query:
            body |= {"query": self.claim.query, "batch": self.claim.batch}
        return json.dumps(body, separators=(",", ":")).encode()


def read_control_record(value: bytes, *, place: str) -> ControlRecord:
    """Read the value of a control record. One that can't be read is an error: to skip it would be to write twice."""
    try:
        body = json.loads(value)
        if body["format"] != _FORMAT:
            raise RejectedError(
                f"the control record {place} is of a newer seamark", hint="run the job with that version"
            )
        claim = Claim(body["job"], task=int(body["task"]), query=body.get("query", ""), batch=body.get("batch", -1))
        return ControlRecord(
            claim,
            amount=Amount(int(body["records"]), bytes=int(body["bytes"])),
            is_done=bool(body["done"]),
            transactions=int(body["transactions"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise RejectedError(
            f"{place} is not a control record of seamark",
            cause=f"{type(error).__name__}: {error}",
            hint="the option control.topic must name a topic that nothing else writes to",
        ) from None
