"""Another offsets topic for a source, with all that it holds: in memory."""

from __future__ import annotations

import pytest

from seamark.changes.plan import Plan
from seamark.connectors.config import DesiredConnector
from seamark.core.files import FileLocation as SpecPlace
from seamark.core.offsets import Offset
from seamark.errors import RefusedError, RejectedError, StalePlanError, UnsupportedError
from seamark.kafka.model import HeldRecord
from seamark.lifecycle.relocate import CopyOffsetRecords, VerifyCopiedRecords, build_carried
from seamark.offsets.model import TopicHolding
from seamark.specs.model import Spec
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, register
from tests.unit.offsets.moving import Leaping, Place
from tests.unit.offsets.scans import FakeScan

FILE, ELSE = {"filename": "/in"}, {"filename": "/else"}
OWN = "offsets.storage.topic"


class Killed(BaseException):
    """The process ends here."""


class TopicPlace(Place):
    """Offsets in several topics; what is written as records is in them at once."""

    def __init__(self, folder, monkeypatch, **changes):
        super().__init__(folder, **changes)
        self.scans = {"offsets": self.scan}
        self.fleet._open_scan = lambda config, topic, committed: self.scans.setdefault(topic, FakeScan(topic))
        self.written = []
        self.fails = None
        self.kills_after = None
        monkeypatch.setattr(
            "seamark.offsets.read.connector.ConnectorOffsets.write",
            lambda _, records, into="": self.put(records),
        )

    def put(self, records):
        if self.fails is not None:
            raise self.fails
        self.written.append([record.topic for record in records])
        for number, record in enumerate(records):
            if number == self.kills_after:
                self.kills_after = None
                raise Killed
            self.scans.setdefault(record.topic, FakeScan(record.topic)).put(
                record.key, record.value, partition=record.partition
            )

    def newest(self, topic):
        found = self.scans.setdefault(topic, FakeScan(topic)).read_newest().records
        return {record.key: record.value for record in found if record.value is not None}


@pytest.fixture
def place(tmp_path, monkeypatch):
    made = TopicPlace(tmp_path, monkeypatch, config_topic="configs", status_topic="status")
    made.game.add("fs", SOURCE_CONFIG)
    made.game.add("lake", SINK_CONFIG)
    made.scan.put(("fs", FILE), {"position": 40}).put(("fs", FILE), {"position": 100})
    made.scan.put(("other", ELSE), {"position": 7})
    made.brokers.add_topic("offsets", partitions=5)
    with made.fleet:
        yield made


def kinds(planned):
    return [step.kind for step in planned.plan.steps]


def test_offsets_go_along_to_the_byte_and_the_undo_brings_them_back(place):
    planned = place.fleet.offsets.relocate("fs", "mine")
    assert "+ topic/mine          create, compacted, 5 partitions" in str(planned)
    assert "stops, copies 1 offset to topic mine, resumes: nothing is reprocessed" in str(planned)
    assert set(planned.plan.locks) == {"data.mine", "source.workers/fs"}
    rights = sorted(right.words for right in planned.needs.rights)
    assert rights == ["READ on topic mine", "READ on topic offsets", "WRITE on topic mine"]
    result = place.apply(planned)
    assert place.game.configs["fs"][OWN] == "mine"
    assert place.newest("mine") == {b'["fs",{"filename":"/in"}]': b'{"position":100}'}
    assert place.game.states["fs"] == "RUNNING"
    assert place.brokers.topics["mine"].configs["cleanup.policy"] == "compact"

    place.scans["mine"].put(("fs", FILE), {"position": 300})
    undo = place.fleet.undo(result)
    assert kinds(undo)[:5] == ["set-run-state", "prove-stopped", "relocate-records", "verify-relocated", "put-config"]
    assert [effect.words for effect in undo.effects] == [
        "stops, copies its offsets to topic offsets, resumes: nothing is reprocessed"
    ]
    place.apply(undo)
    assert OWN not in place.game.configs["fs"]
    assert place.newest("offsets")[b'["fs",{"filename":"/in"}]'] == b'{"position":300}'
    assert place.newest("offsets")[b'["other",{"filename":"/else"}]'] == b'{"position":7}'


