"""Where a change stands: built from its entries, kept in the topic of heads as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from seamark.changes.entry import Entry, EntryKind
from seamark.changes.head import find_spec
from seamark.changes.journal import Head
from seamark.core.format_version import VERSION_FIELD, StoredFormat, check_format
from seamark.errors import TamperedJournalError

FORMAT = StoredFormat("journal head", 1)


class HeadTrack:
    """Follows a change entry by entry. It keeps what a head needs, never the entries' bodies.

    `head` is the one after the newest entry that was followed.
    """

    def __init__(self, opened: Entry) -> None:
        self._steps = _read_steps(opened.body)
        self.head = Head(
            change=opened.change,
            title=str(opened.body.get("title", "")),
            by=opened.by,
            opened_at=opened.at,
            last_at=opened.at,
            last_kind=opened.kind,
            last_number=opened.number,
            last_hash=opened.hash,
            locks=tuple(opened.body.get("locks", ())),
            nonce=str(opened.body.get("nonce", "")),
            spec=find_spec(opened.body),
        )

    def follow(self, entry: Entry) -> Head:
        """The head after one more entry."""
        self.head = self.preview(entry)
        return self.head

    def preview(self, entry: Entry, *, after: Head | None = None) -> Head:
        """The head as the entry would make it. `by` is whoever holds the change: a `taken` entry moves it on."""
        head = after or self.head
        taken = entry.kind is EntryKind.TAKEN
        return dataclasses.replace(
            head,
            by=entry.by if taken else head.by,
            nonce=str(entry.body.get("nonce", "")) if taken else head.nonce,
            last_at=entry.at,
            last_kind=entry.kind,
            last_number=entry.number,
            last_hash=entry.hash,
            step=self._describe_step(entry.body["step"]) if "step" in entry.body else head.step,
            ending=str(entry.body.get("ending", "")) if entry.kind is EntryKind.CLOSE else "",
        )

    def _describe_step(self, number: object) -> str:
        known = isinstance(number, int) and 0 <= number < len(self._steps)
        return f"{number} ({self._steps[number]})" if known and isinstance(number, int) else str(number)


def track_entries(entries: tuple[Entry, ...]) -> HeadTrack:
    """A track that has followed a whole change."""
    track = HeadTrack(entries[0])
    for entry in entries[1:]:
        track.follow(entry)
    return track


def build_head_value(head: Head) -> bytes:
    """A head as it stands in the topic of heads."""
    body = {**FORMAT.field, **dataclasses.asdict(head), "locks": list(head.locks)}
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def read_head_value(value: bytes, *, where: str = "a journal head") -> Head:
    """Read what `build_head_value` gave. `where` is its location, for errors.

    Raises:
        FormatVersionError: it has another format version.
        TamperedJournalError: it is something else.
    """
    try:
        body: dict[str, Any] = json.loads(value)
        check_format(FORMAT, body, where=where)
        del body[VERSION_FIELD]
        return Head(**body | {"locks": tuple(body["locks"]), "last_kind": EntryKind(body["last_kind"])})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TamperedJournalError("a head can't be read", cause=str(error)) from None


def _read_steps(opened: Mapping[str, Any]) -> tuple[str, ...]:
    """The words for each step of the plan in an `open` entry; nothing where there is no plan."""
    plan = opened.get("plan")
    steps = plan.get("steps") if isinstance(plan, Mapping) else None
    if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
        return ()
    return tuple(f"{step.get('kind', '?')} {step.get('subject', '?')}" for step in steps)
