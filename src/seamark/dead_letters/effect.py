"""The lines of a plan that skips a record: which one, where it goes, what comes before. Never what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from seamark.changes.effect import Effect, FieldChange, Sign
from seamark.connect.connector import Connector, State
from seamark.connect.trace import fold_trace
from seamark.dead_letters.lending import Lent
from seamark.dead_letters.record import Poison
from seamark.report.words import render_bytes, render_count, render_number, render_time

_MOST_SHOWN = 64


def build_skip_effect(
    connector: Connector, poison: Poison, *, topic: str, is_delivering: bool, is_parked: bool, shown: bytes | None
) -> Effect:
    """One line for the sink, one for its position, and what becomes of the record."""
    place = poison.place
    before = place.offset - poison.position
    delivered = f"at most {render_count(before, 'record')} delivered first, 1 skipped" if before else "1 record skipped"
    field = FieldChange(
        f"{place.topic}-{place.partition}",
        f"next record {render_number(poison.position)}",
        f"next record {render_number(place.offset + 1)}",
        note=delivered,
    )
    tasks = len(connector.status.tasks) if connector.status else 0
    return Effect(
        Sign.CHANGE,
        f"connector/{connector.owner}",
        f"skips 1 record: task {poison.failure.task} failed with {_shorten(poison.failure.exception)}",
        (field,),
        tasks=tasks * 2 if is_delivering else tasks,
        outlook=tuple(_build_outlook(poison, topic=topic, is_parked=is_parked, shown=shown)),
    )


def _build_outlook(poison: Poison, *, topic: str, is_parked: bool, shown: bytes | None) -> Iterator[str]:
    size = poison.size
    key = "no key" if size.key is None else f"key {render_bytes(size.key)}"
    value = "no value (a tombstone)" if size.value is None else f"value {render_bytes(size.value)}"
    moment = render_time(datetime.fromtimestamp(size.timestamp_ms / 1000, UTC)) if size.timestamp_ms >= 0 else "no time"
    yield (
        f"the record: {poison.place} · {moment} · {key} · {value}"
        + (f" · {render_count(size.headers, 'header')}" if size.headers else "")
    )
    yield f"how it is known: {poison.found_by}" + (f" ({poison.reason})" if poison.reason else "")
    if shown is not None:
        more = " …" if len(shown) > _MOST_SHOWN else ""
        yield f"its value: {shown[:_MOST_SHOWN].hex(' ')}{more}"
        yield f"the error: {poison.failure.message}"
    yield (
        f"it is parked in {topic} already"
        if is_parked
        else f"it will be parked in {topic}, with its place and the error"
    )


def build_search_effect(connector: Connector, lent: Lent, *, is_sure: bool) -> Effect:
    """The line of a plan that only finds the record."""
    tasks = len(connector.status.tasks) if connector.status else 0
    fields = tuple(
        FieldChange(key, connector.config.get(key), value, note="for a while") for key, value in lent.items()
    )
    return Effect(
        Sign.CHANGE,
        f"connector/{connector.owner}",
        f"takes record by record until it fails: {say_failure(connector)}",
        fields,
        tasks=tasks * 2,
        outlook=(
            "good records are delivered; nothing is skipped, and its config is put back",
            "then the record is known, and the plan to skip it is shown"
            if is_sure
            else "then it stands at a record; seamark does not know this class, so it asks whether that is the one",
        ),
    )


def _shorten(exception: str) -> str:
    return exception.rpartition(".")[2] or "no trace"


def say_failure(connector: Connector) -> str:
    """Which tasks failed with what, without the words of the trace: they may hold what is in the record."""
    failed = [task for task in (connector.status.tasks if connector.status else ()) if task.state is State.FAILED]
    kinds = {fold_trace(task.trace).root.partition(":")[0].rpartition(".")[2] for task in failed} - {""}
    named = ", ".join(str(task.id) for task in failed)
    return f"task {named} FAILED" + (f", {', '.join(sorted(kinds))}" if kinds else "")
