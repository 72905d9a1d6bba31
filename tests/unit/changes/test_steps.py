from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from seamark.changes.outcome import SilentProgress
from seamark.changes.preconditions import OutcomeResolver
from seamark.changes.step import CanNotUndo, Intent, Observed, Outcome, StepData, build_step
from seamark.changes.without_journal import FileSpool
from seamark.connectors.labels import LabelConnector
from seamark.connectors.loggers import SetLogger
from seamark.connectors.run_state import AwaitRunning, RestartFailed, RestartTasks, SetRunState
from seamark.connectors.steps import CreateConnector, DeleteConnector, PutConfig
from seamark.copies.cutover.checks import (
    CatchUp,
    CheckPipelineMoved,
    CheckSourceIdle,
    CheckTargetUnwritten,
    FencePipeline,
    PreCopy,
    VerifyCopy,
)
from seamark.copies.cutover.steps import (
    RegisterCopyBack,
    RestoreGroupOffsets,
    ResumeOnRecreatedTopic,
    StartSwitched,
    SwitchConfig,
    SwitchToSource,
    SwitchToTarget,
    TranslateGroupOffsets,
    TranslateGroupOffsetsBack,
)
from seamark.core.offsets import Certainty, Offset, Unit
from seamark.core.secrets import MASK
from seamark.dead_letters.search import AwaitFailingRecord, RestartSearch
from seamark.dead_letters.steps import (
    AwaitProgress,
    CreateDeadLetterTopic,
    Failure,
    OverrideConfig,
    RunTemporarily,
    SendToDeadLetter,
)
from seamark.errors import (
    DeadlineError,
    JournalError,
    NotFoundError,
    RefusedError,
    UnknownOutcomeError,
    UnreachableError,
    UsageError,
)
from seamark.fleet.kinds import STEPS
from seamark.groups.actions import DeleteGroup, MoveGroup
from seamark.kafka.groups import Committed
from seamark.kafka.model import HeldRecord, RecordLocation
from seamark.kip199.steps import VerifyOffsetFile, WriteOffsetFile
from seamark.lifecycle.actions import DeleteIfStopped
from seamark.lifecycle.deletion import DeleteAfterOffsets
from seamark.lifecycle.relocate import CopyOffsetRecords, CreateOffsetsTopic, VerifyCopiedRecords
from seamark.offsets.model import Tolerance, WriteRoute
from seamark.offsets.read.preview import Total
from seamark.offsets.repair.action import RepairRecords, VerifyRepaired
from seamark.offsets.repair.rules import RepairRule
from seamark.offsets.write.guards import CheckProgress, CheckStopped, VerifyOffsets
from seamark.offsets.write.records import CheckUnused, WriteRecords
from seamark.offsets.write.steps import CheckNoOtherOffsets, CheckPreview, CopyOffsets, VerifyCopied, WriteOffsets
from seamark.pipelines.actions import RegisterPipeline
from seamark.pipelines.rebuild import RestoreTable, SwapTable
from seamark.topics.actions import AlterTopicConfig, CreateTopic, DeleteNewTopic, DeleteTopic, GrowTopic
from tests.simulation.world import CLUSTER, TIMING
from tests.unit.changes.simulated import CONFIG, NEW, SUBJECT, Stage, new_stage

