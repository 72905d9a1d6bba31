"""What a journal needs, what of it is there, and who must be allowed to do what."""

from __future__ import annotations

from seamark.changes.setup_model import JournalSetup, KeyRotation, SetupItem
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Line, Span, Style, line

SETUP_LISTING: Listing[SetupItem] = Listing(
    kind="JournalSetup",
    noun="item",
    name=lambda item: item.name,
    columns=(
        Column("name", "NAME", lambda item: item.name),
        Column("there", "THERE", lambda item: item.is_there),
        Column("words", "AS", lambda item: item.words),
        Column("settings", "SETTINGS", lambda item: dict(item.settings)),
    ),
)


def build_setup_view(setup: JournalSetup) -> View[SetupItem]:
    """The journal of a context before it is made."""
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
    """The rotation of a journal's key, before it is done."""
    return View(ROTATION, (rotation,), lines=lambda _screen: _build_rotation_lines(rotation))


def _build_rotation_lines(rotation: KeyRotation) -> list[Line]:
    new = rotation.fingerprint or "a new key"
    lines = [
        line(Span(f"Key of the journal of context {rotation.context}:", Style.STRONG)),
        line("  ", Span("-", Style.BAD), f" {rotation.previous}   checks the changes of before"),
        line("  ", Span("+", Style.GOOD), f" {new}   seals and signs, in {rotation.file}"),
    ]
    if rotation.is_recorded:
        return [*lines, line("The journal has the new key: an interrupted rotation is finished.")]
    return [
        *lines,
        line(Span("! ", Style.WARN), "Saved plans can't be applied afterwards."),
        line(Span("! ", Style.WARN), "Other users of this journal need the new key: keep its file safe, and share it."),
    ]


def _build_setup_lines(setup: JournalSetup) -> list[Line]:
    lines = [line(Span(f"Journal of context {setup.context}: ", Style.STRONG), setup.kind)]
    for item in setup.items:
        if item.is_there:
            lines.append(line("  ", Span("=", Style.MUTED), f" {item.name}   is there"))
            continue
        lines.append(line("  ", Span("+", Style.GOOD), f" {item.name}   {item.words}"))
        lines += [line(f"      {key}={value}") for key, value in item.settings.items()]
    lines += [line(Span("! ", Style.WARN), warning) for warning in setup.warnings]
    if setup.access:
        lines.append(line("Where the brokers check, each operator needs:"))
        lines += [line(f"  {command}") for command in setup.access]
    missing = len(setup.missing)
    return [*lines, line(f"{missing} to make." if missing else "Everything is there.")]
