"""A new connector takes over what another one holds, to the last offset that it wrote before it stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from seamark.changes.comparison import compare_places
from seamark.changes.look import Look
from seamark.changes.precondition import POSITION
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.changes.world import World
from seamark.core.offset import Offset, spell_identity, spell_offset
from seamark.errors import RefusedError
from seamark.offsets.codec.codec import decode_key
from seamark.offsets.held_offset import HeldOffset
from seamark.offsets.port import OFFSETS
from seamark.offsets.stillness import refuse_moving
from seamark.offsets.write.steps import WriteOffsets, build_image, read_spelled


@step_kind("copy-offsets")
@dataclass(frozen=True, slots=True)
class CopyOffsets(Step):
    """The connector `name` gets every offset of `source`, which has stopped. Both are of one cluster and one config.

    What is copied is read when it is done, not when the plan is made: a running source moves on until its stop.
    """

    aspect: ClassVar[str] = POSITION
    repeats: ClassVar[bool] = True

    cluster: str
    source: str
    name: str

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        return f"give {self.subject} the offsets of connector/{self.cluster}/{self.source}"

    def intend(self, world: World) -> Intent:
        held = read_copied(world, self.cluster, self.source)
        after = build_image(held)
        return Intent(before=self._read_image(world, after["offsets"]), after=after)

    def perform(self, world: World, intent: Intent) -> None:
        refuse_moving(world, self.cluster, self.source)
        refuse_moving(world, self.cluster, self.name, is_checked=True)
        world.use(OFFSETS)(self.cluster, self.name).alter(_build_offsets(intent.after["offsets"]))

    def observe(self, world: World, intent: Intent) -> Observed:
        return compare_places(self._read_image(world, intent.after["offsets"]), intent, "offsets")

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        return WriteOffsets(self.cluster, self.name, _build_offsets(intent.before["offsets"]))

    def _read_image(self, world: World, wanted: Mapping[str, Any]) -> dict[str, Any]:
        held = world.use(OFFSETS)(self.cluster, self.name).read([json.loads(name) for name in wanted])
        return build_image(held)


@step_kind("verify-copied")
@dataclass(frozen=True, slots=True)
class VerifyCopied(Look):
    """Right before the new connector may run, it holds what the other one does."""

    aspect: ClassVar[str] = "verified"

    cluster: str
    source: str
    name: str

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        return f"read back and verify the offsets of {self.subject}"

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        if wrong := self._find_wrong(world):
            raise RefusedError(
                f"{self.subject} does not hold what connector/{self.cluster}/{self.source} does",
                cause=f"they differ in {', '.join(wrong[:5])}",
                hint="find out who writes them",
            )

    def observe(self, world: World, intent: Intent) -> Observed:
        del intent
        return Observed.BEFORE if self._find_wrong(world) else Observed.AFTER

    def _find_wrong(self, world: World) -> list[str]:
        wanted = read_copied(world, self.cluster, self.source)
        held = world.use(OFFSETS)(self.cluster, self.name).read([found.partition for found in wanted])
        return [
            spell_identity(one.partition)
            for one, other in zip(wanted, held, strict=True)
            if spell_offset(one.offset) != spell_offset(other.offset) or other.doubt
        ]


def read_copied(world: World, cluster: str, source: str) -> Sequence[HeldOffset]:
    """What a connector holds, where REST can give the same to another one; else a refusal."""
    held = [
        found for found in world.use(OFFSETS)(cluster, source).read_all() if found.offset is not None or found.doubt
    ]
    doubts = [found.doubt for found in held if found.doubt]
    # A task that spells its keys in another way than REST does would not find what REST writes under its new name.
    odd = [
        f"{spell_identity(found.partition)} has a key that REST spells in another way"
        for found in held
        if not all(decode_key(record.key).is_rest_spelling for record in found.records)
    ]
    if doubts or odd:
        raise RefusedError(
            f"the offsets of connector/{cluster}/{source} can't be given to another one; nothing was changed",
            cause="; ".join([*doubts, *odd]),
            hint=f"seamark offsets show {cluster}/{source} shows all of them",
        )
    return held


def _build_offsets(spelled: Mapping[str, str | None]) -> tuple[Offset, ...]:
    return tuple(Offset(json.loads(partition), read_spelled(offset)) for partition, offset in spelled.items())
