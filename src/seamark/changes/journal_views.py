"""Views of the journal: the list of changes, one change with its entries, its setup and its key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seamark.changes.journal import Ending, Entry, EntryKind, Head
from seamark.changes.setup import JournalSetup, KeyRotation, SetupItem
from seamark.report.data import render_compact
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Line, Screen, Span, Style, line
from seamark.report.words import render_count

_ENDINGS = {
    Ending.DONE.value: ("✓", Style.GOOD),
    Ending.UNDONE.value: ("✓", Style.GOOD),
    Ending.PARTLY.value: ("▲", Style.WARN),
    Ending.FAILED.value: ("✗", Style.BAD),
}
_OPEN = ("●", Style.WARN)


def _state(head: Head) -> str:
    symbol, _ = _OPEN if head.is_open else _ENDINGS.get(head.ending, ("?", Style.PLAIN))
    return f"{symbol} {'open' if head.is_open else head.ending or 'closed'}"


def _style(head: Head) -> Style:
    return (_OPEN if head.is_open else _ENDINGS.get(head.ending, ("?", Style.PLAIN)))[1]


CHANGE_LISTING: Listing[Head] = Listing(
    kind="ChangeList",
    noun="change",
    name=lambda head: head.change,
    columns=(
        Column("change", "CHANGE", lambda head: head.change),
        Column("title", "TITLE", lambda head: head.title),
        Column("by", "BY", lambda head: head.by),
        Column("opened_at", "OPENED", lambda head: head.opened_at),
        Column(
            "state",
            "STATE",
            lambda head: "open" if head.is_open else head.ending or "closed",
            text=_state,
            style=_style,
        ),
        Column("step", "STEP", lambda head: head.step, wide=True),
        Column("last_at", "LAST ENTRY", lambda head: head.last_at, wide=True),
        Column("locks", "LOCKS", lambda head: list(head.locks), text=lambda head: ", ".join(head.locks), wide=True),
        Column("nonce", "NONCE", lambda head: head.nonce, wide=True),
        Column("note", "NOTE", lambda head: getattr(head, "note", ""), wide=True),
    ),
)


def render_entry(entry: Entry) -> str:
    """Format the content of one entry in a few words."""
    body = entry.body
    if entry.kind is EntryKind.OPEN:
        locks = ", ".join(map(str, body.get("locks", ())))
        return f"{body.get('title', '')}; locks {locks}" if locks else str(body.get("title", ""))
    if entry.kind is EntryKind.INTENT:
        return f"step {body.get('step')}: {_show_intent(body.get('before'), body.get('after'))}"
    if entry.kind is EntryKind.OUTCOME:
        note = f": {body['note']}" if body.get("note") else ""
        return f"step {body.get('step')}: {body.get('outcome', '')}{note}{_show_error(body.get('error'))}"
    if entry.kind is EntryKind.CLOSE:
        left = body.get("left") or ()
        rest = f"; not done: {'; '.join(map(str, left))}" if left else ""
        return f"{body.get('ending', '')}{rest}{_show_error(body.get('error'))}"
    if entry.kind is EntryKind.TAKEN:
        return f"taken over by {entry.by}"
    return str(body.get("note", ""))


ENTRIES: Listing[Entry] = Listing(
    kind="Change",
    noun="entry",
    name=lambda entry: str(entry.number),
    columns=(
        Column("number", "ENTRY", lambda entry: entry.number, right=True),
        Column("at", "AT", lambda entry: entry.at),
        Column("by", "BY", lambda entry: entry.by, wide=True),
        Column("kind", "KIND", lambda entry: entry.kind.value),
        Column("body", "DETAILS", lambda entry: dict(entry.body), text=render_entry),
        Column("hash", "HASH", lambda entry: entry.hash, wide=True),
    ),
)


def build_changes_view(heads: Sequence[Head], *, only_open: bool = False, is_filtered: bool = False) -> View[Head]:
    """Build the view of changes, the newest first."""
    empty = "no open changes" if only_open else "no such changes" if is_filtered else "no changes yet"
    return View(CHANGE_LISTING, heads, empty=empty)


def build_entries_view(entries: Sequence[Entry]) -> View[Entry]:
    """Build the view of one change with every entry."""
    return View(
        ENTRIES,
        entries,
        body=lambda: {
            "change": entries[0].change,
            "title": entries[0].body.get("title", ""),
            "open": _is_open(entries),
            "entries": ENTRIES.build_items(entries),
        },
        lines=lambda screen: _build_history_lines(entries, screen),
    )


def _build_history_lines(entries: Sequence[Entry], screen: Screen) -> list[Line]:
    first = entries[0]
    lines = [line(Span(first.change, Style.STRONG), f" · {first.body.get('title', '')} · by {first.by}")]
    lines += ENTRIES.build_lines(entries, screen, indent="  ")
    if not _is_open(entries):
        return lines
    holds = [entry for entry in entries if entry.kind in (EntryKind.OPEN, EntryKind.TAKEN)]
    nonce = holds[-1].body.get("nonce", "")
    return [
        *lines,
        line(Span("● open", Style.WARN), f", held by {holds[-1].by}; if that process has ended:"),
        line(f"  seamark journal resume {first.change}   finish it"),
        line(f"  seamark journal undo {first.change}     undo it"),
        line(f"  seamark journal unlock --holder {nonce} {first.change}   close it without further changes"),
    ]


def _is_open(entries: Sequence[Entry]) -> bool:
    return entries[-1].kind is not EntryKind.CLOSE


def _show_intent(before: Any, after: Any) -> str:
    """Format two images in a few words: for configs only the differing keys, anything else completely."""
    old, new = _find_config(before), _find_config(after)
    if old is not None and new is not None:
        changed = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
        return f"config: {', '.join(changed)}"
    return f"{_show_image(before)} → {_show_image(after)}"


def _show_image(image: Any) -> str:
    config = _find_config(image)
    if config is not None:
        return f"a config of {render_count(len(config), 'key')}"
    return "nothing" if image is None else render_compact(image)


def _find_config(image: Any) -> dict[str, Any] | None:
    config = image.get("config") if isinstance(image, dict) else None
    return config if isinstance(config, dict) else None


def _show_error(error: Any) -> str:
    return f" ({error.get('message', '')})" if isinstance(error, dict) else ""


SETUP_LISTING: Listing[SetupItem] = Listing(
    kind="JournalSetup",
    noun="item",
    name=lambda item: item.name,
    columns=(
        Column("name", "NAME", lambda item: item.name),
        Column("there", "EXISTS", lambda item: item.is_there),
        Column("words", "DESCRIPTION", lambda item: item.words),
        Column("settings", "SETTINGS", lambda item: dict(item.settings)),
    ),
)


def build_setup_view(setup: JournalSetup) -> View[SetupItem]:
    """Build the view of a context's journal before it is created."""
    return View(
        SETUP_LISTING,
        setup.items,
        body=lambda: {
            "context": setup.context,
            "journal": setup.kind,
            "items": SETUP_LISTING.build_items(setup.items),
            "warnings": list(setup.warnings),
            "access": list(setup.access),
        },
        lines=lambda _screen: _build_setup_lines(setup),
    )


