"""docs/runbooks/journal-topic-lost.md: with nothing open, then in the middle of a change, on a stack of its own."""

from __future__ import annotations

import json

import pytest

from seamark.devstack import StackSpec, start_stack
from seamark.devstack.process import wait_until
from tests.fault.runbook_stage import PATIENCE_SECONDS, RunbookStage
from tests.integration.runbook import CHANGE_ID, Runbook

PAGE = "journal-topic-lost.md"
JOURNAL, HEADS = "seamark-journal", "seamark-journal-heads"
NAMES = ("log-purchase", "lake")
# The connector is stopped, and nothing is written yet.
MIDWAY = "after-outcome:0:kill"
KILLED = -9
pytestmark = [pytest.mark.recovery, pytest.mark.timeout(1200)]


@pytest.fixture
def stage(tmp_path):
    with start_stack(StackSpec(brokers=1, workers=1), name="journal-lost") as stack:
        stage = RunbookStage(stack, tmp_path)
        stage.run("init", "--yes")
        yield stage
        stage.close()


def read_configs(stage):
    return {name: stage.clients["game"].read_config(name) for name in NAMES}


def lose(stage, topic):
    """The topic is deleted, and the broker tells so: a little later than it takes the request."""
    stage.delete_topic(topic)
    wait_until(lambda: topic not in stage.list_topics(), f"{topic} was gone", seconds=PATIENCE_SECONDS)


def find_open(stage):
    (head,) = json.loads(stage.run("journal", "list", "--state", "open", "-o", "json"))["items"]
    return head["change"]


def lose_with_nothing_open(stage, book):
    """The first half of the page: old changes are gone, everything else is as it was."""
    said = stage.run("connectors", "update", "lake", "--set", "errors.log.enable=true", "--yes")
    old = CHANGE_ID.search(said)[1]
    stage.run("journal", "export", old, "--out", "old.jsonl")
    stage.await_running("lake")
    before = read_configs(stage)
    lose(stage, JOURNAL)
    book.run("journal list", code=1)
    book.run("connectors pause lake", code=1)
    book.run("journal list --state open")
    book.run("init")
    book.run("journal list")
    book.run("offsets diff")
    book.run("journal undo", code=1, **{"01M7GC9ZAD5NDECA0QZ6HWMFBT": old})
    assert read_configs(stage) == before
    for name in NAMES:
        stage.await_running(name)
    # What the export still tells: the config as it was before.
    assert "errors.log.enable" in (stage.folder / "old.jsonl").read_text()


def lose_within_a_change(stage, book):
    """The second half: a move was killed when its connector was stopped, then its entries were lost."""
    before = read_configs(stage)
    stage.run("offsets", "move", "log-purchase", "--to", "0", "--yes", failpoint=MIDWAY, code=KILLED)
    lose(stage, JOURNAL)
    names = {"01M7GCHPVRVW5CJJ17RPRTAKEY": find_open(stage)}
    book.run("journal list --state open", **names)
    book.run("init")
    book.run("journal resume", code=5, **names)
    assert "is locked by change" in stage.run("connectors", "resume", "log-purchase", "--yes", code=5)
    lose(stage, HEADS)
    book.run("init")
    book.run("journal list --state open")
    book.run("connectors list")
    book.run("offsets diff")
    book.run("connectors resume")
    assert read_configs(stage) == before


def test_changes_are_possible_again_and_the_fleet_is_as_it_was(stage):
    stage.write_rows(10)
    stage.create("log-purchase", stage.build_source())
    stage.create("lake", stage.build_sink())
    stage.await_delivered()
    stage.await_stored("log-purchase", 10)
    stage.await_committed("lake", 10)
    stage.run("offsets", "export", "--all", "--out", "nightly.json")

    book = Runbook(PAGE, names={"3 replicas": "1 replica"}, environ=stage.environ, folder=stage.folder)
    lose_with_nothing_open(stage, book)
    lose_within_a_change(stage, book)
    paused = book.run("connectors pause")
    book.run("journal undo", CHANGE=paused.change)
    book.finish()

    stage.await_running("log-purchase")
    stage.await_running("lake")
    stage.write_rows(5)
    stage.await_delivered()
    rows = stage.read_rows()
    assert len(rows) == 15
    assert stage.count_topic() == dict.fromkeys(rows, 1)
    assert stage.count_sink() == dict.fromkeys(rows, 1)
