"""The pace of a plan: how many sequences run at once, and the wait for stable workers between groups of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.changes.journal import Ending
from seamark.changes.plan import Plan, read_plan_file, write_plan_file
from seamark.changes.timing import STABLE_SECONDS, GroupReading, await_stable
from seamark.connectors.steps import CreateConnector, PutConfig
from seamark.context import PaceSettings
from seamark.errors import AuthorizationError, DeadlineError, UsageError
from tests.unit.changes.town import CLASS, CLUSTER, PACE, Town, build_executor, build_plan, open_journal, recover

NEXT = CLASS | {"version": "2"}
PACED = PaceSettings(parallel=3, wait_stable=True)


class PacedTown(Town):
    """A town whose worker group is read: each reading is what `readings` has next, the last one again and again."""

    def __init__(self, *readings):
        super().__init__()
        self.readings = list(readings) or [GroupReading("")]
        self.looks = []

    def read_worker_group(self, cluster):
        assert cluster == CLUSTER
        self.looks.append((self.now(), len(self.writes)))
        reading = self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        if isinstance(reading, Exception):
            raise reading
        return reading


def plan_creates(town, number, pace=PACED):
    plan, steps = build_plan(town, *([CreateConnector(CLUSTER, f"c-{one}", CLASS)] for one in range(number)))
    return plan.with_pace(pace), steps


def run(town, folder, number, pace=PACED):
    plan, steps = plan_creates(town, number, pace)
    return build_executor(town, open_journal(folder)).apply(plan, steps)


def test_each_group_begins_only_after_the_workers_were_stable(tmp_path):
    town = PacedTown()

    result = run(town, tmp_path, 8)

    assert result.is_done
    assert sorted({writes for _, writes in town.looks}) == [0, 3, 6]
    for before in (0, 3, 6):
        times = [at for at, writes in town.looks if writes == before]
        assert times[-1] - times[0] >= STABLE_SECONDS


def test_no_more_than_the_pace_run_at_once_without_a_wait(tmp_path):
    town = PacedTown()

    assert run(town, tmp_path, 20, PaceSettings(parallel=2)).is_done

    assert town.most_writing <= 2
    assert town.looks == []


def test_workers_that_do_not_become_stable_stop_the_rest(tmp_path):
    town = PacedTown(*[GroupReading("")] * 6, GroupReading("x (task 0 UNASSIGNED)"))

    result = run(town, tmp_path, 8)

    assert result.ending is Ending.PARTLY
    assert len(town.writes) == 3
    assert len(result.left) == 5
    assert "were not stable within 360 s" in result.unstable.message
    assert result.unstable.cause == "x (task 0 UNASSIGNED)"
    close = open_journal(tmp_path).read(result.change)[-1]
    assert close.body["error"]["message"] == result.unstable.message


def test_a_group_that_can_not_be_read_stops_everything_before_the_first_change(tmp_path):
    town = PacedTown(AuthorizationError("not authorized to read group connect"))

    result = run(town, tmp_path, 8)

    assert (result.ending, town.writes) == (Ending.FAILED, [])
    assert result.unstable.message == "not authorized to read group connect"


class KilledError(BaseException):
    """The end of the process."""


def test_a_resume_keeps_the_pace_and_finishes_what_was_begun_even_with_unstable_workers(tmp_path):
    town = PacedTown()
    lanes = [[CreateConnector(CLUSTER, f"c-{one}", CLASS), PutConfig(CLUSTER, f"c-{one}", NEXT)] for one in range(8)]
    plan, steps = build_plan(town, *lanes)

    def kill(*_):
        raise KilledError

    town.put_config = kill
    with pytest.raises(KilledError):
        build_executor(town, open_journal(tmp_path)).apply(plan.with_pace(PACED), steps)
    created = sorted(town.configs)
    assert 0 < len(created) <= 3
    del town.put_config
    (head,) = open_journal(tmp_path).open_heads()
    town.readings = [GroupReading("a rebalance is in progress")]

    result = recover(town, tmp_path).resume(head.change)

    assert {name: config for name, config in town.configs.items() if config == NEXT}.keys() == set(created)
    assert sorted(town.configs) == created
    assert len(result.left) == 2 * (8 - len(created))
    assert result.unstable.cause == "a rebalance is in progress"


def test_a_stop_ends_the_wait(tmp_path):
    town = PacedTown(GroupReading("moving"))
    asked = iter([False, False, True])
    await_stable(town, CLUSTER, is_stopping=lambda: next(asked), report=lambda _: None)
    assert len(town.looks) == 2


def test_a_change_of_state_begins_the_wait_anew_and_each_problem_is_reported_once():
    said = []
    town = PacedTown(
        GroupReading("", "one"),
        GroupReading("moving", "two"),
        GroupReading("moving", "two"),
        *[GroupReading("", "three")] * 3,
        GroupReading("", "four"),
    )
    await_stable(town, CLUSTER, is_stopping=lambda: False, report=said.append)
    assert said == [f"waiting until the workers of {CLUSTER} are stable: moving"]
    assert town.looks[-1][0] - town.looks[6][0] >= STABLE_SECONDS


def test_workers_that_keep_changing_are_not_stable():
    town = PacedTown()
    counter = iter(range(100_000))
    town.read_worker_group = lambda _cluster: GroupReading("", next(counter))
    with pytest.raises(DeadlineError, match="were not stable within 360 s") as caught:
        await_stable(town, CLUSTER, is_stopping=lambda: False, report=lambda _: None)
    assert caught.value.cause == "connectors, tasks or workers keep changing"


def test_a_plan_that_fits_in_one_group_has_no_pace():
    plan, _ = plan_creates(Town(), 3)
    assert plan.pace is None
    assert plan_creates(Town(), 4)[0].pace == PACED


def test_a_plan_file_and_the_journal_keep_the_pace(tmp_path):
    plan, _ = plan_creates(Town(), 4)
    assert Plan.from_dict(plan.to_dict()).pace == PACED
    file = replace(plan, steps=(), step_counts=(), locks=())
    write_plan_file(file, tmp_path / "plan.json")
    assert read_plan_file(tmp_path / "plan.json").pace == PACED


@pytest.mark.parametrize(
    "pace",
    [
        {"parallel": 0, "wait_stable": True},
        {"parallel": True, "wait_stable": True},
        {"parallel": 2, "wait_stable": 1},
        {"parallel": 2},
        {"parallel": 2, "wait_stable": True, "more": 1},
        [],
    ],
)
def test_a_pace_that_is_none_is_refused(pace):
    plan, _ = plan_creates(Town(), 4)
    with pytest.raises((ValueError, UsageError)):
        Plan.from_dict(plan.to_dict() | {"pace": pace})


def test_the_slower_of_two_paces_counts(tmp_path):
    town = PacedTown()
    plan, steps = plan_creates(town, 8, PaceSettings(parallel=5))
    executor = build_executor(town, open_journal(tmp_path), pace=replace(PACE, at_once=2))
    assert executor.apply(plan, steps).is_done
    assert town.most_writing <= 2
