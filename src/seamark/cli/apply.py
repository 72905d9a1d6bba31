"""`seamark apply PLANFILE`."""

from __future__ import annotations

from pathlib import Path

import click

from seamark.cli.carry_out import ChangeOptions, carry_out, change_options
from seamark.cli.options import global_options, pass_session
from seamark.cli.session import Session


@click.command
@click.argument("planfile", type=click.Path(dir_okay=False, path_type=Path))
@change_options
@global_options
@pass_session
def apply(session: Session, *, planfile: Path, how: ChangeOptions) -> None:
    """Apply a saved plan, if the world is still as it was.

    Ends with 5 when something that the plan changes has moved since it was made.
    """
    from seamark.fleet.plan_file import read_plan_file  # noqa: PLC0415

    plan = read_plan_file(planfile)
    with session.fleet() as fleet:
        carry_out(session, fleet, fleet.review(plan), how)
