"""Every command of the command tree, in a read-only context and for roles with less than it needs."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import click
import pytest

from seamark.cli.main import execute, root
from seamark.cli.session import Session
from seamark.context.value import Value
from seamark.fleet.fleet import Fleet
from tests.unit.cli.stubs import NOON
from tests.unit.cli.stubs import Outcome as Ended
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, LivingConnect, open_living_fleet

ALL = ("read", "operate", "change-offsets", "change-config", "delete", "administer")
# How some changing commands are called, and what they need.
CHANGING = {
    "connectors create": (["-f", "{spec}"], {"change-config"}),
    "connectors update": (["a", "--set", "tasks.max=3"], {"change-config"}),
    "connectors pause": (["a"], {"operate"}),
    "connectors resume": (["p"], {"operate"}),
    "connectors stop": (["a"], {"operate"}),
    "connectors restart": (["f"], {"operate"}),
    "connectors delete": (["a"], {"delete"}),
    "connectors rename": (["a", "z"], {"change-config", "change-offsets", "delete"}),
    "apply": (["-f", "{spec}"], {"change-config"}),
    "destroy": (["-f", "{present}"], {"delete"}),
}


def list_commands(command=None, path=()):
    command = root if command is None else command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from list_commands(command.get_command(context, name), (*path, name))
    else:
        yield " ".join(path), command


class Desk:
    """A fleet of one cluster, whose context says who may do what."""

    def __init__(self, folder):
        self.folder = folder
        self.game = LivingConnect()
        self.game.add("a", SOURCE_CONFIG)
        self.game.add("p", SOURCE_CONFIG, state="PAUSED")
        self.game.add("f", SOURCE_CONFIG, failed=(0,))
        self.game.add("s", SINK_CONFIG)
        self.files = {
            "spec": self._write("spec.json", {"name": "n", "config": SOURCE_CONFIG}),
            "present": self._write("present.json", {"name": "a", "config": SOURCE_CONFIG}),
        }

    def _write(self, name, content):
        path = self.folder / name
        path.write_text(json.dumps(content))
        return str(path)

    def run(self, command, *more, **changes):
        """Run one of the changing commands above."""
        arguments, _ = CHANGING[command]
        argv = [*command.split(), *(one.format(**self.files) for one in arguments), "--yes", *more]
        return self.run_line(argv, **changes)

    def run_line(self, argv, *, allow=None, role=None, **changes):
        """Run a command line as User:ana, whose one role allows this; without roles where neither is given."""
        role = {"allow": tuple(allow)} if allow is not None else role
        roles = {} if role is None else {"some": {"principals": ("User:ana",), **role}}

        def open_fleet(name):
            del name
            opened = open_living_fleet(self.folder, self.game)
            context = replace(opened.context, roles=roles, **changes)
            user = {"sasl.username": Value("kafka.sasl.username", "ana")}
            context = replace(context, kafka=replace(context.kafka, values={**context.kafka.values, **user}))
            return Fleet(
                context,
                build_connect=opened._build_connect,
                build_kafka=opened._build_kafka,
                open_journal=opened._open_journal,
                open_scan=opened._open_scan,
            )

        out, err = io.StringIO(), io.StringIO()
        session = Session(out=out, err=err, stdin=io.StringIO(), now=lambda: NOON, open_fleet=open_fleet)
        return Ended(execute(argv, session=session), out.getvalue(), err.getvalue())


# Commands that ask no fleet for anything: they show or edit context files, pack code, or run servers of their own.
CONTEXT = tuple(f"context {verb}" for verb in ("add", "list", "remove", "rename", "show", "use"))
LOCAL = ("completion", *CONTEXT, "demo", "schema", "spark pack")
COMMANDS = {name: command for name, command in list_commands() if name not in LOCAL}


def build_argv(name, command, files):
    """Return a command line with something for every parameter that must be given."""
    argv = name.split()
    for one in command.params:
        if not one.required:
            continue
        value = "1" if isinstance(one.type, click.types.IntParamType) else "x"
        if isinstance(one.type, click.Choice):
            value = str(one.type.choices[0])
        elif isinstance(one.type, click.Path):
            value = files["spec"]
        argv += [value] if isinstance(one, click.Argument) else [one.opts[0], value]
    return argv


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.setattr("seamark.connectors.run_state._lasts", lambda since, now, seconds: since is not None)
    return Desk(tmp_path)


@pytest.mark.parametrize("command", CHANGING)
def test_read_only_context_refuses_every_change(desk, command):
    ended = desk.run(command, read_only=True)
    assert ended.code == 4, ended
    assert "the context is read-only" in ended.err
    assert desk.game.writes == 0


@pytest.mark.parametrize("command", CHANGING)
def test_role_must_allow_all_that_a_change_needs(desk, command):
    needed = CHANGING[command][1]
    for missing in sorted(needed):
        ended = desk.run(command, allow=[one for one in ALL if one != missing])
        assert ended.code == 4, ended
        assert f"{missing} on connector/game/" in ended.err
    assert desk.game.writes == 0
    ended = desk.run(command, allow=["read", *sorted(needed)])
    assert ended.code == 0, ended


@pytest.mark.parametrize("command", CHANGING)
def test_protected_context_needs_the_name(desk, command):
    ended = desk.run(command, protected=True)
    assert ended.code == 64, ended
    assert "--confirm" in ended.err
    assert desk.game.writes == 0


def test_rotation_of_the_journals_key_needs_administer(desk):
    assert desk.run_line(["init", "--yes"]).code == 0
    ended = desk.run_line(["init", "--rotate-key", "--yes"], allow=[one for one in ALL if one != "administer"])
    assert ended.code == 4, ended
    assert "administer" in ended.err
    assert desk.run_line(["init", "--rotate-key", "--yes"], read_only=True).code == 4
    assert desk.run_line(["init", "--rotate-key", "--yes"], allow=["read", "administer"]).code == 0


def test_role_without_read_shows_nothing(desk):
    ended = desk.run("connectors pause", allow=["operate"])
    assert ended.code == 4
    assert "read: no role of User:ana" in ended.err


@pytest.mark.parametrize(
    ("patterns", "code"),
    [
        ({}, 0),
        ({"clusters": ("game",)}, 0),
        ({"clusters": ("lake",)}, 4),
        ({"connectors": ("log-*",)}, 4),
        ({"connectors": ("a*",)}, 0),
    ],
)
def test_role_is_limited_to_its_clusters_and_connectors(desk, patterns, code):
    ended = desk.run("connectors pause", role={"allow": ALL, **patterns})
    assert ended.code == code, ended


def test_protected_context_is_changed_with_the_name(desk):
    assert desk.run("connectors pause", "--confirm", "b", protected=True).code == 130
    assert desk.game.writes == 0
    assert desk.run("connectors pause", "--confirm", "a", protected=True).code == 0


def test_forbidden_change_is_recorded(desk):
    assert desk.run("connectors delete", allow=["read", "operate"]).code == 4
    (head,) = open_living_fleet(desk.folder, desk.game).journal.list()
    assert head.title == "not allowed: delete a"
    assert head.by.startswith("ana@")


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_shows_or_does_anything_for_a_stranger(desk, name):
    """The role is somebody else's. A usage error (64) may come first, because parameters are made up."""
    role = {"allow": ALL, "principals": ("User:ben",)}
    ended = desk.run_line(build_argv(name, COMMANDS[name], desk.files), role=role)
    assert ended.code in (4, 64), ended
    assert ended.out == ""
    assert desk.game.calls == {}


def test_most_commands_get_as_far_as_the_roles(desk):
    role = {"allow": ALL, "principals": ("User:ben",)}
    codes = {
        name: desk.run_line(build_argv(name, command, desk.files), role=role).code for name, command in COMMANDS.items()
    }
    # These look into their files, or at their parameters, before they ask for anything.
    early = {name for name, code in codes.items() if code == 64}
    assert len(early) < len(codes) / 4, early


# Healing waits by the clock, and copies read topics before they ask for anything: their services are tested alone.
SLOW = ("connectors heal", "copies cutover", "copies cleanup", "copies run")


@pytest.mark.parametrize(
    "name",
    [name for name, one in COMMANDS.items() if name not in SLOW and any(p.name == "yes" for p in one.params)],
)
def test_no_changing_command_changes_anything_in_a_read_only_context(desk, name):
    ended = desk.run_line([*build_argv(name, COMMANDS[name], desk.files), "--yes"], read_only=True)
    assert ended.code != 0 or "No changes" in ended.out, ended
    assert desk.game.writes == 0
    # What was tried is recorded, and nothing else.
    heads = open_living_fleet(desk.folder, desk.game).journal.list()
    assert [head.title for head in heads if not head.title.startswith("not allowed: ")] == []
