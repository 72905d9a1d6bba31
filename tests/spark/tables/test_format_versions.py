"""Formats of a lake, in a folder, and of copies in Spark: another version is refused. No server is asked."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pyarrow as pa
import pytest

from seamark.copies.run import spark_copy as copy_job
from seamark.core.strict_json import VERSION_FIELD
from seamark.errors import FormatVersionError
from seamark.tables.delta import maintenance as landings
from seamark.tables.delta.commits import FORMAT
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.maintenance import enter_landing, find_table, open_landing
from seamark.tables.delta.table import LakeTable
from seamark.tables.model import LedgerEntry

SCHEMA = pa.schema([("id", pa.int64())])
ENTRY = LedgerEntry("orders", "t1", 0, next_offset=1)
OWNER = "pipeline/orders"
OTHERS = pytest.mark.parametrize("by", [1, -1, None], ids=["newer", "older", "missing"])


@pytest.fixture
def lake(tmp_path):
    return TableLocation(str(tmp_path))


def open_table(lake):
    return LakeTable(lake.below("orders"), owner=OWNER)


def change_version(stored, known, by):
    rest = {key: value for key, value in stored.items() if key != VERSION_FIELD}
    return rest if by is None else rest | {VERSION_FIELD: known.version + by}


def expect_refusal(known, by):
    found = f"no {known.name} format version" if by is None else f"{known.name} format version {known.version + by}"
    return pytest.raises(FormatVersionError, match=f"found {found}, this seamark reads version {known.version}$")


def spoil_commit(path, by):
    """Change the version in the offsets of a commit."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if info := line.get("commitInfo"):
            body = change_version(json.loads(info["userMetadata"]), FORMAT, by)
            info["userMetadata"] = json.dumps(body)
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")


def list_files(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@OTHERS
def test_delta_commit(lake, tmp_path, by):
    table = open_table(lake)
    table.create(SCHEMA, partition_by=[])
    seen = table.commit([], [ENTRY], seen=table.read_position())
    spoil_commit(tmp_path / "orders" / "_delta_log" / f"{seen.commit:020}.json", by)
    before = list_files(tmp_path)
    for act in (
        lambda one: one.read_position(),
        lambda one: one.read(),
        lambda one: one.enter([ENTRY]),
        lambda one: one.claim([ENTRY]),
        lambda one: one.place([ENTRY]),
        lambda one: one.commit([], [ENTRY], seen=seen),
        lambda one: one.require(seen),
    ):
        with expect_refusal(FORMAT, by):
            act(open_table(lake))
    assert list_files(tmp_path) == before


@OTHERS
def test_pipeline_of_a_lake(lake, tmp_path, by):
    enter_landing(lake, OWNER, table="orders")
    assert find_table(lake, OWNER) == "orders"
    (path,) = tmp_path.rglob("*.json")
    path.write_text(json.dumps(change_version(json.loads(path.read_text()), landings.FORMAT, by)))
    before = list_files(tmp_path)
    for act in (
        lambda: find_table(lake, OWNER),
        lambda: open_landing(lake, OWNER),
        lambda: enter_landing(lake, OWNER, table="orders"),
        lambda: enter_landing(lake, OWNER, table="others"),
    ):
        with expect_refusal(landings.FORMAT, by):
            act()
    assert list_files(tmp_path) == before


def test_control_records_are_refused_before_the_tasks_of_a_copy_are_fenced(monkeypatch):
    def refuse(*_, **__):
        raise FormatVersionError("can't read it")

    options = SimpleNamespace(build_settings=lambda: SimpleNamespace(reader={}), control_topic="c")
    ends = SimpleNamespace(source={}, read_sink_options=lambda topic: options)
    plan = SimpleNamespace(id="01X", target=SimpleNamespace(topic="t"), require_accepted=lambda: None)
    for name in ("build_source_options", "_prepare", "register_sink"):
        monkeypatch.setattr(copy_job, name, lambda *_: "")
    monkeypatch.setattr(copy_job, "_read_ends", lambda *_: {0: 5})
    monkeypatch.setattr(copy_job, "read_known", refuse)
    monkeypatch.setattr(copy_job, "take_over", lambda *_, **__: pytest.fail("a task was fenced"))
    with pytest.raises(FormatVersionError):
        copy_job.run_copy(None, plan, ends)
