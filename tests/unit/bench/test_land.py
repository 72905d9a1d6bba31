"""The bench of landings: its records are what it says of them, and its checks see a wrong table."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Self

import psycopg
import pytest

from bench.cases.land import BENCH
from bench.fixtures.lands import freshness
from bench.fixtures.lands.changes import Change, Changes
from bench.fixtures.lands.copy_rows import copy_rows
from bench.fixtures.lands.freshness import Delays, Freshness, Order, build_id, build_percentile, measure_freshness
from bench.fixtures.lands.rows import PARTITIONS, Expected
from bench.fixtures.lands.stage import Landed, Stage, check_table
from bench.fixtures.lands.streams import BATCHES, P50, P99, build_landing, build_statements, land_fresh
from bench.harness.definition import BenchError, WrongResultError

RECORDS = 18_000
CHANGES = Changes(RECORDS)


def test_claims_of_land() -> None:
    assert {(ratio.name, ratio.bar, ratio.gauge) for ratio in BENCH.ratios} == {
        ("jdbc over append", 1.0, None),
        ("copy over append", 0.8, None),
        ("append over upsert", 0.6, None),
        ("bare changes over changes", 0.7, None),
        ("freshness p50, bare over ours", 0.7, P50),
        ("freshness p99, bare over ours", 0.7, P99),
        ("delta over lake", 0.9, None),
    }
    assert all(leg.prepare is not None for leg in BENCH.legs)


def test_half_of_the_changes_are_updates_and_a_twentieth_are_deletes() -> None:
    seen: set[int] = set()
    kinds: Counter[str] = Counter()
    for one in CHANGES:
        kinds["delete" if not one.version else "update" if one.id in seen else "insert"] += 1
        seen.add(one.id)
    assert kinds == {"insert": 0.45 * RECORDS, "update": 0.5 * RECORDS, "delete": 0.05 * RECORDS}


def test_updated_rows_have_ten_versions() -> None:
    versions = Counter(one.id for one in CHANGES if one.version)
    assert Counter(versions.values()) == {10: CHANGES.updated, 1: len(versions) - CHANGES.updated}
    assert {one.version for one in CHANGES if one.id == 0} == set(range(1, 11))


def test_count_is_that_of_whole_blocks() -> None:
    changes = Changes(RECORDS + 1_799)
    assert changes.count == RECORDS == len(list(changes))


def apply(changes: list[Change]) -> dict[int, Change]:
    """What a table has that compares timestamps, and a delete of which is never forgotten."""
    newest: dict[int, Change] = {}
    for one in changes:
        if one.id not in newest or newest[one.id].timestamp_ms <= one.timestamp_ms:
            newest[one.id] = one
    return {id_: one for id_, one in newest.items() if one.version}


def test_rows_that_are_expected_are_the_newest_in_any_order_of_arrival() -> None:
    changes = list(CHANGES)
    rows = apply(changes)
    assert sorted(rows) == list(CHANGES.list_left())
    assert {one.version for id_, one in rows.items() if id_ < CHANGES.updated} == {10}
    assert {one.version for id_, one in rows.items() if id_ >= CHANGES.updated} == {1}
    random.Random(1).shuffle(changes)
    assert apply(changes) == rows


def test_some_versions_come_late_and_a_table_that_does_not_compare_would_be_wrong() -> None:
    last = {one.id: one for one in CHANGES}
    late = [id_ for id_ in range(CHANGES.updated) if last[id_].version != 10]
    assert len(late) == CHANGES.updated // 20


def test_no_change_of_a_deleted_row_comes_after_its_delete() -> None:
    """The rival doesn't remember deletes, and must be right all the same."""
    gone: set[int] = set()
    for one in CHANGES:
        assert one.id not in gone
        if not one.version:
            gone.add(one.id)


def test_versions_of_a_row_are_in_several_batches() -> None:
    size = CHANGES.count // BATCHES
    batches: dict[int, set[int]] = {}
    for place, one in enumerate(CHANGES):
        batches.setdefault(one.id, set()).add(place // size)
    assert all(len(batches[id_]) == BATCHES for id_ in range(CHANGES.updated))
    deleted = {one.id for one in CHANGES if not one.version}
    assert sum(len(batches[id_]) > 1 for id_ in deleted) > len(deleted) / 2, "most deletes find a row"


def make_stage(**more: Any) -> Stage:
    nobody: Any = None
    stage = Stage(
        "nowhere:1",
        SimpleNamespace(dsn="dsn"),  # type: ignore[arg-type]
        nobody,
        topics=nobody,
        topic="orders",
        records=10,
        changes_topic="changes",
        changes=CHANGES,
        changes_expected=CHANGES.build_expected(),
        folder=nobody,
        table="bench_t",
    )
    return replace(stage, **more)


def test_upsert_takes_deletes_from_keys_and_the_order_from_timestamps() -> None:
    landing = build_landing(make_stage(), "changes")
    assert landing.is_key_in_key
    assert landing.order == ("kafka.timestamp",)
    assert not landing.needs_binding


def test_rival_compares_orders_and_takes_the_newest_record_of_each_key() -> None:
    found = build_statements("bench_t")
    assert "ON COMMIT DROP" in found["before"]
    assert found["statement"].startswith("COPY bench_staged (id, customer, amount, placed_at, note, ordered_at,")
    assert "DISTINCT ON (id) * FROM bench_staged ORDER BY id, ordered_at DESC" in found["after"]
    assert "n.is_deleted AND t.id = n.id AND t.ordered_at <= n.ordered_at" in found["after"]
    assert found["after"].endswith("ordered_at = excluded.ordered_at WHERE t.ordered_at <= excluded.ordered_at")


@dataclass
class Server:
    """A connection that answers one query, and keeps what it was told."""

    answer: tuple[int, int | None, int] = (0, 0, 0)
    told: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, query: bytes) -> Self:
        self.told.append(query.decode())
        return self

    def fetchall(self) -> list[tuple[int, int | None, int]]:
        return [self.answer]

    def cursor(self) -> Self:
        return self

    def copy(self, statement: bytes) -> Self:
        self.told.append(statement.decode())
        return self

    def write(self, data: bytes) -> None:
        self.told.append(data.decode())


