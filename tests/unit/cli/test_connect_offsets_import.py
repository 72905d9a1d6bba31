"""`connect-offsets --import`: every rule of KIP-199 for it, on a file and on a topic."""

from __future__ import annotations

import json
import stat
from dataclasses import replace

import pytest

from seamark.connect.model import State, Task
from seamark.errors import UnreachableError
from seamark.offsets.codec.java_map import read_java_map, write_java_map
from tests.unit.cli.importing import HELD, FileTool, TopicTool, pair
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG

BEFORE = dict(HELD)
ORDERS_O, ORDERS_P, CUSTOMERS = BEFORE


@pytest.fixture
def file_tool(tmp_path, monkeypatch):
    made = FileTool(tmp_path, monkeypatch)
    yield made
    made.socket.close()


@pytest.fixture(params=["file", "absent", "stopped", "down"])
def tool(request, tmp_path, monkeypatch):
    if request.param == "file":
        return request.getfixturevalue("file_tool")
    return TopicTool(tmp_path, monkeypatch, request.param)


@pytest.fixture
def absent(tmp_path, monkeypatch):
    return TopicTool(tmp_path, monkeypatch, "absent")


# --- pairs


def test_pairs_overwrite_and_all_others_stay_to_the_byte(tool):
    ended = tool.give({"orders": [pair("/o", 11)]})
    assert (ended.code, ended.out) == (0, 'set orders {"filename":"/o"}: {"position":20} -> {"position":11}\n')
    assert tool.held == {**BEFORE, ORDERS_O: b'{"position":11}'}


def test_null_removes(tool):
    ended = tool.give({"orders": [pair("/o", None)]})
    assert (ended.code, ended.out) == (0, 'remove orders {"filename":"/o"}: {"position":20}\n')
    assert tool.held == {**BEFORE, ORDERS_O: None}
    again = tool.give({"orders": [pair("/o", None)]})
    assert (again.code, again.out) == (0, 'keep orders {"filename":"/o"}: no offset\n')
    assert "nothing to do" in again.err


def test_a_pair_that_is_not_there_is_added_for_connectors_old_and_new(tool):
    ended = tool.give({"orders": [pair("/q", 1)], "new": [pair("/n", 2)]})
    assert ended.code == 0
    assert tool.held == {
        **BEFORE,
        b'["orders",{"filename":"/q"}]': b'{"position":1}',
        b'["new",{"filename":"/n"}]': b'{"position":2}',
    }


def test_many_pairs_are_one_import_in_the_order_of_the_file(tool):
    ended = tool.give({"orders": [pair("/p", None), pair("/o", 21)], "customers": [pair("/c", 50)]})
    assert ended.out.splitlines() == [
        'remove orders {"filename":"/p"}: {"position":70}',
        'set orders {"filename":"/o"}: {"position":20} -> {"position":21}',
        'keep customers {"filename":"/c"}: {"position":50}',
    ]
    assert tool.held == {**BEFORE, ORDERS_P: None, ORDERS_O: b'{"position":21}'}


def test_the_position_at_which_a_connector_fails_is_skipped_over(tool):
    """The use that the KIP names: export, one more, import."""
    held = {"orders": [pair("/o", 20), pair("/p", 70)]}
    held["orders"][0]["offset"]["position"] += 1
    assert tool.give(held).code == 0
    assert tool.held == {**BEFORE, ORDERS_O: b'{"position":21}'}


def test_an_export_can_be_imported_and_changes_nothing(file_tool):
    exported = file_tool.run("--export", f"--config={file_tool.config}").out
    ended = file_tool.give(exported)
    assert (ended.code, {line.split()[0] for line in ended.out.splitlines()}) == (0, {"keep"})
    assert file_tool.held == BEFORE


def test_of_the_same_pair_the_last_one_counts(tool):
    """As an export from the beginning has them, the oldest first."""
    ended = tool.give({"orders": [pair("/o", 1), pair("/o", 2), pair("/o", 3)]})
    assert tool.held == {**BEFORE, ORDERS_O: b'{"position":3}'}
    assert "orders: 2 pairs are overwritten by later ones in standard input" in ended.err


