"""Where a change stands, read from its entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seamark.changes.entry import Entry, EntryKind
from seamark.changes.file_journal.stored import StoredChange, newest_hold
from seamark.changes.head import find_spec
from seamark.changes.journal import Head


@dataclass(frozen=True, slots=True)
class FileHead(Head):
    """A head with what the reader must be told about the file, such as a torn tail."""

    note: str = ""


def build_head(stored: StoredChange) -> FileHead:
    """The head of a change. `by` is whoever holds it now, which after a take-over is not who opened it."""
    first, last = stored.entries[0], stored.entries[-1]
    hold = newest_hold(stored.entries)
    return FileHead(
        change=first.change,
        title=str(first.body.get("title", "")),
        by=hold.by,
        opened_at=first.at,
        last_at=last.at,
        last_kind=last.kind,
        last_number=last.number,
        last_hash=last.hash,
        locks=tuple(first.body.get("locks", ())),
        nonce=stored.nonce,
        step=_describe_step(stored.entries),
        ending=str(last.body.get("ending", "")) if last.kind is EntryKind.CLOSE else "",
        spec=find_spec(first.body),
        note=stored.torn.note if stored.torn else "",
    )


def _describe_step(entries: Sequence[Entry]) -> str:
    """The newest step with an entry, by its number and, where the plan is in the `open` entry, by its words."""
    number = next((entry.body["step"] for entry in reversed(entries) if "step" in entry.body), None)
    if number is None:
        return ""
    step = _find_step(entries[0].body, number)
    return f"{number} ({step['kind']} {step['subject']})" if step else str(number)


def _find_step(opened: Mapping[str, Any], number: object) -> Mapping[str, Any] | None:
    plan = opened.get("plan")
    steps = plan.get("steps") if isinstance(plan, Mapping) else None
    if not isinstance(steps, list) or not isinstance(number, int) or not 0 <= number < len(steps):
        return None
    step = steps[number]
    return step if isinstance(step, Mapping) and {"kind", "subject"} <= step.keys() else None
