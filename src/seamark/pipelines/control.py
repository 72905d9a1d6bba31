"""The control record: what a task wrote, in the same transaction as the records themselves.

It is the only memory of a copy. Whether a task is finished, what was copied up to where, and where a reader of the old
topic stands in the new one, is all told from these records.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise

from seamark.errors import RefusedError, UsageError
from seamark.pipelines import strict
from seamark.pipelines.run import Run

FORMAT_VERSION = 1

_KEYS = ("v", "plan", "slice", "task", "tasks", "hash", "runs")


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """One finished task: task `task` of the `tasks` that its slice is divided into, with its runs.

    A task that had nothing to write leaves one without runs; else nobody would know that it is finished. The runs are
    by source, target and offset. Two partitions have several where something came in between, such as the late marker
    of another transaction. `hash_name` says how records were hashed for the checksums.
    """

    plan: str
    slice_id: str
    task: int
    tasks: int
    runs: tuple[Run, ...] = ()
    hash_name: str = "xxhash64"

    def __post_init__(self) -> None:
        """Refuse a task that can't be, and runs that are not in order."""
        if not 0 <= self.task < self.tasks:
            raise UsageError(f"there is no task {self.task} among {self.tasks}")
        if not all(_follows(first, second) for first, second in pairwise(self.runs)):
            raise UsageError("the runs of a control record are not in order, or overlap")

    @property
    def key(self) -> str:
        """What it is a record of: the key of the record in Kafka."""
        return f"{self.plan}/{self.slice_id}/{self.task}"

    @property
    def count(self) -> int:
        """How many records the task wrote."""
        return sum(run.count for run in self.runs)


def _follows(first: Run, second: Run) -> bool:
    pairs = (first.source, first.target), (second.source, second.target)
    if pairs[0] != pairs[1]:
        return pairs[0] < pairs[1]
    return first.last_source < second.first_source and first.last_target < second.first_target


def encode_control(record: ControlRecord) -> bytes:
    """The value of the record in Kafka. The same record is always the same bytes."""
    body = {
        "v": FORMAT_VERSION,
        "plan": record.plan,
        "slice": record.slice_id,
        "task": record.task,
        "tasks": record.tasks,
        "hash": record.hash_name,
        "runs": [run.to_list() for run in record.runs],
    }
    return json.dumps(body, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def decode_control(data: bytes) -> ControlRecord:
    """Read what `encode_control` gave. Anything else is refused: nothing is done on the word of a half-read record."""
    try:
        return _decode(data)
    except (UsageError, RefusedError) as error:
        raise RefusedError(
            "a control record can't be read",
            cause=f"{error.message}: {error.cause}" if error.cause else error.message,
            hint="it was written by another version of seamark, or by somebody else; look at the control topic",
        ) from None


def _decode(data: bytes) -> ControlRecord:
    body = strict.read_json(data, what="its value")
    version = body.get("v") if isinstance(body, dict) else None
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise UsageError(f"it has format {version!r}, and this seamark reads format {FORMAT_VERSION}")
    fields = strict.read_object(body, keys=_KEYS, what="its value")
    return ControlRecord(
        plan=strict.read_text(fields["plan"], what="its plan"),
        slice_id=strict.read_text(fields["slice"], what="its slice"),
        task=strict.read_count(fields["task"], what="its task"),
        tasks=strict.read_count(fields["tasks"], what="the number of its tasks"),
        runs=tuple(Run.from_list(run) for run in strict.read_list(fields["runs"], what="its runs")),
        hash_name=strict.read_text(fields["hash"], what="the name of its hash"),
    )
