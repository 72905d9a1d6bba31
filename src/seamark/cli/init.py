"""`seamark init`."""

from __future__ import annotations

import click

from seamark.cli.answer import Answer
from seamark.cli.confirm import confirm, consent_options
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.report.views.setup import build_setup_view


@click.command
@consent_options
@option("--dry-run", is_flag=True, help="Show what is missing and make nothing.")
@global_options
@pass_session
def init(session: Session, *, yes: bool, dry_run: bool) -> None:
    """Make the journal's topics or folder, before the first change.

    Shows what is there, what is missing, and the ACLs that operators need.
    """
    with session.fleet() as fleet:
        setup = fleet.journal.read_setup()
        session.give(Answer(build_setup_view(setup)))
        if dry_run or not setup.missing:
            return
        is_protected = fleet.context.protected
        word = fleet.context.name if is_protected else "yes"
        confirm(session, yes=yes, word=word, what="create them", is_protected=is_protected)
        for name in fleet.journal.make_setup():
            session.reporter.note(f"✓ {name} made")
