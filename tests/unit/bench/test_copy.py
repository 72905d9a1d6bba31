"""The benches of copies: their claims are those of the issue, and their checks see a wrong copy."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Self

import pytest

from bench.cases.copy import BENCH, RECORDS, SHAPES, SHARE, check_sliced_copy
from bench.cases.copy_growth import BENCH as GROWTH
from bench.cases.copy_growth import read_gauges
from bench.fixtures.copies.filling import NUMBER_DIGITS, SOURCE_DIGITS, build_value
from bench.fixtures.copies.legs import READ, WRITE, build_plan, copy_ours, copy_taught
from bench.fixtures.copies.mirror import build_config, read_positions
from bench.fixtures.copies.stage import Copied, Kept, Shape, Source, Stage, check_copy, compare_sums, open_stage
from bench.fixtures.copies.sums import Sums
from bench.harness.definition import BenchError, Direction, Quantity, WrongResultError
from seamark.copies.plan.endpoints import SourceFacts
from seamark.kafka.model import (
    LogOffsets,
    OffsetAndTimestamp,
    OffsetSpec,
    PartitionReading,
    PartitionStatus,
    TopicStatus,
)
from seamark.spark.slices import OffsetRange

EXACT, PLAIN = Kept(timestamps=True, order=True), Kept(timestamps=False, order=False)
WANTED = Sums(10, plain=(1, 2), stamped=(3, 4))


def test_claims_of_copy_are_those_of_the_issue() -> None:
    assert {ratio.name: ratio.bar for ratio in BENCH.ratios} == {
        "taught over ours, 100 B": 0.7,
        "taught over ours, 1 KiB": 0.8,
        "taught over ours, 100 B, 12 to 6": 0.5,
        "taught over ours, 1 KiB, 12 to 6": 0.5,
        "taught over ours, 1 KiB, RF 3": 0.8,
        "mirror over ours, 100 B": 1.5,
        "mirror over ours, 1 KiB": 1.0,
    }
    assert {ratio.direction for ratio in BENCH.ratios} == {Direction.AT_LEAST}
    assert BENCH.pairs >= 5
    assert BENCH.least_seconds == 20


def test_every_shape_is_compared_with_spark_that_does_not_wait() -> None:
    assert {(ratio.over, ratio.under) for ratio in BENCH.ratios if ratio.over.startswith("taught")} == {
        (f"taught {shape}", f"ours {shape}") for shape in SHAPES
    }
    assert READ["kafka.fetch.max.wait.ms"] == "20"
    assert [shape.replication_factor for shape in SHAPES].count(3) == 1


def test_claims_of_growth_are_those_of_the_issue() -> None:
    assert GROWTH.sizes == (500_000, 2_000_000, 8_000_000)
    assert {(ratio.over, ratio.under) for ratio in GROWTH.ratios} == {
        ("4 partitions", "1 partition"),
        ("16 partitions", "1 partition"),
        ("16 partitions", "4 partitions"),
    }
    assert {(ratio.bar, ratio.direction, ratio.quantity) for ratio in GROWTH.ratios} == {
        (1.15, Direction.AT_MOST, Quantity.CPU_SECONDS)
    }
    assert [(growth.gauge, growth.bar) for growth in GROWTH.growths] == [(None, 1.1), ("MB held", 0.05)]


def test_every_leg_has_a_target_of_its_own_made_before() -> None:
    assert all(leg.prepare is not None for leg in (*BENCH.legs, *GROWTH.legs))


@pytest.mark.parametrize("size", [100, 1024])
def test_value_has_its_size_and_says_where_it_is(size: int) -> None:
    stock = random.Random(1).randbytes(1 << 12).hex().encode()
    value = build_value(12345, source=7, size=size, stock=stock)
    assert len(value) == size
    assert int(value[:SOURCE_DIGITS]) == 7
    assert int(value[SOURCE_DIGITS : SOURCE_DIGITS + NUMBER_DIGITS]) == 12345


@pytest.mark.parametrize("kept", [EXACT, PLAIN])
def test_right_copy_passes(kept: Kept) -> None:
    compare_sums(WANTED, WANTED, kept=kept)


def test_new_timestamps_pass_only_where_none_are_kept() -> None:
    found = replace(WANTED, stamped=(9, 9))
    compare_sums(found, WANTED, kept=PLAIN)
    with pytest.raises(WrongResultError, match="timestamps"):
        compare_sums(found, WANTED, kept=EXACT)


@pytest.mark.parametrize("kept", [EXACT, PLAIN])
def test_records_too_many_and_other_ones_are_seen(kept: Kept) -> None:
    with pytest.raises(WrongResultError, match="11 records were copied, and there are 10"):
        compare_sums(replace(WANTED, records=11), WANTED, kept=kept)
    with pytest.raises(WrongResultError, match="keys or values"):
        compare_sums(replace(WANTED, plain=(1, 3)), WANTED, kept=kept)


def make_stage(monkeypatch: pytest.MonkeyPatch, *, late: int) -> Stage:
    monkeypatch.setattr("bench.fixtures.copies.stage.read_sums", lambda *_: WANTED)
    monkeypatch.setattr("bench.fixtures.copies.stage.count_disorder", lambda *_: late)
    source = Source("from", 6, ends=dict.fromkeys(range(6), 2), sums=WANTED)
    nobody: object = None
    return Stage("nowhere:1", "id", "control", "", nobody, nobody, sources={(100, 6): source})  # type: ignore[arg-type]


def test_order_is_looked_at_where_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = Copied(Shape(100), "to", kept=EXACT, counted=10)
    check_copy(make_stage(monkeypatch, late=0), copied)
    with pytest.raises(WrongResultError, match="2 records of to come after later ones"):
        check_copy(make_stage(monkeypatch, late=2), copied)
    check_copy(make_stage(monkeypatch, late=2), replace(copied, kept=PLAIN))


def test_what_a_leg_says_of_itself_must_be_true(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WrongResultError, match="-1 records are said to be copied"):
        check_copy(make_stage(monkeypatch, late=0), Copied(Shape(100), "to", kept=EXACT, counted=-1))


def test_what_runs_beside_a_leg_is_ended_before_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []
    stage = make_stage(monkeypatch, late=0)
    stage.endings.append(lambda: ended.append(True))
    check_copy(stage, Copied(Shape(100), "to", kept=PLAIN))
    assert (ended, stage.endings) == ([True], [])


def test_copy_in_one_slice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = Copied(Shape(100), "to", kept=EXACT, counted=10, slices=2)
    check_sliced_copy(make_stage(monkeypatch, late=0), copied)
    check_sliced_copy(make_stage(monkeypatch, late=0), Copied(Shape(100), "to", kept=PLAIN))
    with pytest.raises(WrongResultError, match="the plan of 100 B has one slice"):
        check_sliced_copy(make_stage(monkeypatch, late=0), replace(copied, slices=1))
    with pytest.raises(WrongResultError, match="come after later ones"):
        check_sliced_copy(make_stage(monkeypatch, late=1), copied)


class Broker:
    """A topic of 6 partitions whose records have times a millisecond apart."""

    def __init__(self, records: int, size: int) -> None:
        self.records, self.size = records, size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read_log_offsets(self, spots: list[tuple[str, int]], *, at: OffsetSpec | int) -> PartitionReading:
        each = self.records // len(spots)
        last = self.records - 1
        stamp = {OffsetSpec.NEWEST: OffsetAndTimestamp(each - 1, last), 0: OffsetAndTimestamp(0, 0)}.get(
            at
        ) or OffsetAndTimestamp(int(at) // len(spots), int(at))
        return PartitionReading(dict.fromkeys(spots, stamp))

    def build_facts(self, topic: str) -> SourceFacts:
        ranges = tuple(OffsetRange(partition, 0, self.records // 6) for partition in range(6))
        bounds = {one.partition: LogOffsets(0, one.end) for one in ranges}
        parts = tuple(PartitionStatus(one.partition, 1, (1,), (1,)) for one in ranges)
        status = TopicStatus(topic, topic_id="t", partitions=parts)
        return SourceFacts("id", status, bounds=bounds, ranges=ranges, bytes=self.records * self.size)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.sources == 6], ids=str)
@pytest.mark.parametrize("size", [RECORDS, *BENCH.quick_sizes])
def test_planner_cuts_the_topics_of_the_bench_into_slices(
    monkeypatch: pytest.MonkeyPatch, shape: Shape, size: int
) -> None:
    records = size // SHARE[shape.size]
    broker = Broker(records, shape.size)
    monkeypatch.setattr("bench.fixtures.copies.legs.Brokers", lambda _: broker)
    monkeypatch.setattr("bench.fixtures.copies.legs.read_source", lambda _, wish: broker.build_facts(wish.topic))
    stage = make_stage(monkeypatch, late=0)
    stage.sources = {(shape.size, 6): Source("from", 6, ends={}, sums=WANTED)}
    plan = build_plan(stage, shape)
    assert len(plan.slices) > 1
    assert sum(part.size for part in plan.slices) == records // 6 * 6
    assert any(part.until_ms for part in plan.slices), "slices are cut at times, as the planner does"
    assert plan.target.replication_factor == shape.replication_factor


def test_our_leg_needs_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BenchError, match="the copy has no plan"):
        copy_ours(make_stage(monkeypatch, late=0), Shape(100))


class Frame:
    """Takes the options of a reader and a writer of Spark."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    def __getattr__(self, _: str) -> Frame:
        return self

    def __call__(self, *_: object, **more: str) -> Frame:
        self.settings |= more
        return self