@pytest.mark.parametrize("text", ["{}", '{"orders": []}'])
def test_nothing_is_nothing_to_do(tool, text):
    ended = tool.give(text)
    assert (ended.code, ended.out) == (0, "")
    assert tool.held == BEFORE


# --- where from


def test_the_json_comes_from_standard_input_or_a_named_file(tool, tmp_path):
    file = tmp_path / "pairs.json"
    file.write_text(json.dumps({"orders": [pair("/o", 7)]}))
    assert tool.run("--import", f"--config={tool.config}", file).code == 0
    assert tool.held[ORDERS_O] == b'{"position":7}'
    assert tool.give({"orders": [pair("/o", 8)]}, "-").code == 0
    assert tool.held[ORDERS_O] == b'{"position":8}'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value"),
        ("[]", "expected {"),
        ('{"orders": {}}', "orders: expected {"),
        ('{"orders": [{"partition": {"filename": "/o"}}]}', 'a pair has exactly "partition" and "offset"'),
        ('{"orders": [{"partition": {"a": 1}, "offset": {}, "offsets": {}}]}', "exactly"),
        ('{"orders": [{"partition": null, "offset": {}}]}', "a partition must be a map"),
        ('{"orders": [{"partition": {"a": 1}, "offset": 5}]}', "an offset must be a map or null"),
        ('{"orders": [{"partition": {"a": [1]}, "offset": {}}]}', "no list or map as the value of 'a'"),
        ('{"orders": [{"partition": {"a": 1}, "offset": {"b": {}}}]}', "no list or map as the value of 'b'"),
        ('{"orders": [], "orders": []}', "duplicate key 'orders'"),
        ('{"orders": [{"partition": {"a": 1, "a": 2}, "offset": {}}]}', "duplicate key 'a'"),
        ('{"orders": [{"partition": {"a": 1}, "offset": {"b": NaN}}]}', "NaN is not a JSON number"),
        ('{"a": [{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": null}]}', "consumer groups"),
        ('{"kind": "OffsetExport"}', "is an export of seamark"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_may_be_a_mistake_is_one_and_changes_nothing(file_tool, text, why):
    ended = file_tool.give(text)
    assert (ended.code, ended.out) == (64, "")
    assert why in ended.err
    # The parameters are not at fault, so they are not shown.
    assert "--from-beginning" not in ended.err
    assert file_tool.held == BEFORE


def test_a_file_that_is_not_there_is_told(file_tool):
    ended = file_tool.run("--import", f"--config={file_tool.config}", "no.json")
    assert ended.code == 64
    assert "no.json can't be read" in ended.err


# --- dry run


@pytest.mark.parametrize("flag", ["--dry-run", "--dry-run=true"])
def test_a_dry_run_writes_the_actions_and_changes_nothing(tool, tmp_path, flag):
    file = tmp_path / "pairs.json"
    file.write_text(json.dumps({"orders": [pair("/o", 11), pair("/p", None), pair("/q", 3)], "customers": []}))
    # The file stands behind the flag: it is not its value.
    ended = tool.run("--import", f"--config={tool.config}", flag, file)
    assert ended.code == 0
    assert ended.out == (
        'set orders {"filename":"/o"}: {"position":20} -> {"position":11}\n'
        'remove orders {"filename":"/p"}: {"position":70}\n'
        'set orders {"filename":"/q"}: no offset -> {"position":3}\n'
    )
    assert tool.held == BEFORE
    # Not even the journal was made.
    assert not (tmp_path / "journal").exists()
    assert not (tmp_path / "state").exists()


def test_dry_run_false_is_no_dry_run(file_tool):
    assert file_tool.give({"orders": [pair("/o", 1)]}, "--dry-run=false").code == 0
    assert file_tool.held[ORDERS_O] == b'{"position":1}'


def test_a_dry_run_says_the_actions_and_that_it_would_be_refused(absent):
    absent.connect.add("orders", SOURCE_CONFIG)
    ended = absent.give({"orders": [pair("/o", 1)]}, "--dry-run")
    assert (ended.code, ended.out) == (5, 'set orders {"filename":"/o"}: {"position":20} -> {"position":1}\n')
    assert "orders is RUNNING with 1 task" in ended.err


# --- wrong use


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["--import"], "--config is required"),
        (["--import", "--export", "--config=x"], "say what to do: --export or --import"),
        (["--import", "--undo=A", "--config=x"], "say what to do: --export or --import"),
        (["--import", "--config=x", "--connectors=a"], "--connectors and --from-beginning are for --export"),
        (["--import", "--config=x", "--from-beginning"], "--connectors and --from-beginning are for --export"),
        (["--export", "--config=x", "--dry-run"], "--dry-run is for --import and --undo"),
        (["--import", "--config=x", "--dry-run=perhaps"], "Invalid value for '--dry-run'"),
        (["--undo=A", "--config=x", "file"], "a FILE is for --export and --import"),
        (["--import", "--config=x", "a", "b"], "Got unexpected extra argument"),
    ],
)
def test_wrong_use_shows_the_parameters_and_fails(file_tool, argv, why):
    ended = file_tool.run(*argv)
    assert (ended.code, ended.out) == (64, "")
    assert f"error: {why}" in ended.err
    for parameter in ("--export", "--import", "--config", "--dry-run", "--undo", "--resume"):
        assert f"  {parameter}" in ended.err


