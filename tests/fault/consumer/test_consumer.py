"""Consumers with their offsets in PostgreSQL, killed and stopped at every step: each record is a row, once."""

from __future__ import annotations

import pytest

from tests.fault.consumer.consumer_soak import PROTOCOLS, VIOLATIONS, soak


@pytest.mark.timeout(700)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_record_becomes_one_row_whatever_happens_to_its_consumers(stack, protocol):
    found = soak(stack, protocol=protocol, rows=20_000)
    assert {name: found[name] for name in VIOLATIONS} == dict.fromkeys(VIOLATIONS, 0)
    # Four steps, at each a kill and a stop.
    assert (found["at_step"], found["stopped"]) == (8, 4)


@pytest.mark.timeout(700)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_state_in_memory_is_flushed_and_restored_whatever_happens_to_its_consumers(stack, protocol):
    found = soak(stack, protocol=protocol, rows=20_000, keeps_state=True)
    assert {name: found[name] for name in VIOLATIONS} == dict.fromkeys(VIOLATIONS, 0)
    # Four steps of the loop and four of the callbacks, at each a kill and a stop.
    assert (found["at_step"], found["stopped"]) == (16, 8)
