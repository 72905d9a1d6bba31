"""The checks around a write of offsets, also in an undo: stopped before it, verified after it, progress at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from seamark.changes.action import CheckStep
from seamark.changes.environment import Environment
from seamark.changes.images import build_config_image, build_fingerprint
from seamark.changes.step import ConnectorSubject, Intent, Observed, step_kind
from seamark.changes.timing import plan_patiently
from seamark.connect.model import Connector, State
from seamark.connectors.heal import describe_failure
from seamark.connectors.read import find_run_state, read_config, read_run_state, read_status
from seamark.core.offsets import Offset, OffsetMap, Order, spell_identity, spell_offset
from seamark.errors import DeadlineError, RefusedError, SeamarkError
from seamark.kafka.groups import count_members
from seamark.offsets.model import OffsetWrite
from seamark.offsets.port import OFFSETS
from seamark.offsets.quiesce import ConnectorSnapshot, open_offsets, require_gone, require_stopped
from seamark.offsets.write.steps import QUIET_SECONDS, WriteOffsets

if TYPE_CHECKING:
    from seamark.context import Context


def find_quiet_seconds(context: Context) -> float:
    """Return how long a connector must be stopped before its offsets are written."""
    # An in-flight timeout far below Connect's own 90 s occurs only in tests, whose tasks are equally fast.
    return min(QUIET_SECONDS, context.journal.in_flight_seconds / 5)


def require_run_state(connector: Connector, world: Environment) -> str:
    """Return the target state of a connector. Raises if it can't be determined, because it could not be restored.

    It waits a short time for a state that is hidden by a rebalance.

    Raises:
        UnsettledError: The rebalance continues.
        RefusedError: Connect has no status for it.
    """
    state = None if connector.status is None else find_run_state(connector.status)
    if state is None:
        read = partial(read_run_state, world, connector.cluster, connector.name)
        state = plan_patiently(read, world.clock)
    if state is None:
        raise RefusedError(
            f"can't determine whether {connector.owner} should be running; no changes were made",
            cause="Connect has no status for it",
            hint=f"wait until Connect reports its status: seamark connectors show {connector.owner}",
        )
    return state


def find_workers(connector: Connector) -> tuple[str, ...]:
    """Return the workers that run a connector and its tasks."""
    status = connector.status
    if status is None:
        return ()
    found = {status.worker_id, *(task.worker_id for task in status.tasks)}
    return tuple(sorted(found - {""}))


# A worker learns of a stop with its next heartbeat; a sink's group is empty when its last member has left or timed out,
# which takes a minute at most by default (`rebalance.timeout.ms`).
_DEADLINE_SECONDS = 90.0
_LOOK_SECONDS = 0.5
# A worker that lags shows the old state for a short time; see `ChangeTiming.shows_seconds`.
_LAG_SECONDS = 10.0


class _Stretch:
    """Measures since when a condition holds without interruption."""

    def __init__(self) -> None:
        self.since: float | None = None

    def note(self, is_so: bool, now: float) -> float:
        """Add an observation; return for how long the condition has held, 0 if it does not hold."""
        self.since = (now if self.since is None else self.since) if is_so else None
        return 0.0 if self.since is None else now - self.since


@step_kind("prove-stopped")
@dataclass(frozen=True, slots=True)
class CheckStopped(ConnectorSubject, CheckStep):
    """Watches a stopped connector until it has been stopped for `quiet_seconds`.

    Its status shows no task and a sink's group is empty, both on two checks, and each of `workers`, which ran it, was
    alive all the time to learn that it must not write any more. A worker that vanished may come back as a zombie and
    write: the step fails then, unless `accepts_zombies`. It also fails for another config than that of the fingerprint
    `config`. With `kept` the connector is created later: it must not exist, and no worker may run it or one of its
    tasks.
    """

    aspect: ClassVar[str] = "quiet"
    expires: ClassVar[bool] = True
    proves: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = _DEADLINE_SECONDS

    workers: tuple[str, ...] = ()
    quiet_seconds: float = QUIET_SECONDS
    accepts_zombies: bool = False
    config: str = ""
    kept: ConnectorSnapshot | None = None

    def describe(self) -> str:
        if self.kept is not None:
            return f"verify that no worker runs {self.subject}"
        return f"verify that {self.subject} is stopped"

    def perform(self, world: Environment, intent: Intent) -> None:
        del intent
        clock = world.clock
        deadline = clock.now() + _DEADLINE_SECONDS
        resumed, quiet, known = _Stretch(), _Stretch(), _Stretch()
        while True:
            now = clock.now()
            trouble, is_resumed = self._find_trouble(world)
            if resumed.note(is_resumed, now) >= _LAG_SECONDS and trouble is not None:
                raise trouble
            quiet_for = quiet.note(trouble is None, now)
            silent: tuple[str, ...] = ()
            # A worker that was gone in between may still have something to write: all must be alive from the start to
            # the end.
            if trouble is None and (known.since is None or self._is_over(now - known.since)):
                silent, trouble = self._find_silent(world)
            if self._is_over(known.note(trouble is None and not silent, now)):
                break
            if silent and self._is_over(quiet_for):
                raise self._build_zombies(silent)
            if now >= deadline:
                raise _build_late(self.subject, trouble)
            clock.sleep(min(_LOOK_SECONDS, self.quiet_seconds / 2))
        refuse_other_config(world, self.cluster, self.name, self.config)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del intent
        return Observed.BEFORE if self._find_trouble(world)[0] else Observed.AFTER

    def _find_trouble(self, world: Environment) -> tuple[SeamarkError | None, bool]:
        """Return why it has not stopped yet, or why that is unknown; and whether another user started it again."""
        is_resumed = False
        try:
            status = read_status(world, self.cluster, self.name)
            is_resumed = status is not None and find_run_state(status) in ("RUNNING", "PAUSED")
            port = open_offsets(world, self.cluster, self.name, self.kept)
            if self.kept is None:
                require_stopped(status, self.subject)
            else:
                require_gone(status, read_config(world, self.cluster, self.name), self.subject)
                _refuse_holders(port.find_holders(), self.subject)
            group = port.read_members()
            if group is not None and not group.is_quiet:
                raise RefusedError(
                    f"group {group.name} still has members",
                    cause=f"it is {group.state} with {count_members(group.members)}",
                )
        except SeamarkError as error:
            return error, is_resumed
        return None, False

    def _is_over(self, seconds: float) -> bool:
        """Return whether a condition held for long enough, and on two checks."""
        return seconds > 0 and seconds >= self.quiet_seconds

    def _find_silent(self, world: Environment) -> tuple[tuple[str, ...], SeamarkError | None]:
        """Return the workers that are not known to be alive, or why that can't be determined now."""
        if self.accepts_zombies:
            return (), None
        try:
            return open_offsets(world, self.cluster, self.name, self.kept).find_silent(self.workers), None
        except SeamarkError as error:
            # The stop itself causes a rebalance of the worker group: the members are known when it is over.
            return (), error

    def _build_zombies(self, silent: Sequence[str]) -> SeamarkError:
        return RefusedError(
            f"{', '.join(silent)} may have run {self.subject} and is not known to be alive: it may still write its "
            "offsets",
            cause="the worker is not in the worker group, does not answer, or is unknown to the context; a worker that "
            "hangs has not received the stop, and writes offsets when it continues",
            hint="check that the worker's process has ended, then run the command again with --assume-worker-down",
        )


