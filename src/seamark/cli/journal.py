"""`seamark journal`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from seamark.changes.journal import EntryKind
from seamark.changes.journal_views import build_changes_view, build_entries_view, build_rotation_view, build_setup_view
from seamark.cli.answer import Answer
from seamark.cli.complete import complete_changes, complete_open_changes
from seamark.cli.confirm import (
    ChangeOptions,
    StepLines,
    build_errors,
    change_options,
    confirm_and_apply,
    confirm_by_name,
    consent_options,
    run_change,
)
from seamark.cli.options import global_options, option, pass_session, show_command
from seamark.cli.session import Session
from seamark.errors import RefusedError
from seamark.policy.permissions import find_confirmation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seamark.changes.journal import OpenChange
    from seamark.fleet import Fleet


@click.command
@consent_options
@option("--rotate-key", is_flag=True, help="Replace the journal's key, or finish an interrupted rotation.")
@option("--dry-run", is_flag=True, help="Show what is missing and make nothing.")
@global_options
@pass_session
def init(session: Session, *, yes: bool, rotate_key: bool, dry_run: bool) -> None:
    """Make the journal's topics or folder, before the first change.

    Shows what is there, what is missing, and the ACLs that operators need. Records the fingerprint of the journal's
    key, so that a change with another key is refused.
    """
    with session.fleet() as fleet:
        if rotate_key:
            return _rotate_key(session, fleet, yes=yes, dry_run=dry_run)
        setup = fleet.journal.read_setup()
        session.show(Answer(build_setup_view(setup)))
        if dry_run or not setup.missing:
            return None
        confirm_by_name(session, fleet, fleet.context.name, yes=yes, what="create them")
        for name in fleet.journal.make_setup():
            session.reporter.note(f"✓ {name} made")
        return None


def _rotate_key(session: Session, fleet: Fleet, *, yes: bool, dry_run: bool) -> None:
    rotation = fleet.journal.read_rotation()
    session.show(Answer(build_rotation_view(rotation)))
    if dry_run:
        return
    word = confirm_by_name(session, fleet, fleet.context.name, yes=yes, what="rotate the key")
    done = fleet.journal.rotate_key(confirm=word)
    session.reporter.note(f"✓ the journal's key is {done.fingerprint}, in {done.file}")


@click.group
def journal() -> None:
    """Look at what was changed, finish it, or take it back."""


@journal.command("list")
@option("--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="At most so many.")
@option("--open", "only_open", is_flag=True, help="Only changes that are not finished.")
@show_command
def list_changes(fleet: Fleet, *, limit: int, only_open: bool) -> Answer:
    """List changes, the newest first."""
    heads = fleet.journal.list(limit=limit, only_open=only_open)
    return Answer(build_changes_view(heads, only_open=only_open))


@journal.command("show")
@click.argument("change", shell_complete=complete_changes)
@show_command
def show_change(fleet: Fleet, change: str) -> Answer:
    """Show a change entry by entry, its chain checked. An id may be shortened."""
    return Answer(build_entries_view(fleet.journal.show(change)))


@journal.command("undo")
@click.argument("change", shell_complete=complete_changes)
@change_options
@global_options
@pass_session
def undo_change(session: Session, change: str, *, how: ChangeOptions) -> None:
    """Take a change back, by a plan made from what was before.

    A change that is still open is first taken over and closed as it is.
    """
    with session.fleet() as fleet:
        entries = fleet.journal.show(change)
        if entries[-1].kind is not EntryKind.CLOSE:
            _close_first(session, fleet, entries[0].change, how)
        confirm_and_apply(session, fleet, fleet.undo(entries[0].change), how)


@journal.command("resume")
@click.argument("change", shell_complete=complete_open_changes)
@consent_options
@global_options
@pass_session
def resume_change(session: Session, change: str, *, yes: bool) -> None:
    """Finish a change that a crash left open.

    Whoever holds it is fenced: its process must be dead, or it fails before its next act. Where a request was sent and
    not answered, this waits until it can't land any more.
    """
    with session.fleet() as fleet:
        found = fleet.journal.read_open(change)
        whole = found.change
        _show_open(session, found, steps=found.remaining)
        word = _confirm_change(session, fleet, found, yes=yes, what="take it over and finish it")
        run_change(session, lambda progress: fleet.journal.resume(whole, progress=progress, confirm=word), change=whole)


@journal.command("unlock")
@click.argument("change", shell_complete=complete_open_changes)
@option("--id", "nonce", required=True, metavar="NONCE", help="The nonce of its holder, as journal show tells it.")
@option("--force", is_flag=True, help="Close it even where it can't be told how a step ended.")
@consent_options
@global_options
@pass_session
def unlock_change(session: Session, change: str, *, nonce: str, force: bool, yes: bool) -> None:
    """Close a change that is open as it is, so that others can go on.

    Its holder is fenced. What it did can be undone afterwards.
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
        )


@journal.command("export")
@click.argument("change", shell_complete=complete_changes)
@option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to this file, readable by you alone, instead of standard output.",
)
@global_options
@pass_session
def export_change(session: Session, change: str, *, out: Path | None) -> None:
    """Write a change as it is stored, one JSON entry a line."""
    with session.fleet() as fleet:
        text = fleet.journal.export(change)
    if out is None:
        session.out.write(text)
        return
    from seamark.changes.plan import write_private  # noqa: PLC0415

    write_private(text, out, what="the change")
    session.reporter.note(f"change {change} is in {out}")


def _close_first(session: Session, fleet: Fleet, change: str, how: ChangeOptions) -> None:
    """Close an open change as it is: only a closed change can be undone."""
    if how.dry_run or how.out is not None:
        raise RefusedError(
            f"change {change} is still open, so nobody can say yet what an undo would do",
            hint=f"seamark journal undo {change} closes it first, or seamark journal resume {change} finishes it",
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
