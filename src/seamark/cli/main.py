"""`seamark`: the root command, and the exit code of every outcome."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn, TextIO

import click

from seamark import __version__
from seamark.cli.options import global_options
from seamark.cli.session import Session
from seamark.core.secrets import mask_text
from seamark.errors import InterruptedRunError, SeamarkError, UsageError
from seamark.report.data import OutputFormat
from seamark.report.text import escape


@contextmanager
def without_collector() -> Iterator[None]:
    """Disable the garbage collector for a command that builds 100,000 small values without cycles and ends.

    The collector would visit all of them repeatedly: a third of the time of an export.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class LazyGroup(click.Group):
    """Commands by name, each as `module:attribute` and the line that `--help` shows for it.

    The line is repeated here so that `--help` need not import the command; a test keeps the two equal.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the given order."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of that name; None if there is none."""
        if cmd_name not in self.lazy:
            return None
        module, _, attribute = self.lazy[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}:{attribute} is not a command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest similar ones."""
        name = args[0]
        if name not in self.lazy and not name.startswith("-") and not ctx.resilient_parsing:
            near = get_close_matches(name, self.lazy, n=1)
            ctx.fail(f"No such command '{name}'." + (f" Did you mean '{near[0]}'?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and their lines without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self.lazy.items()])


def start_logging(stream: TextIO, *, verbose: int) -> None:
    """Show seamark's log with one `-v`, all logs with two."""
    # Not at the top: `--help` doesn't need it, and it takes 6 ms.
    import logging  # noqa: PLC0415

    class SafeFormatter(logging.Formatter):
        """Formats log lines without secrets and without control characters."""

        def format(self, record: logging.LogRecord) -> str:
            return escape(mask_text(super().format(record)), multiline=True)

    channel = logging.StreamHandler(stream)
    channel.setFormatter(SafeFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("seamark" if verbose == 1 else None)
    logger.setLevel(logging.DEBUG)
    logger.addHandler(channel)
    # It logs each value that is sent to Spark's JVM, including the passwords of Kafka, each on its own line without a
    # name, so that they can't be recognized and masked.
    logging.getLogger("py4j").setLevel(logging.WARNING)


COMPLETE_VAR = "_SEAMARK_COMPLETE"
"""The variable by which a shell's completion script requests completions."""

COMMANDS = {
    "status": ("seamark.cli.doctor:status", "Show every Connect cluster and what is in trouble."),
    "connectors": ("seamark.cli.connectors:connectors", "Look at connectors, and change them."),
    "workers": ("seamark.cli.doctor:workers", "Look at the workers of Connect."),
    "offsets": ("seamark.cli.offsets:offsets", "Look at reading positions, back them up, and move them."),
    "topics": ("seamark.cli.topics:topics", "Look at topics, and change them."),
    "groups": ("seamark.cli.groups:groups", "Look at consumer groups, and move them."),
    "copy": ("seamark.cli.copies:copy", "Copy a topic to another number of partitions, on Spark."),
    "land": (
        "seamark.cli.pipelines:land",
        "Land a topic in a table of PostgreSQL or of a lake, each record once, on Spark.",
    ),
    "lag": ("seamark.cli.groups:lag", "Show how far every group and sink is behind, or with --sources every source."),
    "plan": ("seamark.cli.apply:plan", "Show the way from what runs to what the files say; nothing is changed."),
    "apply": ("seamark.cli.apply:apply", "Make what runs as the files say, or apply a saved plan."),
    "destroy": (
        "seamark.cli.apply:destroy",
        "Delete the connectors that the files name; their offsets and groups stay.",
    ),
    "pull": ("seamark.cli.apply:pull", "Write what runs into spec files."),
    "journal": ("seamark.cli.journal:journal", "Look at what was changed, finish it, or take it back."),
    "init": ("seamark.cli.journal:init", "Make the journal's topics or folder, before the first change."),
    "doctor": ("seamark.cli.doctor:doctor", "Look for what is wrong, and say how to mend it."),
    "context": ("seamark.cli.context:context", "Name clusters, and choose one."),
    "spark": ("seamark.cli.pipelines:spark", "Bring seamark to a Spark cluster."),
    "demo": ("seamark.cli.demo:demo", "Start real servers, break something, and mend it."),
    "completion": ("seamark.cli.complete:completion", "Write the completion script of a shell."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="seamark", message="%(prog)s %(version)s")
@global_options
def root() -> None:
    """Run Kafka Connect without fear.

    Global options may also stand behind the command. Exit codes: 0 done, 1 failed, 2 changes
    present, 3 partly done, 4 not allowed, 5 refused by a safety rule, 6 unreachable, 64 wrong
    usage, 130 interrupted.
    """


def run() -> NoReturn:
    """Run the program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            # A terminal that can't show ✓ gets its escape, not a traceback.
            reconfigure(errors="backslashreplace")
    sys.exit(execute(sys.argv[1:]))


def execute(argv: Sequence[str], *, session: Session | None = None) -> int:
    """Run one command line and return its exit code. Nothing is raised."""
    session = session or Session()
    try:
        code = _execute(argv, session)
        session.out.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, as in `| head`. That is not a failure.
        _silence_output()
        return 0
    except KeyboardInterrupt:
        return InterruptedRunError.exit_code
    return code


def _execute(argv: Sequence[str], session: Session) -> int:
    try:
        return _invoke(argv, session)
    except BrokenPipeError:
        raise
    except (KeyboardInterrupt, click.Abort):
        error: SeamarkError = InterruptedRunError("interrupted")
    except click.exceptions.NoArgsIsHelpError as help_wanted:
        click.echo(help_wanted.format_message(), file=session.err)
        return UsageError.exit_code
    except click.ClickException as mistake:
        _guess_output(argv, session)
        error = _build_usage_error(mistake)
    except SeamarkError as known:
        _show_traceback(session, known)
        error = known
    except Exception as unexpected:  # noqa: BLE001 - the last net before the user
        _show_traceback(session, unexpected)
        error = _build_surprise(unexpected)
    session.reporter.fail(error)
    return error.exit_code


def _invoke(argv: Sequence[str], session: Session) -> int:
    instruction = os.environ.get(COMPLETE_VAR)
    if instruction:
        from click.shell_completion import shell_complete  # noqa: PLC0415

        return shell_complete(root, {"obj": session}, "seamark", COMPLETE_VAR, instruction)
    try:
        # Without `auto_envvar_prefix`: a variable such as SEAMARK_APPLY_YES would consent to changes without a review.
        with root.make_context("seamark", list(argv), obj=session) as ctx:
            root.invoke(ctx)
    except click.exceptions.Exit as end:
        return end.exit_code
    return session.exit_code


def _build_usage_error(mistake: click.ClickException) -> UsageError:
    ctx = mistake.ctx if isinstance(mistake, click.UsageError) else None
    path = ctx.command_path if ctx else "seamark"
    return UsageError(mistake.format_message().rstrip("."), hint=f"{path} --help shows how")


def _build_surprise(unexpected: Exception) -> SeamarkError:
    from seamark.core.secrets import mask_text  # noqa: PLC0415

    text = mask_text(f"{type(unexpected).__name__}: {unexpected}".strip(": "))
    return SeamarkError(
        "seamark came upon something it did not expect",
        cause=text.splitlines()[0],
        hint="run it again with -v for the traceback, and please report it",
    )


def _show_traceback(session: Session, error: Exception) -> None:
    # A known error contains all that an operator needs; its traceback is shown with -vv.
    if session.verbose < (2 if isinstance(error, SeamarkError) else 1):
        return
    from traceback import format_exception  # noqa: PLC0415

    from seamark.core.secrets import mask_text  # noqa: PLC0415
    from seamark.report.text import escape  # noqa: PLC0415

    session.err.write(escape(mask_text("".join(format_exception(error))), multiline=True))


def _guess_output(argv: Sequence[str], session: Session) -> None:
    """Detect `-o json` in a command line that Click could not parse: programs need the error as JSON, too."""
    words = " ".join(argv).replace("=", " ").split()
    spoken = [after for word, after in zip(words, [*words[1:], ""], strict=True) if word in ("-o", "--output")]
    if "json" in spoken or "-ojson" in words:
        session.output = OutputFormat.JSON


def _silence_output() -> None:
    """Redirect the interpreter's last flush: the pipe is closed."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