WROTE = WriteOffsets(
    CLUSTER,
    "orders",
    (Offset({"table": "a"}, {"incrementing": 2**60}), Offset({"table": "b"}, None)),
    WriteRoute.TOPIC,
    (HeldRecord("connect-offsets", 3, b'["orders",{"table":"a"}]', b"{}"), HeldRecord("own", 0, b"\xff", None)),
)
RULES = (RepairRule({"table": "a"}, 3, b'["orders",{"table":"a"}]', said=True), RepairRule({}, 0, b"\xff"))
EXAMPLES = (
    AwaitRunning(CLUSTER, "orders", deadline_seconds=7.0, stable_seconds=2.0),
    CreateConnector(CLUSTER, "orders", NEW, state="PAUSED", secret=("greeting",)),
    PutConfig(CLUSTER, "orders", NEW, keep=("db.password",), secret=("greeting",)),
    DeleteConnector(CLUSTER, "orders", secret=("greeting",)),
    SetRunState(CLUSTER, "orders", "STOPPED"),
    RestartFailed(CLUSTER, "orders"),
    RestartTasks(CLUSTER, "orders", only_failed=False, task=3),
    LabelConnector(CLUSTER, "orders", {"team": "game"}, "logs"),
    SetLogger(CLUSTER, "org.apache", {"http://w1:8083": {"org.apache": "DEBUG"}}, worker="http://w1:8083"),
    CreateTopic("orders", partitions=3, replication_factor=2, configs={"cleanup.policy": "compact"}),
    DeleteNewTopic("orders", partitions=3, configs={"cleanup.policy": "compact"}),
    DeleteTopic("orders"),
    GrowTopic("orders", 6),
    AlterTopicConfig("orders", {"retention.ms": "1000"}, remove=("segment.ms",)),
    MoveGroup("billing", {"orders": {0: Committed(7, "by me", 4), 11: Committed(0)}, "other": {0: None}}),
    DeleteGroup("billing"),
    CheckStopped(CLUSTER, "orders", ("w1:8083",), quiet_seconds=2.0, accepts_zombies=True),
    CheckPreview(CLUSTER, "orders", WROTE.offsets, Total(Unit.ROWS, 7, 0, 1, Certainty.BOUND), Tolerance(0.5, 3)),
    DeleteAfterOffsets(CLUSTER, "orders"),
    DeleteIfStopped(CLUSTER, "orders", ("file",)),
    CheckNoOtherOffsets(CLUSTER, "orders", tuple(one.partition for one in WROTE.offsets)),
    WROTE,
    VerifyOffsets(WROTE),
    CheckProgress(CLUSTER, "orders", WROTE.offsets, WROTE.offsets[:1], 3.0, 1.0),
    CreateOffsetsTopic("own", partitions=5, replication_factor=3, configs={"cleanup.policy": "compact"}),
    CopyOffsetRecords(CLUSTER, "orders", "connect-offsets", "own"),
    VerifyCopiedRecords(CLUSTER, "orders", "connect-offsets", "own"),
    CheckUnused((CLUSTER, "other"), ("orders", "bills"), 3.0, may_be_down=True),
    WriteRecords((CLUSTER, "other"), ("orders", "bills"), WROTE.records, may_be_down=True),
    WriteOffsetFile(CLUSTER, "/var/offsets", b"\x00\xff"),
    VerifyOffsetFile(CLUSTER, "/var/offsets", "0a"),
    CopyOffsets(CLUSTER, "orders", "new-orders"),
    VerifyCopied(CLUSTER, "orders", "new-orders"),
    RepairRecords(CLUSTER, "orders", "own", RULES),
    VerifyRepaired(CLUSTER, "orders", "own", RULES),
    OverrideConfig(CLUSTER, "orders", {"flush.size": "1", "errors.deadletterqueue.topic.name": None}),
    RunTemporarily(CLUSTER, "orders", "STOPPED"),
    AwaitFailingRecord(CLUSTER, "orders", RecordLocation("events", 3, 2**40), idle_seconds=7.0, number=2),
    RestartSearch(CLUSTER, "orders", RecordLocation("events", 3, 2**40)),
    CreateDeadLetterTopic("orders-dlq", partitions=1, configs={"retention.ms": "-1"}),
    SendToDeadLetter(
        CLUSTER, "orders", RecordLocation("events", 3, 2**40), "orders-dlq", Failure("TASK_PUT", "a.Sink", "b.Odd", 2)
    ),
    AwaitProgress(CLUSTER, "orders", RecordLocation("events", 3, 2**40), deadline_seconds=9.0),
)
SWITCH = SwitchConfig(CLUSTER, "orders", {"topics": "orders-6", "transforms": None})
EXAMPLES += (
    PreCopy("c1", "orders", "orders-6"),
    CatchUp("c1", "orders", "orders-6"),
    VerifyCopy("c1", "orders", "orders-6", "full"),
    CheckSourceIdle("c1", "orders", "orders-6", 3.0),
    CheckTargetUnwritten("c1", "orders", "orders-6", {0: 7, 11: 2**40}),
    TranslateGroupOffsets("billing", "c1", "orders", "orders-6", ("billing", "lake"), "earliest", sees_aborted=True),
    TranslateGroupOffsetsBack("billing", "c1-back", "orders-6", "orders"),
    RestoreGroupOffsets("billing", {"orders-6": {0: Committed(7), 1: None}}, "c1", "orders", "orders-6", {0: 9}),
    FencePipeline("pipeline/orders", "orders", 1.5),
    CheckPipelineMoved("c1", "orders", "orders-6", "pipeline/orders", ("pipeline/orders", "billing"), "latest"),
    SWITCH,
    SwitchToTarget(CLUSTER, "orders", SWITCH.values, "c1", "orders", "orders-6"),
    SwitchToSource(CLUSTER, "orders", SWITCH.values, "c1", "orders", "orders-6", {0: 7, 11: 2**40}),
    StartSwitched(CLUSTER, "orders", "RUNNING", (SWITCH,)),
    RegisterCopyBack("c1", "orders", "orders-6"),
    ResumeOnRecreatedTopic(CLUSTER, "orders", "PAUSED", "c1", "orders", "id-1", ("billing",)),
    RegisterPipeline("orders", {"topic": "orders", "columns": [{"name": "id"}]}),
    SwapTable("orders", "lake", "raw", "events", rebuild="r77"),
    RestoreTable("orders", "lake", "raw", "events", generation=77, since=4),
)
KINDS = [step.kind for step in EXAMPLES]


