"""A call that goes on can be seen from outside, with what was answered so far."""

from __future__ import annotations

import threading
import time

import pytest

from seamark.connect.caller import Timing
from seamark.connect.client import ConnectClient
from seamark.errors import DeadlineError, NotFoundError
from tests.fakes.connect import Delay, FakeConnect

DEADLINE_SECONDS = 10


def look_until(client, is_seen):
    """What is seen of the calls once something is; an error where it never is."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        waits = client.waits()
        if is_seen(waits):
            return waits
        time.sleep(0.005)
    raise AssertionError("nothing was seen")


def test_a_call_that_hangs_is_seen_and_gone_when_it_ends():
    with FakeConnect() as fake, ConnectClient(fake.urls, cluster="game") as client:
        # Who looks must get a turn meanwhile, on a busy machine too.
        fake.faults.add(match="GET /connectors*", do=Delay(1.5))
        thread = threading.Thread(target=client.read_connectors)
        thread.start()
        (wait,) = look_until(client, lambda waits: bool(waits) and waits[0].seconds > 0.1)
        thread.join(DEADLINE_SECONDS)
        assert (wait.cluster, wait.doing, wait.last_words) == ("game", "read the connectors", "")
        assert client.waits() == ()


def test_what_a_storm_of_rebalances_says_is_seen():
    timing = Timing(deadline_seconds=2.0, first_pause_seconds=0.05, longest_pause_seconds=0.1)
    with FakeConnect() as fake, ConnectClient(fake.urls, timing=timing) as client:
        fake.faults.storm()
        errors = []

        def read():
            try:
                client.read_connectors()
            except DeadlineError as error:
                errors.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        (wait,) = look_until(client, lambda waits: bool(waits) and waits[0].last_words)
        thread.join(DEADLINE_SECONDS)
        assert wait.last_words.startswith("409 ")
        assert len(errors) == 1
        assert client.waits() == ()


def test_a_call_that_fails_leaves_nothing_behind():
    with FakeConnect() as fake, ConnectClient(fake.urls) as client:
        with pytest.raises(NotFoundError):
            client.read_config("nope")
        client.read_workers()
        assert client.waits() == ()
