"""`offsets:` of a connector in a spec file: where a new connector starts."""

from __future__ import annotations

import json

import pytest

from seamark.changes import executor
from seamark.core.offsets import Offset
from seamark.errors import RefusedError, SeamarkError
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG
from tests.unit.offsets.moving import Place
from tests.unit.offsets.test_older_workers import open_place  # noqa: F401 - a fixture

AT_SEVEN = [{"partition": {"filename": "/in"}, "offset": {"position": 7}}]
IN_TOPIC = [{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 5}}]

# --- files


def test_values_are_those_of_json_and_templates_fill_them(folder):
    folder.write(
        "a.yaml",
        """\
each:
  - name: ${{ each.name }}
    config: {connector.class: A}
    offsets:
      - partition: {server: "${{ each.name }}", table: t, id: 0}
        offset:
          lsn: ${{ each.lsn }}
          text: "12"
          big: -9223372036854775808
          snapshot: false
          gone: null
          part: 1.5e3
      - {partition: {server: b}, offset: {}}
    for: [{name: one, lsn: 12}]
""",
    )
    (found,) = folder.load().connectors
    values = {"lsn": 12, "text": "12", "big": -(2**63), "snapshot": False, "gone": None, "part": 1500.0}
    assert found.offsets == (
        Offset({"server": "one", "table": "t", "id": 0}, values),
        Offset({"server": "b"}, {}),
    )


@pytest.mark.parametrize(
    ("offsets", "cause"),
    [
        ("[]", "offsets must be a list with an entry"),
        ("{}", "offsets must be a list with an entry"),
        ("x", "offsets must be a list with an entry"),
        ("[{partition: {a: 1}}]", "this entry has no offset"),
        ("[{partition: {a: 1}, offset: null}]", "offset must be a map"),
        ("[{partition: {a: 1}, offset: {b: [1]}}]", "b must be a string, a number, a boolean or null"),
        ("[{partition: {a: 1}, offset: {b: 9223372036854775808}}]", "b is larger than Connect's largest integer"),
        ("[{partition: {a: 1}, offset: {}, more: 1}]", "an entry of offsets has no key more"),
        ("[{partition: {a: 1}, offset: {}}, {partition: {a: 1}, offset: {}}]", "another entry has the same partition"),
    ],
)
def test_other_lists_are_refused_with_their_place(folder, offsets, cause):
    folder.write("a.yaml", f"connectors:\n  - {{name: a, config: {{connector.class: A}}, offsets: {offsets}}}\n")
    said = folder.fail().cause
    assert said.startswith("a.yaml:2:")
    assert cause in said


# --- plans


def do_at(monkeypatch, point, act):
    """Have `act` called once, when the executor reaches a point such as before-intent:5."""
    name, _, number = point.partition(":")
    left = [point]

    def reach(reached, step=0):
        if left and (reached, step) == (name, int(number)):
            left.clear()
            act()

    monkeypatch.setattr(executor, "reach", reach)
    return left


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    made.brokers.add_topic("t", partitions=2, records=10, starts={0: 2})
    with made.fleet:
        yield made


def declare(tmp_path, *connectors):
    (tmp_path / "spec").mkdir(exist_ok=True)
    path = tmp_path / "spec" / "all.yaml"
    path.write_text(json.dumps({"connectors": list(connectors)}))
    return path


def source(name="new", **more):
    return {"name": name, "config": {**SOURCE_CONFIG, "file": "/in"}, "offsets": AT_SEVEN, **more}


def test_a_new_source_starts_at_its_offsets_and_an_undo_removes_both(place, tmp_path):
    path = declare(tmp_path, source(), {"name": "other", "config": SOURCE_CONFIG})
    planned = place.fleet.plan(path)
    kinds = [step.kind for step in planned.plan.steps if step.subject == "connector/game/new"]
    assert kinds == [
        "create-connector",
        "prove-stopped",
        "write-offsets",
        "verify-offsets",
        "delete-if-stopped",
        "set-run-state",
        "await-running",
        "check-progress",
    ]
    assert "create, STOPPED, write 1 offset, then RUNNING" in str(planned)
    assert "starts at file /in: byte 7" in str(planned)
    result = place.apply(planned)
    assert (place.held("new"), place.game.states["new"]) == ([{"position": 7}], "RUNNING")
    # Both belong to the spec, and there is nothing left to do.
    assert sorted(place.fleet.plan(path).plan.spec["owned"]) == ["game/new", "game/other"]
    assert place.fleet.plan(path).is_empty
    place.apply(place.fleet.undo(result.change))
    assert place.game.configs.keys() & {"new", "other"} == set()


