"""The examples in the help of each command work: they are run on the fakes, with the names that the fakes have."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from importlib.metadata import distribution

import pytest

from seamark.spark import packing
from tests.unit.cli.test_options import LEAVES
from tools.transcripts.cases import read_cases
from tools.transcripts.player import play

# What the examples name, and what the environments of the transcripts have.
NAMES = {
    "01JCQ8": "{change}",
    "3f9a51c2": "{nonce}",
    "after.json": "before.json",
    "JdbcSource": "FileStreamSource",
    "billing": "g",
    "billing-*": "g*",
    "billing-old": "connect-lake",
    "dev": "prod",
    "game/log-guild": "game/fs",
    "group/audit": "group/g",
    "group/billing": "group/g",
    "lake-*": "lake*",
    "log-*": "f*",
    "log-guild": "fs",
    "log-guild-2": "idle",
    "log-guild.json": "new.json",
    "log-guilds": "renamed",
    "old-guild": "gone",
    "orders": "t",
    "orders-old": "unused",
    "orders:0,1": "t:0",
    "payments": "orders",
    "test-*": "f*",
    "http://worker-1:8083": "http://w1:8083",
    "worker-1:8083": "w1:8083",
}
# The same for one command or group.
OWN_NAMES = {
    "connectors update": {"log-guild.json": "fs.json"},
    "context add": {"dev": "new"},
    "context remove": {"lab": "prod"},
    "groups export": {"payments": "connect-lake"},
    "copies": {"01JCQ8": "{copy}", "12:24": "4:24", "audit": "report", "billing": "report", "plan.json": "{copy}"},
    "copies plan": {"plan.json": "plan.json"},
    "copies run": {"plan.json": "copy.json", "01JCQ8": "copy.json"},
    "offsets diff": {"backup.json": "before.json"},
    "offsets import": {"backup.json": "saved.json"},
    "offsets move": {"log-guild": "X"},
    "offsets skip": {"log-guild": "lake", "orders-3@123": "t-0@2", "orders-dlq": "lake-dlq"},
    "offsets verify": {"backup.json": "saved.json"},
    "pipelines compact": {"payments": "events", "config": "lake"},
    "pipelines list": {"pay*": "or*"},
    "pipelines vacuum": {"payments": "events", "config": "lake"},
    "pipelines rebuild": {"payments": "events", "config": "lake"},
    "pipelines run": {"pay*": "or*"},
    "pipelines submit": {"build": "pack"},
    "topics create": {"orders": "new"},
}
SETUPS = {"seamark init --rotate-key --dry-run": ("seamark init --yes",)}
# Findings are not a failure of the example, nor is a change of which a part was done when its process died.
CODES = {"doctor": "1", "journal unlock": "3", "seamark lag --max-lag 5m": "1", "seamark status --fail-on error": "1"}
# One starts servers, the other reads a file of Kafka's tool, with which tests/integration/groups runs it.
NOT_RUN = {
    "seamark demo --chapter 1 --no-pause",
    "seamark groups move 'billing-*' --from-file offsets.csv",
}
CASES = [case for case in read_cases() if not (case.is_help or case.is_error or case.down)]
EXAMPLES = [
    pytest.param(path, command, example, id=example)
    for path, command in LEAVES
    for example in command.examples
    if example not in NOT_RUN
]


def build_words(path, command, example):
    """Return the words of an example with names that exist, consent, and an end of --watch."""
    names = NAMES | OWN_NAMES.get(path[0], {}) | OWN_NAMES.get(" ".join(path), {})
    line = example.removeprefix('eval "$(').removesuffix(')"').partition(" > ")[0]
    words = [names.get(word, word) for word in shlex.split(line)]
    options = {name for param in command.params for name in param.opts}
    if "--yes" in options and not {"--yes", "--dry-run"} & set(words):
        words.append("--yes")
    if "--watch" in words and "--max-updates" in options:
        words += ["--max-updates", "1"]
    return tuple(words)


@pytest.mark.parametrize(("path", "command", "example"), EXAMPLES)
def test_example_works(path, command, example, monkeypatch):
    # The archive holds seamark alone here: the packages that it needs are 200 MB.
    monkeypatch.setattr(packing, "_find_all", lambda: iter([distribution("seamark")]))
    if path == ("connectors", "heal") and "--watch" in example:
        # It ends with Ctrl-C only.
        example = example.replace("--watch", "--once")
    base = next(case for case in CASES if case.words[: len(path) + 1] == ("seamark", *path))
    setup = tuple(tuple(shlex.split(line)) for line in SETUPS.get(example, ()))
    text = play(replace(base, words=build_words(path, command, example), setup=base.setup + setup))
    assert re.search(r"^exit code: (\d+)$", text, re.MULTILINE)[1] == CODES.get(
        example, CODES.get(" ".join(path), "0")
    ), text


def test_an_example_of_every_command_is_run():
    run = {example.values[0] for example in EXAMPLES}
    assert [" ".join(path) for path, _ in LEAVES if path not in run] == []
