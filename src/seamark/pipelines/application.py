"""Schedule many pipelines in one application: each has its own interval, its own errors and its own pace.

Nothing here knows Spark. The ends of all topics are read with one request, a pipeline without new records costs no job,
and one that fails is suspended with its reason and tried again, while the others continue.
"""

from __future__ import annotations

import logging
import math
import random
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from seamark.errors import FencedError, PartialError, SeamarkError
from seamark.kafka.model import TopicPartition
from seamark.pipelines.binding import describe_error, is_ours, is_passing
from seamark.pipelines.declared import PipelineSpec
from seamark.pipelines.progress import BatchLanded, MemberState, MemberStatus

_LOGGER = logging.getLogger("seamark.fleet")
# How often the scheduler looks for pipelines that are due. A look costs nothing while none is.
_TICK_SECONDS = 0.25
# A pipeline without records asks so often whether its partitions are still its own; with many of them, less often.
_WATCH_SECONDS = 10.0
FOLLOW_SECONDS = 15.0
"""How often the journal is asked for pipelines that were applied meanwhile."""
# Pauses after an error, the first and the longest. An outage needs no user to end. Rejected rows need one, but a right
# that was revoked may be granted at any time. After a move of its offsets a pipeline begins at once; two applications
# with the same pipeline meet less and less often.
_OUTAGE, _REFUSED, _FENCED = (1.0, 60.0), (15.0, 900.0), (1.0, 300.0)
# A run that ends waits for about two minutes in an outage.
_MOST_ATTEMPTS = 7

# Vacuum lists all files of a table.
_MOST_VACUUM_SECONDS = 86_400.0

Ends = Mapping[TopicPartition, int]


class RunPort(Protocol):
    """One pipeline as the scheduler drives it: `spark_job.PipelineRun`."""

    @property
    def spots(self) -> Sequence[TopicPartition]:
        """The partitions that are read now."""

    @property
    def is_catching_up(self) -> bool:
        """Whether new partitions wait for the end of the previous ones."""

    def begin(self) -> None:
        """Claim the partitions, at the offsets of the ledger."""

    def plan(self, ends: Ends) -> Sequence[Any]:
        """Plan the next batch; empty where there is nothing to process up to these ends."""

    def land(self, steps: Sequence[Any], ends: Ends) -> BatchLanded:
        """Process a batch."""

    def follow(self) -> None:
        """Claim the new partitions of a topic that has grown."""

    def watch(self) -> None:
        """Check that the claims are still held."""

    def compact(self) -> tuple[int, int]:
        """Merge small files of the table."""

    def vacuum(self, *, keep_seconds: float) -> int:
        """Delete files that no recent version of the table has."""

    def cancel(self) -> None:
        """End a batch that is under way in another thread."""


@dataclass(slots=True)
class _Member:
    """One pipeline, and when it is due."""

    spec: PipelineSpec
    run: RunPort
    due_at: float
    status: MemberStatus
    has_begun: bool = False
    is_busy: bool = False
    is_leaving: bool = False
    watched_at: float = 0.0
    compact_at: float = math.inf
    vacuum_at: float = math.inf
    failures: int = 0
    failed_by: str = ""
    # The ends that a run without an interval works up to.
    goal: dict[TopicPartition, int] = field(default_factory=dict)
    error: Exception | None = None

    @property
    def name(self) -> str:
        return self.spec.landing.name


