"""Options that many commands share, so that no command repeats them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from seamark.cli.session import Session
from seamark.core.time import parse_duration
from seamark.report.data import OutputFormat


class Duration(click.ParamType[float]):
    """A length of time as a Click parameter, in seconds."""

    name = "duration"

    def __init__(self, *, minimum_seconds: float = 0.0) -> None:
        self.minimum_seconds = minimum_seconds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds, or a usage error that shows the forms."""
        try:
            seconds = value if isinstance(value, float) else parse_duration(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a length of time, such as 500ms, 2s or 5m", param, ctx)
        if seconds < self.minimum_seconds:
            self.fail(f"{value!r} is shorter than {self.minimum_seconds:g}s", param, ctx)
        return seconds


F = TypeVar("F", bound=Callable[..., Any])

option = click.option
pass_session = click.make_pass_decorator(Session)


def put_options(command: Callable[..., Any], options: Sequence[Callable[[Any], Any]]) -> Any:
    """A command with these options, which `--help` shows in this order."""
    for put in reversed(options):
        command = put(command)
    return command


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Put a global option into the session. A flag beats the environment, the nearest flag beats the others."""
    source = ctx.get_parameter_source(param.name or "")
    is_root = ctx.parent is None
    if source is ParameterSource.DEFAULT or (source is ParameterSource.ENVIRONMENT and not is_root):
        return
    session = ctx.ensure_object(Session)
    setattr(session, param.name or "", OutputFormat(value) if param.name == "output" else value)


def _global(*names: str, env: str, **settings: Any) -> Callable[[F], F]:
    return click.option(*names, envvar=env, expose_value=False, callback=_keep, is_eager=True, **settings)


def _complete_contexts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from seamark.cli.complete import complete_contexts  # noqa: PLC0415

    return complete_contexts(ctx, param, incomplete)


_CONTEXT = _global(
    "--context",
    env="SEAMARK_CONTEXT",
    metavar="NAME",
    help="Use this context instead of the current one.",
    shell_complete=_complete_contexts,
)
_OUTPUT = _global(
    "-o",
    "--output",
    env="SEAMARK_OUTPUT",
    type=click.Choice([form.value for form in OutputFormat]),
    metavar="FORMAT",
    help=f"How to write the result: {', '.join(OutputFormat)}.",
)
_NO_HEADERS = _global(
    "--no-headers", env="SEAMARK_NO_HEADERS", is_flag=True, help="Leave out the titles of tables and CSV."
)
_QUIET = _global("-q", "--quiet", env="SEAMARK_QUIET", is_flag=True, help="Write results and errors only.")
_VERBOSE = _global(
    "-v", "--verbose", env="SEAMARK_VERBOSE", count=True, help="Say more; twice for everything. Shows tracebacks."
)
_COLOR = _global(
    "--color",
    env="SEAMARK_COLOR",
    type=click.Choice(["auto", "always", "never"]),
    metavar="WHEN",
    help="Use colour: auto, always, never. NO_COLOR and FORCE_COLOR are heard too.",
)
_NO_INPUT = _global("--no-input", env="SEAMARK_NO_INPUT", is_flag=True, help="Never ask; fail instead.")


def global_options(command: F) -> F:
    """The options that stand before or behind any command."""
    for decorate in (_NO_INPUT, _COLOR, _VERBOSE, _QUIET, _NO_HEADERS, _OUTPUT, _CONTEXT):
        command = decorate(command)
    return command
