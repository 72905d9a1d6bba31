"""Compare the offsets that REST returns with those in the stores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from seamark.connect.model import Connector, State
from seamark.core.offsets import Offset, OffsetMap, spell_identity, spell_offset
from seamark.core.refs import ConnectorType
from seamark.offsets.model import OffsetAnomaly, OffsetFinding, StoredOffset, StoreReading


def compare_rest(
    stored: Sequence[StoredOffset], answers: Sequence[Sequence[Offset]], *, connector: str
) -> tuple[OffsetFinding, ...]:
    """Return where REST and the store disagree.

    `answers` are those of REST before and, if there is one, after the store was read: a running owner progresses, so an
    offset that was right at either time is not a disagreement.
    """
    told = [{spell_identity(found.partition): found for found in answer} for answer in answers]
    held = {found.key.identity: found for found in stored}
    findings = []
    for identity, found in held.items():
        said = [answer.get(identity) for answer in told]
        if not any(_agrees(found, one) for one in said):
            findings.append(_build_store_disagreement(found, said[-1], connector))
    for identity, one in told[-1].items():
        if identity not in held and one.offset is not None:
            text = f"REST returned {_format_offset(one.offset)}, but no offset is stored"
            findings.append(OffsetFinding(OffsetAnomaly.REST_ALONE, connector, text, one.partition))
    return tuple(findings)


def compare_copy(first: StoreReading, second: StoreReading) -> tuple[OffsetFinding, ...]:
    """Return what the workers' topic holds that a connector with its own topic does not see, or sees differently."""
    own = {(found.key.connector, found.key.identity): found for found in (*first.offsets, *first.forgotten)}
    findings = []
    for found in second.offsets:
        mine = own.get((found.key.connector, found.key.identity))
        if mine is None:
            text = (
                f"{second.store} has {_format_offset(found.offset)}, but {first.store}, which the tasks read, has "
                "no offset; "
                "Connect does not fall back: the connector starts from the beginning of this partition"
            )
            findings.append(_build(OffsetAnomaly.NO_FALLBACK, found, text))
        elif spell_offset(mine.offset) != spell_offset(found.offset):
            mine_text, other_text = _format_offset(mine.offset), _format_offset(found.offset)
            text = f"{first.store} has {mine_text}, which is used; {second.store} {other_text}"
            findings.append(_build(OffsetAnomaly.COPY_DIFFERS, found, text))
    return tuple(findings)


def build_notes(connector: Connector, offsets: Sequence[Offset], *, worker_group: str | None) -> tuple[str, ...]:
    """Return the notes about these offsets that apply to both routes."""
    if connector.type is ConnectorType.SINK:
        return tuple(_sink_notes(connector, offsets, worker_group=worker_group))
    if connector.type is ConnectorType.SOURCE and not offsets:
        return ("no stored offsets: the connector starts from the beginning",)
    return ()


def build_rest_notes(connector: Connector, offsets: Sequence[Offset]) -> tuple[str, ...]:
    """Return what REST can't determine, for offsets read through REST alone."""
    notes = []
    if connector.type is not ConnectorType.SINK:
        if any(len(offset.partition) > 1 for offset in offsets):
            # REST encodes keys again in Java's HashMap order, so different encodings of one partition collapse.
            notes.append("partitions with several fields: REST can't distinguish encodings of the same key")
        own_topic = connector.config.get("offsets.storage.topic")
        if own_topic:
            notes.append(
                f"this connector has its own offsets topic {own_topic}; REST shows it merged with the workers'"
            )
    if any(offset.offset is None for offset in offsets):
        notes.append("Connect returned null for a partition: another encoding of the key may exist")
    return tuple(notes)


def _sink_notes(connector: Connector, offsets: Sequence[Offset], *, worker_group: str | None) -> Iterable[str]:
    if not offsets:
        yield "no committed offsets: the sink starts from consumer.override.auto.offset.reset (earliest by default)"
    elif connector.status is not None and connector.status.state is State.STOPPED:
        yield "a stopped sink loses its offsets after offsets.retention.minutes of the brokers (7 days by default)"
    if worker_group and "consumer.override.group.id" not in connector.config:
        yield f"all sinks of the workers share the group {worker_group}: a change here affects all of them"


def _agrees(stored: StoredOffset, said: Offset | None) -> bool:
    if said is None:
        # REST does not list a partition whose value a worker can't read.
        return stored.offset is None
    return spell_offset(stored.offset) == spell_offset(said.offset)


def _build_store_disagreement(found: StoredOffset, said: Offset | None, connector: str) -> OffsetFinding:
    if said is None:
        anomaly, text = OffsetAnomaly.REST_ABSENT, "REST does not list it"
    elif said.offset is None:
        anomaly, text = OffsetAnomaly.REST_NULL, "REST returned null"
    else:
        anomaly, text = OffsetAnomaly.REST_DIFFERS, f"REST returned {_format_offset(said.offset)}"
    text = f"{text}; the stored offset is {_format_offset(found.offset)}"
    return OffsetFinding(anomaly, connector, text, found.key.partition, (found.evidence,))


def _build(anomaly: OffsetAnomaly, found: StoredOffset, message: str) -> OffsetFinding:
    return OffsetFinding(anomaly, found.key.connector, message, found.key.partition, (found.evidence,))


def _format_offset(offset: OffsetMap | None) -> str:
    return spell_offset(offset) or "nothing"
