"""`seamark plan`."""

from __future__ import annotations

from pathlib import Path

import click

from seamark.cli.answer import Answer
from seamark.cli.carry_out import ChangeOptions, carry_out
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.cli.spec_options import RunOptions, SpecOptions, plan_spec, run_options, spec_options
from seamark.errors import UsageError

_CHANGES_PRESENT = 2


@click.command("plan")
@spec_options()
@option("--prune", is_flag=True, help="Delete everything in its clusters that the spec does not name.")
@option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Save the plan for seamark apply.",
)
@option("--detailed-exitcode", is_flag=True, help="End with 2 where there is something to do.")
@run_options
@option("--offline", is_flag=True, help="Load and check the files, and ask no server.")
@global_options
@pass_session
def plan(
    session: Session,
    *,
    what: SpecOptions,
    trial: RunOptions,
    prune: bool,
    out: Path | None,
    detailed_exitcode: bool,
    offline: bool,
) -> None:
    """Show the way from what runs to what the files say; nothing is changed."""
    if offline:
        if prune or out is not None or detailed_exitcode:
            raise UsageError("--offline compares with nothing", hint="leave --prune, --out and --detailed-exitcode out")
        _show_desired(session, what)
        return
    with session.fleet() as fleet:
        planned = plan_spec(fleet, what, trial, prune=prune)
        carry_out(session, fleet, planned, ChangeOptions(dry_run=True, out=out))
    if detailed_exitcode and not planned.is_empty:
        session.exit_code = _CHANGES_PRESENT


def _show_desired(session: Session, what: SpecOptions) -> None:
    from seamark.specs.desired_view import build_desired_view  # noqa: PLC0415

    with session.fleet() as fleet:
        found = fleet.check(what.paths, names=what.names, allow_python=what.allow_python)
    session.give(Answer(build_desired_view(found)))
