"""What a consumer holds: records that were given and not saved come again, and none comes twice otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.consumer.assignment import Assignment
from seamark.errors import NotFoundError
from seamark.tables.model import LedgerEntry

SPOT = ("orders", 3)
ENTRY = LedgerEntry("orders", "id", 3, next_offset=10, epoch=2)


@pytest.fixture
def holdings():
    made = Assignment()
    made.take(SPOT, ENTRY)
    made.find(SPOT).is_placed = True
    return made


def test_records_are_given_once_and_in_order(holdings):
    # 9 was on its way before the partition was claimed; between 11 and 14 there is nothing for readers.
    assert [holdings.accept(SPOT, offset) for offset in (9, 10, 11, 11, 14)] == [False, True, True, False, True]
    assert holdings.find(SPOT).position == 15
    assert not holdings.accept(("orders", 4), 10)


def test_saved_and_committed_goes_on(holdings):
    held = holdings.find(SPOT)
    holdings.accept(SPOT, 10)
    held.save(replace(ENTRY, next_offset=11, moves=1))
    assert not holdings.settle(SPOT, held.saved)
    assert (held.position, held.entry.next_offset, held.is_read) == (11, 11, False)


@pytest.mark.parametrize("was_saved", [False, True])
def test_what_was_not_committed_comes_again(holdings, was_saved):
    held = holdings.find(SPOT)
    holdings.accept(SPOT, 10)
    if was_saved:
        held.save(replace(ENTRY, next_offset=11, moves=1))
    assert holdings.settle(SPOT, ENTRY)
    assert (held.position, held.saved) == (10, None)
    assert holdings.accept(SPOT, 10)


def test_offset_that_somebody_moved_is_where_it_goes_on(holdings):
    holdings.accept(SPOT, 10)
    assert holdings.settle(SPOT, replace(ENTRY, next_offset=4))
    assert [holdings.accept(SPOT, offset) for offset in (3, 4)] == [False, True]


def test_place_that_was_sought_is_kept_until_it_is_saved(holdings):
    held = holdings.find(SPOT)
    held.seek(2)
    assert not held.is_read
    holdings.accept(SPOT, 2)
    assert holdings.settle(SPOT, ENTRY)
    assert held.position == 2
    holdings.accept(SPOT, 2)
    held.is_placed = True
    held.save(replace(ENTRY, next_offset=3, moves=1))
    assert not holdings.settle(SPOT, held.saved)
    assert (held.position, held.start) == (3, 3)


def test_transaction_that_was_rolled_back_is_seen_even_where_it_would_have_come_to_the_same_offset(holdings):
    held = holdings.find(SPOT)
    held.seek(8)
    assert [holdings.accept(SPOT, offset) for offset in (8, 9)] == [True, True]
    held.save(replace(ENTRY, next_offset=10, moves=1))
    assert holdings.settle(SPOT, ENTRY)
    assert [holdings.accept(SPOT, offset) for offset in (8, 9)] == [True, True]


def test_place_that_was_sought_is_saved_without_records(holdings):
    held = holdings.find(SPOT)
    assert not held.is_to_save
    held.seek(30)
    assert held.is_to_save


def test_partition_of_another_is_not_found(holdings):
    holdings.drop([SPOT, ("orders", 9)])
    assert SPOT not in holdings
    with pytest.raises(NotFoundError, match="orders-3 is not assigned"):
        holdings.find(SPOT)


def test_place_that_was_sought_after_a_save_is_not_the_one_that_was_saved(holdings):
    held = holdings.find(SPOT)
    held.seek(2)
    holdings.accept(SPOT, 2)
    held.save(replace(ENTRY, next_offset=3, moves=1))
    # The same place, and another wish.
    held.seek(2)
    holdings.settle(SPOT, held.saved)
    assert (held.position, held.start, held.entry.next_offset, held.is_to_save) == (2, 2, 3, True)


@pytest.mark.parametrize("is_sought_again", [False, True])
def test_commit_that_is_seen_late_has_the_place_that_was_sought_before_it(holdings, is_sought_again):
    held = holdings.find(SPOT)
    held.seek(2)
    holdings.accept(SPOT, 2)
    held.save(replace(ENTRY, next_offset=3, moves=1))
    assert holdings.settle(SPOT, ENTRY)
    if is_sought_again:
        held.seek(2)
    assert holdings.accept(SPOT, 2)
    assert holdings.settle(SPOT, replace(ENTRY, next_offset=3, moves=1))
    assert held.position == (2 if is_sought_again else 3)


def test_what_did_not_reach_the_caller_comes_again(holdings):
    held = holdings.find(SPOT)
    holdings.accept(SPOT, 10)
    holdings.take_back()
    assert (held.position, held.is_to_save, held.is_unsettled) == (10, False, True)
    assert holdings.settle(SPOT, ENTRY)


OUTCOMES = ("committed", "seen late", "rolled back", "not saved", "taken back")


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from(OUTCOMES), st.none() | st.integers(0, 9)), max_size=30))
def test_every_record_is_committed_once_whatever_becomes_of_transactions(batches):
    """The table and the ledger change together, or neither does. Where the caller seeks, the table is set back too."""
    holdings, table, ledger = Assignment(), [], replace(ENTRY, next_offset=0)
    holdings.take(SPOT, ledger)
    held = holdings.find(SPOT)
    for size, outcome, place in batches:
        if place is not None and place <= len(table):
            held.seek(place)
        start, seen = held.position, ledger
        given = [offset for offset in range(start, start + size) if holdings.accept(SPOT, offset)]
        if outcome == "taken back":
            holdings.take_back()
        elif outcome != "not saved":
            # Compare and set: one that comes behind a commit that is seen late is refused.
            assert held.entry == ledger
            held.save(replace(held.entry, next_offset=held.position, moves=held.entry.moves + 1))
        if outcome in {"committed", "seen late"}:
            table[start:] = given
            ledger = held.saved
        if outcome == "seen late":
            holdings.settle(SPOT, seen)
            holdings.accept(SPOT, held.position)
        holdings.settle(SPOT, ledger)
        assert held.position == held.start
        if outcome in {"committed", "seen late"}:
            assert held.position == ledger.next_offset
    assert table == list(range(ledger.next_offset))
