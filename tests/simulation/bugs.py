"""Planted bugs: what an executor, a recovery or a journal could get wrong. Each must turn the simulation red.

They are patches that a test puts on and takes off; nothing in the product knows of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from seamark.change import executor as executor_module
from seamark.change import recovery as recovery_module
from seamark.change.executor import Executor, Sent, write_outcome
from seamark.change.expectation import Expectations
from seamark.change.past import Past
from seamark.change.recovery import Recovery
from seamark.change.settle import Settler
from seamark.change.step import Outcome
from seamark.change.walk import Walk
from seamark.connect.caller import Caller
from seamark.errors import FencedError, JournalError, SeamarkError, UnknownOutcomeError
from seamark.model.deadline import Deadline
from seamark.model.entry import EntryKind
from tests.simulation.journal import SimWriter

Plant = Callable[[pytest.MonkeyPatch], None]


def act_before_intent(patch: pytest.MonkeyPatch) -> None:
    """The step acts, and then its intent is written."""
    entries: list[Any] = []

    def append_later(self: SimWriter, kind: EntryKind, body: Any) -> Any:
        if kind is EntryKind.INTENT:
            entries.append(body)
            return None
        if entries:
            append(self, EntryKind.INTENT, entries.pop())
        return append(self, kind, body)

    append = SimWriter.append
    patch.setattr(SimWriter, "append", append_later)


def stale_lock_accepted(patch: pytest.MonkeyPatch) -> None:
    """Who was taken over goes on writing."""
    patch.setattr(SimWriter, "check_fence", lambda self: None)


def swallowed_500(patch: pytest.MonkeyPatch) -> None:
    """No answer is taken for a good one, and nobody looks."""

    def act(self: Executor, task: Any, intent: Any, writer: Any, **_: Any) -> Any:
        try:
            task.step.perform(self.world, intent)
        except (FencedError, JournalError):
            raise
        except UnknownOutcomeError:
            return Sent(intent, settled=(Outcome.DONE, None))
        except SeamarkError as error:
            return Sent(intent, settled=(Outcome.DID_NOT_HAPPEN, error))
        return Sent(intent, settled=(Outcome.DONE, None))

    patch.setattr(Executor, "_act", act)


def resume_before_observe(patch: pytest.MonkeyPatch) -> None:
    """Resume does the step in hand again without looking."""

    def settle(self: Recovery, past: Past, task: Any, writer: Any, **_: Any) -> Any:
        write_outcome(writer, task, (Outcome.DID_NOT_HAPPEN, None), again=True)

    patch.setattr(Recovery, "_settle", settle)


def unknown_repeated_at_once(patch: pytest.MonkeyPatch) -> None:
    """ "As before" is believed before a late request has had its time."""
    settle = Settler.settle

    def hasty(self: Settler, step: Any, intent: Any, *, unknown: Any, quiet_at: float, unsure: bool = False) -> Any:
        return settle(self, step, intent, unknown=unknown, quiet_at=self._world.clock.now(), unsure=unsure)

    patch.setattr(Settler, "settle", hasty)


def slept_and_acted(patch: pytest.MonkeyPatch) -> None:
    """A process that slept after its entry acts without asking the journal."""
    patch.setattr(Executor, "_confirm", lambda self, task, writer, **_: Deadline(math.inf))


def paused_and_sent(patch: pytest.MonkeyPatch) -> None:
    """The client doesn't check its deadline after the pause between two attempts."""
    patch.setattr(Caller, "_build_check", lambda self, request, progress: lambda: True)


def holders_clock_believed(patch: pytest.MonkeyPatch) -> None:
    """Resume waits by the time in the entry, which the dead holder's wall clock gave it."""

    def find_latest_write(entry: Any, writer: Any, actor: Any, *, taken_at: float, now: float) -> float:
        return min(datetime.fromisoformat(entry.at).timestamp(), now)

    patch.setattr(recovery_module, "find_latest_write", find_latest_write)


def restore_forgotten(patch: pytest.MonkeyPatch) -> None:
    """After a failure the run state is not restored."""
    is_due = Walk.is_due

    def forgetful(self: Walk, task: Any, *, winding_up: bool) -> bool:
        broken = any(result.outcome is Outcome.DID_NOT_HAPPEN for result in self.results)
        return not (task.always and broken) and is_due(self, task, winding_up=winding_up)

    patch.setattr(Walk, "is_due", forgetful)
    patch.setattr(Walk, "unsettled", lambda self, *, leaving=False: [])


def closed_while_unknown(patch: pytest.MonkeyPatch) -> None:
    """A change is closed though nobody knows what became of a step."""
    patch.setattr(Walk, "unsettled", lambda self, *, leaving=False: [])
    patch.setattr(Walk, "ending", lambda self: executor_module.Ending.DONE)


def foreign_overwritten(patch: pytest.MonkeyPatch) -> None:
    """A step acts on what somebody else made of the thing."""
    patch.setattr(Expectations, "allow", lambda self, step, intent: True)


def looked_and_believed(patch: pytest.MonkeyPatch) -> None:
    """What must be restored is taken for restored by a look, though a slow act may still be about to show."""
    patch.setattr(Expectations, "is_unsure", lambda self, step: False)


def secret_journalled(patch: pytest.MonkeyPatch) -> None:
    """What stands behind a reference goes into the journal if its key has a harmless name."""
    patch.setattr("seamark.change.steps.connector.find_references", lambda config: ())


# Those that the issue names, of which the missed fsync and the torn tail are the file journal's own; then ours.
BUGS: tuple[Plant, ...] = (
    act_before_intent,
    stale_lock_accepted,
    swallowed_500,
    resume_before_observe,
    unknown_repeated_at_once,
    slept_and_acted,
    paused_and_sent,
    holders_clock_believed,
    restore_forgotten,
    closed_while_unknown,
    foreign_overwritten,
    looked_and_believed,
    secret_journalled,
)
