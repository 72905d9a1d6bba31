"""Which records of an offsets topic a change may write."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from seamark.errors import RefusedError
from seamark.kafka.records_held import HeldRecord
from seamark.offsets.codec.codec import decode_key


def check_own_records(
    records: Iterable[HeldRecord], *, connectors: Collection[str], topics: Collection[str | None]
) -> None:
    """Refuse records that are not offsets of these connectors in one of their own topics.

    A plan file or a journal entry may come from anybody: with records of another topic, it could write connector
    configs or journal entries.

    Raises:
        RefusedError: a record has another topic, or its key isn't that of one of the connectors.
    """
    allowed = {topic for topic in topics if topic}
    for record in records:
        if record.topic not in allowed:
            raise _build_refusal(f"topic {record.topic}", f"offsets of {_name(connectors)} are in {_name(allowed)}")
        found = decode_key(record.key)
        if found.key is None or found.key.connector not in connectors:
            key = record.key[:200].decode(errors="backslashreplace")
            raise _build_refusal(
                f"{record.topic}-{record.partition} {key}", f"the key isn't one of {_name(connectors)}"
            )


def _name(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "no topic"


def _build_refusal(what: str, cause: str) -> RefusedError:
    return RefusedError(
        f"refusing to write a record that isn't an offset of the connector: {what}; no changes were made",
        cause=cause,
        hint="create a new plan and review it",
    )
