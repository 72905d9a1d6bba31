"""The options of every command that takes a spec: `-f`, names, `--adopt`, `--allow-python`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seamark.cli.complete import complete_connectors
from seamark.cli.options import Duration, F, option, put_options

if TYPE_CHECKING:
    from seamark.changes.plan import PlannedChange
    from seamark.fleet import Fleet


@dataclass(frozen=True, slots=True)
class SpecOptions:
    """Which files, and which connectors of them."""

    paths: tuple[Path, ...] = ()
    names: tuple[str, ...] = ()
    adopt: bool = False
    allow_python: bool = False


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How new configs are tried: asked about beforehand, waited for."""

    validate: bool = True
    wait_seconds: float = 60.0


def run_options(command: F) -> F:
    """Add `--wait` and `--no-validate`; the command gets them as one value, `trial`."""

    @wraps(command)
    def gather(*args: Any, wait: float, no_validate: bool, **kwargs: Any) -> Any:
        return command(*args, trial=RunOptions(validate=not no_validate, wait_seconds=wait), **kwargs)

    decorators = (
        option(
            "--wait",
            type=Duration(minimum_seconds=1.0),
            default=60.0,
            show_default="60s",
            metavar="TIME",
            help="How long a connector may take until it runs; then its former config is put back.",
        ),
        option("--no-validate", is_flag=True, help="Do not ask the plugins what they think of new configs."),
    )
    result: F = put_options(gather, decorators)
    return result


PYTHON_OPTION = option("--allow-python", is_flag=True, help="Run spec files that are Python programs.")


def build_file_option(*, required: bool) -> Callable[[Any], Any]:
    """`-f`, as often as there are files."""
    return option(
        "-f",
        "--file",
        multiple=True,
        required=required,
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="A file or a folder of the spec; repeat for more.",
    )


def file_options(*, required: bool = True) -> Callable[[F], F]:
    """Add `-f` and `--allow-python`, one by one."""

    def decorate(command: F) -> F:
        result: F = put_options(command, (build_file_option(required=required), PYTHON_OPTION))
        return result

    return decorate


def spec_options(*, required: bool = True, metavar: str = "[NAME|GLOB]...") -> Callable[[F], F]:
    """Add the options; the command gets them as one value, `what`."""

    def decorate(command: F) -> F:
        result: F = put_options(_gather(command), _build_decorators(required=required, metavar=metavar))
        return result

    return decorate


def _gather(command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)
    def gather(
        *args: Any, names: tuple[str, ...], file: tuple[Path, ...], adopt: bool, allow_python: bool, **kwargs: Any
    ) -> Any:
        return command(*args, what=SpecOptions(file, names, adopt, allow_python), **kwargs)

    return gather


def _build_decorators(*, required: bool, metavar: str) -> tuple[Callable[[Any], Any], ...]:
    return (
        click.argument("names", nargs=-1, metavar=metavar, shell_complete=complete_connectors),
        build_file_option(required=required),
        option("--adopt", is_flag=True, help="Take connectors over that another spec has."),
        PYTHON_OPTION,
    )


def plan_spec(fleet: Fleet, what: SpecOptions, trial: RunOptions, *, prune: bool) -> PlannedChange:
    """The plan that was asked for."""
    return fleet.plan(
        what.paths,
        prune=prune,
        names=what.names,
        adopt=what.adopt,
        allow_python=what.allow_python,
        validate=trial.validate,
        wait_seconds=trial.wait_seconds,
    )
