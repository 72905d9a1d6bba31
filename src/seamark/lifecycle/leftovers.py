"""What stays behind when a connector goes, and what waits for one that comes. Connect removes neither."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from seamark.connect.api import ConnectPort
from seamark.connect.config import find_group, find_offsets_topic
from seamark.connect.connector import Connector
from seamark.core.offset import Offset
from seamark.core.refs import ConnectorType
from seamark.errors import SeamarkError
from seamark.kafka.api import KafkaPort
from seamark.kafka.groups import GroupStatus

if TYPE_CHECKING:
    from seamark.context import ConnectSettings
    from seamark.offsets.read.former import FormerOffsets

# Kafka's word for a group that nobody ever joined.
_NO_GROUP = "DEAD"


def says_nothing_held(name: str, note: str) -> bool:
    """Whether a note before a create says that it begins anew. Who gives it offsets need not hear so."""
    return note.startswith((f"{name}: begins anew,", f"{name}: no group "))


class Leftovers:
    """Looks for offsets and groups. What can't be found out becomes a note, never a failure."""

    def __init__(self, build_kafka: Callable[[], KafkaPort], former: FormerOffsets) -> None:
        self._build_kafka = build_kafka
        self._former = former

    def before_create(
        self, name: str, config: Mapping[str, str], *, kind: ConnectorType, settings: ConnectSettings
    ) -> tuple[str, ...]:
        """Which positions of that name exist already, so that the new connector goes on from them."""
        notes = []
        if kind is not ConnectorType.SINK:
            new = Connector(name, settings.name, kind, config)
            notes.append(f"{name}: {self._former.describe([new])[new.owner]}")
        if kind is not ConnectorType.SOURCE:
            notes.append(f"{name}: {self._describe_group(find_group(name, config, settings))}")
        return tuple(notes)

    def after_delete(self, connector: Connector, *, client: ConnectPort, settings: ConnectSettings) -> tuple[str, ...]:
        """What a deleted connector leaves behind."""
        try:
            offsets: tuple[Offset, ...] | None = client.read_offsets(connector.name)
            trouble = ""
        except SeamarkError as error:
            offsets, trouble = None, error.message
        if connector.type is ConnectorType.SINK:
            group = find_group(connector.name, connector.config, settings)
            return (f"{connector.name}: {self._describe_sink(group, offsets)}",)
        topic = find_offsets_topic(connector.config, settings) or "the workers' offsets topic"
        if offsets is None:
            held = f"its offsets stay in {topic}, nobody tells how many ({trouble})"
        elif not offsets:
            held = f"no offset stays in {topic}"
        else:
            held = f"{_count(len(offsets), 'source offset')} stay{'s' if len(offsets) == 1 else ''} in {topic}"
        rest = "" if offsets == () else "; a connector of that name goes on from there"
        return (f"{connector.name}: {held}{rest}",)

    def _describe_group(self, group: str) -> str:
        found = self._read_group(group)
        if isinstance(found, SeamarkError):
            return f"nobody tells whether the group {group} exists ({found.message})"
        if found is None:
            return f"no group {group} exists; a sink begins where consumer.override.auto.offset.reset says (earliest)"
        members = f" with {_count(found.members, 'member')}" if found.members else ""
        return f"the group {group} exists already ({found.state}{members}); a sink goes on from its committed offsets"

    def _describe_sink(self, group: str, offsets: tuple[Offset, ...] | None) -> str:
        if offsets is None:
            return f"the group {group} stays behind with its committed offsets"
        if not offsets:
            return f"the group {group} stays behind, without committed offsets"
        lag = self._read_lag(offsets)
        behind = "" if lag is None else f", {_count(lag, 'record')} behind"
        return f"the group {group} stays behind with {_count(len(offsets), 'partition')}{behind}"

    def _read_group(self, group: str) -> GroupStatus | SeamarkError | None:
        try:
            kafka = self._build_kafka()
        except SeamarkError as error:
            return error
        try:
            reading = kafka.read_groups([group])
        except SeamarkError as error:
            return error
        finally:
            kafka.close()
        if group in reading.failures:
            return reading.failures[group]
        return next((found for found in reading.items if found.state != _NO_GROUP), None)

    def _read_lag(self, offsets: tuple[Offset, ...]) -> int | None:
        """Records between the committed offsets and the ends; None where somebody does not tell."""
        committed = {
            (str(offset.partition["kafka_topic"]), int(str(offset.partition["kafka_partition"]))): offset.offset
            for offset in offsets
        }
        try:
            kafka = self._build_kafka()
        except SeamarkError:
            return None
        try:
            ends = kafka.read_end_offsets(committed)
        except SeamarkError:
            return None
        finally:
            kafka.close()
        return sum(
            max(0, end - int(str(held["kafka_offset"]))) for spot, end in ends.items() if (held := committed[spot])
        )


def _count(number: int, noun: str) -> str:
    from seamark.report.words import render_count  # noqa: PLC0415

    return render_count(number, noun)
