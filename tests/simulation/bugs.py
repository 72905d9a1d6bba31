"""Planted bugs: what an executor, a recovery or a journal could get wrong. Each must turn the simulation red.

They are patches that a test puts on and takes off; nothing in the product knows of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from seamark.changes import executor as executor_module
from seamark.changes import recovery as recovery_module
from seamark.changes.executor import Executor, Sent, write_outcome
from seamark.changes.history import ChangeHistory
from seamark.changes.journal import EntryKind
from seamark.changes.kafka_journal import KafkaJournalWriter
from seamark.changes.kafka_journal.heads import OpenChangeIndex
from seamark.changes.preconditions import Expectations, OutcomeResolver
from seamark.changes.recovery import Recovery
from seamark.changes.run import PlanRun
from seamark.changes.step import Outcome
from seamark.connect.caller import Caller
from seamark.core.time import Deadline, limit_requests
from seamark.errors import FencedError, JournalError, SeamarkError, UnknownOutcomeError
from seamark.kafka import log as log_module
from seamark.kafka.log import build_reader_config
from seamark.kafka.transaction import TransactionalWriter
from tests.fakes.kafka.brokers import MemoryBrokers
from tests.simulation.journal import SimWriter

Plant = Callable[[pytest.MonkeyPatch], None]


def act_before_intent(patch: pytest.MonkeyPatch) -> None:
    """The step acts, and then its intent is written."""
    for writer in (SimWriter, KafkaJournalWriter):
        _write_intents_later(patch, writer)


def _write_intents_later(patch: pytest.MonkeyPatch, writer: type[Any]) -> None:
    entries: list[Any] = []
    append = writer.append

    def append_later(self: Any, kind: EntryKind, body: Any) -> Any:
        if kind is EntryKind.INTENT:
            entries.append(body)
            return None
        if entries:
            append(self, EntryKind.INTENT, entries.pop())
        return append(self, kind, body)

    patch.setattr(writer, "append", append_later)


def stale_lock_accepted(patch: pytest.MonkeyPatch) -> None:
    """A process whose change was taken over continues to write to the files."""
    patch.setattr(SimWriter, "check_fence", lambda self: None)


def takeover_fences_nobody(patch: pytest.MonkeyPatch) -> None:
    """Taking a transactional ID leaves the previous holder its epoch."""

    def init_producer(self: MemoryBrokers, transactional_id: str) -> int:
        holder = self._holders[transactional_id]
        holder.epoch = max(holder.epoch, 0)
        return holder.epoch

    patch.setattr(MemoryBrokers, "init_producer", init_producer)


def uncommitted_read(patch: pytest.MonkeyPatch) -> None:
    """The journal is read with entries whose transactions are open or aborted."""

    def build(group: str, *, fetch_wait_ms: int, isolation: str) -> dict[str, Any]:
        del isolation
        return build_reader_config(group, fetch_wait_ms=fetch_wait_ms, isolation="read_uncommitted")

    patch.setattr(log_module, "build_reader_config", build)


def lost_commit_believed(patch: pytest.MonkeyPatch) -> None:
    """An entry whose commit was not answered counts as written, and the step acts on it."""
    try_write = TransactionalWriter._try_write

    def believe(self: TransactionalWriter, records: Any, *, deadline: float) -> Any:
        failure = try_write(self, records, deadline=deadline)
        return failure if failure is not None and failure.is_known else None

    patch.setattr(TransactionalWriter, "_try_write", believe)


def lost_commit_written_again(patch: pytest.MonkeyPatch) -> None:
    """An entry whose commit was not answered counts as not written, and is written once more."""
    try_write = TransactionalWriter._try_write

    def doubt(self: TransactionalWriter, records: Any, *, deadline: float) -> Any:
        failure = try_write(self, records, deadline=deadline)
        if failure is not None and not failure.is_known and not failure.error.fatal():
            self._producer._is_begun = False
            return try_write(self, records, deadline=deadline)
        return failure

    patch.setattr(TransactionalWriter, "_try_write", doubt)


def gate_left_unchecked(patch: pytest.MonkeyPatch) -> None:
    """Locks that were free before the gate count as free in it."""
    seen: set[int] = set()
    refuse_conflict = OpenChangeIndex.refuse_conflict

    def refuse_once(self: OpenChangeIndex, opening: Any) -> None:
        if id(opening) not in seen:
            refuse_conflict(self, opening)
        seen.add(id(opening))

    patch.setattr(OpenChangeIndex, "refuse_conflict", refuse_once)


def ages_of_other_leaders(patch: pytest.MonkeyPatch) -> None:
    """The age of an entry is measured by the clocks of two leaders."""
    apply_head = OpenChangeIndex._apply_head

    def forget_leader(self: OpenChangeIndex, change: str, record: Any) -> None:
        apply_head(self, change, replace(record, leader_epoch=0))

    apply_gate = OpenChangeIndex._apply_gate
    patch.setattr(OpenChangeIndex, "_apply_head", forget_leader)
    patch.setattr(
        OpenChangeIndex, "_apply_gate", lambda self, record: apply_gate(self, replace(record, leader_epoch=0))
    )


def swallowed_500(patch: pytest.MonkeyPatch) -> None:
    """No answer is taken for a good one, and nobody looks."""

    def act(self: Executor, task: Any, intent: Any, writer: Any, *, entered_at: float, **_: Any) -> Any:
        try:
            with limit_requests(self._confirm(task, writer, entered_at=entered_at)):
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

    def settle(self: Recovery, past: ChangeHistory, task: Any, writer: Any, **_: Any) -> Any:
        write_outcome(writer, task, (Outcome.DID_NOT_HAPPEN, None), again=True)

    patch.setattr(Recovery, "_settle", settle)


def unknown_repeated_at_once(patch: pytest.MonkeyPatch) -> None:
    """ "As before" is believed before a late request has had its time."""
    settle = OutcomeResolver.settle

    def hasty(
        self: OutcomeResolver, step: Any, intent: Any, *, unknown: Any, quiet_at: float, unsure: bool = False
    ) -> Any:
        return settle(self, step, intent, unknown=unknown, quiet_at=self._world.clock.now(), unsure=unsure)

    patch.setattr(OutcomeResolver, "settle", hasty)


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
    is_due = PlanRun.is_due

    def forgetful(self: PlanRun, task: Any, *, winding_up: bool) -> bool:
        broken = any(result.outcome is Outcome.DID_NOT_HAPPEN for result in self.results)
        return not (task.always and broken) and is_due(self, task, winding_up=winding_up)

    patch.setattr(PlanRun, "is_due", forgetful)
    patch.setattr(PlanRun, "unsettled", lambda self, *, leaving=False: [])


def closed_while_unknown(patch: pytest.MonkeyPatch) -> None:
    """A change is closed though nobody knows what became of a step."""
    patch.setattr(PlanRun, "unsettled", lambda self, *, leaving=False: [])
    patch.setattr(PlanRun, "ending", lambda self: executor_module.Ending.DONE)


def foreign_overwritten(patch: pytest.MonkeyPatch) -> None:
    """A step acts on what somebody else made of the thing."""
    patch.setattr(Expectations, "allow", lambda self, step, intent: True)


def looked_and_believed(patch: pytest.MonkeyPatch) -> None:
    """What must be restored is taken for restored by a look, though a slow act may still be about to show."""
    patch.setattr(Expectations, "is_unsure", lambda self, step: False)


def secret_journalled(patch: pytest.MonkeyPatch) -> None:
    """What stands behind a reference goes into the journal if its key has a harmless name."""
    patch.setattr("seamark.connectors.steps.find_references", lambda config: ())


# Those that the issue names, of which the missed fsync and the torn tail are the file journal's own; then ours.
BUGS: tuple[Plant, ...] = (
    act_before_intent,
    stale_lock_accepted,
    takeover_fences_nobody,
    uncommitted_read,
    lost_commit_believed,
    lost_commit_written_again,
    gate_left_unchecked,
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
