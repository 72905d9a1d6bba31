"""Where the readers of a copy go on, told to the steps of a cut-over; on a copy in memory."""

from __future__ import annotations

import random as randoms

import pytest

from seamark.copies.cutover.operations import CutoverOperations
from seamark.copies.plan.endpoints import CopyEndpoint, CopyEndpoints
from seamark.copies.plan.plan import CopyPlan, Limits, TopicEnd, cut_slices
from seamark.errors import RefusedError, UsageError
from seamark.kafka_sink.routing import Partitioner, Routing
from seamark.spark.slices import OffsetRange
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.copies.simulation import PLAN, Simulation


class Copied:
    """A copy whose data is in memory, and the brokers beside it."""

    def __init__(self, *, sources=4, targets=2, records=50, upto=None, empty=(), begin=0):
        routing = Routing(Partitioner.MURMUR2, sources, targets)
        keys = [f"k{number}".encode() for number in range(40)]
        log = {
            p: [(at, k) for at, k in enumerate([k for k in keys if routing_of(sources, k) == p] * records)][:records]
            for p in range(sources)
        }
        log |= {p: [] for p in empty}
        ranges = [OffsetRange(p, min(begin, len(log[p])), len(log[p])) for p in range(sources)]
        self.made = Simulation(routing, log, ranges)
        self.made.slices = cut_slices(ranges, {}, limits=Limits(60))
        self.made.copy(random=randoms.Random(7), upto=upto)
        ends = [TopicEnd("c", name, "", n, 1) for name, n in (("orders", sources), ("orders-2", targets))]
        self.plan = CopyPlan(
            PLAN, "2026-01-01T00:00:00Z", *ends, routing, "", tuple(ranges), slices=self.made.slices, configs=()
        )
        self.brokers = FakeBrokers()
        self.brokers.add_topic("orders", partitions=sources)
        self.brokers.topics["orders"].logs = [[0] * len(log[p]) for p in range(sources)]
        self.brokers.add_topic("orders-2", partitions=targets)
        self.brokers.topics["orders-2"].logs = [[0] * self.made.ends.get(t, 0) for t in range(targets)]
        self.recounts = 0

    def open(self, **options):
        endpoint = CopyEndpoint(None, None, lambda: self.brokers, None, None, None, None)
        return InMemoryOperations(self, CopyEndpoints(endpoint, endpoint), **options)


class InMemoryOperations(CutoverOperations):
    """Operations on one `Copied`: no control topic, no Spark."""

    def __init__(self, copied, endpoints, **options):
        super().__init__(endpoints, **options)
        self.copied = copied

    def read(self, copy):
        assert copy == PLAN
        return self.copied.plan, self.copied.made.progress()

    def recount(self, plan, questions):
        assert plan is self.copied.plan
        self.copied.recounts += 1
        return self.copied.made.recount(questions)


def routing_of(sources, key):
    return Routing(Partitioner.MURMUR2, sources, sources).choose(key, source=0)


def test_reader_that_has_had_all_reads_nothing_again():
    copied = Copied()
    copied.brokers.add_group("g", {("orders", p): 50 for p in range(4)})
    found = copied.open().translate(PLAN, ["g"], missing="")["g"]
    assert (found.to_read, found.replayed_most) == (0, 0)
    assert found.offsets == copied.made.ends


def test_many_readers_cost_one_recount_and_none_when_asked_again():
    copied = Copied(sources=3)
    copied.brokers.add_group("a", {("orders", p): 17 for p in range(3)})
    copied.brokers.add_group("b", {("orders", p): 5 + p for p in range(3)})
    work = copied.open()
    first = work.translate(PLAN, ["a", "b"], missing="")
    assert first["a"].replayed_least == first["a"].replayed_most
    assert work.translate(PLAN, ["a", "b"], missing="") == first
    assert copied.recounts == 1
    # One of them has moved.
    copied.brokers.add_group("a", {("orders", p): 18 for p in range(3)})
    assert work.translate(PLAN, ["a", "b"], missing="")["a"].to_read <= first["a"].to_read
    assert copied.recounts == 2


def test_look_without_recount_is_a_bound():
    copied = Copied(sources=3)
    copied.brokers.add_group("a", {("orders", p): 5 + p for p in range(3)})
    exact = copied.open().translate(PLAN, ["a"], missing="")["a"]
    bound = copied.open(is_recounting=False).translate(PLAN, ["a"], missing="")["a"]
    assert bound.replayed_least <= exact.replayed_most <= bound.replayed_most
    assert exact.replayed_least == exact.replayed_most
    assert bound.replayed_least < bound.replayed_most
    assert copied.recounts == 1


def test_partition_without_a_position_needs_a_word_unless_it_is_empty():
    copied = Copied(empty=(3,))
    copied.brokers.add_group("a", {("orders", p): 17 for p in (0, 1)})
    with pytest.raises(RefusedError, match=r"no committed offset in partition 2$"):
        copied.open().translate(PLAN, ["a"], missing="")
    early = copied.open().translate(PLAN, ["a"], missing="earliest")["a"]
    late = copied.open().translate(PLAN, ["a"], missing="latest")["a"]
    assert early.to_read > late.to_read
    with pytest.raises(UsageError, match="for --default-offset"):
        copied.open().translate(PLAN, ["a"], missing="soon")


def test_what_is_left_is_counted_from_the_end_of_the_source():
    copied = Copied()
    work = copied.open()
    assert work.count_left(PLAN) == 0
    copied.brokers.topics["orders"].logs[2] += [0, 0, 0]
    assert work.count_left(PLAN) == 3
    part = Copied(upto=1)
    assert part.open().count_left(PLAN) == 200 - part.made.slices[0].size > 0
    assert work.read_target_ends(PLAN) == copied.made.ends


def test_reader_behind_what_retention_took_goes_on_at_the_begin():
    copied = Copied(begin=10)
    copied.brokers.add_group("a", {("orders", p): 3 for p in range(4)})
    with pytest.raises(RefusedError, match="has not processed all records before the start of the copy"):
        copied.open().translate(PLAN, ["a"], missing="")
    copied.brokers.topics["orders"].starts = dict.fromkeys(range(4), 10)
    found = copied.open().translate(PLAN, ["a"], missing="")["a"]
    assert (found.to_read, found.replayed_most) == (160, 0)


def test_debris_ahead_of_a_reader_is_counted():
    copied = Copied()
    copied.brokers.add_group("old", {("orders", p): 0 for p in range(4)})
    copied.brokers.add_group("new", {("orders", p): 50 for p in range(4)})
    found = copied.open().translate(PLAN, ["old", "new"], missing="")
    # The simulation leaves some here and there.
    ahead = [at for target, at in copied.made.aborted if at >= found["old"].offsets[target]]
    assert found["old"].aborted == len(ahead) > 0
    assert found["new"].aborted == 0
