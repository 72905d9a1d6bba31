"""Every command of the command tree, in a read-only context and for roles with less than it needs."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import click
import pytest

from seamark.cli.main import cli, execute
from seamark.cli.session import Session
from seamark.context.value import Value
from seamark.fleet.fleet import Fleet
from tests.unit.cli.stubs import NOON
from tests.unit.cli.stubs import Outcome as Ended
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, LivingConnect, open_living_fleet

ALL = ("read", "operate", "change-offsets", "change-config", "delete", "administer")
# How each changing command is called, and what it needs. A command that is neither here nor in READING fails a test.
CHANGING = {
    "connectors create": (["c", "--config", "{create}"], {"change-config"}),
    "connectors change": (["a", "--set", "tasks.max=3"], {"change-config"}),
    "connectors pause": (["a"], {"operate"}),
    "connectors resume": (["p"], {"operate"}),
    "connectors stop": (["a"], {"operate"}),
    "connectors restart": (["f"], {"operate"}),
    "connectors heal": (["f", "--once"], {"operate"}),
    "connectors delete": (["a"], {"delete"}),
    "connectors rename": (["a", "z"], {"change-config", "change-offsets", "delete"}),
    "apply": (["-f", "{spec}"], {"change-config"}),
    "destroy": (["-f", "{present}"], {"delete"}),
}


def list_commands(command=None, path=()):
    command = cli if command is None else command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from list_commands(command.get_command(context, name), (*path, name))
    else:
        yield " ".join(path)


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
            "create": self._write("c.json", SOURCE_CONFIG),
            "spec": self._write("spec.json", {"name": "n", "config": SOURCE_CONFIG}),
            "present": self._write("present.json", {"name": "a", "config": SOURCE_CONFIG}),
        }

    def _write(self, name, content):
        path = self.folder / name
        path.write_text(json.dumps(content))
        return str(path)

    def run(self, command, *more, allow=None, role=None, **changes):
        """Run a command as User:ana, whose one role allows this; without roles where neither is given."""
        arguments, _ = CHANGING[command]
        argv = [*command.split(), *(one.format(**self.files) for one in arguments), "--yes", *more]
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


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.setattr("seamark.change.steps.await_running._lasts", lambda since, now, seconds: since is not None)
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