def test_an_existing_connector_keeps_its_offsets(place, tmp_path):
    place.game.add("new", SOURCE_CONFIG)
    place.scan.put(("new", {"filename": "/in"}), {"position": 100})
    planned = place.fleet.plan(declare(tmp_path, source()))
    assert {step.kind for step in planned.plan.steps} <= {"put-config", "await-running"}
    assert "offset" not in str(planned)


def test_a_new_sink_starts_within_its_log_in_its_state(place, tmp_path):
    sink = {"name": "lake", "config": SINK_CONFIG, "offsets": IN_TOPIC, "state": "stopped"}
    place.brokers.add_group("connect-lake", {})
    place.apply(place.fleet.plan(declare(tmp_path, sink)))
    assert (place.held("lake"), place.game.states["lake"]) == ([{"kafka_offset": 5}], "STOPPED")
    sink = {**sink, "name": "far", "offsets": [{**IN_TOPIC[0], "offset": {"kafka_offset": 99}}]}
    place.brokers.add_group("connect-far", {})
    assert "99 is outside of the log (2 to 10): 10 is used instead" in str(place.fleet.plan(declare(tmp_path, sink)))


def test_offsets_that_its_tasks_could_not_read_are_refused(place, tmp_path):
    wrong = [{"partition": {"filename": "/in"}, "offset": {"position": "x"}}]
    with pytest.raises(RefusedError, match="invalid offsets for game/new"):
        place.fleet.plan(declare(tmp_path, source(offsets=wrong)))


@pytest.mark.parametrize("more", [{}, {"manage_state": True}])
def test_connector_whose_offsets_can_not_be_written_is_deleted_and_planned_again(place, tmp_path, more):
    path = declare(tmp_path, source(**more))
    place.game.failing["patch_offsets", "new"] = RefusedError("Connect said no")
    result = place.fleet.apply(place.fleet.plan(path))
    assert not result.is_done
    # Left stopped, it would be started without its offsets by the next apply.
    assert "new" not in place.game.configs
    assert place.fleet.undo(result.change).is_empty
    place.game.failing.clear()
    place.apply(place.fleet.plan(path))
    assert (place.held("new"), place.game.states["new"]) == ([{"position": 7}], "RUNNING")


def test_connector_that_another_process_created_meanwhile_is_not_deleted(place, tmp_path, monkeypatch):
    planned = place.fleet.plan(declare(tmp_path, source()))
    place.game.failing["patch_offsets", "new"] = RefusedError("Connect said no")
    config = {**SOURCE_CONFIG, "file": "/in"}
    do_at(monkeypatch, "before-intent:0", lambda: place.game.add("new", config, state="STOPPED"))
    result = place.fleet.apply(planned)
    assert not result.is_done
    assert place.game.states["new"] == "STOPPED"


def test_connector_that_another_process_started_meanwhile_is_not_deleted(place, tmp_path, monkeypatch):
    planned = place.fleet.plan(declare(tmp_path, source()))
    place.game.failing["patch_offsets", "new"] = RefusedError("Connect said no")
    do_at(monkeypatch, "after-outcome:2", lambda: place.game.resume("new"))
    result = place.fleet.apply(planned)
    assert not result.is_done
    assert place.game.states["new"] == "RUNNING"
    assert "another process started it" in str([step.error for step in result.steps])