def test_every_kind_has_an_example_here():
    # Tests of actions have kinds of their own.
    assert set(KINDS) == {kind for kind in STEPS if not kind.startswith("test-")}


@pytest.mark.parametrize("step", EXAMPLES, ids=KINDS)
def test_a_step_survives_a_plan_file(step):
    data = step.to_data(lane="a", always=True)

    assert build_step(StepData.from_dict(json.loads(json.dumps(data.to_dict())))) == step
    assert (data.lane, data.always, data.subject) == ("a", True, step.subject)


@pytest.mark.parametrize("step", EXAMPLES, ids=KINDS)
def test_a_step_says_what_it_does_to_what(step):
    assert step.subject in step.describe()


def test_an_unknown_kind_is_refused():
    with pytest.raises(UsageError, match="unknown step 'explode'"):
        build_step(StepData("explode", SUBJECT))


class TestSecrets:
    def intend(self, step, config=None):
        stage = new_stage(config=config) if config else Stage()
        return step.intend(stage.operator().world)

    def test_a_plan_holds_no_literal_secret(self):
        config = NEW | {"db.password": "hunter2-1", "api.key": "${file:/a:b}", "token": "secret://env/TOKEN"}
        for step in (CreateConnector(CLUSTER, "orders", config), PutConfig(CLUSTER, "orders", config)):
            held = step.to_data().arguments["config"]

            assert held == config | {"db.password": MASK}

    def test_a_step_without_its_secrets_is_refused_before_it_looks(self):
        hidden = NEW | {"db.password": MASK}
        for step in (CreateConnector(CLUSTER, "orders", hidden), PutConfig(CLUSTER, "orders", hidden)):
            with pytest.raises(RefusedError, match="doesn't contain the secrets") as caught:
                self.intend(step, CONFIG)
            assert "db.password" in caught.value.cause

    def test_a_secret_behind_a_reference_is_sealed_whatever_its_key_is_called(self):
        config = NEW | {"greeting": "secret://env/GREETING"}
        for step in (CreateConnector(CLUSTER, "orders", config), PutConfig(CLUSTER, "orders", config)):
            intent = self.intend(step, CONFIG | {"greeting": "hunter2-old"})

            assert "hunter2" not in json.dumps(intent.to_dict())
            assert intent.after["config"]["greeting"] == {"sealed": "seal:GNITEERG-2retnuh"}

    def test_the_way_back_seals_the_same_keys(self):
        stage = new_stage(config=CONFIG | {"greeting": "hunter2-GREETING"})
        step = PutConfig(CLUSTER, "orders", NEW | {"greeting": "secret://env/GREETING"})
        world = stage.operator().world
        intent = step.intend(world)

        back = step.undo(intent)

        assert isinstance(back, PutConfig)
        assert back.keep == ("greeting",)
        assert "hunter2" not in json.dumps(back.intend(world).to_dict())

    def test_references_of_connect_are_no_secrets(self):
        config = NEW | {"db.password": "${file:/etc/db:password}"}

        assert self.intend(PutConfig(CLUSTER, "orders", config), CONFIG).after == {"config": config}


