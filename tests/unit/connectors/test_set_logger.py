"""SetLogger on workers that behave as Connect's do, with log4j 1 (up to 3.9) and log4j 2 (from 4.0 on)."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seamark.changes.step import CanNotUndo, Observed, StepData
from seamark.connect.loggers import LEVELS, ROOT, LoggerLevel, find_level
from seamark.connectors.loggers import SetLogger
from seamark.errors import RefusedError, UnknownOutcomeError, UnreachableError
from tests.ports import PortWorld

W1, W2 = "http://w1:8083", "http://w2:8083"


class Workers:
    """The loggers of some workers. `configs` are those with a level of their own, by worker; `known` all that exist."""

    def __init__(self, configs, *, known=(), modern=True):
        self.configs = {url: dict(levels) for url, levels in configs.items()}
        self.known = set(known)
        self.modern = modern
        self.sent = []
        self.failing = {}

    def read_loggers(self, url=None):
        levels = self.configs[url]
        names = set(levels) | (self.known if self.modern else set())
        found = {name: find_level(name, levels) for name in names}
        return tuple(LoggerLevel(name, found[name]) for name in sorted(found) if found[name] != "OFF")

    def read_logger(self, name, url=None):
        levels = self.configs[url]
        return find_level(name, levels) if name in self.known or name in levels else None

    def set_logger(self, name, level, *, scope="worker", url=None):
        self.sent.append((url, name, level, scope))
        if (url, name) in self.failing:
            raise self.failing[url, name]
        for levels in self.configs.values() if scope == "cluster" else [self.configs[url]]:
            others = set(levels) | (set() if self.modern else self.known)
            for other in others:
                if name == ROOT or other.startswith(name):
                    levels[other] = level
            levels[name] = level

    @property
    def world(self):
        return PortWorld(connect=lambda cluster: self)

    def effective(self):
        return {url: {name: find_level(name, levels) for name in self.known} for url, levels in self.configs.items()}


def run(step, workers):
    intent = step.intend(workers.world)
    step.perform(workers.world, intent)
    return intent


def test_level_is_set_on_the_worker_that_is_meant():
    workers = Workers({W1: {"root": "INFO"}, W2: {"root": "INFO"}}, known=["a.b"])
    step = SetLogger("game", "a.b", {W1: {"a.b": "DEBUG"}}, worker=W1)
    intent = run(step, workers)
    assert (intent.before, intent.after) == ({W1: {"a.b": "INFO"}}, {W1: {"a.b": "DEBUG"}})
    assert workers.sent == [(W1, "a.b", "DEBUG", "worker")]
    assert step.observe(workers.world, intent) is Observed.AFTER
    assert step.subject == f"logger/game/a.b@{W1}"
    assert "a.b" not in workers.configs[W2]


def test_whole_cluster_is_reached_by_one_request_and_seen_on_every_worker():
    workers = Workers({W1: {"root": "INFO"}, W2: {"root": "INFO"}})
    step = SetLogger("game", "a", {url: {"a": "TRACE"} for url in (W1, W2)}, scope="cluster")
    intent = step.intend(workers.world)
    assert step.observe(workers.world, intent) is Observed.BEFORE
    workers.configs[W2]["a"] = "TRACE"
    assert step.observe(workers.world, intent) is Observed.BETWEEN
    step.perform(workers.world, intent)
    assert workers.sent == [(None, "a", "TRACE", "cluster")]
    assert step.observe(workers.world, intent) is Observed.AFTER


def test_workers_that_differed_get_back_what_each_had():
    workers = Workers({W1: {"root": "INFO", "a": "WARN"}, W2: {"root": "INFO"}}, known=["a"])
    before = workers.effective()
    step = SetLogger("game", "a", {url: {"a": "DEBUG"} for url in (W1, W2)}, scope="cluster")
    intent = run(step, workers)
    back = step.undo(intent)
    assert back.scope == "worker"
    assert back.subject == step.subject
    run(back, workers)
    assert workers.effective() == before


def test_a_level_that_goes_silent_is_still_seen():
    workers = Workers({W1: {"root": "INFO"}}, known=["a"])
    step = SetLogger("game", "a", {W1: {"a": "OFF"}})
    intent = run(step, workers)
    assert step.observe(workers.world, intent) is Observed.AFTER


def test_nothing_is_to_be_done_where_the_level_is_so_already():
    workers = Workers({W1: {"root": "INFO", "a": "DEBUG", "a.b": "DEBUG"}}, known=["a", "a.b"])
    intent = SetLogger("game", "a", {W1: {"a": "DEBUG"}}).intend(workers.world)
    assert intent.before == intent.after


def test_levels_below_come_back_too():
    levels = {"root": "INFO", "a": "WARN", "a.b": "ERROR", "a.b.c": "WARN", "x": "TRACE"}
    workers = Workers({W1: levels}, known=levels)
    step = SetLogger("game", "a", {W1: {"a": "DEBUG"}})
    intent = run(step, workers)
    assert workers.configs[W1] == dict.fromkeys(("a", "a.b", "a.b.c"), "DEBUG") | {"root": "INFO", "x": "TRACE"}
    back = step.undo(intent)
    run(back, workers)
    assert workers.configs[W1] == levels
    assert back.observe(workers.world, back.intend(workers.world)) is Observed.AFTER


def test_a_failure_after_the_first_request_leaves_the_outcome_open():
    workers = Workers({W1: {"root": "INFO"}})
    step = SetLogger("game", "a", {W1: {"a": "INFO", "a.b": "WARN"}})
    intent = step.intend(workers.world)
    workers.failing[W1, "a.b"] = UnreachableError("w1 is away")
    with pytest.raises(UnknownOutcomeError, match="some levels were set"):
        step.perform(workers.world, intent)
    workers.failing = {(W1, "a"): UnreachableError("w1 is away")}
    with pytest.raises(UnreachableError, match="w1 is away"):
        step.perform(workers.world, intent)


def test_a_worker_that_told_no_level_can_not_be_put_back():
    workers = Workers({W1: {}})
    step = SetLogger("game", "a", {W1: {"a": "DEBUG"}})
    back = step.undo(step.intend(workers.world))
    assert isinstance(back, CanNotUndo)


@pytest.mark.parametrize("change", [{"scope": "world"}, {"levels": {}}])
def test_what_is_no_such_step_is_refused(change):
    data = SetLogger("game", "a", {W1: {"a": "DEBUG"}}).to_data()
    with pytest.raises(RefusedError, match="is not a step that sets levels"):
        SetLogger.from_data(StepData(data.kind, data.subject, {**data.arguments, **change}))


NAMES = st.sampled_from(["a", "a.b", "a.b.c", "a.bx", "ab", "a.b.c.d", "x", "x.y"])
LEVEL = st.sampled_from([level for level in LEVELS if level != "OFF"])


@settings(max_examples=200)
@example(known={"a.bx", "a"}, own={"a.b": "FATAL"}, root="ERROR", target="root", level="FATAL", modern=False)
@given(
    known=st.sets(NAMES, min_size=1),
    own=st.dictionaries(NAMES, LEVEL),
    root=LEVEL,
    target=NAMES | st.just(ROOT),
    level=LEVEL,
    modern=st.booleans(),
)
def test_undo_brings_every_logger_back_to_the_level_it_worked_with(known, own, root, target, level, modern):
    workers = Workers({W1: {**own, "root": root}}, known=known | set(own), modern=modern)
    before = workers.effective()
    step = SetLogger("game", target, {W1: {target: level}})
    intent = run(step, workers)
    assert step.observe(workers.world, intent) is Observed.AFTER
    # The journal gives back what it was given.
    back = SetLogger.from_data(StepData.from_dict(json.loads(json.dumps(step.undo(intent).to_data().to_dict()))))
    run(back, workers)
    assert workers.effective() == before