ROTATION: Listing[KeyRotation] = Listing(
    kind="KeyRotation",
    noun="key",
    name=lambda rotation: rotation.previous,
    columns=(
        Column("context", "CONTEXT", lambda rotation: rotation.context),
        Column("previous", "KEY", lambda rotation: rotation.previous),
        Column("fingerprint", "NEW", lambda rotation: rotation.fingerprint),
        Column("file", "FILE", lambda rotation: rotation.file),
        Column("recorded", "RECORDED", lambda rotation: rotation.is_recorded),
    ),
)


def build_rotation_view(rotation: KeyRotation) -> View[KeyRotation]:
    """Build the view of a key rotation before it is done."""
    return View(ROTATION, (rotation,), lines=lambda _screen: _build_rotation_lines(rotation))


def _build_rotation_lines(rotation: KeyRotation) -> list[Line]:
    new = rotation.fingerprint or "a new key"
    lines = [
        line(Span(f"Key of the journal of context {rotation.context}:", Style.STRONG)),
        line("  ", Span("-", Style.BAD), f" {rotation.previous}   verifies earlier changes"),
        line("  ", Span("+", Style.GOOD), f" {new}   seals secrets and signs entries, stored in {rotation.file}"),
    ]
    if rotation.is_recorded:
        return [*lines, line("The journal has the new key: an interrupted rotation is finished.")]
    return [
        *lines,
        line(Span("! ", Style.WARN), "Saved plans can't be applied afterwards."),
        line(
            Span("! ", Style.WARN), "Other users of this journal need the new key: store its file safely, and share it."
        ),
    ]


def _build_setup_lines(setup: JournalSetup) -> list[Line]:
    lines = [line(Span(f"Journal of context {setup.context}: ", Style.STRONG), setup.kind)]
    for item in setup.items:
        if item.is_there:
            lines.append(line("  ", Span("=", Style.MUTED), f" {item.name}   exists"))
            continue
        lines.append(line("  ", Span("+", Style.GOOD), f" {item.name}   {item.words}"))
        lines += [line(f"      {key}={value}") for key, value in item.settings.items()]
    lines += [line(Span("! ", Style.WARN), warning) for warning in setup.warnings]
    if setup.access:
        lines.append(line("If the brokers check ACLs, each operator needs:"))
        lines += [line(f"  {command}") for command in setup.access]
    missing = len(setup.missing)
    return [*lines, line(f"{missing} to create." if missing else "The journal is set up.")]