def test_properties_that_name_no_store_or_no_group_are_told(file_tool):
    for text, why in (
        ("group.id=g\n", "neither offset.storage.topic nor offset.storage.file.filename"),
        ("offset.storage.topic=t\n", "has no group.id"),
    ):
        file_tool.config.write_text(text)
        ended = file_tool.give({"orders": [pair("/o", 1)]})
        assert ended.code == 64
        assert why in ended.err


# --- only where nobody uses them


@pytest.mark.parametrize("state", ["RUNNING", "PAUSED"])
def test_a_connector_that_is_not_stopped_is_refused_and_nothing_is_written_for_others(absent, state):
    absent.connect.add("orders", SOURCE_CONFIG, state=state)
    absent.connect.add("new", SOURCE_CONFIG, state="STOPPED")
    ended = absent.give({"customers": [pair("/c", 1)], "new": [pair("/n", 1)], "orders": [pair("/o", 1)]})
    assert (ended.code, ended.out) == (5, "")
    assert "must be stopped or not exist, or all workers must be down" in ended.err
    assert f"orders is {state} with 1 task" in ended.err
    assert absent.held == BEFORE
    assert absent.connect.writes == 0


@pytest.mark.parametrize(("reads", "code"), [(3, 0), (1000, 5)])
def test_tasks_that_a_worker_still_lists_after_a_stop_are_waited_for(absent, monkeypatch, reads, code):
    absent.connect.add("orders", SOURCE_CONFIG, state="STOPPED")
    read, left = absent.connect.read_connector, [reads]

    def read_late(name):
        found = read(name)
        left[0] -= 1
        if left[0] < 0:
            return found
        return replace(found, status=replace(found.status, tasks=(Task(0, State.RUNNING, "w1:8083"),)))

    monkeypatch.setattr(absent.connect, "read_connector", read_late)
    ended = absent.give({"orders": [pair("/o", 1)]})
    assert ended.code == code, ended.err
    if code:
        assert "orders is STOPPED with 1 task" in ended.err
        assert absent.held == BEFORE
    else:
        assert absent.held == {**BEFORE, ORDERS_O: b'{"position":1}'}


def test_connectors_that_are_not_named_may_run(absent):
    absent.connect.add("customers", SOURCE_CONFIG)
    assert absent.give({"orders": [pair("/o", 1)]}).code == 0
    assert absent.held == {**BEFORE, ORDERS_O: b'{"position":1}'}


def test_stopped_and_absent_ones_go_together(absent):
    absent.connect.add("orders", SOURCE_CONFIG, state="STOPPED")
    ended = absent.give({"customers": [pair("/c", 1)], "orders": [pair("/o", 2)]})
    assert ended.code == 0
    assert absent.held == {**BEFORE, CUSTOMERS: b'{"position":1}', ORDERS_O: b'{"position":2}'}
    assert absent.connect.calls["patch_offsets"] == 1
    assert absent.connect.states == {"orders": "STOPPED"}
    assert absent.undo(absent.change(ended)).code == 0
    assert absent.held == BEFORE


