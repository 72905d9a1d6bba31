"""The options of the sink, checked by name: a misspelt one is an error, not a default."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from seamark.context.kafka_keys import LIBRDKAFKA_KEYS
from seamark.context.layer import Origin, OriginKind
from seamark.context.reference import SecretReferences
from seamark.errors import UsageError
from seamark.kafka_sink.control import CONTROL_TOPIC
from seamark.kafka_sink.producer import OURS, TaskSettings

_NAMES = (
    "topic",
    "job",
    "control.topic",
    "ordered",
    "repeat",
    "transaction.records",
    "transaction.bytes",
    "kept.bytes",
    "repeat.batch",
)
_ONE_TRANSACTION = "a task of a copy is one transaction, because its control record has the offsets of all its records"
_OF_THE_PLAN = {
    "job": "the job is named after the plan ID",
    "ordered": _ONE_TRANSACTION,
    "transaction.records": _ONE_TRANSACTION,
    "transaction.bytes": _ONE_TRANSACTION,
    "repeat.batch": "a copy has no batches",
    "repeat": "finished tasks are always compared with their rows, to detect that Spark split them",
}
_KAFKA = "kafka."
# Topics may have these letters; a job's name is part of a transactional id and of keys, where a slash ends it.
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a job says. `client` may hold secrets or references to them; it is not shown."""

    client: Mapping[str, str] = field(repr=False)
    topic: str | None = None
    job: str | None = None
    control_topic: str = CONTROL_TOPIC
    is_ordered: bool = False
    is_checked: bool = True
    limits: Mapping[str, int] = field(default_factory=dict)
    # The batch of a stream that may be written again, whatever another run has written of it.
    repeat_batch: int | None = None

    def build_settings(self) -> TaskSettings:
        """How tasks write, with every reference to a secret resolved where this is called."""
        client = _resolve(self.client)
        reader = {key: value for key, value in client.items() if key in LIBRDKAFKA_KEYS}
        return TaskSettings(
            client,
            reader=reader,
            control_topic=self.control_topic,
            is_ordered=self.is_ordered,
            is_checked=self.is_checked,
            **self.limits,  # type: ignore[arg-type]
        )


def read_options(given: Mapping[str, str]) -> SinkOptions:
    """Check the options of a write."""
    client = {key.removeprefix(_KAFKA): value for key, value in given.items() if key.startswith(_KAFKA)}
    ours = {key: value for key, value in given.items() if not key.startswith(_KAFKA)}
    # Spark itself adds one when save() is given a path, and the streaming checkpoint.
    unknown = sorted(set(ours) - {*_NAMES, "checkpointlocation"})
    if unknown:
        raise UsageError(
            f"unknown option {', '.join(unknown)} of the sink seamark.kafka",
            hint=f"use kafka.*, {', '.join(_NAMES)}",
        )
    if not client.get("bootstrap.servers"):
        raise UsageError("option kafka.bootstrap.servers is missing", hint="set it to host:port of some brokers")
    if decided := sorted(OURS & set(client)):
        raise UsageError(
            f"option kafka.{decided[0]} is controlled by the sink", hint="remove it: exactly-once depends on it"
        )
    return SinkOptions(
        client,
        topic=_read_name(ours, "topic"),
        job=_read_name(ours, "job"),
        control_topic=_read_name(ours, "control.topic") or CONTROL_TOPIC,
        is_ordered=_read_word(ours, "ordered", {"true": True, "false": False}, default="false"),
        is_checked=_read_word(ours, "repeat", {"check": True, "skip": False}, default="check"),
        limits={
            name.replace(".", "_"): _read_number(ours[name], name=name)
            for name in ("transaction.records", "transaction.bytes", "kept.bytes")
            if name in ours
        },
        repeat_batch=_read_batch(ours),
    )


def read_stream_options(given: Mapping[str, str]) -> SinkOptions:
    """Check the options of a stream's write."""
    if "job" in given:
        raise UsageError(
            "option job is not supported for a stream",
            cause="the checkpoint identifies the stream; under another name it would write an interrupted batch again",
            hint="remove the option",
        )
    return read_options(given)


def read_copy_options(given: Mapping[str, str]) -> SinkOptions:
    """Check the options of a copy's write: those of the sink, without what the plan decides."""
    for name in given:
        if name in _OF_THE_PLAN:
            raise UsageError(
                f"option {name} is not supported for a copy", cause=_OF_THE_PLAN[name], hint="remove the option"
            )
    return read_options(given)


def _read_name(given: Mapping[str, str], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not _NAME.fullmatch(value):
        raise UsageError(
            f"invalid value {value!r} for option {name}",
            hint="use letters, digits, dot, dash and underscore, at most 200",
        )
    return value


def _read_word(given: Mapping[str, str], name: str, words: Mapping[str, bool], *, default: str) -> bool:
    value = given.get(name, default).lower()
    if value not in words:
        raise UsageError(f"invalid value {value!r} for option {name}", hint=f"use one of {', '.join(words)}")
    return words[value]


def _read_batch(given: Mapping[str, str]) -> int | None:
    value = given.get("repeat.batch")
    if value is None:
        return None
    if not value.isdecimal():
        raise UsageError(f"invalid value {value!r} for option repeat.batch", hint="use the number of a batch")
    return int(value)


def _read_number(value: str, *, name: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise UsageError(f"invalid value {value!r} for option {name}", hint="use a whole number above 0")
    return int(value)


def _resolve(client: Mapping[str, str]) -> dict[str, str]:
    references = SecretReferences(os.environ)
    origin = Origin(OriginKind.OVERRIDE, "an option of the sink")
    return {
        key: references.resolve(value, key=f"kafka.{key}", origin=origin, folder=Path.cwd())
        for key, value in client.items()
    }