class TestKeep:
    STEP = PutConfig(CLUSTER, "orders", NEW, keep=("db.password",))

    def test_a_kept_value_is_what_connect_holds(self):
        stage = new_stage(config=CONFIG | {"db.password": "hunter2-0"})
        world = stage.operator().world
        intent = self.STEP.intend(world)
        assert intent.after["config"]["db.password"] == intent.before["config"]["db.password"]
        stage.ledger.sent = lambda *_args, **_more: None

        self.STEP.perform(world, intent)

        assert stage.config() == NEW | {"db.password": "hunter2-0"}

    def test_a_kept_value_that_is_gone_is_refused(self):
        with pytest.raises(RefusedError, match="any more, and the plan doesn't contain the value"):
            self.STEP.intend(new_stage().operator().world)

    def test_a_kept_value_that_changed_a_moment_ago_is_refused(self):
        stage = new_stage(config=CONFIG | {"db.password": "hunter2-0"})
        world = stage.operator().world
        intent = self.STEP.intend(world)
        stage.cluster.put("orders", CONFIG | {"db.password": "hunter2-9"})
        stage.timeline.advance(5)

        with pytest.raises(RefusedError, match="has just changed"):
            self.STEP.perform(world, intent)

    def test_a_read_that_took_too_long_sends_nothing(self):
        stage = new_stage(config=CONFIG | {"db.password": "hunter2-0"})
        world = stage.operator().world
        intent = self.STEP.intend(world)
        read = stage.cluster.show_config
        stage.cluster.show_config = lambda name: (stage.timeline.advance(6), read(name))[1]

        with pytest.raises(DeadlineError, match="took too long"):
            self.STEP.perform(world, intent)

        assert stage.config()["version"] == "0"


class TestWhatIsSeen:
    def test_stopped_is_not_stopped_while_tasks_are_up(self):
        stage = new_stage()
        stage.cluster.longest_lag = 0.0
        world = stage.operator().world
        step = SetRunState(CLUSTER, "orders", "STOPPED")
        intent = step.intend(world)
        assert step.observe(world, intent) is Observed.BEFORE
        stage.cluster.set_target("orders", "STOPPED")

        assert step.observe(world, intent) is Observed.BETWEEN
        stage.timeline.advance(4)
        assert step.observe(world, intent) is Observed.AFTER

    def test_what_nobody_can_tell_is_not_guessed(self):
        stage = new_stage("PAUSED")
        world = stage.operator().world
        step = SetRunState(CLUSTER, "orders", "RUNNING")
        intent = step.intend(world)
        stage.cluster.rebalance_until = stage.timeline.now + 5

        assert step.observe(world, intent) is Observed.BETWEEN
        for look in (step, DeleteConnector(CLUSTER, "orders")):
            with pytest.raises(UnreachableError, match="can't determine"):
                look.intend(world)

    def test_a_state_that_is_neither_is_foreign_and_so_is_none(self):
        stage = new_stage()
        world = stage.operator().world
        step = SetRunState(CLUSTER, "orders", "STOPPED")
        intent = step.intend(world)
        stage.cluster.set_target("orders", "PAUSED")
        stage.timeline.advance(5)
        assert step.observe(world, intent) is Observed.FOREIGN
        stage.cluster.delete("orders")
        stage.timeline.advance(5)
        assert step.observe(world, intent) is Observed.FOREIGN

    def test_a_new_connector_is_there_when_its_status_is(self):
        stage = Stage()
        world = stage.operator().world
        step = CreateConnector(CLUSTER, "orders", CONFIG)
        intent = step.intend(world)
        assert step.observe(world, intent) is Observed.BEFORE
        stage.cluster.longest_lag = 0.0
        stage.cluster.slow_seconds = 3.0
        stage.cluster.create("orders", CONFIG, target="RUNNING")

        assert step.observe(world, intent) is Observed.BETWEEN
        stage.timeline.advance(4)
        assert step.observe(world, intent) is Observed.AFTER

    def test_a_deleted_connector_is_gone_when_its_status_is(self):
        stage = new_stage()
        world = stage.operator().world
        step = DeleteConnector(CLUSTER, "orders")
        intent = step.intend(world)
        stage.cluster._later = lambda queue, slow=0.0: stage.timeline.now + 3
        stage.cluster.delete("orders")
        stage.cluster._show("orders").configs[0] = (stage.timeline.now, None)

        assert step.observe(world, intent) is Observed.BETWEEN
        stage.timeline.advance(4)
        assert step.observe(world, intent) is Observed.AFTER

    def test_failed_tasks_are_before_some_of_them_between_none_after(self):
        stage = new_stage()
        step = RestartFailed(CLUSTER, "orders")
        world = stage.operator().world
        stage.cluster.add("orders", CONFIG, target="RUNNING", failed=frozenset({0, 1}))
        intent = step.intend(world)
        assert intent.before == {"failed": ["task 0", "task 1"]}
        assert step.observe(world, intent) is Observed.BEFORE
        stage.cluster.add("orders", CONFIG, target="RUNNING", failed=frozenset({1}))
        assert step.observe(world, intent) is Observed.BETWEEN
        stage.cluster.add("orders", CONFIG, target="RUNNING")
        assert step.observe(world, intent) is Observed.AFTER
        assert step.undo(intent) is None

    def test_restarting_what_is_not_there_is_refused(self):
        with pytest.raises(NotFoundError):
            RestartFailed(CLUSTER, "orders").intend(Stage().operator().world)


