"""`seamark`: the root command, and the exit code of every outcome."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, NoReturn, TextIO

import click

from seamark import __version__
from seamark.cli.options import global_options
from seamark.cli.session import Session
from seamark.cli.tree import VERBS, CommandError, HelpGroup, build_unknown_option
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


class LazyGroup(HelpGroup):
    """Commands by section and name, each as `module:attribute` and its summary.

    The summary is repeated here so that `--help` imports no command; a test keeps the two equal.
    """

    def __init__(self, *args: Any, sections: Mapping[str, Mapping[str, tuple[str, str]]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        self.lazy = {name: found for section in sections.values() for name, found in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the sections."""
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

    def find_synonym(self, ctx: click.Context, name: str, rest: Sequence[str]) -> str | None:
        """Return the words of the right command; `get connectors` and `describe connector/NAME` are known too."""
        name = name.removesuffix(".sh")
        if name not in VERBS or name in self.synonyms:
            return super().find_synonym(ctx, name, rest)
        if name == "delete" and rest[:1] in (["-f"], ["--filename"]):
            return "destroy"
        # kubectl and kcctl put the verb first. Without a noun the verb is about connectors.
        noun, slash, resource = self._read_noun(rest)
        known = noun if noun in self.lazy else self.synonyms.get(noun, "")
        return " ".join([known or "connectors", name, *([resource] if known and slash else [])])

    def drop_noun(self, name: str, rest: Sequence[str]) -> Sequence[str]:
        """Return the words after a verb without the noun that `find_synonym` has put before it."""
        noun, slash, _ = self._read_noun(rest)
        if slash and self.synonyms.get(name, "").startswith("journal "):
            # `rollout undo connector/NAME`: the journal takes changes, not resources.
            return rest[1:]
        is_noun = name in VERBS and name not in self.synonyms and (noun in self.lazy or noun in self.synonyms)
        if is_noun and noun in ("task", "tasks"):
            # kcctl names a task as CONNECTOR/TASK. Here that would be a connector of a Connect cluster.
            return [word.partition("/")[0] for word in rest[1:]]
        return rest[1:] if is_noun else rest

    def _read_noun(self, rest: Sequence[str]) -> tuple[str, str, str]:
        return rest[0].partition("/") if rest and not rest[0].startswith("-") else ("", "", "")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write names and summaries by section, without importing anything."""
        del ctx
        width = max(map(len, self.lazy))
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), summary) for name, (_, summary) in commands.items()])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands and the global options."""
        self.format_commands(ctx, formatter)
        records = [record for param in self.get_params(ctx) if (record := param.get_help_record(ctx)) is not None]
        with formatter.section("Global options"):
            formatter.write_dl(records)


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

SECTIONS = {
    "Inspect and change": {
        "status": ("seamark.cli.doctor:status", "Show the health of each Connect cluster"),
        "lag": ("seamark.cli.groups:lag", "Show the lag of groups, sinks and sources"),
        "doctor": ("seamark.cli.doctor:doctor", "Find problems and how to fix them"),
        "connectors": ("seamark.cli.connectors:connectors", "Inspect and change connectors"),
        "offsets": ("seamark.cli.offsets:offsets", "Inspect, back up and change offsets"),
        "topics": ("seamark.cli.topics:topics", "Inspect and change topics"),
        "groups": ("seamark.cli.groups:groups", "Inspect and change consumer groups"),
        "workers": ("seamark.cli.doctor:workers", "Inspect Connect workers"),
        "plugins": ("seamark.cli.plugins:plugins", "Inspect connector plugins"),
        "loggers": ("seamark.cli.connectors:loggers", "Inspect and change log levels of workers"),
    },
    "As code": {
        "plan": ("seamark.cli.apply:plan", "Preview the changes spec files require"),
        "apply": ("seamark.cli.apply:apply", "Apply spec files or a saved plan"),
        "destroy": ("seamark.cli.apply:destroy", "Delete the connectors of spec files"),
        "schema": ("seamark.cli.apply:schema", "Print the JSON Schema of spec files or plans"),
        "pull": ("seamark.cli.apply:pull", "Write running connectors to spec files"),
    },
    "History": {
        "journal": ("seamark.cli.journal:journal", "Show, resume and undo changes"),
    },
    "Data jobs": {
        "copies": ("seamark.cli.copies:copies", "Copy a topic to another partition count"),
        "pipelines": ("seamark.cli.pipelines:pipelines", "Write topics to tables, exactly once"),
        "spark": ("seamark.cli.pipelines:spark", "Prepare seamark for a Spark cluster"),
    },
    "Set up": {
        "init": ("seamark.cli.journal:init", "Create the journal before the first change"),
        "context": ("seamark.cli.context:context", "Add, choose and test contexts"),
        "demo": ("seamark.cli.demo:demo", "Play a demo on real servers"),
        "completion": ("seamark.cli.complete:completion", "Print the completion script of a shell"),
    },
}