def test_workers_that_can_not_be_asked_are_a_refusal(absent):
    absent.connect.failing = {("read_connectors", ""): UnreachableError("nobody answers at http://w1:8083")}
    ended = absent.give({"orders": [pair("/o", 1)]})
    assert (ended.code, ended.out) == (5, "")
    assert "can't determine whether these connectors are stopped" in ended.err
    assert absent.held == BEFORE


def test_a_connector_that_is_created_meanwhile_is_left_alone(absent):
    answers = iter([(), ("orders",)])
    absent.connect.read_names = lambda: next(answers, ("orders",))
    ended = absent.give({"orders": [pair("/o", 1)]})
    assert ended.code == 5
    assert "orders was created meanwhile; no changes were made" in ended.err
    assert absent.held == BEFORE


def test_a_worker_that_comes_up_meanwhile_is_asked(tmp_path, monkeypatch):
    tool = TopicTool(tmp_path, monkeypatch, "down")
    tool.connect.failing = {}
    tool.connect.add("orders", SOURCE_CONFIG)
    tool.connect.before["read_names", ""] = lambda: None
    seen = iter([(), ()])
    monkeypatch.setattr(
        "seamark.fleet.environment.LiveEnvironment.worker_urls", lambda _, __: next(seen, ("http://w1:8083",))
    )
    ended = tool.give({"orders": [pair("/o", 1)]})
    assert ended.code == 5
    assert tool.held == BEFORE


def test_a_sink_is_refused(absent):
    absent.connect.add("orders", SINK_CONFIG, state="STOPPED")
    ended = absent.give({"orders": [pair("/o", 1)]})
    assert ended.code == 5
    assert "orders is a sink: use seamark offsets import" in ended.err


def test_workers_before_3_6_take_them_only_where_nobody_runs(absent):
    absent.connect.version = "3.5.2"
    assert absent.give({"customers": [pair("/c", 1)]}).code == 0
    absent.connect.add("orders", SOURCE_CONFIG)
    assert absent.give({"orders": [pair("/o", 1)]}).code == 5
    assert absent.held == {**BEFORE, CUSTOMERS: b'{"position":1}'}


def test_a_standalone_worker_that_listens_is_a_refusal(file_tool, monkeypatch):
    # It hangs: nobody waits for it.
    monkeypatch.setattr("seamark.kip199.standalone._ANSWER_SECONDS", 0.01)
    file_tool.socket.listen()
    ended = file_tool.give({"orders": [pair("/o", 1)]})
    assert (ended.code, ended.out) == (5, "")
    assert f"a process listens on 127.0.0.1:{file_tool.port}" in ended.err
    dry = file_tool.give({"orders": [pair("/o", 1)]}, "--dry-run")
    assert (dry.code, dry.out.count("set orders")) == (5, 1)
    assert file_tool.held == BEFORE


# --- which bytes


def test_a_key_that_is_there_keeps_its_spelling(tool):
    key = b'["orders",{"b":1,"a":2}]'
    if isinstance(tool, FileTool):
        tool.file.write_bytes(write_java_map([*HELD, (key, b'{"position":1}')]))
    else:
        tool.scan.put(key, b'{"position":1}')
        tool.connect.configs.pop("orders", None)
    ended = tool.give({"orders": [{"partition": {"a": 2, "b": 1}, "offset": {"position": 9}}]})
    assert ended.code == 0
    assert tool.held == {**BEFORE, key: b'{"position":9}'}


def test_a_new_key_is_spelled_as_in_the_file_and_that_is_said(absent):
    ended = absent.give({"new": [{"partition": {"b": 1, "a": 2}, "offset": {"x": 1}}]})
    assert ended.code == 0
    assert absent.held == {**BEFORE, b'["new",{"b":1,"a":2}]': b'{"x":1}'}
    assert "its fields have the order of your file" in ended.err


def test_records_that_differ_are_refused(absent):
    absent.scan.put(b'["orders",{"a":1,"b":2}]', b'{"x":1}').put(b'["orders",{"b":2,"a":1}]', b'{"x":2}')
    ended = absent.give({"orders": [{"partition": {"a": 1, "b": 2}, "offset": {"x": 3}}]})
    assert ended.code == 5
    assert "can't determine which record of topic offsets the tasks use" in ended.err


