"""Which topics a change may write records to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.errors import RefusedError

if TYPE_CHECKING:
    from seamark.context import Context

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
