"""The callbacks of the consumer without brokers: their order, what they save, and exceptions in them."""

from __future__ import annotations

import sqlite3

import pytest

from seamark.errors import FencedError, UsageError
from tests.unit.consumer.test_exact_consumer import COOPERATIVE, database, open_consumer, record  # noqa: F401

EAGER = {}
PROTOCOLS = pytest.mark.parametrize("protocol", [EAGER, COOPERATIVE, {"group.protocol": "consumer"}])
ZERO, ONE = ("orders", 0), ("orders", 1)


class Program:
    """Keeps the offsets of all records that it got, by partition, and notes its callbacks beside the client's calls."""

    def __init__(self, consumer, client, database, **options):  # noqa: F811
        self.consumer, self.client, self.rows = consumer, client, sqlite3.connect(database)
        self.state, self.failing = {}, {}
        consumer.subscribe(
            ["orders"],
            on_assign=self.assign,
            on_revoke=self.revoke,
            on_lost=self.lose,
            **{"keeps_state": True} | options,
        )

    def note(self, name, spots):
        self.client.calls.append((name, [number for _, number in spots]))
        if failure := self.failing.pop(name, None):
            raise failure

    def assign(self, consumer, spots):
        assert consumer is self.consumer
        self.note("on_assign", spots)
        self.state |= {spot: [consumer.position(spot)] for spot in spots}

    def revoke(self, consumer, spots):
        self.note("on_revoke", spots)
        consumer.save(self.rows, spots)
        self.rows.commit()
        for spot in spots:
            del self.state[spot]

    def lose(self, consumer, spots):
        self.note("on_lost", spots)
        for spot in spots:
            del self.state[spot]

    def begin(self, **ends):
        """Get partitions, and have records in them up to these ends."""
        numbers = {int(name[1:]): end for name, end in ends.items()}
        self.client.rebalance("on_assign", *numbers)
        assert self.consume() == []
        self.client.ends = numbers

    def consume(self, count=10):
        found = self.consumer.consume(count, 0.0)
        for one in found:
            self.state[one.topic(), one.partition()].append(one.offset())
        return [(one.partition(), one.offset()) for one in found]

    def saved(self, partition):
        sql = "SELECT next_offset FROM seamark_ledger WHERE partition_number = ?"
        return self.rows.execute(sql, [partition]).fetchone()[0]


@pytest.fixture
def open_program(open_consumer, database):  # noqa: F811
    def start(options=None, **config):
        return Program(*open_consumer(**config), database, **options or {})

    return start


@PROTOCOLS
def test_state_is_restored_before_the_client_reads(open_program, protocol):
    program = open_program(**protocol)
    program.client.rebalance("on_assign", 0, 1)
    program.consume()
    give = "assign" if protocol == EAGER else "incremental_assign"
    assert program.client.calls == [(give, {}), ("on_assign", [0, 1]), (give, {0: 0, 1: 100})]
    assert program.state == {ZERO: [0], ONE: [100]}


@PROTOCOLS
def test_state_is_flushed_before_partitions_are_given_up(open_program, protocol):
    program = open_program(**protocol)
    program.begin(p0=4, p1=102)
    assert program.consume() == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 100), (1, 101)]
    del program.client.calls[:]
    program.client.rebalance("on_revoke", *([0, 1] if protocol == EAGER else [1]))
    program.consume()
    revoked = [0, 1] if protocol == EAGER else [1]
    ends = {0: 4, 1: 102}
    give_up = ("unassign", []) if protocol == EAGER else ("incremental_unassign", {1: -1001})
    names = [name for name, _ in program.client.calls]
    assert program.client.calls[0] == ("on_revoke", revoked)
    commit = next(spots for name, spots in program.client.calls if name == "commit")
    assert {number: commit[number] for number in revoked} == {number: ends[number] for number in revoked}
    assert names.index("on_revoke") < names.index("commit") < names.index(give_up[0])
    assert program.saved(1) == 102
    # In a cooperative group, the other partition is neither saved nor given again.
    assert program.saved(0) == (4 if protocol == EAGER else 0)
    program.client.ends = {0: 6, 1: 102}
    assert program.consume() == ([] if protocol == EAGER else [(0, 4), (0, 5)])


def test_records_that_the_program_keeps_are_not_returned_again(open_program):
    program = open_program()
    program.begin(p0=100)
    for _ in range(3):
        program.consume(2)
    assert program.state[ZERO] == [0, *range(6)]
    program.consumer.save(program.rows)
    program.rows.rollback()
    program.consume(1)
    program.consumer.save(program.rows)
    program.rows.commit()
    program.consume(1)
    assert program.state[ZERO] == [0, *range(8)]
    assert program.saved(0) == 7


def test_without_state_what_was_not_saved_is_returned_again(open_program):
    program = open_program(options={"keeps_state": False})
    program.begin(p0=100)
    assert program.consume(2) == program.consume(2) == [(0, 0), (0, 1)]


def test_failed_poll_loses_nothing_that_the_program_keeps(open_program):
    program = open_program()
    program.begin(p0=100)
    program.consume(2)

    def fail():
        raise KeyboardInterrupt

    program.client.acts.append(fail)
    with pytest.raises(KeyboardInterrupt):
        program.consume(2)
    program.consume(2)
    assert program.state[ZERO] == [0, 0, 1, 2, 3]


@PROTOCOLS
def test_exception_in_on_assign_is_raised_and_no_record_comes_before_it_succeeds(open_program, protocol):
    program = open_program(**protocol)
    program.client.ends = {0: 3}
    program.failing["on_assign"] = ValueError("no state")
    program.client.rebalance("on_assign", 0)
    with pytest.raises(ValueError, match="no state"):
        program.consume()
    assert not program.client.places
    assert program.consume() == [(0, 0), (0, 1), (0, 2)]
    assert [call for call in program.client.calls if call[0] == "on_assign"] == [("on_assign", [0])] * 2


