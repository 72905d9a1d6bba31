"""The action that makes the records of a source's offsets what Connect would have written, while it is stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Self

from seamark.changes.action import Action, ActionHistory, Needs, Reads, StepSequence, action_kind, needs_permission
from seamark.changes.effect import Effect, Preview
from seamark.changes.step import CanNotUndo, Intent, Step
from seamark.connectors.run_state import SetRunState
from seamark.core.fanout import read_all
from seamark.core.offset import Offset
from seamark.offsets.port import PLANNING, SNAPSHOTS
from seamark.offsets.repair.mend import MendOffsets, VerifyMended
from seamark.offsets.repair.mend_effects import build_mend_effect
from seamark.offsets.repair.mending import MendRule, settle_rule
from seamark.offsets.repair.odd_records import OddOwner, read_odd_partition
from seamark.offsets.write.actions import Quiesced, build_quiesced, find_unrestored_state, undo_write
from seamark.offsets.write.preview_step import CheckPreview
from seamark.offsets.write.preview_totals import DEFAULT_TOLERANCE, Tolerance, Total, sum_previews
from seamark.offsets.write.progress import build_progress
from seamark.offsets.write.steps import WriteOffsets
from seamark.policy.permission import Permission
from seamark.policy.rights import Right

if TYPE_CHECKING:
    from seamark.offsets.semantics import Meaning


@dataclass(frozen=True, slots=True)
class RepairSeen:
    """What `RepairOffsets` reads: the records of each partition, and what other offsets for the task mean."""

    quiesced: Quiesced
    owner: OddOwner
    previews: tuple[Preview, ...]
    meaning: Meaning = field(repr=False)
    progress: tuple[Step, ...]

    @property
    def moved(self) -> tuple[Offset, ...]:
        """The offsets that aren't those that the tasks use now."""
        return self.owner.moved


@action_kind("repair-offsets")
@needs_permission(Permission.CHANGE_OFFSETS)
@dataclass(frozen=True, slots=True)
class RepairOffsets(Action):
    """Give all records of some partitions of a source the value that each rule names, as it is after the stop.

    `planned` is what the plan says is reprocessed and skipped, where the value isn't the one that the tasks use now:
    beyond the `tolerance` nothing is written. `config` is the fingerprint of the config that the plan was created for.
    `wait_seconds` is how long the first new offset is waited for.
    """

    cluster: str
    name: str
    topic: str
    rules: tuple[MendRule, ...]
    planned: Total | None = None
    tolerance: Tolerance = DEFAULT_TOLERANCE
    wait_seconds: float | None = None
    accepts_zombies: bool = False
    config: str = ""

    @property
    def subject(self) -> str:
        """The connector."""
        return f"connector/{self.cluster}/{self.name}"

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[RepairSeen]:
        """Read the connectors and their records."""
        reads.world.use(SNAPSHOTS).expect(action.name for action in actions)
        return read_all((action.subject, partial(action.read, reads)) for action in actions)

    def read(self, reads: Reads) -> RepairSeen:
        """Read one connector and its records.

        Raises:
            RefusedError: the record whose value counts is not there any more.
        """
        port, planning = reads.world.use(SNAPSHOTS).open(self.cluster, self.name), reads.use(PLANNING)
        quiesced = build_quiesced(port.connector, reads)
        home = port.read_topic(self.topic).find_home
        held = port.read([rule.partition for rule in self.rules])
        partitions = tuple(
            read_odd_partition(rule, found, topic=self.topic, home=home)
            for rule, found in zip(self.rules, held, strict=True)
        )
        owner = OddOwner(quiesced.connector, self.topic, home, partitions)
        stored = tuple(one.offset for one in partitions if one.offset.offset is not None)
        progress = build_progress(
            self.cluster,
            self.name,
            stored,
            (),
            context=planning.context,
            settings=planning.settings(self.cluster),
            wait_seconds=self.wait_seconds,
            carried=True,
        )
        return RepairSeen(
            quiesced,
            owner,
            tuple(port.preview(owner.moved)) if owner.moved else (),
            port.meaning,
            progress if stored else (),
        )

    def steps(self, seen: RepairSeen) -> StepSequence:
        """Stop, check, write the records, verify them, restore the state; nothing where all are as they should be."""
        if not any(one.is_needed() for one in seen.owner.partitions):
            return ()
        settled = tuple(settle_rule(rule, seen.owner.home) for rule in self.rules)
        return seen.quiesced.surround(
            (
                *self._build_check(seen),
                MendOffsets(self.cluster, self.name, self.topic, self.rules),
                VerifyMended(self.cluster, self.name, self.topic, settled),
            ),
            accepts_zombies=self.accepts_zombies,
            config=self.config,
            progress=seen.progress,
        )

    def needs(self, seen: RepairSeen) -> Needs:
        """The connector's locks, and the rights to read and write its topic."""
        rights = frozenset(Right("topic", self.topic, operation) for operation in ("READ", "WRITE"))
        return Needs(seen.quiesced.locks, rights)

    def effects(self, seen: RepairSeen) -> tuple[Effect, ...]:
        """One line for the connector, one field for each record that changes."""
        moved = list(zip(seen.moved, seen.previews, strict=True))
        return (build_mend_effect(seen.owner, seen.meaning, moved),)

    def find_intents(self, seen: RepairSeen) -> Mapping[str, Intent]:
        """Return the state of the connector."""
        return seen.quiesced.find_intents()

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that writes the previous records, and restores the connector's state."""
        restores = find_unrestored_state(past)
        if past.find(MendOffsets) is None:
            return SetRunState(self.cluster, self.name, restores) if restores else None
        back = past.undo_last(MendOffsets, WriteOffsets)
        return None if back is None else undo_write(back, restores=restores)

    def _build_check(self, seen: RepairSeen) -> tuple[Step, ...]:
        """Where the value isn't the one that the tasks use now, what that means is counted again after the stop."""
        if not seen.moved:
            return ()
        planned = self.planned or sum_previews(seen.previews)
        return (CheckPreview(self.cluster, self.name, seen.moved, planned, self.tolerance),)
