"""Global options: where they may stand, and which one wins."""

from __future__ import annotations

from io import StringIO

import click
import pytest

from seamark.cli.main import execute, root
from seamark.cli.options import Number
from seamark.cli.session import Session
from tests.unit.cli.stubs import StubFleet, connector, run_seamark
from tests.unit.fleet.living import SOURCE_CONFIG, LivingConnect, open_living_fleet


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
        "offsets list",
        "connectors show",
        "connectors create",
        "connectors update",
        "connectors pause",
        "connectors resume",
        "connectors stop",
        "connectors restart",
        "connectors heal",
        "connectors rename",
        "connectors delete",
        "connectors validate",
        "plugins list",
        "plugins show",
        "schema",
        "loggers list",
        "loggers set",
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
        "topics add-partitions",
        "topics update",
        "topics health",
        "groups list",
        "groups show",
        "groups export",
        "groups move",
        "groups delete",
        "pipelines plan",
        "pipelines run",
        "pipelines compact",
        "pipelines rebuild",
        "pipelines vacuum",
        "pipelines status",
        "pipelines list",
        "pipelines submit",
        "copies plan",
        "copies run",
        "copies status",
        "copies verify",
        "copies cutover",
        "copies cleanup",
        "copies consumers",
        "lag",
        "init",
        "workers list",
        "workers show",
        "offsets show",
        "offsets export",
        "offsets verify",
        "offsets history",
        "offsets diff",
        "offsets orphans",
        "offsets move",
        "offsets restore",
        "offsets reset",
        "offsets import",
        "offsets copy",
        "offsets relocate",
        "offsets purge",
        "offsets repair",
        "offsets skip",
        "doctor",
        "context add",
        "context use",
        "context rename",
        "context remove",
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


# The only options with a variable. Each other option, `--yes` first of all, is given on the command line or not at all.
VARIABLES = {
    "context": "SEAMARK_CONTEXT",
    "output": "SEAMARK_OUTPUT",
    "no_headers": "SEAMARK_NO_HEADERS",
    "quiet": "SEAMARK_QUIET",
    "verbose": "SEAMARK_VERBOSE",
    "color": "SEAMARK_COLOR",
    "no_input": "SEAMARK_NO_INPUT",
    "confs": "SEAMARK_SPARK_CONF",
}


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_no_other_option_has_a_variable(monkeypatch, path, command):
    opened = []
    monkeypatch.setattr(command, "parse_args", lambda ctx, args: opened.append(ctx) or [])
    monkeypatch.setattr(command, "invoke", lambda ctx: None)
    run_seamark(*path)
    # The context is the one that `seamark` itself builds.
    (context,) = opened
    for param in command.params:
        words = [*path, param.name]
        names = {"_".join(["SEAMARK", *words[first:]]).upper().replace("-", "_") for first in range(len(words))}
        for name in names - set(VARIABLES.values()):
            monkeypatch.setenv(name, "1")
        assert param.resolve_envvar_value(context) is None, param.name
        assert param.envvar == VARIABLES.get(param.name), param.name


def test_consent_by_a_variable_is_no_consent(monkeypatch, tmp_path):
    for name in ("SEAMARK_CONNECTORS_PAUSE_YES", "SEAMARK_PAUSE_YES", "SEAMARK_YES"):
        monkeypatch.setenv(name, "1")
    game = LivingConnect()
    game.add("a", SOURCE_CONFIG)
    error = StringIO()
    session = Session(err=error, open_fleet=lambda _: open_living_fleet(tmp_path, game))
    assert execute(["connectors", "pause", "a", "--no-input"], session=session) == 64
    assert "--yes" in error.getvalue()
    assert game.states["a"] == "RUNNING"


@pytest.mark.parametrize("command", [command for path, command in LEAVES if path != ("completion",)])
def test_every_command_takes_the_global_options(command):
    names = {name for param in command.params for name in param.opts}
    assert {"--context", "--output", "-o", "--no-headers", "-q", "-v", "--color", "--no-input"} <= names


def test_every_whole_number_may_have_commas():
    numbers = [(*path, param.name) for path, command in LEAVES for param in command.params if param.type is click.INT]
    ranges = [
        (*path, param.name)
        for path, command in LEAVES
        for param in command.params
        if isinstance(param.type, click.IntRange) and not getattr(param, "count", False)
    ]
    assert (numbers, ranges) == ([], [])
    found = [param for _, command in LEAVES for param in command.params if isinstance(param.type, Number)]
    assert {max(param.opts, key=len) for param in found} >= {"--limit", "--shift", "--max-lag", "--slice-records"}
    for param in found:
        assert param.type.convert("1,234", param, None) == 1234


@pytest.mark.parametrize("text", ["0", "-1,000", "1,2", "x"])
def test_another_number_is_a_usage_error(text):
    ended = run_seamark("journal", "list", "--limit", text)
    assert ended.code == 64
    assert f"error: invalid value '{text}' for --limit: expected a whole number of at least 1\n" in ended.err


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