@step_kind("verify-offsets")
@dataclass(frozen=True, slots=True)
class VerifyOffsets(CheckStep):
    """Checks what was written, directly before the connector may run: another process may have written since.

    It also checks the config if its fingerprint is known: with another one the tasks may look up other offsets. A
    connector that is created later must not exist yet: tasks that were started before the write don't have the new
    offsets.
    """

    aspect: ClassVar[str] = "verified"
    expires: ClassVar[bool] = True

    written: WriteOffsets
    config: str = ""

    @property
    def subject(self) -> str:
        return self.written.subject

    def describe(self) -> str:
        return f"read back and verify the offsets of {self.subject}"

    def perform(self, world: Environment, intent: Intent) -> None:
        del intent
        if self.written.kept is not None:
            self._refuse_created(world)
        found, wanted = self._read_settled(world), self.written.build_after()
        if found != wanted:
            raise RefusedError(
                f"the offsets of {self.subject} are not as written: another process writes them",
                cause=_describe_difference(found, wanted),
                hint="find and stop the other writer; then check seamark offsets show "
                f"{self.written.cluster}/{self.written.name}",
            )
        refuse_other_config(world, self.written.cluster, self.written.name, self.config)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del intent
        return Observed.AFTER if self.written.read_image(world) == self.written.build_after() else Observed.BEFORE

    def _read_settled(self, world: Environment) -> dict[str, Any]:
        found = self.written.read_image(world)
        if found == self.written.build_after():
            return found
        # Workers list the partitions that they have read from the topic so far: another one may be behind.
        world.clock.sleep(_LOOK_SECONDS)
        return self.written.read_image(world)

    def _refuse_created(self, world: Environment) -> None:
        cluster, name = self.written.cluster, self.written.name
        if read_config(world, cluster, name) is None and read_status(world, cluster, name) is None:
            return
        raise RefusedError(
            f"another process created {self.subject} while its offsets were written",
            cause="its tasks may have read the previous offsets, and may overwrite the new ones",
            hint=f"stop that process, check seamark offsets show {cluster}/{name}, then run seamark journal undo, or "
            "move the offsets again",
        )


