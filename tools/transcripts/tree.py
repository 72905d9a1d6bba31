"""The commands of the programs, as Click knows them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import click

from seamark.cli.connect_offsets import connect_offsets
from seamark.cli.main import root

SEAMARK = "seamark"
CONNECT_OFFSETS = "connect-offsets"


@dataclass(frozen=True, slots=True)
class CommandInfo:
    """One command or group. `path` begins with the program."""

    path: tuple[str, ...]
    options: frozenset[str]
    is_group: bool

    @property
    def name(self) -> str:
        """The path as it is typed."""
        return " ".join(self.path)

    @property
    def file(self) -> str:
        """The name of the file that holds its transcripts: the first word after `seamark`, or the program."""
        return self.path[1] if len(self.path) > 1 else self.path[0]


def read_commands() -> tuple[CommandInfo, ...]:
    """Return every group and command of both programs, nested ones after their group."""
    with click.Context(root, info_name=SEAMARK) as top:
        found = tuple(_read_below(root, top, (SEAMARK,)))
    return (*found, CommandInfo((CONNECT_OFFSETS,), _read_options(connect_offsets), is_group=False))


def reset_help_options() -> None:
    """Let every command build its help option anew.

    Click keeps it with the names of the first context that asks (since 8.1.8). A context that wasn't made by `root` has
    `--help` alone, and whoever used one in this process before would be seen in the transcripts.
    """
    found: list[click.Command] = [root, connect_offsets]
    with click.Context(root) as context:
        for command in found:
            command._help_option = None  # noqa: SLF001 - Click has no other way
            if isinstance(command, click.Group):
                below = [command.get_command(context, name) for name in command.list_commands(context)]
                found += [one for one in below if one is not None]


def find_command(commands: tuple[CommandInfo, ...], words: tuple[str, ...]) -> CommandInfo:
    """Return the command of a command line.

    Raises:
        ValueError: the words begin with no command.
    """
    fitting = [one for one in commands if not one.is_group and words[: len(one.path)] == one.path]
    if not fitting:
        raise ValueError(f"no command: {' '.join(words)}")
    return max(fitting, key=lambda one: len(one.path))


def _read_below(command: click.Command, context: click.Context, path: tuple[str, ...]) -> Iterator[CommandInfo]:
    is_group = isinstance(command, click.Group)
    yield CommandInfo(path, _read_options(command), is_group=is_group)
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        if below is not None:
            with click.Context(below, info_name=name, parent=context) as inner:
                yield from _read_below(below, inner, (*path, name))


def _read_options(command: click.Command) -> frozenset[str]:
    return frozenset(word for parameter in command.params for word in parameter.opts)
