"""The options of every command that uses a spec: `-f`, names, `--adopt`, `--allow-python`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seamark.cli.complete import complete_connectors
from seamark.cli.options import Duration, F, Number, build_options, option

if TYPE_CHECKING:
    from seamark.changes.plan import PlannedChange
    from seamark.context import PaceSettings
    from seamark.fleet import Fleet


@dataclass(frozen=True, slots=True)
class SpecOptions:
    """Which files, and which connectors of them."""

    file: tuple[Path, ...] = ()
    names: tuple[str, ...] = ()
    adopt: bool = False
    allow_python: bool = False


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How new configs are tested: validated before, waited for after; and how many are applied at once."""

    no_validate: bool = False
    wait_seconds: float = 60.0
    parallel: int | None = None
    wait_stable: bool | None = None

    def find_pace(self, pace: PaceSettings | None) -> PaceSettings | None:
        """Return the pace of the plan; `pace` is that of the context."""
        if self.parallel is None and self.wait_stable is None:
            return pace
        from seamark.context import PaceSettings  # noqa: PLC0415

        chosen = pace or PaceSettings()
        return replace(
            chosen,
            parallel=chosen.parallel if self.parallel is None else self.parallel,
            wait_stable=chosen.wait_stable if self.wait_stable is None else self.wait_stable,
        )


run_options = build_options(
    option(
        "--wait",
        "wait_seconds",
        type=Duration(minimum_seconds=1.0),
        default=60.0,
        show_default="60s",
        metavar="DURATION",
        help="Wait until RUNNING; then restore the previous config.",
    ),
    option("--no-validate", is_flag=True, help="Skip plugin validation."),
    option(
        "--parallel", type=Number(minimum=1), metavar="N", help="Change N connectors at once; default from the context."
    ),
    option(
        "--wait-stable/--no-wait-stable",
        default=None,
        help="Before each group of N, wait until the workers are stable.",
    ),
    into="trial",
    build=RunOptions,
)


PYTHON_OPTION = option("--allow-python", is_flag=True, help="Run spec files that are Python programs.")


def build_file_option(*, required: bool) -> Callable[[Any], Any]:
    """Build `-f`, which can be repeated."""
    return option(
        "-f",
        "--file",
        multiple=True,
        required=required,
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="A spec file or folder; repeatable.",
    )


def file_options(*, required: bool = True) -> Callable[[F], F]:
    """Add `-f` and `--allow-python`, one by one."""
    return build_options(build_file_option(required=required), PYTHON_OPTION)


def spec_options(*, required: bool = True, metavar: str = "[NAME|GLOB]...") -> Callable[[F], F]:
    """Add the options; the command gets them as one value, `what`."""
    return build_options(
        click.argument("names", nargs=-1, metavar=metavar, shell_complete=complete_connectors),
        build_file_option(required=required),
        option("--adopt", is_flag=True, help="Take over connectors that another spec manages."),
        PYTHON_OPTION,
        into="what",
        build=SpecOptions,
    )


def plan_spec(fleet: Fleet, what: SpecOptions, trial: RunOptions, *, prune: bool) -> PlannedChange:
    """Build the requested plan."""
    planned = fleet.plan(
        what.file,
        prune=prune,
        names=what.names,
        adopt=what.adopt,
        allow_python=what.allow_python,
        validate=not trial.no_validate,
        wait_seconds=trial.wait_seconds,
    )
    return planned.with_pace(trial.find_pace(fleet.context.pace))
