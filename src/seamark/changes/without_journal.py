"""What runs when the journal fails during a change: the `always` steps, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from seamark.changes.environment import Environment
from seamark.changes.plan import PlannedStep
from seamark.changes.preconditions import OutcomeResolver
from seamark.changes.run import PlanRun
from seamark.changes.step import Intent, Outcome
from seamark.changes.timing import ChangeTiming, retry_while
from seamark.core.strict_json import StoredFormat
from seamark.core.time import Deadline, limit_requests
from seamark.errors import DeadlineError, JournalError, SeamarkError, UnknownOutcomeError

# If the journal fails after a stop, the connector must not stay stopped because of that: the intent to restore it is
# made durable in a local file, then it is restored. seamark never reads these files back; they show the operator what
# was done without the journal.

FORMAT = StoredFormat("spooled intent", 1)


class Spool(Protocol):
    """Local storage for the intents of a change whose journal failed."""

    def write(self, change: str, number: int, record: Mapping[str, Any]) -> str:
        """Make the record of one step durable and return its location.

        Raises:
            JournalError: the record can't be written. Then nothing is done.
        """
        ...


class FileSpool:
    """A folder of small JSON files that only their owner can read."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder).expanduser().absolute()

    def write(self, change: str, number: int, record: Mapping[str, Any]) -> str:
        """See `Spool.write`. An existing file of the same step is never overwritten."""
        data = json.dumps(
            {**FORMAT.field, "change": change, "step": number, **record},
            indent=1,
            sort_keys=True,
            ensure_ascii=False,
        ).encode()
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self._write_new(f"{change}.{number}", data)
            _sync_folder(self._folder)
        except OSError as error:
            raise JournalError(
                f"neither the journal nor {self._folder} can be written",
                cause=error.strerror or str(error),
                context={"change": change},
            ) from error
        return str(path)

    def _write_new(self, stem: str, data: bytes) -> Path:
        for attempt in range(1000):
            path = self._folder / (f"{stem}.json" if attempt == 0 else f"{stem}.{attempt}.json")
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                continue
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            return path
        raise FileExistsError(17, "too many files of one step", str(self._folder / stem))


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class WithoutJournal:
    """Winds up a change whose journal failed. Each intent is written to the spool before its request is sent.

    Not for a process that was fenced: the process that took the change over does this.
    """

    def __init__(
        self, world: Environment, settler: OutcomeResolver, *, timing: ChangeTiming, spool: Spool | None
    ) -> None:
        self._world = world
        self._settler = settler
        self._timing = timing
        self._spool = spool

    def restore(self, walk: PlanRun, change: str, *, by: str, failure: JournalError) -> JournalError:
        """Run the `always` steps of the sequences that were begun; return the error to raise, with the results."""
        failed_at = self._world.clock.now()
        due = [task for task in walk.remaining() if task.always and walk.is_due(task, winding_up=True)]
        done: list[str] = []
        left = [task.step.describe() for task in walk.unsettled()]
        files: list[str] = []
        for task in due:
            try:
                if (file := self._restore_one(task, walk, change, by=by, failed_at=failed_at)) is not None:
                    files.append(file)
                done.append(task.step.describe())
            except SeamarkError as error:
                walk.record(task, Outcome.DID_NOT_HAPPEN, error=error)
                left.append(f"{task.step.describe()} ({error.message})")
        return _build_error(failure, change, done=done, left=left, files=files)

    def _restore_one(self, task: PlannedStep, walk: PlanRun, change: str, *, by: str, failed_at: float) -> str | None:
        step = task.step
        # The failure that broke the journal, or the previous step, may have caused a rebalance.
        seconds = max(0.0, failed_at + self._timing.in_flight_seconds - self._world.clock.now())
        intent = retry_while(lambda: step.intend(self._world), self._world.clock, seconds=seconds)
        began_at = self._world.clock.now()
        if walk.is_met(task, intent):
            walk.record(task, Outcome.NOTHING_TO_DO, intent=intent)
            return None
        if self._spool is None:
            raise JournalError("there is no spool file for its intent")
        if not walk.allows(task, intent):
            raise JournalError("another process changed it")
        if walk.find_undecided(task):
            # An outcome that is read now can't be written to the journal, and after the owner has started it can't be
            # determined.
            raise JournalError(
                "the outcome of the write of its offsets is unknown, and the journal must record it first"
            )
        record = {"kind": step.kind, "subject": step.subject, "words": step.describe(), "by": by} | intent.to_dict()
        file = self._spool.write(change, task.number, record)
        now = self._world.clock.now()
        if now - began_at > self._timing.begin_seconds or now - failed_at > self._timing.in_flight_seconds:
            # Without a journal, this process can't learn that it was taken over. So it only acts while little time has
            # passed.
            raise DeadlineError(f"too much time has passed; nothing was sent, although {file} exists")
        deadline = Deadline(now + self._timing.send_seconds, self._world.clock.now)
        self._act(task, intent, deadline=deadline, unsure=walk.is_unsure(task))
        walk.record(task, Outcome.DONE, intent=intent)
        return file

    def _act(self, task: PlannedStep, intent: Intent, *, deadline: Deadline, unsure: bool) -> None:
        unknown: SeamarkError | None = None
        try:
            with limit_requests(deadline):
                task.step.perform(self._world, intent)
        except UnknownOutcomeError as error:
            unknown = error
        quiet_at = self._world.clock.now() + self._timing.in_flight_seconds
        outcome, trouble = self._settler.settle(task.step, intent, unknown=unknown, quiet_at=quiet_at, unsure=unsure)
        if outcome is not Outcome.DONE:
            raise trouble or JournalError(f"it ended as '{outcome}'")


def _build_error(
    failure: JournalError, change: str, *, done: list[str], left: list[str], files: list[str]
) -> JournalError:
    words = [failure.message]
    if done:
        words.append(f"done without the journal: {'; '.join(done)}")
    if left:
        words.append(f"not done: {'; '.join(left)}")
    hint = f"once the journal can be written again: seamark journal resume {change}"
    if files:
        hint += f"; steps done without the journal are recorded in {', '.join(files)}"
    context = failure.context | {"change": change} | ({"spool": ", ".join(files)} if files else {})
    return JournalError(". ".join(words), cause=failure.cause, hint=hint, context=context)
