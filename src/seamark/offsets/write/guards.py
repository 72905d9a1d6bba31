"""What stands around every write of offsets: a stop, the proof of it, and the run state back. Also in an undo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from seamark.changes.action import CheckStep
from seamark.changes.environment import Environment
from seamark.changes.images import build_config_image, build_fingerprint
from seamark.changes.step import Intent, Observed, step_kind
from seamark.changes.timing import plan_patiently
from seamark.connect.model import Connector
from seamark.connectors.read import find_run_state, read_config, read_run_state, read_status
from seamark.errors import DeadlineError, RefusedError, SeamarkError
from seamark.kafka.groups import count_members
from seamark.offsets.quiesce import ConnectorSnapshot, open_offsets, require_gone, require_stopped
from seamark.offsets.write.steps import QUIET_SECONDS, WriteOffsets

if TYPE_CHECKING:
    from seamark.context import Context


def find_quiet_seconds(context: Context) -> float:
    """How long a connector must stand still before its offsets are written."""
    # Who says that requests are over much sooner than Connect's own 90 s is a test, and so are its tasks.
    return min(QUIET_SECONDS, context.journal.in_flight_seconds / 5)


def require_run_state(connector: Connector, world: Environment) -> str:
    """The state that a connector is meant to be in, refused where nobody can tell it: it could not be restored.

    What a rebalance hides is waited for, not for long.

    Raises:
        UnsettledError: the rebalance goes on.
        RefusedError: Connect has no status of it.
    """
    state = None if connector.status is None else find_run_state(connector.status)
    if state is None:
        read = partial(read_run_state, world, connector.cluster, connector.name)
        state = plan_patiently(read, world.clock)
    if state is None:
        raise RefusedError(
            f"nobody can tell whether {connector.owner} is meant to run; nothing was changed",
            cause="Connect has no status of it",
            hint=f"wait until its cluster has settled: seamark connectors show {connector.owner}",
        )
    return state


def find_workers(connector: Connector) -> tuple[str, ...]:
    """The workers that run a connector and its tasks."""
    status = connector.status
    if status is None:
        return ()
    found = {status.worker_id, *(task.worker_id for task in status.tasks)}
    return tuple(sorted(found - {""}))


# A worker hears of a stop with its next heartbeat; a sink's group is empty when its last member has left or timed out,
# which is a minute at most by default (`rebalance.timeout.ms`).
_DEADLINE_SECONDS = 90.0
_LOOK_SECONDS = 0.5
# A worker that lags shows the old state for a moment; see `ChangeTiming.shows_seconds`.
_LAG_SECONDS = 10.0


class _Stretch:
    """Since when something is so without a break."""

    def __init__(self) -> None:
        self.since: float | None = None

    def note(self, is_so: bool, now: float) -> float:
        """Take in a look; gives for how long it has been so, 0 where it is not."""
        self.since = (now if self.since is None else self.since) if is_so else None
        return 0.0 if self.since is None else now - self.since


@step_kind("prove-stopped")
@dataclass(frozen=True, slots=True)
class CheckStopped(CheckStep):
    """A connector that was stopped is watched until it has stood still for `quiet_seconds`.

    Its status says so without a task, a sink's group is empty, both on two looks, and each of `workers`, which ran it,
    was alive all the time to know that it must not write any more. One that vanished may come back as a zombie and
    write: that is a refusal, unless `accepts_zombies`. So is another config than that of the fingerprint `config`. One
    that is created later is `kept`: it must not exist, and no worker may have it or a task of it in hand.
    """

    aspect: ClassVar[str] = "quiet"
    expires: ClassVar[bool] = True
    proves: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = _DEADLINE_SECONDS

    cluster: str
    name: str
    workers: tuple[str, ...] = ()
    quiet_seconds: float = QUIET_SECONDS
    accepts_zombies: bool = False
    config: str = ""
    kept: ConnectorSnapshot | None = None

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        if self.kept is not None:
            return f"make sure that no worker runs {self.subject}"
        return f"make sure that {self.subject} has stopped"

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
            # Who woke up in between may have something to write yet: all must be alive from the beginning to the end.
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
        """Why it has not stopped yet, or why nobody can tell; and whether somebody wants it to go on."""
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
                    f"somebody is still in the group {group.name}",
                    cause=f"it is {group.state} with {count_members(group.members)}",
                )
        except SeamarkError as error:
            return error, is_resumed
        return None, False

    def _is_over(self, seconds: float) -> bool:
        """Whether something was so for long enough, and on two looks."""
        return seconds > 0 and seconds >= self.quiet_seconds

    def _find_silent(self, world: Environment) -> tuple[tuple[str, ...], SeamarkError | None]:
        """Return the workers that are not known to be alive, or why that can't be determined now."""
        if self.accepts_zombies:
            return (), None
        try:
            return open_offsets(world, self.cluster, self.name, self.kept).find_silent(self.workers), None
        except SeamarkError as error:
            # The stop itself makes the worker group rebalance: who is a member is known when that is over.
            return (), error

    def _build_zombies(self, silent: Sequence[str]) -> SeamarkError:
        return RefusedError(
            f"{', '.join(silent)} may have run {self.subject} and is not known to be alive: it may still write its "
            "offsets",
            cause="the worker is not in the worker group, does not answer, or is unknown to the context; a worker that "
            "hangs has not received the stop, and writes offsets when it continues",
            hint="make sure that the worker's process has ended, then repeat the command with --accept-zombie",
        )