def build_config_pin(config: Mapping[str, str], world: Environment, *, cluster: str) -> str:
    """Return a fingerprint of a config without the name, which Connect adds."""
    known = {key: value for key, value in config.items() if key != "name"}
    return build_fingerprint(build_config_image(known, world, cluster=cluster))


def refuse_other_config(world: Environment, cluster: str, name: str, pin: str) -> None:
    """Raise if a connector's config differs from the fingerprint; checked twice, because a worker may lag."""
    for pause in (_LOOK_SECONDS, 0.0):
        config = read_config(world, cluster, name) if pin else None
        if not pin or (config is not None and build_config_pin(config, world, cluster=cluster) == pin):
            return
        world.clock.sleep(pause)
    raise RefusedError(
        f"the config of connector/{cluster}/{name} was changed by another process since the plan",
        cause="with another config its tasks may read other offsets",
        hint=f"check it with seamark connectors show {cluster}/{name}, then create a new plan",
    )


def _refuse_holders(holders: Sequence[str], subject: str) -> None:
    if holders:
        raise RefusedError(
            f"worker {', '.join(holders)} still runs tasks of {subject}", cause="its tasks have not ended yet"
        )


def _build_late(subject: str, trouble: SeamarkError | None) -> SeamarkError:
    return DeadlineError(
        f"{subject} did not stop within {_DEADLINE_SECONDS:g} s",
        cause=f"{trouble.message}: {trouble.cause}" if trouble else "it was not stopped for long enough",
        hint="check its tasks with seamark connectors show; its state is restored",
    )


def _describe_difference(found: Any, wanted: Any) -> str:
    old, new = found["offsets"], wanted["offsets"]
    wrong = [place for place in new if old.get(place) != new[place]]
    return "; ".join(f"{place} is {old.get(place)}, not {new[place]}" for place in wrong[:5])


# A check reads the offsets topic, so it is not repeated more often.
_PROGRESS_SECONDS = 1.0
# Clocks of workers may differ slightly.
_CLOCK_SHARE = 0.8


