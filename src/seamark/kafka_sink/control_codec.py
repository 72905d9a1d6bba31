"""The value of a control record in Kafka: one form, one version, read strictly."""

from __future__ import annotations

import json
from typing import Any

from seamark.core import strict
from seamark.core.format_version import VERSION_FIELD, StoredFormat, check_format
from seamark.errors import FormatVersionError, RefusedError, UsageError
from seamark.kafka_sink.control import Amount, Claim, ControlRecord, Copied
from seamark.kafka_sink.copy_run import Run

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
            hint="find out what else writes to this topic: only seamark may write to a control topic",
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
        is_done=strict.read_truth(fields["done"], what="its word done"),
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
