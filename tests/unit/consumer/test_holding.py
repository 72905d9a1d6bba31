"""What a consumer holds: records that were given and not saved come again, and none comes twice otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.consumer.holding import Holdings
from seamark.errors import NotFoundError
from seamark.model.ledger_entry import Entry

SPOT = ("orders", 3)
ENTRY = Entry("orders", "id", 3, next_offset=10, epoch=2)


@pytest.fixture
def holdings():
    made = Holdings()
    made.take(SPOT, ENTRY)
    return made


def test_records_are_given_once_and_in_order(holdings):
    # 9 was on its way before the partition was claimed; between 11 and 14 there is nothing for readers.
    assert [holdings.accept(SPOT, offset) for offset in (9, 10, 11, 11, 14)] == [False, True, True, False, True]
    assert holdings.find(SPOT).position == 15
    assert not holdings.accept(("orders", 4), 10)


def test_saved_and_committed_goes_on(holdings):
    held = holdings.find(SPOT)
    holdings.accept(SPOT, 10)
    held.saved = replace(ENTRY, next_offset=11)
    assert not holdings.settle(SPOT, held.saved)
    assert (held.position, held.entry.next_offset, held.is_read) == (11, 11, False)


@pytest.mark.parametrize("was_saved", [False, True])
def test_what_was_not_committed_comes_again(holdings, was_saved):
    held = holdings.find(SPOT)
    holdings.accept(SPOT, 10)
    held.saved = replace(ENTRY, next_offset=11) if was_saved else None
    assert holdings.settle(SPOT, ENTRY)
    assert (held.position, held.saved) == (10, None)
    assert holdings.accept(SPOT, 10)


def test_offset_that_somebody_moved_is_where_it_goes_on(holdings):
    holdings.accept(SPOT, 10)
    assert holdings.settle(SPOT, replace(ENTRY, next_offset=4))
    assert [holdings.accept(SPOT, offset) for offset in (3, 4)] == [False, True]


def test_place_that_was_sought_is_kept_until_it_is_saved(holdings):
    held = holdings.find(SPOT)
    held.sought = held.position = 2
    assert not held.is_read
    holdings.accept(SPOT, 2)
    assert holdings.settle(SPOT, ENTRY)
    assert held.position == 2
    holdings.accept(SPOT, 2)
    held.saved = replace(ENTRY, next_offset=3)
    assert not holdings.settle(SPOT, held.saved)
    assert (held.position, held.start) == (3, 3)


def test_transaction_that_was_rolled_back_is_seen_even_where_it_would_have_come_to_the_same_offset(holdings):
    held = holdings.find(SPOT)
    held.sought = held.position = 8
    assert [holdings.accept(SPOT, offset) for offset in (8, 9)] == [True, True]
    held.saved = replace(ENTRY, next_offset=10, moves=1)
    assert holdings.settle(SPOT, ENTRY)
    assert [holdings.accept(SPOT, offset) for offset in (8, 9)] == [True, True]


def test_place_that_was_sought_is_saved_without_records(holdings):
    held = holdings.find(SPOT)
    assert not held.is_to_save
    held.sought = held.position = 30
    assert held.is_to_save


def test_partition_of_another_is_not_found(holdings):
    holdings.drop([SPOT, ("orders", 9)])
    assert SPOT not in holdings
    with pytest.raises(NotFoundError, match="orders-3 is not held"):
        holdings.find(SPOT)


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["committed", "rolled back", "not saved"])), max_size=30))
def test_every_record_is_committed_once_whatever_becomes_of_transactions(batches):
    """The table and the ledger change together, or neither does."""
    holdings, table, ledger = Holdings(), [], replace(ENTRY, next_offset=0)
    holdings.take(SPOT, ledger)
    held = holdings.find(SPOT)
    for size, outcome in batches:
        given = [offset for offset in range(held.position, held.position + size) if holdings.accept(SPOT, offset)]
        if outcome != "not saved":
            held.saved = replace(held.entry, next_offset=held.position)
        if outcome == "committed":
            table += given
            ledger = held.saved
        holdings.settle(SPOT, ledger)
    assert table == list(range(ledger.next_offset))
