"""`seamark apply -f PATH` and `seamark apply PLANFILE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from seamark.cli.carry_out import ChangeOptions, carry_out, change_options
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.cli.spec_options import RunOptions, SpecOptions, plan_spec, run_options, spec_options
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.changes.planned import Planned
    from seamark.fleet import Fleet


@click.command("apply")
@spec_options(required=False, metavar="PLANFILE|[NAME|GLOB]...")
@option("--prune", is_flag=True, help="With -f: delete everything in its clusters that the spec does not name.")
@run_options
@option("--canary", type=click.IntRange(min=0), default=0, metavar="N", help="Change N alone; go on if they run.")
@option("--max-failures", type=click.IntRange(min=0), metavar="N", help="Begin no other after more failures than N.")
@option("--max-changes", type=click.IntRange(min=0), metavar="N", help="Refuse a plan with more changes than N.")
@option(
    "--expect",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With -f: refuse unless the plan equals the one saved in FILE.",
)
@change_options
@global_options
@pass_session
def apply(
    session: Session,
    *,
    what: SpecOptions,
    trial: RunOptions,
    prune: bool,
    canary: int,
    max_failures: int | None,
    max_changes: int | None,
    expect: Path | None,
    how: ChangeOptions,
) -> None:
    """Make what runs as the files say, or apply a saved plan.

    With -f the plan is made, shown and applied; names and globs choose connectors of the files.
    Without it, PLANFILE is a plan that --out saved: it ends with 5 when something that it changes
    has moved since.
    """
    with session.fleet() as fleet:
        make = plan_spec if what.paths else _review
        planned = make(fleet, what, trial, prune=prune)
        if expect is not None:
            _compare(what, planned, expect)
        pace = fleet.build_pace(canary=canary, max_failures=max_failures, max_changes=max_changes)
        carry_out(session, fleet, planned, how, pace=pace)


def _compare(what: SpecOptions, planned: Planned, path: Path) -> None:
    if not what.paths:
        raise UsageError("--expect compares the plan of spec files", hint="pass the files with -f PATH")
    from seamark.changes.registration import check_expected  # noqa: PLC0415
    from seamark.fleet.review import read_saved_plan  # noqa: PLC0415

    check_expected(planned.plan, read_saved_plan(path))


def _review(fleet: Fleet, what: SpecOptions, trial: RunOptions, *, prune: bool) -> Planned:
    if len(what.names) != 1:
        raise UsageError("what shall be applied?", hint="give the files with -f PATH, or one plan that --out saved")
    if prune or what.adopt or what.allow_python:
        raise UsageError(
            "a saved plan is applied as it is", hint="give --prune, --adopt and --allow-python to seamark plan"
        )
    from seamark.fleet.review import read_saved_plan  # noqa: PLC0415

    return fleet.review(read_saved_plan(Path(what.names[0])), validate=trial.validate)