def test_rival_has_the_setting_for_the_end_of_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_stage(monkeypatch, late=0)
    frame = Frame()
    stage.spark = frame  # type: ignore[assignment]
    assert copy_taught(stage, Shape(100)).slices == 0
    assert frame.settings == {**READ, **WRITE}


def test_stack_with_too_few_brokers_is_refused_before_anything_is_filled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SEAMARK_DEVSTACK", "stack.json")
    monkeypatch.setattr(
        "bench.fixtures.copies.stage.load_stack", lambda _: SimpleNamespace(servers=[SimpleNamespace(kind="broker")])
    )
    with pytest.raises(BenchError, match="1 brokers, and the bench needs 3"), open_stage({}, workers=1, brokers=3):
        pass


def test_mirror_is_exactly_once_and_set_as_the_others() -> None:
    config = build_config("nowhere:1", "from", alias="eu")
    assert (config["exactly.once.support"], config["tasks.max"]) == ("required", "2")
    assert config["source.consumer.isolation.level"] == "read_committed"
    for settings, prefix in ((READ, "source.consumer."), (WRITE, "producer.override.")):
        for name, value in settings.items():
            assert config[prefix + name.removeprefix("kafka.")] == value


def test_positions_of_mirror_are_read_by_partition() -> None:
    place = {"cluster": "eu", "topic": "from"}
    answer = {
        "offsets": [
            {"partition": {**place, "partition": 0}, "offset": {"offset": 4}},
            {"partition": {**place, "partition": 1}, "offset": None},
        ]
    }
    assert read_positions(answer) == {0: 4}


def test_gauge_is_what_the_leg_measured() -> None:
    assert read_gauges(Copied(Shape(100), "to", kept=EXACT, read_gauges=lambda: {"MB held": 90.0})) == {"MB held": 90.0}


def test_shapes_have_short_names() -> None:
    shapes = (Shape(100), Shape(1024, sources=12), Shape(1024, replication_factor=3))
    assert [str(shape) for shape in shapes] == ["100 B", "1 KiB, 12 to 6", "1 KiB, RF 3"]
