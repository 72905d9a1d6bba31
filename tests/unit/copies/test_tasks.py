"""Every target has one writer, and every record a task."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.copies.plan.plan import SliceTask, build_tasks
from seamark.kafka_sink.routing import Partitioner, Routing


@given(st.sampled_from(Partitioner), st.integers(1, 30), st.integers(1, 30), st.booleans())
def test_each_way_belongs_to_one_task_and_each_target_to_one(rule, sources, targets, is_loose):
    routing = Routing(rule, sources, targets, modulus=1 if is_loose else 0)
    tasks = build_tasks(routing)
    ways = [(source, target) for task in tasks for source in task.sources for target in task.targets]
    assert sorted(ways) == [(p, t) for p in range(sources) for t in routing.targets_of(p)]
    written = [target for task in tasks for target in task.targets]
    assert len(written) == len(set(written))
    assert [task.number for task in tasks] == list(range(len(tasks)))


@pytest.mark.parametrize(("shape", "count"), [((12, 6), 6), ((6, 12), 6), ((12, 8), 8), ((6, 5), 5), ((6, 6), 6)])
def test_tasks_own_a_source_or_a_target(shape, count):
    assert len(build_tasks(Routing(Partitioner.MURMUR2, *shape))) == count


def test_tasks_without_and_with_a_shuffle():
    assert build_tasks(Routing(Partitioner.MURMUR2, 2, 4))[1] == SliceTask(1, (1,), targets=(1, 3))
    assert build_tasks(Routing(Partitioner.MURMUR2, 4, 2))[1] == SliceTask(1, (1, 3), targets=(1,))