def test_connector_that_was_left_without_its_offsets_is_not_started(place, tmp_path):
    """As after Ctrl-C, or a kill and an unlock, between the create and the write."""
    place.game.add("new", {**SOURCE_CONFIG, "file": "/in"}, state="STOPPED")
    planned = place.fleet.plan(declare(tmp_path, source()))
    assert "game/new is STOPPED without the declared offsets" in " ".join(planned.plan.notes)
    managed = declare(tmp_path, source(manage_state=True))
    with pytest.raises(RefusedError, match="would start without the offsets that the spec declares") as caught:
        place.fleet.plan(managed)
    assert "seamark connectors delete game/new" in caught.value.hint
    # Once it is paused, nothing shows any more that it never ran.
    with pytest.raises(RefusedError, match="would start without the offsets"):
        place.fleet.plan(declare(tmp_path, source(manage_state=True, state="paused")))
    place.game.offsets["new"] = (Offset({"filename": "/in"}, {"position": 12}),)
    assert next(step.kind for step in place.fleet.plan(managed).plan.steps) == "set-run-state"


def test_connector_that_does_not_run_at_its_offsets_is_a_failure_and_stops_the_others(place, tmp_path):
    place.game.find_broken = lambda name: (0,)
    names = ["a", "b", "c"]
    planned = place.fleet.plan(declare(tmp_path, *map(source, names)), wait_seconds=5)
    result = place.fleet.apply(planned, pace=place.fleet.build_pace(canary=1, max_failures=0))
    assert not result.is_done
    assert len(place.game.configs.keys() & set(names)) == 1


@pytest.mark.parametrize("version", ["3.6.2", "3.5.2"])
def test_workers_that_create_none_as_stopped_get_the_offsets_first(open_place, tmp_path, version):  # noqa: F811
    place = open_place(version)
    planned = place.fleet.plan(declare(tmp_path, source()))
    expected = ["prove-stopped", "write-offsets", "verify-offsets", "create-connector", "await-running"]
    assert place.kinds(planned) == expected
    made = place.apply(planned)
    assert place.held("new") == [{"position": 7}]
    place.apply(place.fleet.undo(made))
    assert "new" not in place.game.configs


def test_workers_whose_group_is_unknown_are_refused(open_place, tmp_path):  # noqa: F811
    place = open_place("3.5.2", group_id=None)
    with pytest.raises(SeamarkError, match=r"connect\.game\.group_id is not set"):
        place.fleet.plan(declare(tmp_path, source()))


# --- kills


class Killed(BaseException):
    """The process ends here."""


# Step 4 is the deletion if the offsets can't be written.
STEPS = (0, 1, 2, 3, 5, 6, 7)
POINTS = [
    "after-open:0",
    *(f"{point}:{step}" for step in STEPS for point in ("before-intent", "after-outcome")),
    *(f"{point}:{step}" for step in (0, 2, 5) for point in ("after-intent", "after-perform")),
    "before-close:0",
    "after-close:0",
]


def kill():
    raise Killed


def apply_until(place, tmp_path, monkeypatch, point):
    """Apply the spec until the process is killed at a point; return the ID of the change."""
    left = do_at(monkeypatch, point, kill)
    planned = place.fleet.plan(declare(tmp_path, source()))
    with pytest.raises(Killed):
        place.fleet.apply(planned)
    assert left == []
    (head,) = place.fleet.journal.list()
    return head


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_apply_is_finished_by_resume_and_undone(place, tmp_path, monkeypatch, point):
    name = point.partition(":")[0]
    head = apply_until(place, tmp_path, monkeypatch, point)
    if "new" in place.game.states and not place.held("new"):
        # It never ran without its offsets.
        assert place.game.states["new"] == "STOPPED"
    if name != "after-close":
        assert place.fleet.journal.resume(head.change).is_done
    assert (place.held("new"), place.game.states["new"]) == ([{"position": 7}], "RUNNING")
    place.apply(place.fleet.undo(head.change))
    assert "new" not in place.game.configs
    assert place.fleet.offsets.orphans().items == ()


@pytest.mark.parametrize("point", ["before-intent:5", "after-intent:5"])
def test_resume_verifies_the_offsets_again_before_the_connector_starts(place, tmp_path, monkeypatch, point):
    head = apply_until(place, tmp_path, monkeypatch, point)
    place.scan.put(("new", {"filename": "/in"}), {"position": 0})
    result = place.fleet.journal.resume(head.change)
    assert not result.is_done
    assert place.game.states["new"] == "STOPPED"
