from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.changes.images import build_fingerprint
from seamark.changes.plan import FORMAT_VERSION, Plan, build_tasks
from seamark.changes.preconditions import Expectations, aspect_of, build_preconditions, check_preconditions
from seamark.changes.step import Intent, Outcome, Precondition, StepData
from seamark.connectors.run_state import RestartFailed, SetRunState
from seamark.connectors.steps import CreateConnector, PutConfig
from seamark.errors import FormatVersionError, RefusedError, StalePlanError, UnknownOutcomeError, UsageError
from tests.simulation.world import CLUSTER
from tests.unit.changes.simulated import CONFIG, NEW, SUBJECT, new_stage

TEXT = st.text(max_size=8)
ARGUMENTS = st.dictionaries(TEXT, TEXT | st.booleans() | st.lists(TEXT, max_size=2), max_size=3)
PLANS = st.builds(
    Plan,
    title=TEXT,
    context=TEXT,
    made_at=TEXT,
    made_by=TEXT,
    steps=st.lists(
        st.builds(StepData, kind=TEXT, subject=TEXT, arguments=ARGUMENTS, lane=TEXT, always=st.booleans()), max_size=3
    ).map(tuple),
    locks=st.lists(TEXT, max_size=2).map(tuple),
    preconditions=st.lists(st.builds(Precondition, kind=TEXT, subject=TEXT, expected=TEXT, words=TEXT), max_size=2).map(
        tuple
    ),
    notes=st.lists(TEXT, max_size=2).map(tuple),
    undoes=TEXT,
)


@given(PLANS)
def test_a_plan_survives_json(plan):
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


@pytest.mark.parametrize("version", [None, 0, FORMAT_VERSION + 1, "1"])
def test_a_plan_of_another_format_is_refused(version):
    data = Plan("t", "c", "now", "ann", steps=()).to_dict() | {"format_version": version}

    with pytest.raises(FormatVersionError, match=f"reads version {FORMAT_VERSION}"):
        Plan.from_dict(data)


def test_a_plan_without_steps_is_empty():
    assert Plan("t", "c", "now", "ann", steps=()).is_empty
    assert not Plan("t", "c", "now", "ann", steps=(StepData("k", "s"),)).is_empty


def test_the_first_step_on_each_side_of_a_subject_is_the_precondition():
    stage = new_stage()
    steps = [SetRunState(CLUSTER, "orders", "STOPPED"), PutConfig(CLUSTER, "orders", NEW)]
    steps += [SetRunState(CLUSTER, "orders", "RUNNING"), RestartFailed(CLUSTER, "orders")]

    found = build_preconditions(steps, stage.operator().world)

    assert {p.subject: p.expected for p in found} == {
        f"{SUBJECT}#state": build_fingerprint({"state": "RUNNING"}),
        f"{SUBJECT}#config": build_fingerprint({"config": CONFIG}),
    }


def test_everything_that_moved_is_named():
    stage = new_stage()
    plan, steps = stage.plan([SetRunState(CLUSTER, "orders", "PAUSED"), PutConfig(CLUSTER, "orders", NEW)])
    stage.cluster.set_target("orders", "STOPPED")
    stage.cluster.put("orders", CONFIG | {"version": "9"})
    stage.timeline.advance(10)

    with pytest.raises(StalePlanError) as caught:
        check_preconditions(plan, steps, stage.operator().world)

    assert f"{SUBJECT}#state" in caught.value.cause
    assert f"{SUBJECT}#config" in caught.value.cause


def test_what_changes_by_itself_is_no_precondition():
    stage = new_stage()
    step = RestartFailed(CLUSTER, "orders")
    plan, steps = stage.plan([step])
    guarded = Plan(
        **{
            **{name: getattr(plan, name) for name in ("title", "context", "made_at", "made_by", "steps", "locks")},
            "preconditions": (Precondition("before", aspect_of(step), "of another time"),),
        }
    )

    check_preconditions(guarded, steps, stage.operator().world)

    assert plan.preconditions == ()


def test_steps_that_are_not_those_of_the_plan_are_refused():
    stage = new_stage()
    plan, steps = stage.plan([SetRunState(CLUSTER, "orders", "PAUSED")])

    assert list(build_tasks(plan, steps)) == list(build_tasks(plan))
    for wrong in ([], [*steps, *steps], [SetRunState(CLUSTER, "orders", "STOPPED")], [RestartFailed(CLUSTER, "x")]):
        with pytest.raises(RefusedError, match="the steps don't match the plan"):
            build_tasks(plan, wrong)


def test_a_step_of_an_unknown_kind_is_refused_by_its_name():
    plan = Plan("t", "c", "now", "ann", steps=(StepData("teleport", "s"),))

    with pytest.raises(UsageError, match="'teleport'"):
        build_tasks(plan)


class TestExpectations:
    STEP = SetRunState(CLUSTER, "orders", "STOPPED")
    STOP = Intent(before={"state": "RUNNING"}, after={"state": "STOPPED"})

    def expect(self, image) -> Expectations:
        return Expectations([Precondition("before", aspect_of(self.STEP), build_fingerprint(image))])

    def test_what_the_plan_saw_is_expected(self):
        assert self.expect({"state": "RUNNING"}).allow(self.STEP, self.STOP)
        assert not self.expect({"state": "PAUSED"}).allow(self.STEP, self.STOP)

    def test_what_a_step_left_is_expected_of_the_next(self):
        expectations = self.expect({"state": "RUNNING"})
        expectations.learn(self.STEP, self.STOP, Outcome.DONE)

        assert expectations.allow(self.STEP, Intent({"state": "STOPPED"}, {"state": "RUNNING"}))
        assert not expectations.allow(self.STEP, self.STOP)

    def test_after_an_unknown_outcome_anything_may_be_found_and_a_look_is_no_proof(self):
        expectations = self.expect({"state": "RUNNING"})
        same = Intent({"state": "RUNNING"}, {"state": "RUNNING"})
        assert expectations.is_met(self.STEP, same)

        expectations.learn(self.STEP, self.STOP, Outcome.UNKNOWN)

        assert expectations.allow(self.STEP, Intent({"state": "PAUSED"}, {"state": "RUNNING"}))
        assert not expectations.is_met(self.STEP, same)

    def test_silence_is_no_proof_either(self):
        expectations = self.expect({"state": "RUNNING"})
        expectations.learn(self.STEP, self.STOP, Outcome.DID_NOT_HAPPEN, error=UnknownOutcomeError("lost"))

        assert not expectations.is_met(self.STEP, Intent({"state": "RUNNING"}, {"state": "RUNNING"}))

    def test_after_a_foreign_change_nothing_is_as_expected(self):
        expectations = self.expect({"state": "RUNNING"})
        expectations.learn(self.STEP, self.STOP, Outcome.FOREIGN)

        assert not expectations.allow(self.STEP, self.STOP)
        assert not expectations.allow(self.STEP, Intent({"state": "PAUSED"}, {"state": "RUNNING"}))

    def test_a_connector_that_came_has_other_sides_than_the_one_before(self):
        expectations = self.expect(None)
        create = CreateConnector(CLUSTER, "orders", CONFIG)
        expectations.learn(create, Intent(None, {"config": CONFIG}), Outcome.DONE)

        assert expectations.allow(self.STEP, self.STOP)
