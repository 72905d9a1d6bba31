"""The options of every command that takes a spec: `-f`, names, `--adopt`, `--allow-python`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from seamark.cli.complete import complete_connectors
from seamark.cli.options import option

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class SpecOptions:
    """Which files, and which connectors of them."""

    paths: tuple[Path, ...] = ()
    names: tuple[str, ...] = ()
    adopt: bool = False
    allow_python: bool = False


def spec_options(*, required: bool = True, metavar: str = "[NAME|GLOB]...") -> Callable[[F], F]:
    """Add the options; the command gets them as one value, `what`."""

    def decorate(command: F) -> F:
        decorated: Any = _gather(command)
        for add in reversed(_build_decorators(required=required, metavar=metavar)):
            decorated = add(decorated)
        result: F = decorated
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
        option(
            "-f",
            "--file",
            multiple=True,
            required=required,
            type=click.Path(path_type=Path),
            metavar="PATH",
            help="A file or a folder of the spec; repeat for more.",
        ),
        option("--adopt", is_flag=True, help="Take connectors over that another spec has."),
        option("--allow-python", is_flag=True, help="Run spec files that are Python programs."),
    )