def test_what_the_source_reads_between_plan_and_stop_goes_along(place):
    planned = place.fleet.offsets.relocate("fs", "mine")
    place.scan.put(("fs", FILE), {"position": 170})
    place.apply(planned)
    assert list(place.newest("mine").values()) == [b'{"position":170}']


def test_a_write_that_fails_leaves_the_source_with_the_topic_it_has(place):
    planned = place.fleet.offsets.relocate("fs", "mine")
    place.fails = RefusedError("the topic is full")
    result = place.fleet.apply(planned)
    assert not result.is_done
    assert OWN not in place.game.configs["fs"]
    assert place.game.states["fs"] == "RUNNING"
    assert place.game.calls["put_config"] == 0


def test_one_that_was_killed_between_two_records_is_carried_again_by_resume(place):
    place.fleet._world._clock = Leaping()
    place.scan.put(("fs", ELSE), {"position": 7})
    planned = place.fleet.offsets.relocate("fs", "mine", wait_seconds=0)
    place.kills_after = 1
    with pytest.raises(Killed):
        place.fleet.apply(planned)
    assert len(place.newest("mine")) == 1
    (head,) = place.fleet.journal.list()
    assert place.fleet.journal.resume(head.change).is_done
    assert place.newest("mine") == {key: value for key, value in place.newest("offsets").items() if b'"fs"' in key}
    assert len(place.newest("mine")) == 2
    assert (place.game.configs["fs"][OWN], place.game.states["fs"]) == ("mine", "RUNNING")
    # That nobody else writes was proven anew, though the topic was made since the first proof.
    entries = place.fleet.journal.show(head.change)
    proofs = [entry for entry in entries if entry.kind == "outcome" and entry.body["step"] == 1]
    assert [step.kind for step in planned.plan.steps][1:4] == [
        "prove-stopped",
        "create-offsets-topic",
        "relocate-records",
    ]
    assert len(proofs) == 2


def test_an_undo_whose_write_fails_leaves_the_source_with_its_own_topic(place):
    result = place.apply(place.fleet.offsets.relocate("fs", "mine"))
    place.scans["mine"].put(("fs", FILE), {"position": 300})
    undo = place.fleet.undo(result)
    place.fails = RefusedError("the topic is full")
    assert not place.fleet.apply(undo).is_done
    assert place.game.configs["fs"][OWN] == "mine"
    assert place.game.states["fs"] == "RUNNING"


def test_the_undo_of_one_whose_config_was_not_changed_carries_nothing_back(place):
    planned = place.fleet.offsets.relocate("fs", "mine")
    place.game.failing["put_config", "fs"] = RejectedError("no")
    result = place.fleet.apply(planned)
    assert not result.is_done
    assert list(place.newest("mine").values()) == [b'{"position":100}']
    place.scan.put(("fs", FILE), {"position": 170})
    assert place.fleet.undo(result).is_empty


def test_the_undo_names_the_topic_of_the_workers_again_where_the_config_did(place):
    place.game.configs["fs"][OWN] = "offsets"
    result = place.apply(place.fleet.offsets.relocate("fs", "mine"))
    place.apply(place.fleet.undo(result))
    assert place.game.configs["fs"][OWN] == "offsets"


def test_a_file_holds_no_step_and_no_lock_and_all_are_derived(place):
    planned = place.fleet.offsets.relocate("fs", "mine")
    file = planned.plan.to_file()
    assert "steps" not in file
    assert "locks" not in file
    reviewed = place.fleet.review(register(place.fleet, Plan.from_file(file)))
    assert reviewed.plan.steps == planned.plan.steps
    assert reviewed.plan.locks == planned.plan.locks
    assert reviewed.effects == planned.effects