def connect_to(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg, "connect", lambda *_, **__: server)


def test_right_table_passes_and_each_fault_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    connect_to(server := Server((10, 45, 10)), monkeypatch)
    check_table(make_stage(), Landed("bench_t"))
    assert "note IS NULL" in server.told[-1]
    for wrong in ((9, 45, 9), (10, 44, 10), (10, 45, 9), (0, None, 0)):
        connect_to(Server(wrong), monkeypatch)
        with pytest.raises(WrongResultError, match=f"has {wrong[0]} rows, {wrong[2]} of them right, of 10"):
            check_table(make_stage(), Landed("bench_t"))


def test_changes_are_checked_by_their_newest_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = CHANGES.build_expected()
    left = list(CHANGES.list_left())
    assert (expected.rows, expected.ids) == (len(left), sum(left)) == (RECORDS * 0.4, sum(apply(list(CHANGES))))
    assert f"CASE WHEN id < {CHANGES.updated} THEN 10 ELSE 1 END" in expected.is_right
    connect_to(Server((expected.rows, expected.ids, expected.rows - 1)), monkeypatch)
    with pytest.raises(WrongResultError, match=f"of {expected.rows}"):
        check_table(make_stage(), Landed("bench_t", expected=expected))


def test_statements_around_a_copy_are_run_in_its_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [b"1", b"2"]
    connect_to(server := Server(), monkeypatch)
    copy_rows("dsn", "COPY", rows, before="BEFORE", after="AFTER")
    assert server.told == ["BEFORE", "COPY", "1", "2", "AFTER"]
    connect_to(server := Server(), monkeypatch)
    copy_rows("dsn", "COPY", rows)
    assert server.told == ["COPY", "1", "2"]


@pytest.mark.parametrize(
    ("count", "percent", "value"), [(1, 50, 1), (2, 50, 1), (3, 50, 2), (100, 99, 99), (101, 99, 100), (1000, 99, 990)]
)
def test_percentile_is_one_of_the_values(count: int, percent: int, value: int) -> None:
    assert build_percentile(list(range(count, 0, -1)), percent) == value


def test_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        build_percentile([], 50)


def test_ids_of_a_partition_grow_and_are_its_own() -> None:
    ids = [build_id(number) for number in range(60)]
    assert len(set(ids)) == 60
    for partition in range(PARTITIONS):
        own = ids[partition::PARTITIONS]
        assert own == sorted(own)
        assert {id_ // freshness.SPAN for id_ in own} == {partition}


def test_delay_is_from_the_producer_to_the_first_read_that_has_the_row() -> None:
    delays = Delays()
    for number in range(2 * PARTITIONS):
        assert delays.send(float(number)) == number
    for partition in range(PARTITIONS):
        delays.see(partition, build_id(partition), 100.0)
    assert delays.count_seen() == PARTITIONS
    for partition in range(PARTITIONS):
        delays.see(partition, build_id(partition), 150.0)
        delays.see(partition, build_id(PARTITIONS + partition), 200.0)
        delays.see(partition, build_id(PARTITIONS + partition), 300.0)
    assert delays.count_seen() == 2 * PARTITIONS
    # Records 6 to 11 were produced at 6 to 11 s.
    assert delays.build_freshness(warm=PARTITIONS) == Freshness(p50=191.0, p99=194.0)
    # Record 5 was first seen at 100 s, produced at 5 s.
    assert delays.build_freshness(warm=PARTITIONS - 1).p50 == 191.0
    assert delays.build_freshness(warm=0).p50 == 100.0


def test_row_that_was_never_seen_is_no_delay() -> None:
    delays = Delays()
    delays.send(1.0)
    with pytest.raises(KeyError):
        delays.build_freshness(warm=0)


def test_warm_records_are_not_counted() -> None:
    order = Order("s", "t", "d", "b", rate=10, seconds=2.0, warm_seconds=1.0)
    assert (order.warm, order.records) == (PARTITIONS + 10, PARTITIONS + 30)


def test_order_with_its_password_is_not_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    called: dict[str, Any] = {}

    def run(command: list[str], **named: Any) -> SimpleNamespace:
        called.update(named, command=command)
        return SimpleNamespace(returncode=0, stdout='{"p50": 0.5, "p99": 2.0}', stderr="")

    monkeypatch.setattr(freshness.subprocess, "run", run)
    assert measure_freshness(Order("s", "t", "password=hush", "b")) == Freshness(0.5, 2.0)
    assert "hush" not in str(called["command"])
    assert "hush" in called["input"]
    monkeypatch.setattr(
        freshness.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1, stdout="", stderr="5 of 6 rows")
    )
    with pytest.raises(BenchError, match="5 of 6 rows"):
        measure_freshness(Order("s", "t", "d", "b"))


def test_fresh_leg_gives_its_delays_as_gauges_and_every_record_as_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.fixtures.lands.streams.measure_freshness", lambda _: Freshness(0.5, 2.0))
    landed = land_fresh(make_stage(fresh_topic="fresh"), lambda _: nullcontext())
    assert BENCH.read_gauges is not None
    assert BENCH.read_gauges(landed) == {P50: 0.5, P99: 2.0}
    records = Order("", "", "", "").records
    assert landed.expected == Expected(records, sum(build_id(number) for number in range(records)))
