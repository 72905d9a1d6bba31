"""Commands and their options, as the click tree has them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from seamark.cli.main import root

# Every command takes these; the page of the command line describes them once.
GLOBAL_OPTIONS = frozenset(param.name for param in root.params)
# Set where the type gives no name.
METAVARS = {"text": "TEXT", "integer": "N"}


def list_commands() -> dict[str, click.Command]:
    """Return the commands of the first level by name, in the order of the help."""
    ctx = click.Context(root, info_name="seamark")
    found = {name: root.get_command(ctx, name) for name in root.list_commands(ctx)}
    return {name: command for name, command in found.items() if command is not None and not command.hidden}


def list_leaves(name: str) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield the commands of a group with their full names; the command itself if it isn't a group."""
    yield from _walk(list_commands()[name], click.Context(root, info_name="seamark"), name)


def _walk(
    command: click.Command, parent: click.Context, path: str
) -> Iterator[tuple[str, click.Command, click.Context]]:
    ctx = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent)
    if not isinstance(command, click.Group):
        yield path, command, ctx
        return
    for name in command.list_commands(ctx):
        below = command.get_command(ctx, name)
        if below is not None and not below.hidden:
            yield from _walk(below, ctx, f"{path} {name}")


def build_overview() -> str:
    """Return a table of all commands with their summaries; each links to its page."""
    rows = [
        f"| [`{path}`](commands/{name}.md) | {command.get_short_help_str(limit=200)} |"
        for name in list_commands()
        for path, command, _ in list_leaves(name)
    ]
    return "\n".join(["| command | summary |", "|---|---|", *rows]) + "\n"


def build_commands(name: str) -> str:
    """Return the reference of one command of the first level, with all commands below it."""
    return "\n".join(_build_command(path, command, ctx) for path, command, ctx in list_leaves(name))


def _build_command(path: str, command: click.Command, ctx: click.Context) -> str:
    lines = [f"## `seamark {path}`", "", _format_help(command.help or ""), ""]
    lines += ["```text", " ".join(["seamark", path, *command.collect_usage_pieces(ctx)]), "```", ""]
    if examples := getattr(command, "examples", ()):
        lines += ["Examples:", "", "```sh", *(_format_example(example) for example in examples), "```", ""]
    if rows := [_format_option(param, ctx) for param in command.params if _is_own(param)]:
        lines += ["| option | meaning |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _format_help(text: str) -> str:
    # Click keeps the lines of a paragraph after \b as they are.
    return escape(inspect.cleandoc(text).replace("\b\n", ""))


def _format_example(example: object) -> str:
    return example if isinstance(example, str) else " ".join(str(part) for part in example)  # type: ignore[attr-defined]


def _is_own(param: click.Parameter) -> bool:
    return isinstance(param, click.Option) and not param.hidden and param.name not in GLOBAL_OPTIONS


def _format_option(param: click.Parameter, ctx: click.Context) -> str:
    record = param.get_help_record(ctx) or ("", "")
    names, meaning = record[0].replace("|", "\\|"), escape(record[1])
    return f"| `{names}` | {meaning} |"


def escape(text: str) -> str:
    """Return a text of the help as Markdown: what looks like markup, outside of code spans, is shown as it is."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"([*_<>\[\]|$\\])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)
