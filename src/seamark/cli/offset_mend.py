"""`seamark offsets mend`."""

from __future__ import annotations

from typing import Any

import click

from seamark.cli.carry_out import ChangeOptions, carry_out, change_options
from seamark.cli.complete import complete_connectors
from seamark.cli.offset_moves import care_options
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session


@click.command("mend")
@click.argument("owners", nargs=-1, metavar="[OWNER]...", shell_complete=complete_connectors)
@option("--all", "everything", is_flag=True, help="All sources about whose records something is odd.")
@option(
    "--take",
    default="",
    metavar="newest|PLACE",
    help="Whose value counts, where records differ: one as connect-offsets-3@117, or the newest; of copies of one key "
    "that is the one at home.",
)
@option(
    "--clean",
    is_flag=True,
    help="Take what does not belong there out of the log. For about a minute the topic gets other configs, and it is "
    "cleaned as a whole: of each key the newest record stays.",
)
@option("--only", is_flag=True, help="With --clean: keep no other spelling than that of the record that is taken.")
@care_options
@change_options
@global_options
@pass_session
def mend(
    session: Session,
    *,
    owners: tuple[str, ...],
    everything: bool,
    take: str,
    clean: bool,
    only: bool,
    care: dict[str, Any],
    how: ChangeOptions,
) -> None:
    """Put the records of a source's offsets right: several spellings of one key, copies on other partitions.

    Every spelling that a task may look for, and every copy of it, gets the same value. The plan says what each record
    will be. The connector is stopped for it and goes on.
    """
    with session.fleet() as fleet:
        planned = fleet.offsets.mend(owners, everything=everything, take=take, clean=clean, only=only, **care)
        carry_out(session, fleet, planned, how)