class Application:
    """Runs pipelines until `stop` is set, or until none is left."""

    def __init__(
        self,
        *,
        open_run: Callable[[PipelineSpec], RunPort],
        read_ends: Callable[[Collection[TopicPartition]], Ends],
        executor: Executor,
        clock: Callable[[], float],
        is_endless: bool = True,
        follow: Callable[[], Sequence[PipelineSpec]] | None = None,
        on_batch: Callable[[str, BatchLanded], None] | None = None,
        on_status: Callable[[MemberStatus], None] | None = None,
        on_look: Callable[[MemberStatus], None] | None = None,
    ) -> None:
        """Begin without pipelines.

        Args:
            open_run: Opens a pipeline. Nothing is claimed yet.
            read_ends: Reads where committed records end, with one request.
            executor: Runs batches; as many at once as it has threads.
            clock: Monotonic seconds.
            is_endless: Whether pipelines with an interval continue.
            follow: Reads the pipelines that should run now.
            on_batch: Called after each batch, by the thread that ran it.
            on_status: Called when the state of a pipeline changes.
            on_look: Called whenever the state of a pipeline is determined, even if it is the same.
        """
        self._open_run = open_run
        self._read_ends = read_ends
        self._executor = executor
        self._clock = clock
        self._is_endless = is_endless
        self._follow = follow
        self._on_batch = on_batch
        self._on_status = on_status
        self._on_look = on_look
        self._members: dict[str, _Member] = {}
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._followed_at = clock()
        self._is_maintaining = False
        self._has_interval = False

    @property
    def statuses(self) -> tuple[MemberStatus, ...]:
        """How each pipeline is doing."""
        with self._lock:
            return tuple(member.status for _, member in sorted(self._members.items()))

    @property
    def errors(self) -> dict[str, Exception]:
        """The errors of pipelines that have ended with one."""
        return {name: one.error for name, one in sorted(self._members.items()) if one.error is not None}

    def add(self, spec: PipelineSpec) -> None:
        """Add a pipeline. It begins with the next look."""
        name = spec.landing.name
        now = self._clock()
        member = _Member(spec, self._open_run(spec), now, MemberStatus(name, MemberState.STARTING))
        if spec.compact_seconds is not None and self._is_endless:
            # Not all tables at once.
            member.compact_at = now + spec.compact_seconds * random.uniform(0.5, 1.0)  # noqa: S311
        if spec.vacuum_seconds is not None and self._is_endless:
            member.vacuum_at = now + _find_vacuum_interval(spec.vacuum_seconds) * random.uniform(0.1, 1.0)  # noqa: S311
        self._has_interval |= spec.every_seconds is not None
        with self._lock:
            self._members[name] = member
        self._look_at(member.status)

    def run(self, stop: threading.Event, *, end_seconds: float = 60.0) -> None:
        """Run until `stop` is set, or until every pipeline has ended. Batches under way are waited for.

        Args:
            stop: Asks the application to end.
            end_seconds: How long a batch may continue then before it is cancelled.
        """
        while not stop.is_set() and self._is_any_left():
            self._changed.clear()
            self.look()
            # Whichever comes first: a batch has ended, or it is time to look again.
            self._changed.wait(_TICK_SECONDS)
        self._wait_for_batches(end_seconds)

    def look(self) -> None:
        """Follow the registry, and start the batches that are due."""
        self._follow_registry()
        self._start_due()

    def _is_any_left(self) -> bool:
        # An application of pipelines with an interval is a service, to which others may be applied at any time. One
        # whose pipelines process the available records is a job: it would wait for ever without saying so.
        is_service = self._follow is not None and self._has_interval
        return is_service or any(
            one.status.state is not MemberState.ENDED or one.is_busy for one in self._members.values()
        )

    def _wait_for_batches(self, end_seconds: float) -> None:
        deadline = self._clock() + end_seconds
        is_cancelled = False
        while busy := [one for one in self._members.values() if one.is_busy]:
            if not is_cancelled and self._clock() > deadline:
                is_cancelled = True
                for one in busy:
                    one.run.cancel()
            self._changed.wait(_TICK_SECONDS)
            self._changed.clear()

    # --- which pipelines there are

    def _follow_registry(self) -> None:
        self._remove_left()
        if self._follow is None or self._clock() - self._followed_at < FOLLOW_SECONDS:
            return
        self._followed_at = self._clock()
        try:
            wanted = {spec.landing.name: spec for spec in self._follow()}
        except SeamarkError as error:
            # The pipelines that are known continue.
            _LOGGER.warning("could not read the pipelines of the journal: %s", error.message)
            return
        for name, member in self._members.items():
            member.is_leaving = wanted.get(name) != member.spec
        self._remove_left()
        for name, spec in wanted.items():
            if name not in self._members:
                self.add(spec)

    def _remove_left(self) -> None:
        """Remove pipelines that are no longer wanted as they are. One with a batch under way is removed after it."""
        for member in [one for one in self._members.values() if one.is_leaving and not one.is_busy]:
            with self._lock:
                del self._members[member.name]
            status = replace(member.status, state=MemberState.ENDED, reason="removed, or applied with changes")
            self._look_at(replace(status, reason=""))
            self._report(status)

    # --- what is due

    def _start_due(self) -> None:
        now = self._clock()
        due = [
            one
            for one in self._members.values()
            if not one.is_busy and one.status.state is not MemberState.ENDED and one.due_at <= now
        ]
        for one in due:
            if not one.has_begun:
                self._submit(one, self._begin)
        begun = [one for one in due if one.has_begun]
        if not begun:
            return
        begun = [one for one in begun if not self._maintain(one)]
        ends, failures = self._read(begun)
        # The one that waits longest goes first.
        for one in sorted(begun, key=lambda one: one.due_at):
            if failure := next((failures[spot] for spot in one.run.spots if spot in failures), None):
                self._fail(one, failure)
                continue
            self._look(one, ends)

    def _maintain(self, member: _Member) -> bool:
        """Start housekeeping of a table that is due, of one table at a time. Returns whether it was started."""
        now = self._clock()
        spec = member.spec
        if self._is_maintaining or now < min(member.compact_at, member.vacuum_at):
            return False
        self._is_maintaining = True
        if now >= member.compact_at and spec.compact_seconds is not None:
            member.compact_at = now + spec.compact_seconds
            self._submit(member, lambda one: self._keep_house(one, one.run.compact))
        elif spec.vacuum_seconds is not None:
            keep_seconds = spec.vacuum_seconds
            member.vacuum_at = now + _find_vacuum_interval(keep_seconds)
            self._submit(member, lambda one: self._keep_house(one, lambda: one.run.vacuum(keep_seconds=keep_seconds)))
        return True

    def _keep_house(self, member: _Member, work: Callable[[], object]) -> None:
        """Do it. An error of it doesn't concern the records: it is tried again when it is due the next time."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, batches continue
            _LOGGER.warning("housekeeping of %s failed: %s", member.name, describe_error(error))
        finally:
            self._is_maintaining = False

    def _read(self, members: Sequence[_Member]) -> tuple[dict[TopicPartition, int], dict[TopicPartition, Exception]]:
        """Read the ends of these pipelines with one request; where some have none, with one for each pipeline."""
        try:
            return dict(self._read_ends([spot for one in members for spot in one.run.spots])), {}
        except SeamarkError as error:
            if not isinstance(error, PartialError) or is_passing(error):
                return {}, {spot: error for one in members for spot in one.run.spots}
            ends: dict[TopicPartition, int] = {}
            failures: dict[TopicPartition, Exception] = {}
            for one in members:
                try:
                    ends.update(self._read_ends(one.run.spots))
                except SeamarkError as own:
                    failures.update(dict.fromkeys(one.run.spots, own))
            return ends, failures

    def _look(self, member: _Member, ends: Ends) -> None:
        """Start a batch of a pipeline that has records, or say when to look again."""
        every = member.spec.every_seconds if self._is_endless else None
        if every is None:
            # Up to where the topic ended at first: it may never stop growing.
            for spot in member.run.spots:
                if member.run.is_catching_up or spot not in member.goal:
                    member.goal[spot] = ends.get(spot, 0)
            ends = member.goal
        steps = member.run.plan(ends)
        now = self._clock()
        lag = sum(one.end - one.entry.next_offset for one in steps)
        self._set(member, MemberStatus(member.name, MemberState.RUNNING, lag=lag))
        if steps:
            member.due_at = now + (every or 0.0)
            self._submit(member, lambda one: self._land(one, steps, ends))
        elif every is None and not member.run.is_catching_up:
            self._set(member, MemberStatus(member.name, MemberState.ENDED, lag=0))
        else:
            member.due_at = now + (every or 1.0)
            if now - member.watched_at >= max(_WATCH_SECONDS, len(self._members)):
                member.watched_at = now
                self._submit(member, lambda one: one.run.watch())

    # --- in the threads of the executor

    def _submit(self, member: _Member, work: Callable[[_Member], None]) -> None:
        member.is_busy = True

        def run() -> None:
            try:
                work(member)
            except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this pipeline alone
                self._fail(member, error)
            finally:
                member.is_busy = False
                self._changed.set()

        self._executor.submit(run)

    def _begin(self, member: _Member) -> None:
        member.run.begin()
        member.has_begun = True
        member.watched_at = self._clock()

    def _land(self, member: _Member, steps: Sequence[Any], ends: Ends) -> None:
        landed = member.run.land(steps, ends)
        member.failures, member.failed_by = 0, ""
        if self._on_batch is not None:
            self._on_batch(member.name, landed)
        member.run.follow()

    def _fail(self, member: _Member, error: Exception) -> None:
        """Decide when a pipeline that has failed is tried again."""
        kind = "outage" if is_passing(error) else "fenced" if isinstance(error, FencedError) else "refused"
        first, longest = {"outage": _OUTAGE, "fenced": _FENCED, "refused": _REFUSED}[kind]
        member.failures = member.failures + 1 if member.failed_by == kind else 1
        member.failed_by = kind
        # What it holds is unknown: the next try begins at the ledger.
        member.has_begun = False
        if not self._is_endless and (kind != "outage" or member.failures > _MOST_ATTEMPTS):
            member.error = error
            self._set(member, MemberStatus(member.name, MemberState.ENDED, describe_error(error)))
            return
        pause = min(longest, first * 2 ** min(member.failures - 1, 20))
        member.due_at = self._clock() + pause
        state = MemberState.SUSPENDED if kind == "refused" else MemberState.RETRYING
        self._set(member, MemberStatus(member.name, state, describe_error(error), pause, member.status.lag))
        if kind == "refused" and not is_ours(error):
            _LOGGER.warning("pipeline %s is suspended", member.name, exc_info=error)

    def _set(self, member: _Member, status: MemberStatus) -> None:
        with self._lock:
            before, member.status = member.status, status
        self._look_at(status)
        if (before.state, before.reason) != (status.state, status.reason):
            self._report(status)

    def _look_at(self, status: MemberStatus) -> None:
        if self._on_look is not None:
            self._on_look(status)

    def _report(self, status: MemberStatus) -> None:
        if self._on_status is not None:
            self._on_status(status)


def _find_vacuum_interval(keep_seconds: float) -> float:
    return min(_MOST_VACUUM_SECONDS, keep_seconds)
