"""Commands and their options, as the click tree has them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from seamark.cli.main import root

# Every command takes these; the page of the command line describes them once.
GLOBAL_OPTIONS = frozenset(param.name for param in root.params)
RECORDED = Path(__file__).parents[1] / "transcripts" / "recorded"
# Longer output is cut; it shows what the output is, not everything in it.
LONGEST_OUTPUT = 30


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


def find_leaf(path: str) -> tuple[click.Command, click.Context]:
    """Return the command of this full name, such as `offsets show`. Raises KeyError if there is none."""
    found = {name: (command, ctx) for name, command, ctx in list_leaves(path.split(maxsplit=1)[0])}
    return found[path]


def build_overview() -> str:
    """Return a table of all commands with their summaries; each links to its page."""
    rows = [
        f"| [`{path}`]({build_link(path)}) | {command.get_short_help_str(limit=200)} |"
        for name in list_commands()
        for path, command, _ in list_leaves(name)
    ]
    return "\n".join(["| command | summary |", "|---|---|", *rows]) + "\n"


def build_link(path: str) -> str:
    """Return the link from a page of the reference to the section of a command."""
    page, *below = path.split()
    return f"commands/{page}.md" + (f"#{'-'.join([page, *below])}" if below else "")


def build_command(*words: str) -> str:
    """Return what a command's `--help` has: description, usage, examples, and all options but the global ones."""
    path = " ".join(words)
    command, ctx = find_leaf(path)
    lines = [_format_help(command.help or ""), ""]
    lines += ["```text", " ".join(["seamark", path, *command.collect_usage_pieces(ctx)]), "```", ""]
    if examples := getattr(command, "examples", ()):
        lines += ["Examples:", "", "```sh", *(_format_example(example) for example in examples), "```", ""]
    if rows := [_format_option(param, ctx) for param in list_options(command)]:
        lines += ["| option | meaning |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def list_options(command: click.Command) -> list[click.Option]:
    """Return the options of a command that its page lists: all but hidden and global ones."""
    return [
        param
        for param in command.params
        if isinstance(param, click.Option) and not param.hidden and param.name not in GLOBAL_OPTIONS
    ]


def build_output(*words: str) -> str:
    """Return a command line with what it prints, as `tools.transcripts` has recorded it.

    What goes to standard error is omitted if there is a result on standard output.

    Raises:
        KeyError: no such command line is recorded.
    """
    line = " ".join(words)
    for path in sorted(RECORDED.glob("*.txt")):
        for block in re.split(r"^(?=\$ )", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            header, *rest = block.rstrip().split("\n")
            found, _, note = header.partition("  # ")
            if found == f"$ {line}" and "unreachable" not in note:
                _, _, *printed = rest
                printed = printed[: printed.index("--- stderr")] if "--- stderr" in printed else printed
                cut = [*printed[:LONGEST_OUTPUT], "…"] if len(printed) > LONGEST_OUTPUT else printed
                return "\n".join(["```console", f"$ {line}", *cut, "```", ""])
    raise KeyError(line)


def _format_help(text: str) -> str:
    # Click keeps the lines of a paragraph after \b as they are.
    return escape(inspect.cleandoc(text).replace("\b\n", ""))


def _format_example(example: object) -> str:
    return example if isinstance(example, str) else " ".join(str(part) for part in example)  # type: ignore[attr-defined]


def _format_option(param: click.Parameter, ctx: click.Context) -> str:
    record = param.get_help_record(ctx) or ("", "")
    names, meaning = record[0].replace("|", "\\|"), escape(record[1])
    return f"| `{names}` | {meaning} |"


def escape(text: str) -> str:
    """Return a text of the help as Markdown: what looks like markup, outside of code spans, is shown as it is."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"([*_<>\[\]|$\\])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)
