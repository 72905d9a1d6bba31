"""Global options: where they may stand, and which one wins."""

from __future__ import annotations

import click
import pytest

from seamark.cli.main import root
from tests.unit.cli.stubs import StubFleet, connector, run_seamark


def walk(command, path=()):
    """Every command with the path to it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from walk(command.get_command(context, name), (*path, name))


LEAVES = [(path, command) for path, command in walk(root) if not isinstance(command, click.Group)]


def test_commands_are_the_ones_of_the_design():
    assert {" ".join(path) for path, _ in LEAVES} == {
        "status",
        "connectors list",
        "connectors show",
        "connectors create",
        "connectors change",
        "connectors pause",
        "connectors resume",
        "connectors stop",
        "connectors restart",
        "connectors heal",
        "connectors rename",
        "connectors delete",
        "connectors plugins",
        "connectors loggers list",
        "connectors loggers set",
        "plan",
        "apply",
        "pull",
        "destroy",
        "journal list",
        "journal show",
        "journal undo",
        "journal resume",
        "journal unlock",
        "journal export",
        "topics list",
        "topics show",
        "topics create",
        "topics delete",
        "topics grow",
        "topics alter",
        "topics health",
        "groups list",
        "groups show",
        "groups move",
        "groups delete",
        "land plan",
        "land run",
        "land compact",
        "land status",
        "land submit",
        "copy plan",
        "copy run",
        "copy status",
        "copy verify",
        "copy cutover",
        "copy finish",
        "copy readers",
        "lag",
        "init",
        "workers list",
        "offsets show",
        "offsets export",
        "offsets verify",
        "offsets history",
        "offsets diff",
        "offsets orphans",
        "offsets move",
        "offsets forget",
        "offsets import",
        "offsets copy",
        "offsets relocate",
        "offsets purge",
        "offsets mend",
        "offsets skip",
        "doctor",
        "context add",
        "context use",
        "context list",
        "context show",
        "context test",
        "spark pack",
        "demo",
        "completion",
    }


@pytest.mark.parametrize(
    "argv", [["--context", "prod", "status"], ["status", "--context", "prod"]], ids=["before", "behind"]
)
def test_context_may_stand_before_and_behind_the_command(argv):
    fleet = StubFleet()
    assert run_seamark(*argv, fleet=fleet).code == 0
    assert fleet.opened == ["prod"]


def test_nearest_flag_wins_over_the_one_before_and_over_the_environment(monkeypatch):
    monkeypatch.setenv("SEAMARK_CONTEXT", "from-environment")
    opened = []
    for argv in (
        ["status"],
        ["--context", "before", "status"],
        ["--context", "before", "status", "--context", "behind"],
    ):
        fleet = StubFleet()
        run_seamark(*argv, fleet=fleet)
        opened += fleet.opened
    assert opened == ["from-environment", "before", "behind"]


@pytest.mark.parametrize(
    ("variable", "value", "shown"),
    [
        ("SEAMARK_OUTPUT", "name", "game/a\n"),
        ("SEAMARK_CONNECTORS_LIST_STATE", "failed", ""),
        ("SEAMARK_NO_HEADERS", "1", "a      game   source   ✓ HEALTHY   1/1   JdbcSourceConnector\n"),
    ],
)
def test_options_are_taken_from_the_environment(monkeypatch, variable, value, shown):
    monkeypatch.setenv(variable, value)
    ended = run_seamark("connectors", "list", fleet=StubFleet(connectors_found=[connector("a")]))
    assert ended.out.split() == shown.split()


def test_wrong_variable_is_a_usage_error(monkeypatch):
    monkeypatch.setenv("SEAMARK_OUTPUT", "xml")
    ended = run_seamark("status")
    assert ended.code == 64
    assert "SEAMARK_OUTPUT" in ended.err or "--output" in ended.err


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_help_shows_the_variable_of_every_option(path, command):
    context = click.Context(root, info_name="seamark", auto_envvar_prefix="SEAMARK")
    for name in path:
        context = click.Context(command, info_name=name, parent=context)
    shown = " ".join(command.get_help(context).split())
    options = [param for param in command.params if isinstance(param, click.Option) and "--help" not in param.opts]
    assert shown.count("[env var: SEAMARK_") == len([param for param in options if not param.hidden])


@pytest.mark.parametrize("command", [command for path, command in LEAVES if path != ("completion",)])
def test_every_command_takes_the_global_options(command):
    names = {name for param in command.params for name in param.opts}
    assert {"--context", "--output", "-o", "--no-headers", "-q", "-v", "--color", "--no-input"} <= names


@pytest.mark.parametrize("setting", [["--color", "always"], ["--color=always"]])
def test_colour_can_be_forced(setting):
    ended = run_seamark("connectors", "list", *setting, fleet=StubFleet(connectors_found=[connector("a")]))
    assert "\x1b[32m✓ HEALTHY\x1b[0m" in ended.out


def test_terminal_is_coloured_and_cut_and_a_pipe_is_not():
    fleet = StubFleet(connectors_found=[connector("a" * 200)])
    on_terminal = run_seamark("connectors", "list", fleet=fleet, terminal=True).out
    in_pipe = run_seamark("connectors", "list", fleet=fleet).out
    assert "\x1b[32m" in on_terminal
    assert "…" in on_terminal
    assert "a" * 200 in in_pipe
    assert "\x1b" not in in_pipe


def test_no_color_is_heard(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    fleet = StubFleet(connectors_found=[connector("a")])
    assert "\x1b" not in run_seamark("connectors", "list", fleet=fleet, terminal=True).out
