"""After a connector runs again, the first position that it stores is looked at: does it go on from the one written?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from seamark.changes.action import CheckStep
from seamark.changes.environment import Environment
from seamark.changes.step import Intent, Observed, step_kind
from seamark.connect.model import State
from seamark.connectors.heal import describe_failure
from seamark.connectors.read import read_status
from seamark.core.offsets import Offset, OffsetMap, Order, spell_identity, spell_offset
from seamark.errors import RefusedError, SeamarkError
from seamark.offsets.model import OffsetWrite
from seamark.offsets.port import OFFSETS

# A look reads the offsets topic, so it is not taken all the time.
_LOOK_SECONDS = 1.0
# A worker's clock may be a little off that of another one.
_CLOCK_SHARE = 0.8


@step_kind("check-progress")
@dataclass(frozen=True, slots=True)
class CheckProgress(CheckStep):
    """The first position stored after a move is waited for, and must lie behind the one that was written.

    One that lies before it was written by somebody else: a zombie task, or another operator. So was one that is at
    `former` or beyond and was stored sooner than a new task stores anything: tasks do that every `flush_seconds`, for
    the first time when so many have passed. None of it means that it can't be told. That nothing is stored within
    `wait_seconds` is no failure: there may be nothing to read. With `carried` the positions were taken along as they
    were when it had stopped, and `offsets` are those of the plan: it may have gone on from them meanwhile.
    """

    aspect: ClassVar[str] = "progress"

    cluster: str
    name: str
    offsets: tuple[Offset, ...]
    former: tuple[Offset, ...] = ()
    wait_seconds: float = 10.0
    flush_seconds: float | None = None
    carried: bool = False

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    @property
    def settle_seconds(self) -> float:
        return self.wait_seconds

    def describe(self) -> str:
        return f"look where {self.subject} goes on"

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
            # A status comes a little late; on the second look a task that stored something has one.
            is_orphan = bool(new)
            if clock.now() >= deadline and not new:
                return self._tell_nothing(world, trouble)
            clock.sleep(min(_LOOK_SECONDS, self.wait_seconds / 2))

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del world, intent
        return Observed.AFTER

    def _look(
        self, world: Environment, marks: dict[str, int]
    ) -> tuple[dict[str, tuple[OffsetWrite, ...]], SeamarkError | None]:
        """By partition, what was stored since ours, and ours before it; nothing where ours is the newest.

        `marks` keeps how many writes there were at the first look, where nobody knows which one is ours.
        """
        try:
            writes = world.use(OFFSETS)(self.cluster, self.name).read_writes([one.partition for one in self.offsets])
        except SeamarkError as error:
            # A topic whose leader moves is no sign of anything.
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
        """Refuse to call it good where somebody else stored the position."""
        port = world.use(OFFSETS)(self.cluster, self.name)
        former = {spell_identity(one.partition): one for one in self.former}
        for wanted in self.offsets:
            name = spell_identity(wanted.partition)
            if name not in new:
                continue
            ours, first = new[name][0], new[name][1]
            if is_orphan:
                raise self._build_refusal(name, first.offset, "no task of it ran yet when that was stored")
            if port.compare(first.offset, wanted.offset) is Order.BEFORE:
                raise self._build_refusal(name, first.offset, f"that lies before {_spell(wanted.offset)}")
            held = former.get(name)
            if held is None or port.compare(wanted.offset, held.offset) is not Order.BEFORE:
                continue
            is_there = port.compare(first.offset, held.offset) in (Order.EQUAL, Order.AFTER)
            if is_there and self._is_early(ours, first):
                early = f"and was stored sooner than a new task does it, which is after {self.flush_seconds:g} s"
                raise self._build_refusal(name, first.offset, f"that is where it stood before the move, {early}")

    def _is_early(self, ours: OffsetWrite, first: OffsetWrite) -> bool:
        if self.flush_seconds is None or ours.at_ms is None or first.at_ms is None:
            return False
        return (first.at_ms - ours.at_ms) / 1000 < self.flush_seconds * _CLOCK_SHARE

    def _build_refusal(self, partition: str, offset: OffsetMap | None, why: str) -> SeamarkError:
        owner = f"{self.cluster}/{self.name}"
        return RefusedError(
            f"{self.subject} does not go on from where it was put: somebody else wrote its offsets",
            cause=f"{partition} holds {_spell(offset)}: {why}",
            hint="a task that should be dead may write, or Connect ended a new one early: stop it (seamark connectors "
            f"stop {owner}, seamark workers list), look (seamark offsets history {owner}), then move it again",
        )

    def _may_run(self, world: Environment) -> bool:
        """Whether a task of it may have stored something. Where nobody can tell, it is not held against it."""
        try:
            status = read_status(world, self.cluster, self.name)
        except SeamarkError:
            return True
        # One that somebody has stopped again had tasks, and they stored what they had.
        return status is None or status.state is not State.RUNNING or bool(status.tasks)

    def _tell(self, world: Environment, new: dict[str, tuple[OffsetWrite, ...]]) -> str:
        name, writes = next(iter(new.items()))
        found = next(one for one in self.offsets if spell_identity(one.partition) == name)
        where, place = world.use(OFFSETS)(self.cluster, self.name).describe(found.partition, writes[1].offset)
        more = f", and {len(new) - 1} more" if len(new) > 1 else ""
        return f"{where}, {place}{more}"

    def _tell_nothing(self, world: Environment, trouble: SeamarkError | None) -> str:
        """Why nothing was seen; a task that has failed again is the likeliest reason."""
        if trouble is not None:
            return f"nobody can tell: {trouble.message}"
        try:
            status = read_status(world, self.cluster, self.name)
        except SeamarkError:
            status = None
        if status is not None and (failure := describe_failure(status)):
            return f"no new position: {failure}"
        often = "" if self.flush_seconds is None else f", which is done every {self.flush_seconds:g} s"
        return f"no new position within {self.wait_seconds:g} s: nothing to read, or not yet flushed{often}"


def _find_since(writes: Sequence[OffsetWrite], wanted: OffsetMap | None) -> tuple[OffsetWrite, ...]:
    """The newest write of what was wanted and all behind it that differ; empty where nothing is.

    Where ours is not there any more, as compaction or a group keeps the newest alone, the newest stands behind it.
    """
    spelled = spell_offset(wanted)
    places = [number for number, one in enumerate(writes) if spell_offset(one.offset) == spelled]
    since = tuple(writes[places[-1] :]) if places else (OffsetWrite(wanted), *writes[-1:])
    return since if len(since) > 1 else ()


def _spell(offset: OffsetMap | None) -> str:
    return spell_offset(offset) or "nothing"