def test_what_a_step_never_did_has_no_way_back():
    nothing = Intent(before=None, after={"config": NEW})

    assert PutConfig(CLUSTER, "orders", NEW).undo(nothing) is None
    assert SetRunState(CLUSTER, "orders", "PAUSED").undo(Intent(None, {"state": "PAUSED"})) is None
    assert DeleteConnector(CLUSTER, "orders").undo(Intent(None, None)) is None


def test_a_lost_secret_is_the_reason_why_there_is_no_way_back():
    sealed = {"config": {"db.password": {"sealed": "x"}}}

    back = DeleteConnector(CLUSTER, "orders").undo(Intent(sealed, None, {"state": "RUNNING"}))

    assert isinstance(back, CanNotUndo)
    assert "db.password" in back.because


class Scripted:
    """A step that is seen as a script says; the last word stays."""

    kind, aspect, drifts, lands_late, repeats, settle_seconds = "scripted", "state", False, True, False, 10.0
    subject = "a thing"

    def __init__(self, *seen: Observed | Exception) -> None:
        self._seen = list(seen)

    def describe(self):
        return "do it"

    def observe(self, world, intent):
        seen = self._seen.pop(0) if len(self._seen) > 1 else self._seen[0]
        if isinstance(seen, Exception):
            raise seen
        return seen