@step_kind("verify-offsets")
@dataclass(frozen=True, slots=True)
class VerifyOffsets(CheckStep):
    """What was written is looked at again, right before the connector may run: somebody may have written since.

    So is the config, where its fingerprint is known: with another one the tasks may look for other offsets. One that
    is created later must not exist yet: tasks that were started before the write don't know the new offsets.
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
        found, wanted = self.written.read_image(world), self.written.build_after()
        if found != wanted:
            raise RefusedError(
                f"the offsets of {self.subject} are not what was written: somebody else writes them",
                cause=_describe_difference(found, wanted),
                hint=f"find out who; then: seamark offsets show {self.written.cluster}/{self.written.name}",
            )
        refuse_other_config(world, self.written.cluster, self.written.name, self.config)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del intent
        return Observed.AFTER if self.written.read_image(world) == self.written.build_after() else Observed.BEFORE

    def _refuse_created(self, world: Environment) -> None:
        cluster, name = self.written.cluster, self.written.name
        if read_config(world, cluster, name) is None and read_status(world, cluster, name) is None:
            return
        raise RefusedError(
            f"{self.subject} was created by somebody else while its offsets were written",
            cause="its tasks may hold the position from before, and store it over the one that was written",
            hint=f"let whoever creates it rest, see where it stands (seamark offsets show {cluster}/{name}), then "
            "seamark journal undo, or move it again",
        )


def build_config_pin(config: Mapping[str, str], world: Environment, *, cluster: str) -> str:
    """Return a fingerprint of a config without the name, which Connect adds."""
    known = {key: value for key, value in config.items() if key != "name"}
    return build_fingerprint(build_config_image(known, world, cluster=cluster))


def refuse_other_config(world: Environment, cluster: str, name: str, pin: str) -> None:
    """Refuse where a connector has another config than the pinned one; seen twice, as a worker may lag behind."""
    for pause in (_LOOK_SECONDS, 0.0):
        config = read_config(world, cluster, name) if pin else None
        if not pin or (config is not None and build_config_pin(config, world, cluster=cluster) == pin):
            return
        world.clock.sleep(pause)
    raise RefusedError(
        f"the config of connector/{cluster}/{name} is not the one that the plan was made for: somebody else changed it",
        cause="with another config its tasks may look for other offsets, or elsewhere",
        hint=f"look at it, then plan anew: seamark connectors show {cluster}/{name}",
    )


def _refuse_holders(holders: Sequence[str], subject: str) -> None:
    if holders:
        raise RefusedError(f"{', '.join(holders)} still has {subject} in hand", cause="its tasks have not ended yet")


def _build_late(subject: str, trouble: SeamarkError | None) -> SeamarkError:
    return DeadlineError(
        f"{subject} did not stop within {_DEADLINE_SECONDS:g} s",
        cause=f"{trouble.message}: {trouble.cause}" if trouble else "it has not stood still for long enough",
        hint="its run state is restored; see what keeps its tasks: seamark connectors show",
    )


def _describe_difference(found: Any, wanted: Any) -> str:
    old, new = found["offsets"], wanted["offsets"]
    wrong = [place for place in new if old.get(place) != new[place]]
    return "; ".join(f"{place} holds {old.get(place)}, not {new[place]}" for place in wrong[:5])