def test_a_record_that_strayed_is_overwritten_where_it_lies(absent):
    key = b'["orders",{"filename":"/s"}]'
    home = absent.scan.put(key, b'{"position":1}').log.pop().partition
    absent.scan.put(key, b'{"position":1}', partition=(home + 1) % 5)
    assert absent.give({"orders": [pair("/s", 2)]}).code == 0
    assert [(one.partition, one.value) for one in absent.scan.log if one.key == key][1:] == [
        ((home + 1) % 5, b'{"position":2}')
    ]


# --- the way back


def test_undo_gives_back_what_was_there(tool):
    before = tool.file.read_bytes() if isinstance(tool, FileTool) else None
    ended = tool.give({"orders": [pair("/o", 11), pair("/p", None)], "new": [pair("/n", 2)]})
    assert ended.code == 0
    back = tool.undo(tool.change(ended))
    assert back.code == 0, back.err
    assert {key: value for key, value in tool.held.items() if value is not None} == BEFORE
    if before is not None:
        assert tool.file.read_bytes() == before
    # And forward again.
    assert tool.undo(tool.change(back)).code == 0
    assert tool.held == {
        **BEFORE,
        ORDERS_O: b'{"position":11}',
        ORDERS_P: None,
        b'["new",{"filename":"/n"}]': b'{"position":2}',
    }


def test_a_dry_run_of_an_undo_shows_it_and_changes_nothing(file_tool):
    change = file_tool.change(file_tool.give({"orders": [pair("/o", 11)]}))
    ended = file_tool.undo(change, "--dry-run")
    assert ended.code == 0
    assert f"undoes change {change}" in ended.out
    assert file_tool.held[ORDERS_O] == b'{"position":11}'


def test_undo_is_refused_when_a_worker_has_written_the_file_since(file_tool):
    change = file_tool.change(file_tool.give({"orders": [pair("/o", 11)]}))
    file_tool.file.write_bytes(write_java_map([(ORDERS_O, b'{"position":99}')]))
    ended = file_tool.undo(change)
    assert ended.code == 5
    assert file_tool.held == {ORDERS_O: b'{"position":99}'}


def test_a_change_that_nobody_knows_is_told(file_tool):
    ended = file_tool.undo("01M7FK16RT9M32Q2BWZ7V56090")
    assert ended.code == 1
    assert "the journal has no change" in ended.err


# --- the file


def test_a_file_that_is_not_there_is_made_and_taken_away_again(file_tool):
    file_tool.file.unlink()
    ended = file_tool.give({"orders": [pair("/o", 1)]})
    assert (ended.code, file_tool.held) == (0, {ORDERS_O: b'{"position":1}'})
    assert file_tool.undo(file_tool.change(ended)).code == 0
    assert list(file_tool.file.parent.iterdir()) == []


def test_mode_and_owner_stay_and_a_link_stays_a_link(file_tool):
    real = file_tool.folder / "elsewhere"
    real.mkdir()
    file_tool.file.rename(real / "o")
    file_tool.file.symlink_to(real / "o")
    (real / "o").chmod(0o640)
    before = (real / "o").stat()
    assert file_tool.give({"orders": [pair("/o", 1)]}).code == 0
    after = (real / "o").stat()
    assert file_tool.file.is_symlink()
    assert (stat.S_IMODE(after.st_mode), after.st_uid, after.st_gid) == (0o640, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino
    assert [path.name for path in real.iterdir()] == ["o"]


def test_a_file_that_was_cut_off_is_refused_and_stays(file_tool):
    file_tool.file.write_bytes(file_tool.file.read_bytes()[:-9])
    before = file_tool.file.read_bytes()
    ended = file_tool.give({"orders": [pair("/o", 1)]})
    assert ended.code == 5
    assert "can't be read as the offsets of a standalone worker" in ended.err
    assert file_tool.file.read_bytes() == before


def test_the_capacity_of_the_map_grows_as_java_lets_it(file_tool):
    assert file_tool.give({"orders": [pair(f"/{number}", number) for number in range(40)]}).code == 0
    java_map = read_java_map(file_tool.file.read_bytes())
    assert (len(java_map.entries), java_map.capacity) == (43, 64)
