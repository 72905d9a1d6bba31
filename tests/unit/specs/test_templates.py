"""Pipelines that rows of `each:` and spec programs declare."""

from __future__ import annotations

import pytest

from seamark.errors import SpecError
from seamark.specs.load import load_spec

EACH = """\
each:
  - pipeline: log-${{ each.table }}
    for: [{table: login}, {table: purchase, topic: x}]
    config:
      kind: land
      from: {topic: "game-${{ each.table }}", start: latest}
      to: {lake: lake, table: "raw/${{ each.table }}"}
      columns: {id: bigint, "${{ each.table }}_at": {type: timestamp, from: value.at}}
      every: 10s
  - name: src-${{ each.table }}
    for: [{table: login}]
    config: {connector.class: C, table.whitelist: "${{ each.table }}"}
pipelines:
  other:
    kind: land
    from: {topic: other}
    to: {lake: lake, table: other}
    columns: {id: bigint}
"""
PROGRAM = """\
from seamark.specs import connector, pipeline

def resources(env):
    for table in ("login", "purchase"):
        yield pipeline(
            f"log-{table}",
            {
                "kind": "land",
                "from": {"topic": f"game-{table}", "schemas": True},
                "to": {"lake": "lake", "table": f"raw/{table}", "mode": "append"},
                "columns": {"id": "bigint", "at": {"type": "timestamp", "from": "value.at"}},
                "limits": {"records": 1000},
            },
        )
    yield connector("src", {"connector.class": "C"})
"""


def load(tmp_path, text, name="lake.yaml"):
    (tmp_path / name).write_text(text)
    return load_spec([tmp_path / name], environ={}, allow_python=True)


def test_each_row_is_a_pipeline_beside_those_of_the_section(tmp_path):
    spec = load(tmp_path, EACH)
    found = {one.name: one for one in spec.find("pipelines")}
    assert list(found) == ["other", "log-login", "log-purchase"]
    login = found["log-login"]
    assert (login.topic, login.table, login.start, login.every) == ("game-login", "raw/login", "latest", 10.0)
    assert [(one.name, one.source) for one in login.columns] == [("id", ""), ("login_at", "value.at")]
    assert (login.place.line, found["log-purchase"].place.line) == (3, 3)
    assert [one.name for one in spec.connectors] == ["src-login"]


@pytest.mark.parametrize(
    ("old", "new", "problem", "line"),
    [
        ("    config:\n      kind: land", "    conf:\n      kind: land", "has no key conf", 4),
        ("for: [{table: login}, {table: purchase, topic: x}]", "lines: []", "has no key lines", 3),
        ("game-${{ each.table }}", "game-${{ each.table2 }}", "each.table2 is not in the row", 6),
        ("every: 10s", "every: soon", "every must be a duration", 9),
        ("kind: land\n      from", "knd: land\n      from", "a pipeline has no key knd", 5),
    ],
)
def test_mistake_is_reported_where_it_is(tmp_path, old, new, problem, line):
    assert old in EACH
    with pytest.raises(SpecError) as caught:
        load(tmp_path, EACH.replace(old, new, 1))
    assert problem in f"{caught.value.message} {caught.value.cause}"
    assert f"lake.yaml:{line}:" in f"{caught.value.message} {caught.value.cause}"


def test_same_name_twice_is_refused(tmp_path):
    with pytest.raises(SpecError, match="log-login"):
        load(tmp_path, EACH.replace("  other:", "  log-login:"))


def test_program_declares_pipelines(tmp_path):
    spec = load(tmp_path, PROGRAM, "lake.py")
    first, second = spec.find("pipelines")
    assert (first.name, second.name, first.schemas, first.records) == ("log-login", "log-purchase", True, 1000)
    assert [(one.name, one.type, one.source) for one in first.columns] == [
        ("id", "bigint", ""),
        ("at", "timestamp", "value.at"),
    ]
    assert first.place.line == 5
    assert [one.name for one in spec.connectors] == ["src"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"kind": "land"', '"kind": "send"', "invalid value 'send' for kind"),
        ('"limits": {"records": 1000}', '"limit": {"records": 1000}', "a pipeline has no key limit"),
        ('"to": {"lake"', '"to": [], "_": {"lake"', "has no key _"),
        ('{"type": "timestamp", "from": "value.at"}', '["timestamp"]', "must be a string"),
        ('"mode": "append"', '"mode": object()', "is a object"),
    ],
)
def test_mistake_of_a_program_is_reported(tmp_path, old, new, problem):
    assert old in PROGRAM
    with pytest.raises(SpecError) as caught:
        load(tmp_path, PROGRAM.replace(old, new), "lake.py")
    assert problem in f"{caught.value.message} {caught.value.cause}"
