"""A reader of a copied topic gets its positions in the target: the first record of each that it has not had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from seamark.changes.precondition import POSITION
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.changes.world import World
from seamark.copies.cutover.copy_port import COPIES
from seamark.copies.cutover.copy_reader import CarriedReader
from seamark.core.refs import build_group_owner
from seamark.errors import RefusedError
from seamark.groups.group import MoveGroup
from seamark.groups.group_image import load_positions
from seamark.kafka.groups import Committed


@step_kind("return-reader")
@dataclass(frozen=True, slots=True)
class RestoreGroupOffsets(MoveGroup):
    """What a group has committed for the target is as it was before. Its positions in the source were never touched.

    `copy` is the copy whose cut-over is taken back, and `ends` are those of its target at the cut-over.
    """

    # The sink or the consumer has moved on since: nobody can expect where it stands.
    aspect: ClassVar[str] = POSITION

    copy: str = ""
    source: str = ""
    target: str = ""
    ends: Mapping[int, int] = field(default_factory=dict)

    def describe(self) -> str:
        return f"let {self.subject} go on in {self.source}, where it stood"

    def undo(self, intent: Intent) -> CanNotUndo:
        del intent
        return CanNotUndo(f"{self.source} may have new records by then: seamark copy cutover does it anew")


@step_kind("carry-reader")
@dataclass(frozen=True, slots=True)
class TranslateGroupOffsets(Step):
    """A group that stands still gets its positions in the target, told from the copy's control records.

    `readers` are all groups of the cut-over: one recount answers for all. One that `sees_debris` reads what
    transactions have taken back; that is a refusal, where some lies ahead of it.
    """

    aspect: ClassVar[str] = POSITION
    repeats: ClassVar[bool] = True
    # It looks itself, right before it acts, that nobody is in the group.
    proves: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = MoveGroup.settle_seconds

    group: str
    copy: str
    source: str
    target: str
    readers: tuple[str, ...] = ()
    missing: str = ""
    sees_debris: bool = False

    @property
    def subject(self) -> str:
        return build_group_owner(self.group)

    def describe(self) -> str:
        return f"carry {self.subject} over to {self.target}, to the first record that it has not had"

    def intend(self, world: World) -> Intent:
        readers = self.readers or (self.group,)
        found = world.use(COPIES)().translate(self.copy, readers, missing=self.missing)[self.group]
        self._refuse_debris(found)
        move = MoveGroup(self.group, {self.target: {at: Committed(to) for at, to in found.offsets.items()}})
        seen = move.intend(world)
        ends = world.use(COPIES)().read_target_ends(self.copy)
        extra = {**found.to_dict(), "ends": {str(partition): end for partition, end in sorted(ends.items())}}
        return Intent(before=seen.before, after=seen.after, extra=extra)

    def perform(self, world: World, intent: Intent) -> str:
        self._read_move(intent).perform(world, intent)
        least, most = intent.extra["replayed"]
        carried = CarriedReader({}, replayed_least=least, replayed_most=most)
        return f"{intent.extra['to_read']} records to read, {carried.replay_words}"

    def observe(self, world: World, intent: Intent) -> Observed:
        return self._read_move(intent).observe(world, intent)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        back = self._read_move(intent).undo(intent)
        if isinstance(back, CanNotUndo):
            return back
        ends = {int(partition): end for partition, end in intent.extra["ends"].items()}
        return RestoreGroupOffsets(back.group, back.positions, self.copy, self.source, self.target, ends)

    def _read_move(self, intent: Intent) -> MoveGroup:
        return MoveGroup(self.group, load_positions(intent.after))

    def _refuse_debris(self, found: CarriedReader) -> None:
        if self.sees_debris and found.debris:
            raise RefusedError(
                f"{self.subject} would read up to {found.debris} records again that failed attempts have left in "
                f"{self.target}",
                cause="it reads records of transactions that were taken back",
                hint="let it read committed records only: --read-committed does that for sinks; or accept the repeats: "
                "--accept-debris",
            )


@step_kind("carry-reader-back")
@dataclass(frozen=True, slots=True)
class TranslateGroupOffsetsBack(TranslateGroupOffsets):
    """The same for the second copy of a cut-over in place, back to the old name: another side of the same group."""

    aspect: ClassVar[str] = f"{POSITION} back"
