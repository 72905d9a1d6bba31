"""Which records of an offsets topic a change may write."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from seamark.errors import RefusedError
from seamark.kafka.model import HeldRecord
from seamark.offsets.codec.codec import decode_key

if TYPE_CHECKING:
    from seamark.context import Context


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


# Topics of the brokers themselves.
_KAFKA = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})


def check_record_topic(name: str, context: Context, *, is_for_offsets: bool = False) -> None:
    """Refuse a topic in which Kafka, Connect or seamark keeps its state: a record there is a command to them.

    The name may come from a plan file or from the config of a connector. Topics of offsets are refused unless the
    records are offsets.

    Raises:
        RefusedError: the topic must not be written to.
    """
    whose = "Kafka" if name in _KAFKA else ""
    if name in (context.journal.topic, context.journal.heads_topic):
        whose = "seamark's journal"
    for settings in context.connect.values():
        offsets = () if is_for_offsets else (settings.offsets_topic,)
        if name in (settings.config_topic, settings.status_topic, *offsets):
            whose = f"Connect cluster {settings.name}"
    if whose:
        raise RefusedError(
            f"refusing to write records to topic {name}, which is used by {whose}; no changes were made",
            hint="use another topic",
            context={"topic": name},
        )