def test_a_saved_plan_is_stale_when_the_source_has_got_a_third_topic(place):
    plan = place.fleet.offsets.relocate("fs", "mine").plan
    place.game.configs["fs"][OWN] = "third"
    with pytest.raises(StalePlanError, match="uses another offsets topic now"):
        place.fleet.apply(register(place.fleet, plan))


def test_a_topic_of_former_times_gets_the_newest_and_loses_what_is_gone(place):
    place.brokers.add_topic("mine", partitions=5, configs={"cleanup.policy": "compact"})
    mine = place.scans["mine"] = FakeScan("mine")
    mine.put(("fs", FILE), {"position": 3}).put(("fs", ELSE), {"position": 9})
    planned = place.fleet.offsets.relocate("fs", "mine")
    assert "create-offsets-topic" not in kinds(planned)
    place.apply(planned)
    assert place.newest("mine") == {b'["fs",{"filename":"/in"}]': b'{"position":100}'}


def test_a_stopped_source_stays_stopped_and_its_undo_minds_that_it_runs_by_now(place):
    place.game.states["fs"] = "STOPPED"
    planned = place.fleet.offsets.relocate("fs", "mine")
    assert kinds(planned)[-1] == "put-config"
    result = place.apply(planned)
    assert place.game.states["fs"] == "STOPPED"
    place.game.states["fs"] = "RUNNING"
    undo = place.fleet.undo(result)
    assert kinds(undo) == [
        "set-run-state",
        "prove-stopped",
        "relocate-records",
        "verify-relocated",
        "put-config",
        "set-run-state",
        "check-progress",
    ]
    place.apply(undo)
    assert place.game.states["fs"] == "RUNNING"


def test_a_saved_plan_can_be_applied_and_is_stale_when_the_config_has_moved(place):
    plan = register(place.fleet, Plan.from_dict(place.fleet.offsets.relocate("fs", "mine").plan.to_dict()))
    place.game.configs["fs"]["poll"] = "1"
    with pytest.raises(StalePlanError):
        place.fleet.apply(plan)
    del place.game.configs["fs"]["poll"]
    place.apply(plan)
    assert place.game.configs["fs"][OWN] == "mine"


def test_where_it_is_already_is_no_plan(place):
    assert place.fleet.offsets.relocate("fs", None).is_empty
    assert place.fleet.offsets.relocate("fs", "offsets").is_empty
    place.apply(place.fleet.offsets.relocate("fs", "mine"))
    assert place.fleet.offsets.relocate("fs", "mine").is_empty


@pytest.mark.parametrize(
    ("owner", "topic", "config", "error", "words"),
    [
        ("lake", "mine", {}, UnsupportedError, "can't have an offsets topic of its own"),
        ("group/g", "mine", {}, UnsupportedError, "has no offsets topic"),
        ("fs", "configs", {}, RefusedError, "refusing to write records to topic"),
        ("fs", "seamark-journal", {}, RefusedError, "refusing to write records to topic"),
        ("fs", "expiring", {}, RefusedError, "is not compacted"),
        ("fs", "mine", {"producer.override.bootstrap.servers": "b:2"}, UnsupportedError, "can't be copied"),
        ("fs", "mine", {"producer.override.partitioner.class": "x.Y"}, UnsupportedError, "can't be copied"),
    ],
)
def test_what_can_not_be_is_refused(place, owner, topic, config, error, words):
    place.brokers.add_topic("expiring", partitions=1, configs={"cleanup.policy": "delete"})
    place.game.configs["fs"] |= config
    with pytest.raises(error, match=words):
        place.fleet.offsets.relocate(owner, topic)
    assert place.game.writes == 0


def holding(topic, *records):
    return TopicHolding(topic, tuple(HeldRecord(topic, *record) for record in records), lambda key: len(key) % 5)


