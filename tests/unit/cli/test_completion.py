"""Completion: what is offered, and that a real shell gets it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import click
import pytest

from seamark.cli import complete
from seamark.cli.main import root
from seamark.cli.session import Session
from tests.fakes.connect import FakeConnect
from tests.unit.cli.stubs import run_seamark
from tests.unit.connectors.operating import W1, W2, OperatedConnect
from tests.unit.fleet.living import SOURCE, SOURCE_CONFIG, open_living_fleet

SHELLS = ("bash", "zsh", "fish")
INSTALLED = [shell for shell in SHELLS if shutil.which(shell)]
DEADLINE_SECONDS = 60


@pytest.fixture
def living(tmp_path):
    game = OperatedConnect()
    game.add("log-a", SOURCE_CONFIG)
    game.add("log-b", SOURCE_CONFIG)
    game.add("sink", SOURCE_CONFIG)

    def open_fleet(name=None):
        return open_living_fleet(tmp_path, game, urls=(W1, W2))

    return game, open_fleet


def offer(open_fleet, completer, incomplete, **params):
    context = click.Context(root, obj=Session(open_fleet=open_fleet))
    context.params.update(params)
    return completer(context, None, incomplete)


def test_connectors_are_offered_by_name_and_by_owner(living):
    _, open_fleet = living
    assert offer(open_fleet, complete.complete_connectors, "log") == ["log-a", "log-b"]
    assert offer(open_fleet, complete.complete_connectors, "game/s") == ["game/sink"]


def test_clusters_and_workers_are_offered_without_asking_anybody(living):
    game, open_fleet = living
    assert offer(open_fleet, complete.complete_clusters, "") == ["game"]
    assert offer(open_fleet, complete.complete_workers, "http://w2") == [W2]
    assert not game.calls.total() - game.calls["close"]


def test_plugins_and_loggers_are_offered(living):
    game, open_fleet = living
    game.loggers[W1]["org.apache.kafka"] = "INFO"
    assert offer(open_fleet, complete.complete_plugins, "FileStreamSo") == ["FileStreamSourceConnector"]
    assert offer(open_fleet, complete.complete_plugins, SOURCE[:30]) == [
        "org.apache.kafka.connect.file.FileStreamSinkConnector",
        SOURCE,
    ]
    assert offer(open_fleet, complete.complete_loggers, "org", cluster="game") == ["org.apache.kafka"]


def test_changes_are_offered_and_open_ones_alone_where_only_those_can_be_meant(living):
    _, open_fleet = living
    with open_fleet() as fleet:
        change = fleet.apply(fleet.connectors.pause("log-a")).change
    assert offer(open_fleet, complete.complete_changes, change[:4]) == [change]
    assert offer(open_fleet, complete.complete_open_changes, "") == []


def test_whatever_goes_wrong_nothing_is_offered(living):
    def broken(name=None):
        raise RuntimeError("no context")

    for completer in (complete.complete_connectors, complete.complete_clusters, complete.complete_changes):
        assert offer(broken, completer, "") == []


def test_nobody_waits_for_longer_than_a_second(living, monkeypatch):
    game, open_fleet = living
    monkeypatch.setattr(complete, "_BUDGET_SECONDS", 0.1)
    game.before["read_connectors", ""] = lambda: time.sleep(4.0)
    began_at = time.monotonic()
    assert offer(open_fleet, complete.complete_connectors, "") == []
    assert time.monotonic() - began_at < 3.5


def walk(command, path=()):
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from walk(command.get_command(context, name), (*path, name))


def test_every_cluster_and_every_change_can_be_completed():
    seen = 0
    for path, command in walk(root):
        for param in command.params:
            is_cluster = "--cluster" in param.opts
            is_change = isinstance(param, click.Argument) and param.name == "change"
            if is_cluster or is_change:
                seen += 1
                assert param._custom_shell_complete is not None, (path, param.name)
    assert seen > 10


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_a_script_for_every_shell(shell):
    ended = run_seamark("completion", shell)
    assert ended.code == 0
    assert "_SEAMARK_COMPLETE" in ended.out
    assert f"{shell}_complete" in ended.out


@pytest.mark.parametrize("shell", INSTALLED)
def test_the_shell_itself_can_read_its_script(shell, tmp_path):
    script = tmp_path / "script"
    script.write_text(run_seamark("completion", shell).out)
    command = [shell, "--no-execute" if shell == "fish" else "-n", str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def ask_bash(words, current):
    quoted = " ".join(f"'{word}'" for word in words)
    return f"""
        eval "$(seamark completion bash)"
        COMP_WORDS=({quoted}); COMP_CWORD={current}
        _seamark_completion seamark
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """


def ask_fish(words, current):
    return f"""
        seamark completion fish | source
        complete -C "{" ".join(words)}" | cut -f1
    """


def ask_zsh(words, current):
    # Zsh completes on a terminal only; what its script would ask for is asked here, by zsh.
    quoted = " ".join(f"'{word}'" for word in words)
    return f"""
        words=({quoted}); CURRENT={current + 1}
        response=("${{(@f)$(env COMP_WORDS="${{words[*]}}" COMP_CWORD=$((CURRENT-1)) \\
            _SEAMARK_COMPLETE=zsh_complete seamark)}}")
        for type key descr in ${{response}}; do print -r -- "$key"; done
    """


ASK = {"bash": ask_bash, "fish": ask_fish, "zsh": ask_zsh}


@pytest.fixture
def shell_environment(tmp_path):
    """A `seamark` on the PATH, and a context over a fake cluster."""
    with FakeConnect() as fake:
        for name in ("log-guild", "log-purchase", "sink"):
            fake.add_connector(name)
        config = {
            "current": "dev",
            "contexts": {"dev": {"connect": {"game": {"urls": list(fake.urls)}}}, "prod": {"connect": {}}},
        }
        (tmp_path / "seamark.yaml").write_text(json.dumps(config))
        bin_folder = tmp_path / "bin"
        bin_folder.mkdir()
        program = bin_folder / "seamark"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m seamark.cli "$@"\n')
        program.chmod(0o755)
        yield {
            **{key: value for key, value in os.environ.items() if not key.startswith("SEAMARK_")},
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "SEAMARK_CONFIG": str(tmp_path / "seamark.yaml"),
            "PYTHONPATH": str(Path(__file__).parents[3] / "src"),
        }


@pytest.mark.parametrize("shell", INSTALLED)
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["seamark", "connectors", "pa"], {"pause"}),
        (["seamark", "connectors", "pause", "log-"], {"log-guild", "log-purchase"}),
        (["seamark", "connectors", "list", "--cluster", ""], {"game"}),
        (["seamark", "context", "use", ""], {"dev", "prod"}),
    ],
    ids=["command", "connector", "cluster", "context"],
)
def test_a_real_shell_offers_it(shell, words, offered, shell_environment, tmp_path):
    command = [shell, "-c", textwrap.dedent(ASK[shell](words, len(words) - 1))]
    deadline = time.monotonic() + DEADLINE_SECONDS
    found = None
    # Whoever is late by a second offers nothing, and this machine may be busy.
    while found is None or (not offered <= found and time.monotonic() < deadline):
        ended = subprocess.run(
            command,
            env=shell_environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        found = set(ended.stdout.split())
    assert offered <= found, ended.stderr


def test_bash_is_here():
    assert "bash" in INSTALLED
