"""`seamark apply -f PATH` and `seamark apply PLANFILE`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer, choose_exit_code
from seamark.cli.complete import complete_clusters, complete_connectors
from seamark.cli.confirm import ChangeOptions, change_command, change_options, confirm_and_apply, report_unchanged
from seamark.cli.options import Number, global_options, option, pass_session, show_command
from seamark.cli.session import Session
from seamark.cli.spec_options import RunOptions, SpecOptions, file_options, plan_spec, run_options, spec_options
from seamark.cli.tree import command
from seamark.errors import ContextNotFoundError, PartialError, SeamarkError, UsageError
from seamark.specs.views import build_pull_view

if TYPE_CHECKING:
    from seamark.changes.plan import PlannedChange
    from seamark.fleet import Fleet


@command(
    "apply",
    examples=[
        "seamark apply -f config --dry-run",
        "seamark apply -f config --yes",
        "seamark apply plan.json",
    ],
)
@spec_options(required=False, metavar="PLANFILE|[NAME|GLOB]...")
@option("--prune", is_flag=True, help="With -f: delete connectors that the spec doesn't define.")
@run_options
@option(
    "--canary",
    type=Number(minimum=0),
    default=0,
    metavar="N",
    help="Change N connectors first; continue if they run.",
)
@option("--max-failures", type=Number(minimum=0), metavar="N", help="Stop after more than N failures.")
@option("--max-changes", type=Number(minimum=0), metavar="N", help="Refuse a plan with more than N changes.")
@option(
    "--expect",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With -f: refuse unless the plan equals the one in FILE.",
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
    """Apply spec files or a saved plan.

    With -f, seamark plans, shows and applies the changes; names and globs choose connectors of the files. Without -f,
    PLANFILE is a plan that --out saved; it is refused with exit code 5 if a resource has changed since.
    """
    with session.fleet() as fleet:
        make = plan_spec if what.file else _review
        planned = make(fleet, what, trial, prune=prune)
        if expect is not None:
            _compare(what, planned, expect)
        pace = fleet.build_pace(canary=canary, max_failures=max_failures, max_changes=max_changes)
        confirm_and_apply(session, fleet, planned, how, pace=pace)


def _compare(what: SpecOptions, planned: PlannedChange, path: Path) -> None:
    if not what.file:
        raise UsageError("--expect compares the plan of spec files", hint="pass the files with -f PATH")
    from seamark.changes.registration import check_expected  # noqa: PLC0415
    from seamark.fleet.changes import read_saved_plan  # noqa: PLC0415

    check_expected(planned.plan, read_saved_plan(path))


def _review(fleet: Fleet, what: SpecOptions, trial: RunOptions, *, prune: bool) -> PlannedChange:
    if len(what.names) != 1:
        raise UsageError("nothing to apply", hint="pass spec files with -f PATH, or one saved plan")
    if prune or what.adopt or what.allow_python:
        raise UsageError(
            "a saved plan can't be changed", hint="pass --prune, --adopt and --allow-python to seamark plan"
        )
    if trial.parallel is not None or trial.wait_stable is not None:
        raise UsageError("a saved plan has its pace", hint="pass --parallel and --wait-stable to seamark plan")
    from seamark.fleet.changes import read_saved_plan  # noqa: PLC0415

    return fleet.review(read_saved_plan(Path(what.names[0])), validate=not trial.no_validate)


@command("destroy", examples=["seamark destroy -f config --dry-run"])
@spec_options()
@change_command
def destroy(fleet: Fleet, *, what: SpecOptions) -> PlannedChange:
    """Delete the connectors of spec files.

    Their offsets and groups stay.
    """
    return fleet.destroy(what.file, names=what.names, adopt=what.adopt, allow_python=what.allow_python)


_CHANGES_PRESENT = 2


@command(
    "plan",
    examples=[
        "seamark plan -f config",
        "seamark plan -f config --out plan.json",
        "seamark plan -f config --offline",
    ],
)
@spec_options()
@option("--prune", is_flag=True, help="Delete connectors that the spec doesn't define.")
@option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Save the plan for `seamark apply`.",
)
@option("--detailed-exitcode", is_flag=True, help="End with exit code 2 if there are changes.")
@run_options
@option("--offline", is_flag=True, help="Check the files without servers.")
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
    """Preview the changes spec files require."""
    if offline:
        if prune or out is not None or detailed_exitcode:
            raise UsageError("--offline makes no plan", hint="omit --prune, --out and --detailed-exitcode")
        _show_desired(session, what)
        return
    with session.fleet() as fleet:
        planned = plan_spec(fleet, what, trial, prune=prune)
        confirm_and_apply(session, fleet, planned, ChangeOptions(dry_run=True, out=out))
    if detailed_exitcode and not planned.is_empty:
        session.exit_code = _CHANGES_PRESENT


def _show_desired(session: Session, what: SpecOptions) -> None:
    from seamark.specs import load_spec  # noqa: PLC0415
    from seamark.specs.views import build_desired_view  # noqa: PLC0415

    try:
        with session.fleet() as fleet:
            found = fleet.check(what.file, names=what.names, allow_python=what.allow_python)
    except ContextNotFoundError:
        # A placeholder that needs a context is reported with its line; the policy is not checked without one.
        load_spec([Path(file).expanduser() for file in what.file], environ=os.environ, allow_python=what.allow_python)
        raise
    session.show(Answer(build_desired_view(found)))


@command(
    "validate", examples=["seamark connectors validate -f config", "seamark connectors validate -f config 'log-*'"]
)
@click.argument("names", nargs=-1, metavar="[NAME|GLOB]...", shell_complete=complete_connectors)
@file_options()
@show_command
def validate(fleet: Fleet, *, names: tuple[str, ...], file: tuple[Path, ...], allow_python: bool) -> Answer:
    """Validate connectors of spec files.

    Their plugins check the configs. Nothing is compared with what runs, and nothing is changed. A config that violates
    the policy of the context isn't sent to Connect; plugins get a placeholder for each secret:// reference. Ends with
    exit code 1 if a connector is invalid.
    """
    from seamark.specs.views import build_validation_view  # noqa: PLC0415

    found = fleet.validate(file, names=names, allow_python=allow_python)
    errors = tuple({str(one.error): one.error for one in found if one.error is not None}.values())
    code = choose_exit_code(errors, all_failed=all(one.error is not None for one in found))
    if any(one.problems for one in found):
        code = SeamarkError.exit_code
    return Answer(build_validation_view(found), errors, code)


@command("schema", examples=["seamark schema > seamark-spec.json", "seamark schema --plugins > seamark-spec.json"])
@option("--plugins", is_flag=True, help="Add the keys of installed connector plugins.")
@option("--plan", "is_plan", is_flag=True, help="Print the schema of plans (`-o json`) instead.")
@option("--cluster", metavar="NAME", shell_complete=complete_clusters, help="Only plugins of this Connect cluster.")
@global_options
@pass_session
def schema(session: Session, *, plugins: bool, is_plan: bool, cluster: str | None) -> None:
    """Print the JSON Schema of spec files or plans.

    Editors complete and check YAML files with it. With --plugins, they also know the keys of each connector.class,
    with documentation and defaults; Connect reports them since version 3.2. With --plan, it is the schema of what
    `seamark plan -o json` and every change with `--dry-run -o json` print.
    """
    if is_plan:
        if plugins or cluster is not None:
            raise UsageError("plans don't depend on plugins", hint="omit --plugins and --cluster")
        from seamark.fleet.plan_schema import render_plan_schema  # noqa: PLC0415

        session.out.write(render_plan_schema())
        return
    if cluster is not None and not plugins:
        raise UsageError("--cluster selects plugins", hint="pass --plugins, too")
    from seamark.specs.keys import render_schema  # noqa: PLC0415

    if not plugins:
        session.out.write(render_schema())
        return
    with session.fleet() as fleet:
        found = fleet.connectors.plugin_definitions(cluster=cluster)
    session.out.write(render_schema(found))


_FOLDER = "config"


@command(examples=["seamark pull --dry-run", "seamark pull log-guild --dir config"])
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_connectors)
@option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default=_FOLDER,
    show_default=True,
    metavar="DIR",
    help="The folder of spec files to write.",
)
@option("--cluster", metavar="NAME", shell_complete=complete_clusters, help="Only connectors of this Connect cluster.")
@option("--dry-run", is_flag=True, help="Show the changed lines without writing them.")
@option("--allow-python", is_flag=True, help="Run spec programs in the folder.")
@global_options
@pass_session
def pull(
    session: Session, *, names: tuple[str, ...], folder: Path, cluster: str | None, dry_run: bool, allow_python: bool
) -> None:
    """Write running connectors to spec files.

    A connector that no file defines gets a file of its own; in other files only values that differ are changed. Secrets
    are written as references only.
    """
    from seamark.specs.pull import apply_pull, read_pull  # noqa: PLC0415

    with session.fleet() as fleet:
        found = read_pull(fleet, folder, environ=os.environ, names=names, cluster=cluster, allow_python=allow_python)
        asked = 1 if cluster else len(fleet.context.connect)
    errors = tuple(found.failures.values())
    code = choose_exit_code(errors, all_failed=len(errors) >= asked)
    if not code and found.skipped:
        code = PartialError.exit_code
    if not dry_run:
        apply_pull(found)
    session.show(Answer(build_pull_view(found, with_diff=dry_run), errors, code))
    if dry_run:
        report_unchanged(session)
