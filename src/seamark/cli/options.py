"""Options that many commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from seamark.cli.session import Session
from seamark.cli.tree import GlobalOption
from seamark.core.readings import Severity
from seamark.core.time import parse_duration
from seamark.report.data import OutputFormat
from seamark.report.words import parse_number, render_number

if TYPE_CHECKING:
    from seamark.cli.answer import Answer


class Duration(click.ParamType[float]):
    """A duration as a Click parameter, in seconds."""

    name = "duration"

    def __init__(self, *, minimum_seconds: float = 0.0) -> None:
        self.minimum_seconds = minimum_seconds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds. Raises a usage error that shows the formats."""
        try:
            seconds = value if isinstance(value, float) else parse_duration(str(value))
        except ValueError:
            raise _build_invalid(value, param, ctx, "a duration such as 500ms, 2s, 5m, 7d or PT1H30M") from None
        if seconds < self.minimum_seconds:
            raise _build_invalid(value, param, ctx, f"at least {self.minimum_seconds:g}s")
        return seconds


class Number(click.ParamType[int]):
    """A whole number as a Click parameter, of at least `minimum`. It may have commas, as seamark prints them."""

    name = "number"

    def __init__(self, *, minimum: int | None = None) -> None:
        self.minimum = minimum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number. Raises a usage error that shows the limit."""
        at_least = "" if self.minimum is None else f" of at least {render_number(self.minimum)}"
        try:
            number = value if isinstance(value, int) else parse_number(str(value))
        except ValueError:
            number = None
        if number is None or (self.minimum is not None and number < self.minimum):
            raise _build_invalid(value, param, ctx, f"a whole number{at_least}")
        return number


def _build_invalid(
    value: Any, param: click.Parameter | None, ctx: click.Context | None, expected: str
) -> click.UsageError:
    name = max(param.opts, key=len) if param is not None else "the option"
    return click.UsageError(f"invalid value {str(value)!r} for {name}: expected {expected}", ctx)


F = TypeVar("F", bound=Callable[..., Any])

_LEVELS = {"warning": (Severity.ERROR, Severity.WARNING), "error": (Severity.ERROR,)}


def fail_on_option(condition: str, *, default: str | None = None) -> Callable[[F], F]:
    """Return the option `--fail-on LEVEL`, by which a read ends with 1 under a condition, for cron and Kubernetes."""
    return click.option(
        "--fail-on",
        type=click.Choice(list(_LEVELS)),
        metavar="LEVEL",
        default=default,
        show_default=True,
        help=f"Exit with 1 if {condition} of this level or worse: warning, error.",
    )


def is_failing(found: Iterable[Severity], level: str | None) -> bool:
    """Return whether one of the severities is of the level of `--fail-on` or worse; never without a level."""
    return level is not None and any(severity in _LEVELS[level] for severity in found)


option = click.option
pass_session = click.make_pass_decorator(Session)


def build_options(
    *options: Callable[[Any], Any], into: str = "", build: Callable[..., Any] | None = None
) -> Callable[[F], F]:
    """Return a decorator that adds options to a command.

    Args:
        options: The options, in the order of `--help`.
        into: The argument in which the command gets what `build` returns.
        build: Takes the values of the options by their names; without it the command gets them one by one.
    """
    names = signature(build).parameters if build else ()

    def decorate(command: F) -> F:
        @wraps(command)
        def gather(*args: Any, **given: Any) -> Any:
            if build is not None:
                given[into] = build(**{name: given.pop(name) for name in names})
            return command(*args, **given)

        result: Any = gather
        for put in reversed(options):
            result = put(result)
        return cast("F", result)

    return decorate


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Store a global option in the session. A flag overrides the environment, the last flag overrides the others."""
    source = ctx.get_parameter_source(param.name or "")
    is_root = ctx.parent is None
    if source is ParameterSource.DEFAULT or (source is ParameterSource.ENVIRONMENT and not is_root):
        return
    session = ctx.ensure_object(Session)
    setattr(session, param.name or "", OutputFormat(value) if param.name == "output" else value)


def _global(*names: str, env: str, **settings: Any) -> Callable[[F], F]:
    return click.option(
        *names, cls=GlobalOption, envvar=env, expose_value=False, callback=_keep, is_eager=True, **settings
    )


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
    help=f"Output format: {', '.join(OutputFormat)}.",
)
_NO_HEADERS = _global("--no-headers", env="SEAMARK_NO_HEADERS", is_flag=True, help="Omit the header of tables and CSV.")
_QUIET = _global("-q", "--quiet", env="SEAMARK_QUIET", is_flag=True, help="Print results and errors only.")
_VERBOSE = _global(
    "-v", "--verbose", env="SEAMARK_VERBOSE", count=True, help="Print logs and tracebacks; -vv prints all logs."
)
_COLOR = _global(
    "--color",
    env="SEAMARK_COLOR",
    type=click.Choice(["auto", "always", "never"]),
    metavar="WHEN",
    help="Use color: auto, always, never.",
)
_NO_INPUT = _global("--no-input", env="SEAMARK_NO_INPUT", is_flag=True, help="Fail instead of asking.")


# The options that can be placed before or after any command.
global_options = build_options(_CONTEXT, _OUTPUT, _NO_HEADERS, _QUIET, _VERBOSE, _COLOR, _NO_INPUT)


def show_command(command: Callable[..., Answer]) -> Callable[..., None]:
    """Turn a read into a command that shows its answer."""

    @wraps(command)
    def run(session: Session, /, **given: Any) -> None:
        with session.fleet() as fleet:
            session.show(command(fleet, **given))

    return global_options(pass_session(run))
