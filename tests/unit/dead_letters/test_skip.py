"""Which record a failed sink can't take, what it is lent, where the record is parked, and what the plan says."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

import seamark.dead_letters.records
from seamark.changes.action import ActionHistory, PastStep
from seamark.changes.outcome import Outcome as StepOutcome
from seamark.changes.plan import Plan
from seamark.changes.step import Intent
from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.connect.model import Connector, ConnectorStatus, State, Task
from seamark.connectors.run_state import SetRunState
from seamark.core.refs import ConnectorType
from seamark.dead_letters.action import FindFailingRecord, ReturnConfig
from seamark.dead_letters.overrides import BATCH, choose_lent, lend_tasks, refuse_own_positions, tells_truth
from seamark.dead_letters.records import matches_topics
from seamark.dead_letters.search import FoundBy, PoisonFinder
from seamark.dead_letters.service import Search
from seamark.dead_letters.steps import OverrideConfig
from seamark.errors import NotFoundError, RefusedError, UnsupportedError, UsageError
from seamark.kafka.model import RecordLocation, WholeRecord
from tests.unit.cli.stubs import NOON, Outcome
from tests.unit.fleet.living import SINK, SINK_CONFIG, register
from tests.unit.offsets.moving import Place as FleetPlace

JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
CONFIG = {**SINK_CONFIG, **JSON, "key.converter": "org.apache.kafka.connect.storage.StringConverter"}
IN_CONVERTER = (
    "c.E: x\n\tat o.a.k.c.runtime.WorkerSinkTask.convertValue(W.java:1)\nCaused by: j.Odd: hunter2 is no JSON"
)
IN_PUT = "c.E: x\n\tat o.a.k.c.runtime.WorkerSinkTask.deliverMessages(W.java:1)\nCaused by: j.Odd: hunter2 is no row"
BAD = b"{hunter2"


class FakeRecords:
    """The logs of a sink in memory, by partition."""

    def __init__(self, name="lake", *, logs=None, positions=None, config=None, parked=False, **_):
        self.logs = logs or {("t", 0): [b"{}", b"{}", BAD, b"{}"]}
        self.positions = positions or dict.fromkeys(self.logs, 0)
        self.config = config or CONFIG
        self.worker = {}
        self.parked = parked

    def read_positions(self):
        return dict(self.positions)

    def read_from(self, spot, start):
        for offset in range(start, len(self.logs[spot])):
            yield self.read(RecordLocation(*spot, offset))

    def read(self, place):
        log = self.logs[place.spot]
        if place.offset >= len(log):
            return None
        return WholeRecord(place, 1_767_225_600_000, b"key", log[place.offset], (("h", b"1"),))

    def find_next(self, positions):
        return {spot: RecordLocation(*spot, at) for spot, at in positions.items() if at < len(self.logs[spot])}

    def is_dead_letter(self, _topic, _place):
        return self.parked


def build(trace=IN_CONVERTER, state=State.FAILED, config=CONFIG, **more):
    status = ConnectorStatus(State.RUNNING, tasks=(Task(0, State.RUNNING), Task(1, state, trace=trace)))
    return Connector("lake", "game", ConnectorType.SINK, config, **{"status": status, **more})


def find(records, **more):
    return PoisonFinder(build(**more), records).find()


class TestFinding:
    def test_first_record_that_can_not_be_decoded_is_the_one(self):
        found = find(FakeRecords())
        assert (found.place, found.found_by) == (RecordLocation("t", 0, 2), FoundBy.DECODING)
        assert (found.failure.stage, found.failure.task) == ("VALUE_CONVERTER", 1)
        assert (found.position, found.size.value) == (0, len(BAD))
        assert "hunter2" not in found.reason

    def test_nothing_before_the_committed_position_is_looked_at(self):
        records = FakeRecords(logs={("t", 0): [BAD, b"{}", BAD]}, positions={("t", 0): 1})
        assert find(records).place == RecordLocation("t", 0, 2)

    def test_of_several_partitions_the_one_that_comes_soonest(self):
        logs = {("t", 0): [b"{}", b"{}", BAD], ("t", 1): [b"{}", BAD], ("t", 2): [b"{}"]}
        assert find(FakeRecords(logs=logs)).place == RecordLocation("t", 1, 1)

    def test_what_failed_in_put_is_not_looked_for_in_bytes(self):
        assert find(FakeRecords(), trace=IN_PUT) is None

    def test_trace_that_names_the_record(self):
        trace = f"{IN_PUT} topic='t', partition=0, offset=3, x"
        found = find(FakeRecords(), trace=trace)
        assert (found.place, found.found_by) == (RecordLocation("t", 0, 3), FoundBy.TRACE)

    @pytest.mark.parametrize(
        "named",
        [
            "topic='t', partition=0, offset=99",
            "topic='t', partition=7, offset=1",
            "topic='u', partition=0, offset=1",
            "topic='t', partition=0, offset=1 or topic='t', partition=0, offset=2",
        ],
    )
    def test_trace_that_names_what_is_not_there_or_two_is_not_believed(self, named):
        assert find(FakeRecords(), trace=f"{IN_PUT} {named}") is None

    def test_record_that_was_delivered_already_is_not_the_one(self):
        records = FakeRecords(positions={("t", 0): 3})
        assert find(records, trace=f"{IN_PUT} topic='t', partition=0, offset=1") is None

    def test_converter_that_is_not_known_here_leaves_it_to_trying(self):
        config = {**CONFIG, "value.converter": "io.confluent.connect.avro.AvroConverter"}
        assert find(FakeRecords(config=config), config=config) is None

    @pytest.mark.parametrize(
        ("connector", "words"),
        [
            (build(state=State.RUNNING), "no task of game/lake has failed"),
            (build(status=None), "no task of game/lake has failed"),
            (build(status=ConnectorStatus(State.PAUSED, tasks=(Task(0, State.FAILED),))), "game/lake is paused"),
            (replace(build(), type=ConnectorType.SOURCE), "game/lake is not a sink"),
        ],
    )
    def test_what_has_nothing_to_skip_is_refused(self, connector, words):
        with pytest.raises(RefusedError, match=words):
            PoisonFinder(connector, FakeRecords())

    def test_place_that_somebody_names_is_looked_at(self):
        finder = PoisonFinder(build(), FakeRecords(positions={("t", 0): 1}))
        assert finder.confirm(RecordLocation("t", 0, 3), FoundBy.OPERATOR).position == 1
        with pytest.raises(NotFoundError, match="does not read u-0"):
            finder.confirm(RecordLocation("u", 0, 3), FoundBy.OPERATOR)
        with pytest.raises(NotFoundError, match="no record at t-0@4"):
            finder.confirm(RecordLocation("t", 0, 4), FoundBy.OPERATOR)
        with pytest.raises(UsageError, match="has already processed t-0@0"):
            finder.confirm(RecordLocation("t", 0, 0), FoundBy.OPERATOR)


class TestLending:
    def test_files_of_one_record_for_sinks_that_write_files(self):
        s3 = build(config={"connector.class": "io.confluent.connect.s3.S3SinkConnector", "flush.size": "1000"})
        assert choose_lent(s3, {}) == {BATCH: "1", "flush.size": "1"}
        assert tells_truth(s3, choose_lent(s3, {}))
        assert not tells_truth(s3, {BATCH: "1"})

    def test_dead_letter_topic_is_taken_away_where_failures_are_not_tolerated(self):
        dead = {"errors.deadletterqueue.topic.name": "dead"}
        assert choose_lent(build(config={**CONFIG, **dead}), {}) == {
            BATCH: "1",
            "errors.deadletterqueue.topic.name": None,
        }
        # Else what is tolerated meanwhile would be gone without a trace.
        assert choose_lent(build(config={**CONFIG, **dead, "errors.tolerance": "all"}), {}) == {BATCH: "1"}

    @pytest.mark.parametrize(
        ("tasks", "partitions", "lent"),
        [("1", 1, None), ("2", 4, "4"), ("4", 4, None), (None, 3, "3"), ("1", 500, "32"), ("40", 500, None)],
    )
    def test_each_partition_has_a_task_of_its_own_while_it_is_searched(self, tasks, partitions, lent):
        sink = build(config={**CONFIG, **({"tasks.max": tasks} if tasks else {})})
        assert lend_tasks(sink, {BATCH: "1"}, partitions=partitions).get("tasks.max") == lent
        assert lend_tasks(sink, {"tasks.max": "7"}, partitions=partitions) == {"tasks.max": "7"}

    @pytest.mark.parametrize(
        "key", ["topics", "name", "consumer.override.group.id", "consumer.override.bootstrap.servers", "db.password"]
    )
    def test_what_makes_another_sink_of_it_is_not_lent(self, key):
        with pytest.raises(RefusedError, match="can't be set temporarily"):
            choose_lent(build(), {key: "x"})

    def test_sink_with_positions_of_its_own_is_refused(self):
        hdfs = build(config={"connector.class": "io.confluent.connect.hdfs.HdfsSinkConnector"})
        with pytest.raises(RefusedError, match="stores its own offsets"):
            refuse_own_positions(hdfs)

    def test_class_that_nobody_knows_is_not_believed(self):
        odd = build(config={**CONFIG, "connector.class": "com.example.Sink"})
        assert not tells_truth(odd, choose_lent(odd, {}))
        search = Search(None, "game/lake", [RecordLocation("t", 0, 2)], False, None)
        with pytest.raises(RefusedError, match="stops at t-0@2; no record was skipped") as caught:
            search.read_poison()
        assert "--at t-0@2" in caught.value.hint
        with pytest.raises(RefusedError, match="was not found"):
            Search(None, "game/lake", [], True, None).read_poison()


def test_topics_of_a_sink_by_name_and_by_pattern():
    assert matches_topics({"topics": "a, b"}, "b")
    assert not matches_topics({"topics": "a,b"}, "c")
    assert matches_topics({"topics.regex": "a.*"}, "abc")
    assert not matches_topics({"topics.regex": "a.*"}, "xabc")
    with pytest.raises(UnsupportedError, match="can't determine the topics of the sink"):
        matches_topics({"topics.regex": "(?<x"}, "a")


class Desk:
    """One failed sink, and command lines."""

    def __init__(self, folder, monkeypatch, *, trace=IN_CONVERTER, config=CONFIG, **records):
        self.place = FleetPlace(folder)
        self.place.game.add("lake", config, failed=[0])
        self.place.brokers.add_topic("t", records=4)
        self.place.brokers.add_group("connect-lake", {})
        built = self.place.game._build

        def with_trace(name):
            found = built(name)
            tasks = tuple(replace(task, trace=trace) for task in found.status.tasks)
            return replace(found, status=replace(found.status, tasks=tasks))

        monkeypatch.setattr(self.place.game, "_build", with_trace)
        monkeypatch.setattr(
            seamark.dead_letters.records, "SinkRecords", lambda name, **_: FakeRecords(config=config, **records)
        )

    def run(self, *argv):
        out, err = io.StringIO(), io.StringIO()
        session = Session(
            out=out, err=err, stdin=io.StringIO(), now=lambda: NOON, open_fleet=lambda name: self.place.fleet
        )
        return Outcome(execute(["offsets", "skip", *argv], session=session), out.getvalue(), err.getvalue())


@pytest.fixture
def build_desk(tmp_path, monkeypatch):
    return lambda **more: Desk(tmp_path, monkeypatch, **more)


def kinds(text):
    return [step["kind"] for step in json.loads(text)["steps"]]


class TestCommand:
    def test_plan_names_the_record_and_not_what_is_in_it(self, build_desk):
        ended = build_desk().run("lake", "--dry-run")
        assert ended.code == 0, ended.err
        lines = [line.strip() for line in ended.out.splitlines()]
        assert "~ connector/game/lake   skips 1 record: task 0 failed with Odd" in lines
        assert 't-0  "next record 0" → "next record 3", at most 2 records delivered first, 1 skipped' in lines
        assert "the record: t-0@2 · 2026-01-01T00:00:00Z · key 3 B · value 8 B · 1 header" in lines
        assert "it will be sent to the dead letter queue lake-dlq (a new topic), with its offset and the error" in lines
        assert "hunter2" not in ended.out + ended.err
        assert "hunter2" not in build_desk().run("lake", "--dry-run", "-o", "json").out

    def test_contents_are_shown_to_whoever_asks(self, build_desk):
        out = build_desk().run("lake", "--dry-run", "--show-value").out
        assert BAD.hex(" ") in out
        assert "the error: hunter2 is no JSON" in out

    def test_steps_deliver_park_and_go_on_and_give_back_in_any_case(self, build_desk):
        out = build_desk().run("lake", "--dry-run", "-o", "json").out
        assert kinds(out) == [
            *(
                "set-run-state",
                "prove-stopped",
                "set-config-temporarily",
                "set-run-state-temporarily",
                "await-failing-record",
            ),
            *("restart-search", "await-failing-record") * 4,
            *(
                "set-run-state-temporarily",
                "set-config-temporarily",
                "prove-stopped",
                "create-dead-letter-topic",
                "send-dead-letter",
                "write-offsets",
                "verify-offsets",
            ),
            *("set-run-state", "await-progress"),
        ]
        plan = json.loads(out)
        always = [step["kind"] for step in plan["steps"] if step["always"]]
        assert always == ["set-run-state-temporarily", "set-config-temporarily", "set-run-state"]
        assert len(plan["locks"]) == 2

    def test_unknown_record_is_searched_for_first(self, build_desk):
        ended = build_desk(trace=IN_PUT).run("lake", "--dry-run")
        assert "Plan for context dev: find the record at which game/lake fails" in ended.out
        assert 'consumer.override.max.poll.records  (not set) → "1", temporary' in ended.out
        assert "park" not in ended.out

    def test_policy_of_the_workers_refuses_the_search(self, build_desk):
        desk = build_desk(trace=IN_PUT)
        desk.place.game.invalid["lake"] = {BATCH: ("the 'None' policy does not allow it",)}
        ended = desk.run("lake", "--dry-run")
        assert ended.code == 5
        assert "can't determine at which record game/lake fails; no changes were made" in ended.err
        assert "connector.client.config.override.policy" in ended.err

    def test_policy_of_the_workers_lets_the_next_record_be_skipped_untried(self, build_desk):
        desk = build_desk(logs={("t", 0): [BAD, b"{}"]})
        desk.place.game.invalid["lake"] = {BATCH: ("no",)}
        ended = desk.run("lake", "--dry-run")
        assert ended.code == 0, ended.err
        assert "the record was not confirmed by processing single records" in ended.out
        assert kinds(desk.run("lake", "--dry-run", "-o", "json").out)[:3] == [
            "set-run-state",
            "prove-stopped",
            "create-dead-letter-topic",
        ]

    def test_policy_of_the_workers_refuses_what_has_records_before_it(self, build_desk):
        desk = build_desk()
        desk.place.game.invalid["lake"] = {BATCH: ("no",)}
        ended = desk.run("lake", "--dry-run")
        assert ended.code == 5
        assert "the records before t-0@2 can't be delivered without it" in ended.err

    @pytest.mark.parametrize(
        ("argv", "code", "words"),
        [
            (["lake", "--at", "nowhere"], 64, "invalid record location 'nowhere'"),
            (["lake", "--at", "t-0@99"], 1, "no record at t-0@99"),
            (["lake", "--temporary-config", "flush.size"], 64, "expected KEY=VALUE"),
            (["lake", "--temporary-config", "topics=u"], 5, "topics can't be set temporarily"),
            (["lake", "--dlq-topic", "t"], 64, "reads t, so it would process the record again"),
            (["nobody"], 1, "nobody"),
        ],
    )
    def test_what_can_not_be_done_ends_with_its_code(self, build_desk, argv, code, words):
        ended = build_desk().run(*argv, "--dry-run")
        assert (ended.code, words in ended.err) == (code, True), ended.err

    def test_own_dead_letter_topic_is_where_it_goes(self, build_desk):
        dead = {"errors.deadletterqueue.topic.name": "dead", "errors.tolerance": "all"}
        desk = build_desk(config={**CONFIG, **dead}, parked=True)
        desk.place.brokers.add_topic("dead")
        assert "it is already in the dead letter queue dead" in desk.run("lake", "--dry-run").out

    def test_old_workers_are_refused(self, build_desk):
        desk = build_desk()
        desk.place.game.version = "3.5.2"
        assert "3.6" in desk.run("lake", "--dry-run").err


class TestUndo:
    def build_past(self, *, returned):
        """What is left of a search: the sink runs again, and its config was returned or not."""
        before, lent = {"config": {"a": "1"}}, {"config": {"a": "1", BATCH: "1"}}
        running, stopped = {"state": "RUNNING"}, {"state": "STOPPED"}
        return ActionHistory(
            (
                PastStep(SetRunState("game", "lake", "STOPPED"), Intent(running, stopped), StepOutcome.DONE),
                PastStep(OverrideConfig("game", "lake", {BATCH: "1"}), Intent(before, lent), StepOutcome.DONE),
                PastStep(OverrideConfig("game", "lake", {BATCH: None}, returns=True), Intent(lent, before), returned),
                PastStep(SetRunState("game", "lake", "RUNNING"), Intent(stopped, running), StepOutcome.DONE),
            )
        )

    def test_config_that_was_not_returned_is_returned(self):
        past = self.build_past(returned=StepOutcome.DID_NOT_HAPPEN)
        back = FindFailingRecord("game", "lake", {BATCH: "1"}).build_undo(past)
        assert back == ReturnConfig("game", "lake", {BATCH: None})
        assert (
            FindFailingRecord("game", "lake", {BATCH: "1"}).build_undo(self.build_past(returned=StepOutcome.DONE))
            is None
        )

    def test_config_is_returned_while_the_sink_is_stopped(self, build_desk):
        place = build_desk(config={**CONFIG, BATCH: "1"}).place
        back = ReturnConfig("game", "lake", {BATCH: None})
        planned = place.fleet._planner.plan("undo", [back])
        assert [step.kind for step in planned.steps] == ["set-run-state", "set-config-temporarily", "set-run-state"]
        assert place.fleet.apply(planned).is_done
        assert BATCH not in place.game.configs["lake"]
        assert place.game.states["lake"] == "RUNNING"
        assert place.fleet._planner.plan("undo", [back]).is_empty

    def test_saved_plan_says_the_same_when_it_is_reviewed(self, build_desk):
        fleet = build_desk().place.fleet
        planned = fleet.skips.plan("lake", fleet.skips.find("lake"))
        saved = planned.plan.to_file()
        assert "hunter2" not in json.dumps(saved)
        reviewed = fleet.review(register(fleet, Plan.from_file(json.loads(json.dumps(saved)))))
        assert (reviewed.plan.steps, reviewed.effects) == (planned.plan.steps, planned.effects)

    def test_saved_plan_can_not_lend_what_the_policy_forbids(self, build_desk):
        fleet = build_desk().place.fleet
        data = fleet.skips.plan("lake", fleet.skips.find("lake")).plan.to_dict()
        data["actions"][0]["lent"]["x.sasl.login.class"] = "com.evil.Login"
        with pytest.raises(RefusedError, match="the policy of context dev doesn't allow connector game/lake"):
            fleet.review(register(fleet, Plan.from_dict(data)))


def test_class_of_the_file_sink_is_known():
    assert tells_truth(build(config={"connector.class": SINK}), {BATCH: "1"})
