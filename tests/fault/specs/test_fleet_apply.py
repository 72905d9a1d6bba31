"""A fleet is applied while a worker dies: everything runs in the end, or was named."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from seamark.changes.outcome import Outcome
from seamark.devstack import StackSpec, start_stack
from seamark.devstack.client import ask
from tests.fault.fleet_yard import SIZE, Yard

# The worker dies in the middle of it: many connectors are made by then, some are waited for, some are not begun.
KILL_AFTER = 25
# The first waits for its servers too.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def own_stack():
    """Servers that may be killed."""
    with start_stack(StackSpec(brokers=1, workers=2), name="fleet-apply") as stack:
        yield stack


class Killer:
    """Follows a change, and kills a worker when some of its steps have ended."""

    def __init__(self, stack, worker):
        self.killed = threading.Event()
        self.words = []
        self._kill = threading.Thread(target=self._do, args=(Path(stack.folder), worker))
        self._left = KILL_AFTER

    def _do(self, folder, worker):
        ask(folder, "kill", worker)
        self.killed.set()

    def opened(self, change, *, steps):
        assert steps == 2 * SIZE

    def begun(self, number, words):
        self.words.append(words)

    def waiting(self, words):
        self.words.append(words)

    def ended(self, result):
        self._left -= 1
        if self._left == 0:
            self._kill.start()

    def join(self):
        self._kill.join(30)
        assert self.killed.is_set()


def _names(subjects):
    return {subject.rpartition("/")[2] for subject in subjects}


# The first worker is the one that is talked to, and one of the two is the leader.
@pytest.mark.parametrize("worker", ["worker-1", "worker-2"])
def test_worker_killed_during_an_apply_leaves_nothing_unnamed(own_stack, tmp_path, worker):
    yard = Yard(own_stack, tmp_path)
    killer = Killer(own_stack, worker)
    with yard.open() as fleet:
        planned = fleet.plan(yard.spec)
        assert len(planned.effects) == SIZE
        result = fleet.apply(planned, killer)
        killer.join()
        named = _names(result.failures)
        unhappy = {step.subject for step in result.steps if step.outcome is not Outcome.DONE}
        assert _names(unhappy) <= named
        # What was left stood in a lane that had failed before it.
        assert all(any(name in words for name in named) for words in result.left)
        assert not any("409" in str(error) for error in result.failures.values())
        yard.await_running(yard.names - named)

        ask(Path(own_stack.folder), "restart", worker)
        if result.ending is None:
            fleet.journal.resume(result.change)
    # The rebalances of a hundred may last longer than the 8 s for which a request is repeated with a short timeout.
    with yard.open(SEAMARK_CONTEXTS__DEV__IN_FLIGHT_TIMEOUT="90s") as fleet:
        again = yard.plan(fleet)
        assert _names(effect.subject for effect in again.effects) <= named
        mended = fleet.apply(again)
        assert mended.is_done, mended.failures
        yard.await_running(yard.names)
        assert yard.plan(fleet).is_empty
        gone = fleet.apply(fleet.destroy(yard.spec))
        assert gone.is_done, gone.failures
    print(f"{worker} killed: {len(named)} of {SIZE} named, {len(again.effects)} applied again")
