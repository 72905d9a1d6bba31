"""The line of a plan for other offsets: what was held, what will be, what that comes to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

from seamark.changes.effect import Effect, FieldChange, Preview, Sign
from seamark.connect.connector import Connector
from seamark.core.offset import Offset, spell_identity
from seamark.core.offsets import Order
from seamark.kafka.records_held import HeldRecord
from seamark.offsets.codec.codec import decode_key, decode_value
from seamark.offsets.held_offset import HeldOffset, WriteRoute
from seamark.offsets.semantics import Meaning
from seamark.offsets.write.preview import say_preview, say_total
from seamark.offsets.write.preview_totals import sum_previews
from seamark.offsets.write.steps import WriteOffsets


class How(StrEnum):
    """What becomes of a connector while its offsets are written, in the words of a plan."""

    STOPPED = "stays stopped"
    STOPS = "stops, moves, goes on"


def build_offset_effect(
    connector: Connector,
    meaning: Meaning,
    needed: Sequence[tuple[HeldOffset, Offset]],
    previews: Sequence[Preview],
    *,
    how: How,
    records: Sequence[FieldChange] = (),
) -> Effect:
    """One line for the connector, one field for each partition, and what its target will see."""
    fields = tuple(
        _build_field(meaning, held, wanted, preview) for (held, wanted), preview in zip(needed, previews, strict=True)
    )
    tasks = len(connector.status.tasks) if connector.status else 0
    return Effect(
        Sign.CHANGE,
        f"connector/{connector.owner}",
        f"{how}: {say_total(sum_previews(previews), previews)}",
        (*fields, *records),
        tasks=0 if how is How.STOPPED else tasks,
        outlook=tuple(_build_outlook(meaning, previews)),
    )


def find_written(step: WriteOffsets) -> tuple[Offset, ...]:
    """Return the offsets that a step leaves. By the route TOPIC its records say it, the last one of each key."""
    if step.route is not WriteRoute.TOPIC:
        return step.offsets
    found: dict[str, Offset] = {}
    for record in step.records:
        key = decode_key(record.key).key
        if key is not None:
            found[spell_identity(key.partition)] = Offset(key.partition, decode_value(record.value).offset)
    return tuple(found.values())


def build_record_changes(records: Sequence[HeldRecord], held: Sequence[HeldOffset]) -> Iterator[FieldChange]:
    """Return each record that changes, where those of one partition will not be equal: the undo of a repair."""
    now = {record.place: record for found in held for record in found.records}
    values: dict[str, set[bytes | None]] = {}
    for record in records:
        values.setdefault(_identify(record), set()).add(record.value)
    for record in records:
        before = now.get(record.place)
        if len(values[_identify(record)]) > 1 and (before is None or before.value != record.value):
            yield build_record_change(before, record)


def _identify(record: HeldRecord) -> str:
    key = decode_key(record.key).key
    return record.place if key is None else spell_identity(key.partition)


def build_record_change(before: HeldRecord | None, record: HeldRecord) -> FieldChange:
    """One record of a topic: where it lies and its key, its value before and after."""
    key = record.key.decode(errors="backslashreplace")
    return FieldChange(f"{record.topic}-{record.partition} {key}", _spell(before), _spell(record))


def _spell(record: HeldRecord | None) -> str | None:
    return None if record is None or record.value is None else record.value.decode(errors="backslashreplace")


def _build_field(meaning: Meaning, held: HeldOffset, wanted: Offset, preview: Preview) -> FieldChange:
    partition, before = meaning.describe(held.partition, held.offset)
    _, after = meaning.describe(wanted.partition, wanted.offset)
    return FieldChange(
        partition,
        None if held.offset is None else before,
        None if wanted.offset is None else after,
        note=say_preview(preview),
        preview=preview,
    )


def _build_outlook(meaning: Meaning, previews: Sequence[Preview]) -> list[str]:
    """What becomes of the data, for each direction that there is."""
    orders = {found.order for found in previews if found.counted.figure != 0}
    lines = []
    if orders & {Order.BEFORE, Order.UNKNOWN}:
        lines.append(f"read again: {meaning.explain_rewind().words}")
    if orders & {Order.AFTER, Order.UNKNOWN}:
        lines.append(f"skipped: {meaning.explain_skip().words}")
    return lines
