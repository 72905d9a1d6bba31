"""Brokers die in the middle of a change and come back. On servers of its own: nobody else shall notice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from seamark.devstack.client import ask
from seamark.devstack.process import wait_until
from seamark.errors import DevstackError
from tests.fault.changes.midway import POINTS, hold_midway
from tests.fault.rig import SETTLE_SECONDS, Rig

# The first of them waits for its servers too.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def rigs(own_stack, tmp_path):
    """A connector for each point."""
    rigs = [Rig(own_stack, tmp_path) for _ in POINTS]
    for rig in rigs:
        rig.create()
    yield rigs
    for rig in rigs:
        rig.delete()


@pytest.fixture
def brokers(own_stack):
    """Brokers that can be killed; what is dead at the end is started again."""
    brokers = Brokers(Path(own_stack.folder))
    yield brokers
    brokers.restart()


class Brokers:
    """The brokers of a stack."""

    def __init__(self, folder):
        self._folder = folder
        self._dead = []

    def kill(self, name):
        ask(self._folder, "kill", name)
        self._dead.append(name)

    def restart(self):
        while self._dead:
            ask(self._folder, "restart", self._dead.pop())


@contextmanager
def hold_each(rigs):
    """A change of each connector, each held at another point."""
    with ExitStack() as stack:
        yield [stack.enter_context(hold_midway(rig, point)) for rig, point in zip(rigs, POINTS, strict=True)]


def go_on_together(midways):
    with ThreadPoolExecutor(len(midways)) as pool:
        list(pool.map(lambda midway: midway.go_on(), midways))


def test_one_broker_less_is_no_hindrance(rigs, brokers):
    for rig in rigs:
        # The broker may coordinate the workers: their rebalance then lasts longer than the 8 s for which a request is
        # repeated with a short `in_flight_timeout`. With the real one it is 20 s.
        rig.env["SEAMARK_CONTEXTS__DEV__IN_FLIGHT_TIMEOUT"] = "90s"
    with hold_each(rigs) as midways:
        brokers.kill("broker-2")
        go_on_together(midways)
        for midway in midways:
            assert midway.code == 0, midway.err
            midway.check_restored()
            assert midway.rig.config() == midway.after


def test_two_brokers_less_and_the_operator_knows_what_to_type(rigs, brokers):
    with hold_each(rigs) as midways:
        brokers.kill("broker-1")
        brokers.kill("broker-3")
        go_on_together(midways)
        for midway in midways:
            # Connect can't write either: the connector may have to wait for the brokers, and somebody must know it.
            assert midway.code == 1, midway.out
            assert "not done: resume connector/" in midway.err
            assert midway.told_command()
        brokers.restart()
        wait_until(
            lambda: all(is_up(rig) for rig in rigs),
            "Connect and the journal answered again",
            seconds=SETTLE_SECONDS,
            every_seconds=1,
        )
        with ThreadPoolExecutor(len(midways)) as pool:
            list(pool.map(lambda midway: midway.type_what_was_told(), midways))


def is_up(rig):
    """Whether Connect knows the connector again, and its journal can be read."""
    try:
        rig.state()
    except (OSError, DevstackError):
        return False
    return rig.seamark("journal", "list", "--state", "open")[0] == 0
