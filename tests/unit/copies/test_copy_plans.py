"""Plans of copies: what is read for them, what is refused, and what people are told."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from seamark.copies.plan.endpoints import build_copy_options, parse_shape
from seamark.copies.plan.registry import read_copy_plan, write_copy_plan
from seamark.copies.plan.users import ReaderKind
from seamark.errors import NotFoundError, RefusedError, UsageError
from seamark.kafka.groups import GroupMember
from seamark.kafka_sink.routing import Partitioner
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.copies.copying import FakeLogs, plant, sample_keys
from tests.unit.fleet.living import SINK_CONFIG, LivingConnect, open_living_fleet


class Desk:
    def __init__(self, folder, monkeypatch):
        self.brokers, self.logs, self.game = FakeBrokers(), FakeLogs(), LivingConnect()
        self.spark = plant(monkeypatch, self.brokers, self.logs)
        self.fleet = open_living_fleet(folder, self.game, brokers=self.brokers)
        self.brokers.add_topic("t", partitions=4, records=1000)
        self.logs.keys["t"] = sample_keys(4)

    def plan(self, partitions="4:2", **options):
        return self.fleet.copies.plan("t", partitions, **options)


@pytest.fixture
def desk(tmp_path, monkeypatch):
    return Desk(tmp_path, monkeypatch)


def test_plan_says_what_is_copied_where_to_and_how(desk):
    draft = desk.plan()
    plan = draft.plan
    assert not plan.is_refused
    assert (plan.source.partitions, plan.target.partitions) == (4, 2)
    assert (plan.target.topic, plan.target.topic_id) == ("t-2", "")
    assert plan.routing.rule is Partitioner.MURMUR2
    assert (plan.size, draft.bytes) == (4000, 400_000)
    assert {one.partition: (one.begin, one.end) for one in plan.ranges} == dict.fromkeys(range(4), (0, 1000))
    assert desk.brokers.writes == []


def test_samples_are_of_all_of_the_log_and_shared_out(desk):
    desk.plan(since="100", until="200")
    assert desk.logs.asked == [("t", dict.fromkeys(range(4), (0, 1000)), 7500)]


def test_slices_are_cut_by_time_and_as_large_as_was_asked(desk):
    # All partitions have a record a second; three of them stand still for a while.
    plan = desk.plan(slice_records=500).plan
    assert 8 <= len(plan.slices) <= 12
    assert max(one.size for one in plan.slices) <= 504
    assert all(one.until_ms is not None for one in plan.slices[:-1])
    first = plan.slices[0]
    assert len({part.end for part in first.ranges}) == 1


def test_slices_grow_with_their_tasks_where_nobody_says_how_large(desk):
    assert len(desk.plan().plan.slices) == 1


@pytest.mark.parametrize(
    ("since", "until", "wanted"),
    [
        ("100", "300", (100, 300)),
        (None, "5000", (0, 1000)),
        ("1970-01-01T00:00:10Z", "1970-01-01T00:00:20Z", (10, 20)),
        ("900", "100", (900, 900)),
        ("1980-01-01", None, (1000, 1000)),
    ],
)
def test_range_is_by_offset_or_by_time_and_stays_within_the_log(desk, since, until, wanted):
    ranges = desk.plan(since=since, until=until).plan.ranges
    assert {(one.begin, one.end) for one in ranges} == {wanted}


def test_rule_of_a_person_goes_before_samples_that_prove_nothing(desk):
    desk.logs.keys["t"] = [(0, b"k"), (3, b"k"), *((n % 4, str(n).encode()) for n in range(50))]
    refused = desk.plan().plan
    assert refused.is_refused
    assert "set it with --partitioner" in refused.refusals[0]
    told = desk.plan(rule="crc32").plan
    assert not told.is_refused
    assert told.routing.rule is Partitioner.CRC32


def test_target_that_is_there_and_empty_is_taken(desk):
    desk.brokers.add_topic("other", partitions=2)
    plan = desk.plan(to="other").plan
    assert not plan.is_refused
    assert plan.target.topic_id == desk.brokers.topics["other"].id
    desk.brokers.add_topic("full", partitions=2, records=1)
    assert desk.plan(to="full").plan.is_refused
    desk.brokers.add_topic("wide", partitions=3)
    with pytest.raises(RefusedError, match="with 3 partitions"):
        desk.plan(to="wide")


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda desk: desk.fleet.copies.plan("nobody", 2), NotFoundError, "topic nobody does not exist"),
        (lambda desk: desk.plan("5:2"), UsageError, "has 4 partitions, not 5"),
        (lambda desk: desk.plan("0"), UsageError, "1 to"),
        (lambda desk: desk.plan("a:b"), UsageError, "number of partitions"),
        (lambda desk: desk.plan(rule="hash"), UsageError, "for --partitioner"),
        (lambda desk: desk.plan(to="a/b"), UsageError, "invalid topic name"),
        (lambda desk: desk.plan(since="yesterday"), UsageError, "invalid value 'yesterday' for --start"),
        (lambda desk: desk.plan(slice_records=0), UsageError, "slice-records"),
    ],
)
def test_what_can_not_be_is_refused_with_its_next_step(desk, call, kind, words):
    with pytest.raises(kind, match=words):
        call(desk)


def test_partition_without_a_leader_is_no_topic_to_copy(desk):
    desk.brokers.topics["t"].leaderless = {2}
    with pytest.raises(RefusedError, match="no leader"):
        desk.plan()


def test_readers_are_sinks_and_groups_with_their_lag(desk):
    desk.game.add("lake", SINK_CONFIG)
    desk.game.add("new", SINK_CONFIG, state="STOPPED")
    desk.brokers.add_group("connect-lake", {("t", n): 990 for n in range(4)})
    desk.brokers.add_group(
        "billing",
        {("t", 0): 1000},
        state="STABLE",
        members=(GroupMember("m", "c", "h", assignment=(("t", 0), ("t", 1))),),
    )
    desk.brokers.add_group("report", {("t", n): 1000 for n in range(4)})
    desk.brokers.add_group("elsewhere", {("u", 0): 3})
    readers = {reader.name: reader for reader in desk.plan().readers}
    assert list(readers) == ["game/lake", "game/new", "billing", "report"]
    assert (readers["game/lake"].kind, readers["game/lake"].lag) == (ReaderKind.SINK, 40)
    assert readers["game/new"].lag == 4000
    assert readers["game/new"].missing == (0, 1, 2, 3)
    assert readers["billing"].is_active
    assert (readers["billing"].lag, readers["billing"].missing) == (0, (1, 2, 3))
    assert (readers["report"].lag, readers["report"].is_active) == (0, False)


def test_text_tells_readers_and_what_comes_after(desk):
    desk.game.add("lake", SINK_CONFIG)
    desk.brokers.add_group("connect-lake", {("t", n): 990 for n in range(4)}, state="STABLE")
    desk.brokers.add_group("billing", {("t", 0): 990}, state="STABLE")
    text = str(desk.plan())
    assert "t (4 partitions) → t-2 (2 partitions, new)" in text
    assert "4,000 records at most, 390.6 KiB · 1 slice of up to 4,000" in text
    assert "placed by murmur2: every key is on the partition that murmur2 assigns" in text
    assert "game/lake  sink, STABLE, active, lag 40" in text
    assert "billing    group, STABLE, active, lag 10" in text
    assert "no committed offset in 3 partitions" in text
    # The cutover stops the sink itself.
    assert "; stop these first: billing\n" in text
    assert "retention.ms=-1, then" in text
    assert text.endswith("No changes were made.\n")


def test_growing_by_a_multiple_reads_nothing_again(desk):
    desk.brokers.add_group("billing", {("t", 0): 990})
    text = str(desk.plan("8"))
    assert "no shuffle" in text
    assert "no record is reprocessed" in text


def test_plan_comes_back_from_its_file(desk, tmp_path):
    draft = desk.plan()
    write_copy_plan(draft.plan, tmp_path / "plan.json")
    assert read_copy_plan(tmp_path / "plan.json") == draft.plan
    assert (tmp_path / "plan.json").stat().st_mode & 0o777 == 0o600
    # What `-o json` wrote is a plan too.
    (tmp_path / "out.json").write_text(json.dumps({"apiVersion": "seamark/v1", "kind": "CopyPlan", **draft.to_dict()}))
    assert read_copy_plan(tmp_path / "out.json") == draft.plan


@pytest.mark.parametrize("text", ["", "[]", '{"format_version": 1}'])
def test_file_that_is_no_plan_is_refused(tmp_path, text):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(UsageError):
        read_copy_plan(tmp_path / "plan.json")


def test_shapes():
    assert parse_shape("6") == (None, 6)
    assert parse_shape("12:6") == (12, 6)
    assert parse_shape("1,200:600") == (1200, 600)
    assert build_copy_options("t", 6).target == "t-6"
    assert replace(build_copy_options("t", 6), to="u").target == "u"
