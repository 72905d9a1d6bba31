"""The scheduler of many pipelines: due times, suspension, back-off, and what `apply` changes while it runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from seamark.errors import FencedError, NotFoundError, PartialError, RejectedError, UnreachableError
from seamark.pipelines.application import FOLLOW_SECONDS, Application
from seamark.pipelines.progress import BatchLanded, MemberState


@dataclass(frozen=True)
class Spec:
    """What the scheduler knows of a pipeline."""

    name: str
    every_seconds: float | None = 10.0
    topic: str = ""
    compact_seconds: float | None = None
    vacuum_seconds: float | None = None

    @property
    def landing(self):
        return SimpleNamespace(name=self.name)


@dataclass
class Run:
    """A pipeline whose topic is a number: how many records it has."""

    spec: Spec
    topics: dict
    landed: int = 0
    limit: int = 100
    begins: int = 0
    watches: int = 0
    batches: list = field(default_factory=list)
    error: Exception | None = None
    begin_error: Exception | None = None
    is_catching_up: bool = False
    is_cancelled: bool = False
    kept: list = field(default_factory=list)
    keep_error: Exception | None = None

    @property
    def spots(self):
        return [(self.spec.topic or self.spec.name, 0)]

    def begin(self):
        if self.begin_error is not None:
            raise self.begin_error
        self.begins += 1

    def plan(self, ends):
        end = ends[self.spots[0]]
        entry = SimpleNamespace(next_offset=self.landed)
        return [SimpleNamespace(entry=entry, end=min(end, self.landed + self.limit))] if end > self.landed else []

    def land(self, steps, ends):
        if self.error is not None:
            raise self.error
        (step,) = steps
        self.batches.append((self.landed, step.end))
        count, self.landed = step.end - self.landed, step.end
        return BatchLanded(len(self.batches), count, 0, 0)

    def follow(self):
        pass

    def watch(self):
        self.watches += 1

    def compact(self):
        if self.keep_error is not None:
            raise self.keep_error
        self.kept.append("compact")

    def vacuum(self, *, keep_seconds):
        self.kept.append(keep_seconds)

    def cancel(self):
        self.is_cancelled = True


class Stage:
    """An application whose work is done at once, and whose clock is set by hand."""

    def __init__(self, **more):
        self.now = 1000.0
        self.topics, self.runs, self.requests, self.statuses = {}, {}, [], []
        self.missing = set()
        self.application = Application(
            open_run=self.open,
            read_ends=self.read,
            executor=SimpleNamespace(submit=lambda work: work()),
            clock=lambda: self.now,
            on_status=self.statuses.append,
            **more,
        )

    def open(self, spec):
        self.topics.setdefault(spec.topic or spec.name, 0)
        return self.runs.setdefault(spec.name, Run(spec, self.topics))

    def add(self, *names, every=10.0):
        for name in names:
            self.application.add(Spec(name, every))

    def read(self, spots):
        self.requests.append(sorted(spots))
        if lost := [spot for spot in spots if spot[0] in self.missing]:
            raise PartialError("lost", failures={str(lost[0]): NotFoundError("no such topic")})
        return {spot: self.topics[spot[0]] for spot in spots}

    def pass_time(self, seconds, step=0.25):
        end = self.now + seconds
        while self.now < end:
            self.application.look()
            self.now += step

    def find(self, name):
        return next(one for one in self.application.statuses if one.name == name)


def test_ends_of_all_are_read_with_one_request_and_a_quiet_one_costs_no_batch():
    stage = Stage()
    stage.add("a", "b", "c")
    stage.topics |= {"a": 5}
    stage.pass_time(1)
    assert stage.runs["a"].batches == [(0, 5)]
    assert [one.batches for name, one in stage.runs.items() if name != "a"] == [[], []]
    assert stage.requests == [[("a", 0), ("b", 0), ("c", 0)]]
    stage.pass_time(40)
    assert len(stage.requests) == 5
    assert all(len(asked) == 3 for asked in stage.requests)


def test_each_has_its_own_interval():
    stage = Stage()
    stage.add("slow", every=60.0)
    stage.add("fast", every=1.0)
    for _ in range(60):
        stage.topics["slow"] += 1
        stage.topics["fast"] += 1
        stage.pass_time(1)
    assert len(stage.runs["slow"].batches) == 1
    assert 55 <= len(stage.runs["fast"].batches) <= 60


def test_backlog_is_processed_in_batches_of_its_limit():
    stage = Stage()
    stage.add("a", every=1.0)
    stage.topics["a"] = 350
    stage.pass_time(10)
    assert stage.runs["a"].batches == [(0, 100), (100, 200), (200, 300), (300, 350)]


def test_one_that_fails_is_suspended_and_retried_while_the_others_continue():
    stage = Stage()
    stage.add("bad", "good")
    stage.topics |= {"bad": 1, "good": 1}
    stage.open(Spec("bad")).error = RejectedError("column boss_id is text")
    stage.pass_time(1)
    status = stage.find("bad")
    assert (status.state, status.reason, status.retry_seconds) == (MemberState.SUSPENDED, "column boss_id is text", 15)
    pauses = []
    for _ in range(400):
        stage.topics["good"] += 1
        stage.pass_time(10)
        pauses.append(stage.find("bad").retry_seconds)
    assert sorted(set(pauses)) == [15, 30, 60, 120, 240, 480, 900]
    assert stage.runs["good"].landed == stage.topics["good"]
    stage.runs["bad"].error = None
    stage.pass_time(901)
    assert stage.runs["bad"].landed == 1
    assert stage.find("bad").state is MemberState.RUNNING


def test_outage_is_retried_soon_and_begins_at_the_ledger():
    stage = Stage()
    stage.add("a")
    stage.topics["a"] = 1
    run = stage.open(Spec("a"))
    run.error = UnreachableError("no answer")
    stage.pass_time(1)
    assert (stage.find("a").state, stage.find("a").retry_seconds) == (MemberState.RETRYING, 1)
    run.error = None
    stage.pass_time(3)
    assert (run.landed, run.begins) == (1, 2)
    # The next outage begins with a short pause.
    run.error, stage.topics["a"] = UnreachableError("no answer"), 2
    stage.pass_time(11)
    assert stage.statuses[-1].retry_seconds <= 8


def test_moved_offsets_are_followed_at_once():
    stage = Stage()
    stage.add("a", every=2.0)
    stage.topics["a"] = 50
    stage.pass_time(1)
    run = stage.runs["a"]
    run.landed, stage.topics["a"] = 10, 60
    run.error = FencedError("moved")
    stage.pass_time(2)
    run.error = None
    stage.pass_time(4)
    assert run.batches[-1] == (10, 60)
    assert run.begins == 2


def test_topic_that_is_gone_concerns_its_pipeline_alone():
    stage = Stage()
    stage.add("gone", "good")
    stage.pass_time(1)
    stage.missing, stage.topics["good"] = {"gone"}, 7
    stage.pass_time(11)
    assert stage.find("gone").state is MemberState.SUSPENDED
    assert stage.runs["good"].landed == 7


def test_applied_pipelines_are_added_changed_and_removed():
    wanted = [Spec("a"), Spec("b")]
    stage = Stage(follow=lambda: wanted)
    for spec in wanted:
        stage.application.add(spec)
    stage.pass_time(1)
    stage.topics |= {"a": 1, "b2": 2, "c": 3}
    wanted[:] = [Spec("a"), Spec("b", topic="b2"), Spec("c")]
    first = stage.runs.pop("b")
    stage.pass_time(FOLLOW_SECONDS + 1)
    assert {one.name for one in stage.application.statuses} == {"a", "b", "c"}
    assert (first.landed, stage.runs["b"].landed, stage.runs["c"].landed) == (0, 2, 3)
    assert stage.runs["a"].begins == 1, "what has not changed continues"
    wanted[:] = [Spec("c")]
    stage.pass_time(FOLLOW_SECONDS + 1)
    assert [one.name for one in stage.application.statuses] == ["c"]


def run_for(stage, seconds):
    """Whether the application ends by itself within this time."""
    stop = threading.Event()
    timer = threading.Timer(seconds, stop.set)
    timer.start()
    stage.application.run(stop)
    timer.cancel()
    return not stop.is_set()


def test_application_without_intervals_ends_when_all_records_are_processed():
    stage = Stage(follow=list)
    stage.add("a", "b", every=None)
    stage.topics |= {"a": 250, "b": 3}
    assert run_for(stage, 20)
    assert (stage.runs["a"].landed, stage.runs["b"].landed) == (250, 3)


def test_application_with_an_interval_waits_for_pipelines_that_are_applied():
    stage = Stage(follow=lambda: [Spec("a"), Spec("b", None)])
    stage.add("a")
    stage.add("b", every=None)
    assert not run_for(stage, 0.5)


def test_registry_that_does_not_answer_changes_nothing():
    def follow():
        raise UnreachableError("no journal")

    stage = Stage(follow=follow)
    stage.add("a")
    stage.topics["a"] = 1
    stage.pass_time(3 * FOLLOW_SECONDS)
    assert stage.runs["a"].landed == 1


def test_run_that_ends_works_up_to_the_first_ends():
    stage = Stage(is_endless=False)
    stage.add("a", "b")
    stage.topics |= {"a": 250, "b": 0}
    stage.application.look()
    stage.application.look()
    stage.topics["a"] = 1000
    stage.pass_time(5)
    assert stage.runs["a"].landed == 250
    assert {one.state for one in stage.application.statuses} == {MemberState.ENDED}
    assert stage.application.errors == {}


@pytest.mark.parametrize("error", [RejectedError("bad rows"), FencedError("moved")])
def test_run_that_ends_reports_the_error_of_one_and_finishes_the_others(error):
    stage = Stage(is_endless=False)
    stage.add("bad", "good")
    stage.topics |= {"bad": 1, "good": 1}
    stage.open(Spec("bad")).error = error
    stage.pass_time(5)
    assert stage.application.errors == {"bad": error}
    assert stage.runs["good"].landed == 1


def test_run_that_ends_gives_an_outage_two_minutes():
    stage = Stage(is_endless=False)
    stage.add("a")
    stage.open(Spec("a")).begin_error = UnreachableError("no answer")
    stage.pass_time(60)
    assert stage.application.errors == {}
    stage.pass_time(90)
    assert list(stage.application.errors) == ["a"]


def test_claims_of_quiet_pipelines_are_watched_less_often_the_more_there_are():
    stage = Stage()
    stage.add(*(f"p{number}" for number in range(40)))
    stage.pass_time(90)
    assert {one.watches for one in stage.runs.values()} == {2}


def test_statuses_are_reported_when_they_change():
    stage = Stage()
    stage.add("a")
    stage.pass_time(60)
    assert [one.state for one in stage.statuses] == [MemberState.RUNNING]
    assert replace(stage.statuses[0], lag=0) == stage.find("a")


def test_housekeeping_has_its_own_interval_and_its_errors_stop_nothing():
    stage = Stage()
    stage.application.add(Spec("a", compact_seconds=100.0, vacuum_seconds=3600.0))
    stage.add("b")
    stage.pass_time(1000, step=1.0)
    assert 8 <= stage.runs["a"].kept.count("compact") <= 10
    stage.pass_time(6600, step=5.0)
    assert stage.runs["a"].kept.count(3600.0) == 2
    assert stage.runs["b"].kept == []
    stage.runs["a"].keep_error = RejectedError("files changed")
    stage.topics["a"] = 7
    stage.pass_time(300, step=1.0)
    assert stage.find("a").state is MemberState.RUNNING
    assert stage.runs["a"].batches == [(0, 7)]