# Nouns in other forms, names that were used before, and commands of other tools.
SYNONYMS = {
    "changes": "journal",
    "check": "doctor",
    "cluster": "status",
    "cluster-info": "status",
    "clusters": "status",
    "config": "context",
    "connector": "connectors",
    "connector-plugins": "plugins",
    "consumer-group": "groups",
    "consumer-groups": "groups",
    "contexts": "context",
    "copy": "copies",
    "diff": "plan",
    "export": "offsets export",
    "forget": "offsets reset",
    "get-contexts": "context list",
    "group": "groups",
    "heal": "connectors heal",
    "health": "doctor",
    "help": "--help",
    "history": "journal list",
    "import": "offsets import",
    "info": "status",
    "kafka-consumer-groups": "groups",
    "kafka-topics": "topics",
    "land": "pipelines",
    "log-level": "loggers",
    "logger": "loggers",
    "mend": "offsets repair",
    "move": "offsets move",
    "offset": "offsets",
    "pipeline": "pipelines",
    "plugin": "plugins",
    "profile": "context",
    "repair": "offsets repair",
    "reset": "offsets reset",
    "reset-offsets": "groups move",
    "restore": "offsets restore",
    "rollback": "journal undo",
    "rollout": "",
    "seek": "offsets move",
    "skip": "offsets skip",
    "task": "connectors",
    "tasks": "connectors",
    "topic": "topics",
    "undo": "journal undo",
    "use": "context use",
    "use-context": "context use",
    "validate": "plan",
    "version": "--version",
    "worker": "workers",
}


@click.group(
    cls=LazyGroup, sections=SECTIONS, synonyms=SYNONYMS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="seamark", message="%(prog)s %(version)s", help="Show the version.")
@global_options
def root() -> None:
    """Run Kafka Connect without fear.

    Global options can be placed before or after the command. Exit codes: 0 done, 1 failed, 2 changes present, 3 partly
    done, 4 not allowed, 5 refused by a safety rule, 6 unreachable, 64 wrong usage, 130 interrupted.
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
        error = _build_usage_error(mistake, argv)
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


def _build_usage_error(mistake: click.ClickException, argv: Sequence[str]) -> UsageError:
    if isinstance(mistake, click.NoSuchOption):
        mistake = build_unknown_option(mistake, argv) or mistake
    ctx = mistake.ctx if isinstance(mistake, click.UsageError) else None
    path = ctx.command_path if ctx else "seamark"
    hint = mistake.hint if isinstance(mistake, CommandError) else f"run: {path} --help"
    return UsageError(mistake.format_message().rstrip("."), hint=hint)


def _build_surprise(unexpected: Exception) -> SeamarkError:
    from seamark.core.secrets import mask_text  # noqa: PLC0415

    text = mask_text(f"{type(unexpected).__name__}: {unexpected}".strip(": "))
    return SeamarkError(
        "unexpected internal error",
        cause=text.splitlines()[0],
        hint="run the command again with -v for the traceback, and report it",
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
