"""`seamark connectors rename`."""

from __future__ import annotations

import click

from seamark.cli.carry_out import ChangeOptions, carry_out, change_options
from seamark.cli.complete import complete_connectors
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session


@click.command("rename")
@click.argument("old", shell_complete=complete_connectors)
@click.argument("new")
@option("--accept-loss", is_flag=True, help="Rename it even where its positions are not found under the new name.")
@change_options
@global_options
@pass_session
def rename(session: Session, *, old: str, new: str, accept_loss: bool, how: ChangeOptions) -> None:
    """Give a connector another name: NEW is created with OLD's config, then OLD is deleted.

    From Connect 3.7 on the offsets of OLD go along. Where they can't, it is refused without --accept-loss.
    """
    with session.fleet() as fleet:
        # A look costs nothing: with --dry-run the plan itself says what would be lost.
        planned = fleet.connectors.rename(old, new, accept_loss=accept_loss or how.dry_run)
        carry_out(session, fleet, planned, how)
