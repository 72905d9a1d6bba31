"""The command tree: help with examples, and the right command for the words of other tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

import click

GLOBAL_LINE = "Global options: see `seamark --help`"

# Verbs of kubectl, kcctl, rpk and Kafka's own tools. The first of ours that a group has is the right one.
VERBS: Mapping[str, tuple[str, ...]] = {
    "add": ("create",),
    "alter": ("update", "move", "set"),
    "alter-config": ("update",),
    "alter-offsets": ("move",),
    "change": ("update",),
    "cat": ("show",),
    "configure": ("update",),
    "create": ("create", "add"),
    "current": ("show",),
    "del": ("delete",),
    "delete": ("delete", "reset"),
    "delete-offsets": ("reset",),
    "describe": ("show", "list", "status"),
    "destroy": ("delete",),
    "drop": ("delete",),
    "edit": ("update", "move", "set"),
    "get": ("show", "list", "status"),
    "info": ("show", "list", "status"),
    "inspect": ("show", "list", "status"),
    "list": ("list", "status", "show"),
    "logs": ("show",),
    "ls": ("list", "status", "show"),
    "modify": ("update",),
    "new": ("create",),
    "patch": ("update", "move", "set"),
    "pause": ("pause",),
    "put": ("update",),
    "remove": ("delete", "reset"),
    "replace": ("update",),
    "reset": ("reset", "move"),
    "reset-offsets": ("move",),
    "restart": ("restart",),
    "resume": ("resume",),
    "rewind": ("move",),
    "rm": ("delete", "reset"),
    "scale": ("update",),
    "seek": ("move",),
    "set": ("set", "update", "move"),
    "show": ("show", "list", "status"),
    "start": ("resume", "run"),
    "status": ("status", "show", "list"),
    "stop": ("stop",),
    "unpause": ("resume",),
    "update": ("update", "move", "set"),
    "view": ("show",),
}

_MOST_CORRECTIONS = 4

# The verbs that read one resource by its name, and without a name list all of them.
_READS = frozenset({"get", "describe", "info", "inspect", "show", "status"})

# kafka-consumer-groups and kafka-topics take the verb and the name as options: `--describe --group NAME`.
_NAME_OPTIONS: Mapping[str, str] = {"groups": "--group", "topics": "--topic"}
# `kafka-topics --alter` is about partitions with this option, and about nothing else.
_PARTITIONS_OPTION = "--partitions"

# Options of other tools, each with those that are right here. The first one that the command has is the right one; one
# without dashes is a command instead.
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "--bootstrap-server": ("--context NAME",),
    "--brokers": ("--context NAME",),
    "--by-duration": ("--to -DURATION",),
    "--execute": ("--yes",),
    "--filename": ("--file PATH",),
    "--force": ("--yes",),
    "--kubeconfig": ("--context NAME",),
    "--namespace": ("--context NAME",),
    "--new-partitions": ("--total N",),
    "--num": ("--total N",),
    "--replicas": ("--replication-factor N",),
    "--shift-by": ("--shift N",),
    "--to-current": ("--to current",),
    "--to-datetime": ("--to TIME",),
    "--to-earliest": ("--to earliest",),
    "--to-latest": ("--to latest",),
    "--to-offset": ("--to OFFSET",),
    "--topics": ("--topic T[:0,1]",),
    "-k": ("--file PATH",),
    "-n": ("--context NAME",),
    # Names that were used before.
    "--abandon": ("--ignore-group GROUP",),
    "--accept-debris": ("--allow-aborted-records",),
    "--accept-loss": ("--allow-offset-loss",),
    "--accept-zombie": ("--assume-worker-down",),
    "--as": ("--format FORMAT",),
    "--as-of": ("offsets restore OWNER --at TIME",),
    "--by-record-time": ("offsets restore OWNER --at TIME --by-record-time",),
    "--count": ("--max-updates N",),
    "--differing": ("--mismatched",),
    "--every": ("--interval DURATION",),
    "--exports": ("offsets restore OWNER --at TIME --exports PATH",),
    "--fast": ("--no-pause",),
    "--file": ("--dir DIR",),
    "-f": ("--dir DIR",),
    "--from": ("--from-file FILE or --from-group GROUP", "--start OFFSET|TIME"),
    "--id": ("--holder NONCE",),
    "--lag": ("--max-lag N",),
    "--leave": ("--exclude-group GROUP",),
    "--lend": ("--temporary-config KEY=VALUE",),
    "--missing": ("--default-offset earliest|latest",),
    "--offsets": ("--offsets-file FILE",),
    "--open": ("--state open",),
    "--out": ("--dir DIR",),
    "--park": ("--dlq-topic TOPIC",),
    "--partition": ("--topic T[:0,1]",),
    "--replication": ("--replication-factor N",),
    "--rule": ("--partitioner NAME",),
    "--set": ("--config KEY=VALUE",),
    "--show": ("--show-value",),
    "--skip-unknown": ("offsets restore OWNER --at TIME --skip-unknown",),
    "--source": ("--source-connector CONNECTOR",),
    "--state": ("--initial-state STATE",),
    "--take": ("--prefer newest|LOCATION",),
    "--to": ("--target NAME", "--total N"),
    "--until": ("--end OFFSET|TIME",),
    "--wait": ("--progress-timeout DURATION",),
    "--workers": ("--worker-topic",),
    "--yes": ("--no-pause",),
}


class CommandError(click.UsageError):
    """A command or an option that doesn't exist, with the one that does."""

    def __init__(self, message: str, *, hint: str, ctx: click.Context | None) -> None:
        super().__init__(message, ctx)
        self.hint = hint


