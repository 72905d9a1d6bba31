"""`seamark offsets mend`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from seamark.cli.carry_out import ChangeOptions, carry_out, change_options
from seamark.cli.complete import complete_connectors
from seamark.cli.offset_moves import care_options
from seamark.cli.options import F, global_options, option, pass_session
from seamark.cli.session import Session
from seamark.errors import UsageError


def _refuse_removed(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del ctx
    if value:
        raise UsageError(
            f"{param.opts[0]} was removed",
            cause="seamark doesn't rewrite the log of an offsets topic that workers use",
            hint="follow docs/runbooks/offsets-topic-repartitioned.md to remove records while all workers are stopped",
        )


def _removed(name: str) -> Callable[[F], F]:
    """Build an option that only says what to do instead."""
    return click.option(name, is_flag=True, hidden=True, expose_value=False, callback=_refuse_removed)


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
@_removed("--clean")
@_removed("--only")
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
    care: dict[str, Any],
    how: ChangeOptions,
) -> None:
    """Put the records of a source's offsets right: several spellings of one key, copies on other partitions.

    Every spelling that a task may look for, and every copy of it, gets the same value. The plan says what each record
    will be. The connector is stopped for it and goes on.
    """
    with session.fleet() as fleet:
        planned = fleet.offsets.mend(owners, everything=everything, take=take, **care)
        carry_out(session, fleet, planned, how)
