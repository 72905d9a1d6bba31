"""The endpoint /connectors/NAME/offsets."""

from __future__ import annotations

from typing import Any

from tests.fakes.connect import texts
from tests.fakes.connect.message import Refusal, Reply, build_json
from tests.fakes.connect.plugins import FILE_SOURCE
from tests.fakes.connect.state import FakeConnector, OffsetMap
from tests.fakes.connect.worker import Call

_LARGEST_LONG = 2**63 - 1


def read(call: Call) -> Reply:
    """Any worker answers, in any state."""
    connector = call.connector(texts.not_found(call.name))
    call.state.work(connector)
    return build_json(200, {"offsets": call.state.offsets_of(call.name)})


def patch(call: Call) -> Reply:
    """Change the partitions that are named; the rest stays."""
    body = call.request.read_object("ConnectorOffsets", absent=texts.NULL_OFFSETS, fields=("offsets",))
    entries = _read_entries(body)
    call, connector = _require_stopped(call)
    looked_at = _ask_plugin(connector)
    if connector.plugin.type == "sink":
        for entry in entries:
            partition, offset = _parse_sink(entry.get("partition"), entry.get("offset"))
            _write_sink(call, partition, offset)
    else:
        for entry in entries:
            _check_source(connector, entry.get("partition"), entry.get("offset"))
        for entry in entries:
            call.state.write_offset(call.name, entry.get("partition"), entry.get("offset"))
    return build_json(200, {"message": texts.offsets_changed("altered", looked_at=looked_at)})


def delete(call: Call) -> Reply:
    """Forget all of them; nothing to forget is success too."""
    call, connector = _require_stopped(call)
    looked_at = _ask_plugin(connector)
    call.state.offsets.pop(call.name, None)
    return build_json(200, {"message": texts.offsets_changed("reset", looked_at=looked_at)})


def _read_entries(body: dict[str, Any]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = body.get("offsets") or []
    if not entries:
        raise Refusal(400, texts.NO_OFFSETS_GIVEN)
    for entry in entries:
        for part in (entry.get("partition"), entry.get("offset")):
            if part is not None and not isinstance(part, dict):
                raise Refusal(500, "Cannot construct instance of `java.util.LinkedHashMap`")
    return entries


def _require_stopped(call: Call) -> tuple[Call, FakeConnector]:
    call = call.hand_to_leader()
    connector = call.connector(texts.not_found(call.name))
    if connector.target != "STOPPED":
        raise Refusal(400, texts.not_stopped(call.name))
    return call, connector


def _ask_plugin(connector: FakeConnector) -> bool:
    if connector.plugin.alters is None:
        raise Refusal(500, texts.not_modifiable(connector.name))
    return connector.plugin.alters


def _check_source(connector: FakeConnector, partition: OffsetMap | None, offset: OffsetMap | None) -> None:
    for values in (partition or {}, offset or {}):
        for field, value in values.items():
            _check_primitive(field, value)
    if connector.plugin.class_name != FILE_SOURCE or offset is None:
        return
    if "position" not in offset:
        raise Refusal(500, "Offset objects should either be null or contain the key 'position'")
    position = offset["position"]
    if not isinstance(position, int) or isinstance(position, bool):
        raise Refusal(500, "The value for the 'position' key in the offset is expected to be a Long value")
    if position < 0:
        raise Refusal(500, "The value for the 'position' key in the offset should be a non-negative value")
    if partition is None:
        raise Refusal(500, "Partition objects cannot be null")
    if "filename" not in partition:
        raise Refusal(500, "Partition objects should contain the key 'filename'")


def _check_primitive(field: str, value: Any) -> None:
    said = f"Offsets may only contain primitive types as values, but field {field} contains "
    if isinstance(value, dict):
        raise Refusal(500, said + "MAP")
    if isinstance(value, list):
        raise Refusal(500, said + "ARRAY")
    if isinstance(value, int) and abs(value) > _LARGEST_LONG:
        raise Refusal(500, said + "class java.math.BigInteger")


def _parse_sink(partition: OffsetMap | None, offset: OffsetMap | None) -> tuple[OffsetMap, OffsetMap | None]:
    """A sink's partition and offset; "0" and 0 are the same."""
    if partition is None:
        raise Refusal(400, "The partition for a sink connector offset cannot be null or missing")
    if "kafka_topic" not in partition or "kafka_partition" not in partition:
        keys = "'kafka_topic' and 'kafka_partition'"
        raise Refusal(400, f"The partition for a sink connector offset must contain the keys {keys}")
    if partition["kafka_topic"] is None:
        raise Refusal(400, "Kafka topic names must be valid strings and may not be null")
    if partition["kafka_partition"] is None:
        raise Refusal(400, "Kafka partitions must be valid numbers and may not be null")
    number = _parse_integer("partition", partition["kafka_partition"])
    parsed = {"kafka_topic": str(partition["kafka_topic"]), "kafka_partition": number}
    if offset is None:
        return parsed, None
    if "kafka_offset" not in offset:
        said = "The offset for a sink connector should either be null or contain the key 'kafka_offset'"
        raise Refusal(400, said)
    return parsed, {"kafka_offset": _parse_integer("offset", offset["kafka_offset"])}


def _parse_integer(word: str, value: Any) -> int:
    try:
        return int(str(value))
    except ValueError:
        said = f"Failed to parse the following Kafka {word} value in the provided offsets: '{value}'."
        raise Refusal(400, f"{said} {word.title()} values for sink connectors need to be integers.") from None


def _write_sink(call: Call, partition: OffsetMap, offset: OffsetMap | None) -> None:
    """Write one partition. Not atomic: what was written before a bad one stays written."""
    if offset is not None and offset["kafka_offset"] < 0:
        raise Refusal(500, f"Failed to modify offsets for sink connector {call.name}")
    if offset is not None and partition["kafka_topic"] not in call.state.topics:
        raise Refusal(500, f"Failed to alter consumer group offsets for connector {call.name}")
    call.state.write_offset(call.name, partition, offset)