class GlobalOption(click.Option):
    """An option that every command has. The help of `seamark` alone describes it."""


class HelpCommand(click.Command):
    """A command whose help has examples, and one line for the global options."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = drop_full_stop(self.help)
        self.examples = tuple(examples)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write usage, description, examples, options."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        if self.examples:
            formatter.write_paragraph()
            formatter.write("Examples:\n")
            formatter.write("".join(f"  {example}\n" for example in self.examples))
        self.format_options(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options that are the command's own."""
        write_options(self, ctx, formatter)


class HelpGroup(click.Group):
    """A group of commands that answers unknown words with the right command.

    `synonyms` are words that people bring from other tools or that were names before, each with the words of the right
    command without `seamark`.
    """

    command_class = HelpCommand

    def __init__(self, *args: Any, synonyms: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = drop_full_stop(self.help)
        self.synonyms = synonyms or {}

    def get_summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Return the commands with their summaries."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [(name, read_summary(command)) for name, command in found if command is not None]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order in which they were added."""
        del ctx
        return list(self.commands)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands. A group has no options but the global ones."""
        self.format_commands(ctx, formatter)
        write_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write names and summaries."""
        with formatter.section("Commands"):
            formatter.write_dl(self.get_summaries(ctx))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command. An unknown word is answered with the right one."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise self.build_unknown(ctx, args)
        return super().resolve_command(ctx, args)

    def build_unknown(self, ctx: click.Context, words: Sequence[str]) -> CommandError:
        """Build the error for words that begin with no command of this group."""
        found = correct_words(ctx.find_root(), [*_read_path(ctx), *words])
        if not found or found[-1] == "--help":
            hint = f"run: {' '.join(['seamark', *(found or ['--help'])])}"
        else:
            hint = f"use: seamark {' '.join(found)}"
        return CommandError(f"unknown command '{ctx.command_path} {words[0]}'", hint=hint, ctx=ctx)

    def find_synonym(self, ctx: click.Context, name: str, rest: Sequence[str]) -> str | None:
        """Return the words of the right command for a word that isn't one; None if there is none."""
        if name in self.synonyms:
            return self.synonyms[name]
        verbs = [verb for verb in VERBS.get(name, ()) if verb in self.list_commands(ctx)]
        if name in _READS and not _cut_options(rest) and "list" in self.list_commands(ctx):
            verbs = ["list"]
        near = verbs or get_close_matches(name, self.list_commands(ctx), n=1, cutoff=0.75)
        return " ".join([*_read_path(ctx), near[0]]) if near else None

    def drop_noun(self, name: str, rest: Sequence[str]) -> Sequence[str]:
        """Return the words after a synonym that stay."""
        del name
        return rest


def command(name: str | None = None, *, examples: Sequence[str]) -> Callable[[Callable[..., Any]], HelpCommand]:
    """Return a decorator that makes a command with examples in its help."""
    return click.command(name, cls=HelpCommand, examples=examples)


def group(synonyms: Mapping[str, str] | None = None) -> Callable[[Callable[..., Any]], HelpGroup]:
    """Return a decorator that makes a group of commands which knows `synonyms`."""
    return click.group(cls=HelpGroup, synonyms=synonyms)


def drop_full_stop(text: str | None) -> str | None:
    """Return help without the full stop of its summary, which a docstring must have."""
    if text is None:
        return None
    summary, line_end, rest = text.strip().partition("\n")
    return f"{summary.removesuffix('.')}{line_end}{rest}"


def read_summary(found: click.Command) -> str:
    """Return the first line of a command's help."""
    return (found.help or "").strip().partition("\n")[0]


def write_options(found: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the options of a command without the global ones, which have one line."""
    own = [param for param in found.params if isinstance(param, click.Option) and not isinstance(param, GlobalOption)]
    records = [record for param in own if (record := param.get_help_record(ctx)) is not None]
    if records:
        with formatter.section("Options"):
            formatter.write_dl(records)
    formatter.write(f"\n{GLOBAL_LINE}\n")


def correct_words(root: click.Context, words: Sequence[str]) -> list[str] | None:
    """Return the words of the right command line, without options but for `-f PATH`; None if there is no right one.

    Args:
        root: The context of `seamark`.
        words: What was typed after `seamark`.

    Returns:
        `--help` is the last word if only the group is known.
    """
    ctx, done, rest = root, list[str](), list(words)
    corrections = 0
    while rest and isinstance(here := ctx.command, HelpGroup):
        name, *after = rest
        if name.startswith("-"):
            if not (named := _read_options(ctx, here, rest)):
                break
            name, *after = named
        if (found := here.get_command(ctx, name)) is not None:
            done, rest = [*done, name], after
            ctx = click.Context(found, info_name=name, parent=ctx)
            continue
        target = here.find_synonym(ctx, name, after)
        corrections += 1
        # Each word of a line may need one correction: `describe consumer-group`, `copy readers`.
        if target is None or corrections > _MOST_CORRECTIONS:
            return [*done, "--help"] if done else None
        if target.startswith("-"):
            return [target]
        ctx, done, rest = root, [], _join_words(target, here.drop_noun(name, after))
    if rest and isinstance(ctx.command, HelpGroup):
        return [*done, "--help"]
    return [*done, *_build_arguments(ctx, _cut_options(rest)), *_keep_file(ctx, rest)]


def _keep_file(ctx: click.Context, words: Sequence[str]) -> list[str]:
    """Return `-f PATH` as it was typed if the command has it: `diff -f PATH` of kubectl is `plan -f PATH`."""
    has = {name for param in ctx.command.params for name in param.opts}
    files = [path for word, path in pairwise(words) if word in ("-f", "--filename") and "-f" in has]
    return ["-f", *files[:1]] if files else []


def _join_words(target: str, after: Sequence[str]) -> list[str]:
    """Return the words of a target and those after it; a target that ends with `/` is one word with the next one."""
    words = target.split()
    if not target.endswith("/"):
        return [*words, *after]
    *words, kind = words
    return [*words, f"{kind}{after[0]}", *after[1:]] if _cut_options(after[:1]) else [*words, *after]


def _build_arguments(ctx: click.Context, words: list[str]) -> list[str]:
    """Return the arguments that were typed, as many as the command takes, and the names of those that are missing."""
    arguments = [param for param in ctx.command.params if isinstance(param, click.Argument)]
    if isinstance(ctx.command, click.Group):
        return []
    taken = words if any(param.nargs == -1 for param in arguments) else words[: len(arguments)]
    return [*taken, *(_format_argument(ctx, param) for param in arguments[len(taken) :] if param.required)]


def _format_argument(ctx: click.Context, param: click.Argument) -> str:
    # The metavar of a choice is the list of its values.
    return str(param.name).upper() if isinstance(param.type, click.Choice) else param.make_metavar(ctx)


def _read_options(ctx: click.Context, found: HelpGroup, words: Sequence[str]) -> list[str]:
    """Return the verb and the name of words such as `--describe --group NAME`; [] if they have no verb."""
    verbs = [verb for word in words if word.startswith("-") and (verb := _read_verb(ctx, found, word))]
    if not verbs:
        return []
    name = _NAME_OPTIONS.get(found.name or "")
    verb = "add-partitions" if verbs[0] == "alter" and _PARTITIONS_OPTION in words else verbs[0]
    return [verb, *[after for word, after in pairwise(words) if word == name][:1]]


def _read_verb(ctx: click.Context, found: HelpGroup, option: str) -> str:
    """Return the verb of an option: kafka-consumer-groups and kafka-topics have --list and --describe; "" if none."""
    name = option.lstrip("-")
    return name if name in VERBS or name in found.synonyms or name in found.list_commands(ctx) else ""


def find_option(ctx: click.Context, name: str) -> str:
    """Return the right option for one that the command doesn't have; "" if there is none."""
    has = {opt for param in ctx.command.params for opt in param.opts}
    fitting = [option for option in OPTIONS.get(name, ()) if option.split()[0] in has or not option.startswith("-")]
    return fitting[0] if fitting else ""


def build_unknown_option(mistake: click.NoSuchOption, argv: Sequence[str]) -> CommandError | None:
    """Build the error for an option that has another name, or that is a command here; None for any other one.

    Args:
        mistake: Click's error.
        argv: What was typed after `seamark`.
    """
    ctx, name = mistake.ctx, mistake.option_name
    if ctx is None:
        return None
    message = f"unknown option {name} of '{ctx.command_path}'"
    if isinstance(ctx.command, HelpGroup) and (words := _find_words(ctx, argv)):
        found = correct_words(ctx.find_root(), words) or ["--help"]
        if found[-1] != "--help":
            return CommandError(message, hint=f"use: seamark {' '.join(found)}", ctx=ctx)
    if right := find_option(ctx, name):
        hint = f"use {right}" if right.startswith("-") else f"use: seamark {right}"
        return CommandError(message, hint=hint, ctx=ctx)
    return None


def _find_words(ctx: click.Context, argv: Sequence[str]) -> list[str]:
    """Return what was typed from the name of the context's group on, without the global options before it."""
    path = _read_path(ctx)
    starts = [start for start in range(len(argv)) if path and list(argv[start : start + len(path)]) == path]
    return list(argv[starts[0] :]) if starts else []


def _read_path(ctx: click.Context) -> list[str]:
    return ctx.command_path.split()[1:]


def _cut_options(words: Sequence[str]) -> list[str]:
    ends = [number for number, word in enumerate(words) if word.startswith("-") and word != "-"]
    return list(words[: min(ends, default=len(words))])
