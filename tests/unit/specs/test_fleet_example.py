"""examples/fleet: 200 connectors of one template, planned on two contexts with different values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seamark.context import open_context
from tests.unit.cli.test_changes import Desk

EXAMPLE = Path(__file__).parents[3] / "examples" / "fleet"


def plan(folder: Path, context: str) -> tuple[str, dict[str, dict[str, str]]]:
    """Plan the example on fakes, and return the plan's last line and the configs by connector."""
    folder.mkdir()
    desk = Desk(folder)
    opened = open_context(context, environ={"SEAMARK_CONFIG": str(EXAMPLE / "contexts.yaml"), "HOME": str(folder)})
    desk.changes = {"spec_values": opened.spec_values}
    ended = desk.run("plan", "-f", str(EXAMPLE / "config"), "--no-validate", "--out", str(folder / "plan.json"))
    assert ended.code == 0, ended.err
    actions = json.loads((folder / "plan.json").read_text())["actions"]
    assert all(action["cluster"] == "game" for action in actions)
    labels = [action["labels"] for action in actions if action["action"] == "label-connector"]
    assert labels.count({"realm": "kr-1"}) == 40
    return ended.out.splitlines()[-1], {action["name"]: action["config"] for action in actions if "config" in action}


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    return {context: plan(folder / context, context) for context in ("test", "live")}


def test_two_hundred_sources_and_their_sinks_are_planned_on_each_context(planned):
    for last, configs in planned.values():
        assert "202 to create" in last
        sources = [one for one in configs.values() if "Jdbc" in one["connector.class"]]
        assert (len(sources), len({one["topic.prefix"] for one in sources})) == (200, 40)


def test_the_sinks_read_every_topic_of_the_sources_once(planned):
    for _, configs in planned.values():
        written = dict.fromkeys(one["topic.prefix"] for one in configs.values() if "topic.prefix" in one)
        assert configs["lake-logs"]["topics"] == ",".join(written)
        assert configs["lake-logs-and-audit"]["topics"] == ",".join(["audit", *written])


def test_each_context_has_its_own_values(planned):
    test, live = planned["test"][1], planned["live"][1]
    assert test["log_login-kr-1"]["connection.url"] == "jdbc:postgresql://kr-1.db.test.internal/game"
    assert live["log_login-kr-1"]["connection.url"] == "jdbc:postgresql://kr-1.db.live.internal/game"
    assert (test["lake-logs"]["tasks.max"], live["lake-logs"]["tasks.max"]) == ("1", "8")
    assert (test["lake-logs"]["aws.s3.bucket.name"], live["lake-logs"]["aws.s3.bucket.name"]) == (
        "game-test",
        "game-live",
    )