def test_a_key_goes_where_it_lies_already_and_a_new_one_home():
    source = holding("a", (0, b"old", b"1"), (1, b"newer", b"2"), (2, b"gone", None))
    target = holding("b", (4, b"old", b"0"), (3, b"old", b"0"), (1, b"stale", b"9"))
    assert build_carried(source, target, subject="x") == (
        HeldRecord("b", 0, b"newer", b"2"),
        HeldRecord("b", 3, b"old", b"1"),
        HeldRecord("b", 4, b"old", b"1"),
        HeldRecord("b", 1, b"stale", None),
    )


def test_a_key_on_two_partitions_that_differ_is_not_guessed():
    source = holding("a", (0, b"k", b"1"), (1, b"k", b"2"))
    with pytest.raises(RefusedError, match="can't determine which record"):
        build_carried(source, holding("b"), subject="x")
    same = holding("a", (0, b"k", b"1"), (1, b"k", b"1"))
    assert build_carried(same, holding("b"), subject="x") == (HeldRecord("b", 1, b"k", b"1"),)


def test_two_spellings_of_a_key_both_go_along():
    source = holding("a", (0, b'["c",{"a":1,"b":2}]', b"1"), (0, b'["c",{"b":2,"a":1}]', b"2"))
    assert [record.value for record in build_carried(source, holding("b"), subject="x")] == [b"1", b"2"]


def test_verify_names_what_differs(place):
    step = VerifyCopiedRecords("game", "fs", "offsets", "mine")
    with pytest.raises(RefusedError, match="topics mine and offsets have different offsets"):
        step.perform(place.fleet._world, None)
    carry = CopyOffsetRecords("game", "fs", "offsets", "mine")
    place.game.states["fs"] = "STOPPED"
    carry.perform(place.fleet._world, carry.intend(place.fleet._world))
    assert step.perform(place.fleet._world, None) == "1 offset"
    place.scans["mine"].put(("fs", FILE), {"position": 1})
    with pytest.raises(RefusedError):
        step.perform(place.fleet._world, None)


def test_nothing_is_carried_while_the_source_runs(place):
    carry = CopyOffsetRecords("game", "fs", "offsets", "mine")
    place.game.states["fs"] = "STOPPED"
    intent = carry.intend(place.fleet._world)
    held = len(place.scans["mine"].read_newest().records)
    # Between the stop and the write, someone resumes it with curl.
    place.game.states["fs"] = "RUNNING"
    with pytest.raises(RefusedError):
        carry.perform(place.fleet._world, intent)
    assert len(place.scans["mine"].read_newest().records) == held


def test_a_source_that_has_read_nothing_is_told_so(place):
    place.game.add("new", {**SOURCE_CONFIG, "file": "/new"})
    planned = place.fleet.offsets.relocate("new", "mine")
    assert "it starts from the beginning, as it would now" in str(planned)
    assert "check-progress" not in kinds(planned)
    place.apply(planned)
    assert [
        Offset(found.partition, found.offset) for found in place.fleet._world.offsets("game", "new").read_all()
    ] == []


@pytest.mark.parametrize(("topic", "way"), [("mine", "--topic mine"), (None, "--worker-topic")])
def test_a_config_with_another_topic_says_that_the_offsets_stay_behind(place, topic, way):
    if topic is None:
        place.game.configs["fs"][OWN] = "mine"
    said = f"To copy its offsets: seamark offsets relocate game/fs {way}"
    planned = place.fleet.connectors.set("fs", {OWN: topic})
    assert any(note.endswith(said) for note in planned.plan.notes)
    config = {key: value for key, value in SOURCE_CONFIG.items() if key != OWN} | ({OWN: topic} if topic else {})
    wanted = DesiredConnector("fs", config, SpecPlace("config/fs.yaml", 3), cluster="game")
    planned = place.fleet.plan(Spec("logs", (wanted,)))
    assert any(note.endswith(said) for note in planned.plan.notes)
    assert not any(OWN in note for note in place.fleet.connectors.set("fs", {"tasks.max": "2"}).plan.notes)