@step_kind("check-progress")
@dataclass(frozen=True, slots=True)
class CheckProgress(ConnectorSubject, CheckStep):
    """Waits for the first offset stored after a move, which must be after the one that was written.

    An earlier offset was written by another process: a zombie task, or another operator. So was one at the previous
    offset or beyond that was stored sooner than a new task stores anything: tasks do so every `flush_seconds`, for the
    first time when that time has passed. `flush_seconds` None means that this is unknown. If nothing is stored within
    `wait_seconds`, the step does not fail: there may be nothing to read. With `carried` the offsets were copied as they
    were after the stop, and `offsets` are those of the plan: the connector may have progressed from them meanwhile.
    """

    aspect: ClassVar[str] = "progress"

    offsets: tuple[Offset, ...]
    former: tuple[Offset, ...] = ()
    wait_seconds: float = 10.0
    flush_seconds: float | None = None
    carried: bool = False

    @property
    def settle_seconds(self) -> float:
        return self.wait_seconds

    def describe(self) -> str:
        return f"wait for the first new offset of {self.subject}"

    def perform(self, world: Environment, intent: Intent) -> str:
        del intent
        clock = world.clock
        deadline = clock.now() + self.wait_seconds
        is_orphan = False
        marks: dict[str, int] = {}
        while True:
            found, trouble = self._look(world, marks)
            new = {name: writes for name, writes in found.items() if writes}
            may_run = not new or self._may_run(world)
            if new and (is_orphan or may_run):
                self._judge(world, new, is_orphan=not may_run)
                return self._tell(world, new)
            # The status is slightly delayed; on the second check, a task that stored something is listed.
            is_orphan = bool(new)
            if clock.now() >= deadline and not new:
                return self._tell_nothing(world, trouble)
            clock.sleep(min(_PROGRESS_SECONDS, self.wait_seconds / 2))

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del world, intent
        return Observed.AFTER

    def _look(
        self, world: Environment, marks: dict[str, int]
    ) -> tuple[dict[str, tuple[OffsetWrite, ...]], SeamarkError | None]:
        """Return by partition seamark's write and what was stored after it; empty if that write is the newest.

        `marks` keeps the number of writes at the first check, for the case that seamark's own write can't be
        identified.
        """
        try:
            writes = world.use(OFFSETS)(self.cluster, self.name).read_writes([one.partition for one in self.offsets])
        except SeamarkError as error:
            # A topic whose leader moves proves nothing.
            return {}, error
        since: dict[str, tuple[OffsetWrite, ...]] = {}
        for wanted, found in zip(self.offsets, writes, strict=True):
            name = spell_identity(wanted.partition)
            if self.carried:
                mark = marks.setdefault(name, len(found))
                since[name] = tuple(found[max(mark - 1, 0) :]) if len(found) > max(mark, 1) else ()
            else:
                since[name] = _find_since(found, wanted.offset)
        return since, None

    def _judge(self, world: Environment, new: dict[str, tuple[OffsetWrite, ...]], *, is_orphan: bool) -> None:
        """Raise if another process stored the offset."""
        port = world.use(OFFSETS)(self.cluster, self.name)
        former = {spell_identity(one.partition): one for one in self.former}
        for wanted in self.offsets:
            name = spell_identity(wanted.partition)
            if name not in new:
                continue
            ours, first = new[name][0], new[name][1]
            if is_orphan:
                raise self._build_refusal(name, first.offset, "it was stored before a task was running")
            if port.compare(first.offset, wanted.offset) is Order.BEFORE:
                raise self._build_refusal(name, first.offset, f"it is lower than {_spell(wanted.offset)}")
            held = former.get(name)
            if held is None or port.compare(wanted.offset, held.offset) is not Order.BEFORE:
                continue
            is_there = port.compare(first.offset, held.offset) in (Order.EQUAL, Order.AFTER)
            if is_there and self._is_early(ours, first):
                early = f"and was stored sooner than a new task stores offsets ({self.flush_seconds:g} s)"
                raise self._build_refusal(name, first.offset, f"it is the offset from before the move, {early}")

    def _is_early(self, ours: OffsetWrite, first: OffsetWrite) -> bool:
        if self.flush_seconds is None or ours.at_ms is None or first.at_ms is None:
            return False
        return (first.at_ms - ours.at_ms) / 1000 < self.flush_seconds * _CLOCK_SHARE

    def _build_refusal(self, partition: str, offset: OffsetMap | None, why: str) -> SeamarkError:
        owner = f"{self.cluster}/{self.name}"
        return RefusedError(
            f"{self.subject} does not resume from the new offsets: another process wrote its offsets",
            cause=f"{partition} is at {_spell(offset)}: {why}",
            hint=f"stop it (seamark connectors stop {owner}), because a zombie task may write; check seamark "
            "workers list "
            f"and seamark offsets history {owner}, then move the offsets again",
        )

    def _may_run(self, world: Environment) -> bool:
        """Return whether one of its tasks may have stored something; true if unknown."""
        try:
            status = read_status(world, self.cluster, self.name)
        except SeamarkError:
            return True
        # A connector that was stopped again had tasks, and these stored their offsets.
        return status is None or status.state is not State.RUNNING or bool(status.tasks)

    def _tell(self, world: Environment, new: dict[str, tuple[OffsetWrite, ...]]) -> str:
        name, writes = next(iter(new.items()))
        found = next(one for one in self.offsets if spell_identity(one.partition) == name)
        where, place = world.use(OFFSETS)(self.cluster, self.name).describe(found.partition, writes[1].offset)
        more = f", and {len(new) - 1} more" if len(new) > 1 else ""
        return f"{where}, {place}{more}"

    def _tell_nothing(self, world: Environment, trouble: SeamarkError | None) -> str:
        """Return why nothing was stored; a task that failed again is the most likely reason."""
        if trouble is not None:
            return f"unknown: {trouble.message}"
        try:
            status = read_status(world, self.cluster, self.name)
        except SeamarkError:
            status = None
        if status is not None and (failure := describe_failure(status)):
            return f"no new offset: {failure}"
        often = "" if self.flush_seconds is None else f" (every {self.flush_seconds:g} s)"
        return f"no new offset within {self.wait_seconds:g} s: no new data, or not flushed yet{often}"


def _find_since(writes: Sequence[OffsetWrite], wanted: OffsetMap | None) -> tuple[OffsetWrite, ...]:
    """Return the newest write of the wanted offset and all different ones after it; empty if there is none.

    If that write no longer exists, because compaction or a group keeps only the newest, the newest counts as after it.
    """
    spelled = spell_offset(wanted)
    places = [number for number, one in enumerate(writes) if spell_offset(one.offset) == spelled]
    since = tuple(writes[places[-1] :]) if places else (OffsetWrite(wanted), *writes[-1:])
    return since if len(since) > 1 else ()


def _spell(offset: OffsetMap | None) -> str:
    return spell_offset(offset) or "nothing"
