"""`seamark init`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from seamark.changes.setup_view import build_rotation_view, build_setup_view
from seamark.cli.answer import Answer
from seamark.cli.confirm import confirm, consent_options
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session

if TYPE_CHECKING:
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
        session.give(Answer(build_setup_view(setup)))
        if dry_run or not setup.missing:
            return None
        _confirm_context(session, fleet, yes=yes, what="create them")
        for name in fleet.journal.make_setup():
            session.reporter.note(f"✓ {name} made")
        return None


def _rotate_key(session: Session, fleet: Fleet, *, yes: bool, dry_run: bool) -> None:
    rotation = fleet.journal.read_rotation()
    session.give(Answer(build_rotation_view(rotation)))
    if dry_run:
        return
    done = fleet.journal.rotate_key(confirm=_confirm_context(session, fleet, yes=yes, what="rotate the key"))
    session.reporter.note(f"✓ the journal's key is {done.fingerprint}, in {done.file}")


def _confirm_context(session: Session, fleet: Fleet, *, yes: bool, what: str) -> str:
    is_protected = fleet.context.protected
    word = fleet.context.name if is_protected else "yes"
    return confirm(session, yes=yes, word=word, what=what, is_protected=is_protected)