class TestSettling:
    LOST = UnknownOutcomeError("lost")

    def settle(self, *seen, unknown=None, unsure=False):
        stage = Stage()
        self.began_at = stage.timeline.now
        settler = OutcomeResolver(stage.operator().world, timing=TIMING, progress=SilentProgress())
        quiet_at = stage.timeline.now + TIMING.in_flight_seconds
        step = seen[0] if isinstance(seen[0], Scripted) else Scripted(*seen)
        outcome, error = settler.settle(step, Intent("a", "b"), unknown=unknown, quiet_at=quiet_at, unsure=unsure)
        self.seconds = stage.timeline.now - self.began_at
        return outcome, error

    def test_after_is_done(self):
        assert self.settle(Observed.BEFORE, Observed.BETWEEN, Observed.AFTER)[0] is Outcome.DONE
        assert self.seconds == 2 * TIMING.look_seconds

    def test_an_answered_act_that_never_shows_is_unknown(self):
        outcome, error = self.settle(Observed.BEFORE)

        assert outcome is Outcome.UNKNOWN
        assert isinstance(error, DeadlineError)
        assert self.seconds >= 10

    def test_a_foreign_state_of_a_moment_is_not_believed(self):
        assert self.settle(Observed.FOREIGN, Observed.FOREIGN, Observed.AFTER)[0] is Outcome.DONE

    def test_a_foreign_state_that_lasts_is(self):
        assert self.settle(Observed.FOREIGN)[0] is Outcome.FOREIGN
        assert TIMING.foreign_seconds <= self.seconds < 10

    def test_without_an_answer_a_foreign_state_waits_for_what_may_land(self):
        assert self.settle(Observed.FOREIGN, unknown=self.LOST)[0] is Outcome.FOREIGN
        assert self.seconds >= TIMING.in_flight_seconds

    def test_without_an_answer_as_before_is_believed_at_the_end(self):
        assert self.settle(Observed.BEFORE, unknown=self.LOST) == (Outcome.DID_NOT_HAPPEN, self.LOST)
        assert self.seconds >= TIMING.in_flight_seconds + TIMING.shows_seconds

    def test_who_can_not_look_does_not_know(self):
        trouble = UnreachableError("nobody answers")

        assert self.settle(Observed.BEFORE, trouble, unknown=self.LOST) == (Outcome.UNKNOWN, trouble)

    def test_rebalance_is_waited_out_for_the_time_of_the_step(self):
        end = TIMING.in_flight_seconds + TIMING.shows_seconds
        looks = int((end + 5) / TIMING.look_seconds)
        step = Scripted(*[Observed.BETWEEN] * looks, Observed.BEFORE)
        step.settle_seconds = end + 10
        assert self.settle(step, unknown=self.LOST) == (Outcome.DID_NOT_HAPPEN, self.LOST)
        assert end < self.seconds < end + 10

    @pytest.mark.parametrize(("seen", "repeats"), [(Observed.BETWEEN, True), (UnreachableError("no answer"), False)])
    def test_half_write_and_silence_are_not_waited_out(self, seen, repeats):
        end = TIMING.in_flight_seconds + TIMING.shows_seconds
        step = Scripted(seen)
        step.repeats, step.settle_seconds = repeats, end + 10
        assert self.settle(step, unknown=self.LOST)[0] is Outcome.UNKNOWN
        assert self.seconds <= end + TIMING.look_seconds

    def test_in_between_is_unknown(self):
        assert self.settle(Observed.BETWEEN, unknown=self.LOST)[0] is Outcome.UNKNOWN

    def test_where_the_step_was_unsure_only_an_answer_makes_after_a_fact(self):
        assert self.settle(Observed.AFTER, unsure=True)[0] is Outcome.DONE
        assert self.settle(Observed.AFTER, unsure=True, unknown=self.LOST)[0] is Outcome.UNKNOWN
        assert self.settle(Observed.FOREIGN, unsure=True)[0] is Outcome.UNKNOWN
        # What is seen may be older than the act before this one, so "as before" proves nothing without an answer.
        assert self.settle(Observed.BEFORE, unsure=True, unknown=self.LOST)[0] is Outcome.UNKNOWN
        assert self.settle(Observed.FOREIGN, unsure=True, unknown=self.LOST)[0] is Outcome.UNKNOWN

    @pytest.mark.parametrize(
        ("seen", "outcome"),
        [
            (Observed.AFTER, Outcome.DONE),
            (Observed.BETWEEN, Outcome.UNKNOWN),
            (UnreachableError("nobody answers"), Outcome.UNKNOWN),
            (Observed.BEFORE, Outcome.FOREIGN),
            (Observed.FOREIGN, Outcome.FOREIGN),
        ],
    )
    def test_what_was_done_before_is_foreign_only_where_it_is_seen_to_be(self, seen, outcome):
        stage = Stage()
        settler = OutcomeResolver(stage.operator().world, timing=TIMING, progress=SilentProgress())
        assert settler.check_standing(Scripted(seen), Intent("a", "b"))[0] is outcome

    def test_what_changes_by_itself_is_never_left_unsettled(self):
        for seen in (Observed.BEFORE, Observed.BETWEEN, Observed.FOREIGN):
            step = Scripted(seen)
            step.drifts = True
            assert self.settle(step)[0] is Outcome.DID_NOT_HAPPEN


class TestFileSpool:
    def test_a_record_is_a_file_that_only_its_owner_reads(self, tmp_path):
        place = FileSpool(tmp_path / "spool").write("01J0", 2, {"words": "resume it", "after": {"state": "RUNNING"}})

        path = tmp_path / "spool" / "01J0.2.json"
        assert place == str(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert json.loads(path.read_bytes()) == {
            "format_version": 1,
            "change": "01J0",
            "step": 2,
            "words": "resume it",
            "after": {"state": "RUNNING"},
        }

    def test_an_older_record_is_not_written_over(self, tmp_path):
        spool = FileSpool(tmp_path)

        places = [spool.write("01J0", 2, {"n": n}) for n in range(3)]

        assert len(set(places)) == 3
        assert [json.loads(Path(place).read_bytes())["n"] for place in places] == [0, 1, 2]

    def test_a_place_that_can_not_be_written_is_told(self, tmp_path):
        (tmp_path / "spool").write_text("a file")

        with pytest.raises(JournalError, match="neither the journal nor"):
            FileSpool(tmp_path / "spool").write("01J0", 2, {})
