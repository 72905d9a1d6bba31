"""`connectors validate -f` on real workers of two versions."""

from __future__ import annotations

import io
import json

import pytest

from seamark.cli.main import execute
from seamark.cli.session import Session

SPEC = """\
defaults: {connector.class: FileStreamSource, tasks.max: zero}
connectors:
  - name: validate-inherits
    cluster: CLUSTER
    config: {topic: t}
  - name: validate-good
    cluster: CLUSTER
    config: {topic: t, tasks.max: 1}
  - name: validate-missing
    cluster: CLUSTER
    config: {tasks.max: 1}
  - name: validate-transform
    cluster: CLUSTER
    config:
      topic: t
      tasks.max: 1
      transforms: a
      transforms.a.type: no.Such
  - name: validate-class
    cluster: CLUSTER
    config:
      connector.class: com.example.Nope
"""


@pytest.fixture(autouse=True)
def _context(stack, tmp_path, monkeypatch):
    monkeypatch.setenv("SEAMARK_CONFIG", stack.context_file)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_errors_of_real_plugins_have_the_line_of_their_key(stack, tmp_path):
    for cluster in ("connect", "connect-3-5-2"):
        path = tmp_path / f"{cluster}.yaml"
        path.write_text(SPEC.replace("CLUSTER", cluster))
        out, err = io.StringIO(), io.StringIO()
        session = Session(out=out, err=err, stdin=io.StringIO())
        assert execute(["connectors", "validate", "-f", str(path), "-o", "json"], session=session) == 1
        items = {item["name"]: item for item in json.loads(out.getvalue())["items"]}
        found = {
            name: {(problem["key"], problem["line"]) for problem in item["problems"]} for name, item in items.items()
        }
        assert found == {
            "validate-inherits": {("tasks.max", 1)},
            "validate-good": set(),
            "validate-missing": {("topic", 9)},
            "validate-transform": {("transforms.a.type", 18)},
            "validate-class": {("connector.class", 22)},
        }
        (message,) = (problem["message"] for problem in items["validate-class"]["problems"])
        assert "com.example.Nope" in message
        assert "PluginDesc" not in message
