"""`seamark journal`."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seamark.changes.journal import OPEN_STATE, Ending, EntryKind
from seamark.changes.journal_views import build_changes_view, build_entries_view, build_rotation_view, build_setup_view
from seamark.cli.answer import Answer
from seamark.cli.complete import complete_changes, complete_connectors, complete_open_changes
from seamark.cli.confirm import (
    ChangeOptions,
    StepLines,
    build_errors,
    change_options,
    confirm_and_apply,
    confirm_by_name,
    consent_options,
    report_unchanged,
    run_change,
)
from seamark.cli.options import Number, global_options, option, pass_session, show_command
from seamark.cli.selection import find_labeled_owners, label_option
from seamark.cli.session import Session
from seamark.cli.tree import command, group
from seamark.core.time import parse_duration
from seamark.errors import RefusedError, UsageError
from seamark.policy.permissions import find_confirmation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seamark.changes.journal import OpenChange
    from seamark.fleet import Fleet


@command(examples=["seamark init --dry-run", "seamark init --yes", "seamark init --rotate-key --dry-run"])
@consent_options
@option("--rotate-key", is_flag=True, help="Replace the journal's key, or finish an interrupted rotation.")
@option("--dry-run", is_flag=True, help="Show what is missing and create nothing.")
@global_options
@pass_session
def init(session: Session, *, yes: bool, rotate_key: bool, dry_run: bool) -> None:
    """Create the journal before the first change.

    Shows the topics or the folder of the journal, what is missing, and the ACLs that operators need. Records the
    fingerprint of the journal's key, so that a change with another key is refused.
    """
    with session.fleet() as fleet:
        if rotate_key:
            return _rotate_key(session, fleet, yes=yes, dry_run=dry_run)
        setup = fleet.journal.read_setup()
        session.show(Answer(build_setup_view(setup)))
        if dry_run:
            return report_unchanged(session)
        if not setup.missing:
            return None
        confirm_by_name(session, fleet, fleet.context.name, yes=yes, what="create them")
        for name in fleet.journal.make_setup():
            session.reporter.note(f"✓ created {name}")
        return None


def _rotate_key(session: Session, fleet: Fleet, *, yes: bool, dry_run: bool) -> None:
    rotation = fleet.journal.read_rotation()
    session.show(Answer(build_rotation_view(rotation)))
    if dry_run:
        report_unchanged(session)
        return
    word = confirm_by_name(session, fleet, fleet.context.name, yes=yes, what="rotate the key")
    done = fleet.journal.rotate_key(confirm=word)
    session.reporter.note(f"✓ the journal's key is {done.fingerprint}, in {done.file}")


@group({"rollback": "journal undo", "revert": "journal undo", "continue": "journal resume", "history": "journal list"})
def journal() -> None:
    """Show, resume and undo changes."""


_STATES = [OPEN_STATE, *(ending.value for ending in Ending)]


@journal.command(
    "list",
    examples=[
        "seamark journal list",
        "seamark journal list log-guild group/billing --since 7d",
        "seamark journal list --state partly --by ana",
    ],
)
@click.argument("owners", nargs=-1, metavar="[OWNER|GLOB]...", shell_complete=complete_connectors)
@option("--limit", type=Number(minimum=1), default=20, show_default=True, metavar="N", help="List at most N changes.")
@option("--since", metavar="DURATION|TIME", help="Only changes opened since then: 7d, or 2026-11-14T12:00:00Z.")
@option("--by", metavar="USER", default="", help="Only changes of USER, also as a glob.")
@option(
    "--state",
    type=click.Choice(["all", *_STATES]),
    metavar="STATE",
    default="all",
    show_default=True,
    help=f"Only changes in this state: {', '.join(_STATES)}.",
)
@label_option
@global_options
@pass_session
def list_changes(
    session: Session,
    *,
    owners: tuple[str, ...],
    limit: int,
    since: str | None,
    by: str,
    state: str,
    label: tuple[str, ...],
) -> None:
    """List changes, newest first.

    OWNER is a connector, group/NAME, pipeline/NAME or topic/NAME: only changes that held its lock. With -l, only
    changes of connectors that have these labels now.
    """
    opened_since = None if since is None else _parse_since(since, now=session.now())
    chosen = "" if state == "all" else state
    is_filtered = bool(owners or since or by or chosen or label)
    with session.fleet() as fleet:
        owners = find_labeled_owners(fleet, owners, label)
        heads = fleet.journal.list(owners, limit=limit, since=opened_since, by=by, state=chosen)
    only_open = chosen == OPEN_STATE and not (owners or since or by)
    session.show(Answer(build_changes_view(heads, only_open=only_open, is_filtered=is_filtered)))


def _parse_since(text: str, *, now: datetime) -> datetime:
    """Return a point in time given as such, UTC without a zone, or as a duration before now."""
    with suppress(ValueError, OverflowError):
        return now - timedelta(seconds=parse_duration(text))
    with suppress(ValueError):
        found = datetime.fromisoformat(text.strip())
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    expected = "expected a duration such as 7d, or a time such as 2026-11-14T12:00:00Z"
    raise UsageError(f"invalid value {text!r} for --since: {expected}")


@journal.command("show", examples=["seamark journal show 01JCQ8"])
@click.argument("change", shell_complete=complete_changes)
@show_command
def show_change(fleet: Fleet, change: str) -> Answer:
    """Show the entries of a change.

    The chain of entries is checked. CHANGE can be the first characters of an ID.
    """
    return Answer(build_entries_view(fleet.journal.show(change)))


@journal.command("undo", examples=["seamark journal undo 01JCQ8 --dry-run"])
@click.argument("change", shell_complete=complete_changes)
@change_options
@global_options
@pass_session
def undo_change(session: Session, change: str, *, how: ChangeOptions) -> None:
    """Undo a change.

    seamark plans the reverse of each step from the recorded previous state. A change that is still open is closed
    first.
    """
    with session.fleet() as fleet:
        entries = fleet.journal.show(change)
        if entries[-1].kind is not EntryKind.CLOSE:
            _close_first(session, fleet, entries[0].change, how)
        confirm_and_apply(session, fleet, fleet.undo(entries[0].change), how)


@journal.command("resume", examples=["seamark journal resume 01JCQ8"])
@click.argument("change", shell_complete=complete_open_changes)
@consent_options
@global_options
@pass_session
def resume_change(session: Session, change: str, *, yes: bool) -> None:
    """Finish an interrupted change.

    The process that holds the change is fenced: if it still runs, its next step fails. If a request was sent and not
    answered, seamark waits until the request can no longer take effect.
    """
    with session.fleet() as fleet:
        found = fleet.journal.read_open(change)
        whole = found.change
        _show_open(session, found, steps=found.remaining)
        word = _confirm_change(session, fleet, found, yes=yes, what="take it over and finish it")
        run_change(
            session,
            lambda progress: fleet.journal.resume(whole, progress=progress, confirm=word),
            change=whole,
            is_resumed=True,
        )


@journal.command("unlock", examples=["seamark journal unlock 01JCQ8 --holder 3f9a51c2"])
@click.argument("change", shell_complete=complete_open_changes)
@option("--holder", "nonce", required=True, metavar="NONCE", help="The nonce of its holder, from journal show.")
@option("--force", is_flag=True, help="Close it even if the result of a step is unknown.")
@consent_options
@global_options
@pass_session
def unlock_change(session: Session, change: str, *, nonce: str, force: bool, yes: bool) -> None:
    """Close an open change without finishing it.

    Its holder is fenced. Steps that were done can be undone afterward.
    """
    with session.fleet() as fleet:
        found = fleet.journal.read_open(change)
        whole = found.change
        _show_open(session, found, steps=found.restores)
        word = _confirm_change(session, fleet, found, yes=yes, what="take it over and close it")
        run_change(
            session,
            lambda progress: fleet.journal.unlock(whole, nonce=nonce, force=force, progress=progress, confirm=word),
            change=whole,
            is_closing=True,
        )


@journal.command("export", examples=["seamark journal export 01JCQ8 --out change.jsonl"])
@click.argument("change", shell_complete=complete_changes)
@option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to this file, readable by you only, instead of standard output.",
)
@global_options
@pass_session
def export_change(session: Session, change: str, *, out: Path | None) -> None:
    """Print the stored entries of a change as JSON.

    One entry per line, as stored in the journal.
    """
    with session.fleet() as fleet:
        text = fleet.journal.export(change)
    if out is None:
        session.out.write(text)
        return
    from seamark.changes.plan import write_private  # noqa: PLC0415

    write_private(text, out, what="the change")
    session.reporter.note(f"change {change} exported to {out}")


def _close_first(session: Session, fleet: Fleet, change: str, how: ChangeOptions) -> None:
    """Close an open change as it is: only a closed change can be undone."""
    if how.dry_run or how.out is not None:
        raise RefusedError(
            f"change {change} is still open; its undo can be planned only after it is closed",
            hint=f"close and undo it: seamark journal undo {change}; or finish it: seamark journal resume {change}",
        )
    found = fleet.journal.read_open(change)
    _show_open(session, found, steps=found.restores)
    word = _confirm_change(session, fleet, found, yes=how.yes, what="take it over and close it, before it is undone")
    result = fleet.journal.unlock(change, nonce=None, progress=StepLines(session), confirm=word)
    if result.ending is None:
        errors, _ = build_errors(result)
        raise errors[-1]
    session.reporter.note(f"change {change} is closed: {result.ending}")


def _confirm_change(session: Session, fleet: Fleet, found: OpenChange, *, yes: bool, what: str) -> str:
    name = find_confirmation(found.subjects, fleet.context.name)
    return confirm_by_name(session, fleet, name, yes=yes, what=what)


def _show_open(session: Session, found: OpenChange, *, steps: Sequence[str]) -> None:
    """Show who holds a change, on which clusters it is, and which steps will run."""
    session.reporter.note(
        f"change {found.change} ({found.title}) is held by {found.holder} since {found.held_since}; "
        f"its last entry, {found.last}, is of {found.last_at}"
    )
    for target in found.targets:
        session.reporter.note(f"target: {target}")
    for step in steps:
        session.reporter.note(f"step: {step}")
    if not steps:
        session.reporter.note("no steps are left")