@PROTOCOLS
def test_exception_in_on_revoke_gives_the_partitions_up_unsaved(open_program, protocol):
    program = open_program(**protocol)
    program.begin(p0=3, p1=102)
    program.consume()
    program.failing["on_revoke"] = ValueError("disk full")
    program.client.rebalance("on_revoke", *([0, 1] if protocol == EAGER else [1]))
    program.client.ends = {0: 5, 1: 104}
    with pytest.raises(ValueError, match="disk full"):
        program.consume()
    assert 1 not in program.client.places
    assert (program.saved(0), program.saved(1)) == (0, 100)
    # What came beside the exception comes again.
    assert program.consume() == ([] if protocol == EAGER else [(0, 3), (0, 4)])


@PROTOCOLS
def test_partitions_that_were_lost_can_not_be_saved_any_more(open_program, protocol):
    program = open_program(**protocol)
    program.begin(p0=3)
    program.consume()
    del program.client.calls[:]
    program.client.rebalance("on_lost", 0)
    program.consume()
    names = [name for name, _ in program.client.calls]
    assert names.index("unassign" if protocol == EAGER else "incremental_unassign") < names.index("on_lost")
    assert program.state == {}
    program.consumer.save(program.rows)
    assert program.saved(0) == 0


def test_partition_that_another_process_has_claimed_is_lost(open_program):
    program, other = open_program(), open_program()
    program.begin(p0=3)
    program.consume()
    other.begin(p0=3)
    with pytest.raises(FencedError):
        program.consumer.save(program.rows)
    program.rows.rollback()
    assert program.consume() == []
    assert program.client.calls[-1] == ("on_lost", [0])
    assert other.consume() == [(0, 0), (0, 1), (0, 2)]


def test_state_without_new_records_is_fenced_too(open_program):
    program, other = open_program(), open_program()
    program.begin(p0=3)
    program.consume()
    program.consumer.save(program.rows)
    program.rows.commit()
    assert program.consume() == []
    # The other adds to the state that it has restored; what this one still has in memory is older.
    other.begin(p0=5)
    with pytest.raises(FencedError):
        program.consumer.save(program.rows)


def test_save_in_on_revoke_of_what_is_still_held_fences_nothing(open_program):
    program = open_program(**COOPERATIVE)
    program.begin(p0=3, p1=102)
    program.consume()

    def save_all(consumer, spots):
        consumer.save(program.rows)
        program.rows.commit()

    program.revoke = save_all
    program.consumer.subscribe(
        ["orders"], on_assign=program.assign, on_revoke=save_all, on_lost=program.lose, keeps_state=True
    )
    program.client.rebalance("on_revoke", 1)
    program.client.ends = {0: 5}
    assert program.consume() == []
    assert (program.saved(0), program.saved(1)) == (3, 102)
    assert program.consume() == [(0, 3), (0, 4)]
    program.consumer.save(program.rows)
    program.rows.commit()
    assert (program.saved(0), program.state[ZERO]) == (5, [0, 0, 1, 2, 3, 4])


def test_partition_that_is_revoked_before_it_was_claimed_has_no_callback(open_program):
    program = open_program()
    program.client.rebalance("on_assign", 0)
    program.client.rebalance("on_revoke", 0)
    program.consumer._client.acts[:] = [lambda acts=list(program.client.acts): [act() for act in acts]]
    program.consume()
    assert not [name for name, _ in program.client.calls if name.startswith("on_")]


def close_like_librdkafka(program, *partitions):
    program.client.rebalance("on_revoke", *partitions)
    (act,) = program.client.acts
    del program.client.acts[:]
    program.client.close = act


def test_closing_revokes_and_so_saves(open_program):
    program = open_program()
    program.begin(p0=3)
    program.consume()
    close_like_librdkafka(program, 0)
    program.consumer.close()
    assert program.saved(0) == 3


def test_exception_in_on_revoke_is_raised_when_everything_is_closed(open_program):
    program = open_program()
    program.client.rebalance("on_assign", 0)
    program.consume()
    close_like_librdkafka(program, 0)
    program.failing["on_revoke"] = ValueError("disk full")
    with pytest.raises(ValueError, match="disk full"):
        program.consumer.close()
    assert program.consumer._house._connection is None


def test_exception_in_the_with_block_discards_state_that_may_be_half_processed(open_program):
    program = open_program()
    program.begin(p0=3)
    close_like_librdkafka(program, 0)
    with pytest.raises(ZeroDivisionError), program.consumer:
        print(1 // len(program.consumer.consume(10, 0.0)[3:]))
    assert program.saved(0) == 0
    assert [name for name, _ in program.client.calls if name.startswith("on_")] == ["on_assign", "on_lost"]


@pytest.mark.parametrize("name", ["consume", "close"])
def test_callbacks_must_not_consume_or_close(open_program, name):
    program = open_program()
    program.assign = lambda consumer, spots: getattr(consumer, name)()
    program.consumer.subscribe(["orders"], on_assign=program.assign)
    program.client.rebalance("on_assign", 0)
    with pytest.raises(UsageError, match=f"{name} was called in a callback"):
        program.consume()


def test_state_needs_both_callbacks(open_consumer):  # noqa: F811
    consumer, _ = open_consumer()
    for given in ({}, {"on_revoke": print}, {"on_lost": print}):
        with pytest.raises(UsageError, match="keeps_state needs on_revoke and on_lost"):
            consumer.subscribe(["orders"], keeps_state=True, **given)
