"""How far copies are: told from the control topic and the ends of the logs, wherever they were run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from seamark.copies.plan.copy_plan import CopyPlan
from seamark.copies.plan.copy_registration import Registration
from seamark.copies.plan.debris import AbortedRecords
from seamark.copies.plan.looks import count_behind, find_target_debris, read_ends
from seamark.copies.plan.place import CopyEndpoints
from seamark.copies.plan.progress import Progress, read_progress
from seamark.copies.plan.registry import read_body
from seamark.errors import RefusedError, SeamarkError, UnreachableError
from seamark.kafka_sink.control import ControlRecord

_HELD = "a transaction that nobody has ended hides what comes after it"


class CopyState(StrEnum):
    """One word for where a copy is."""

    COPIED = "COPIED"
    BEHIND = "BEHIND"
    UNFINISHED = "UNFINISHED"
    BROKEN = "BROKEN"


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """Where one copy is.

    `behind` is how many offsets the source has more than the plan, None where it could not be read. `debris` are
    offsets of the target that are no records of the copy: of attempts that failed, or that go on just now. `trouble`
    says why the copy can't be trusted or can't go on.
    """

    plan: CopyPlan
    registration: Registration
    progress: Progress | None
    behind: int | None = None
    debris: tuple[AbortedRecords, ...] = ()
    trouble: SeamarkError | None = None
    notes: tuple[str, ...] = ()

    @property
    def state(self) -> CopyState:
        """One word for it."""
        if self.trouble is not None or self.progress is None:
            return CopyState.BROKEN
        if not self.progress.is_complete:
            return CopyState.UNFINISHED
        return CopyState.BEHIND if self.behind else CopyState.COPIED

    @property
    def copied(self) -> int:
        """How many offsets of the plan are copied."""
        done = self.progress.done if self.progress else 0
        return sum(one.size for one in self.plan.slices[:done])

    @property
    def next_step(self) -> str:
        """What to type next."""
        if self.trouble is not None:
            return self.trouble.hint
        steps = {
            CopyState.UNFINISHED: f"seamark copy run {self.plan.id}",
            CopyState.BEHIND: f"seamark copy run {self.plan.id} --follow",
            CopyState.COPIED: f"seamark copy verify {self.plan.id}",
            CopyState.BROKEN: "make a new plan, with a new target",
        }
        return steps[self.state]

    def to_dict(self) -> dict[str, Any]:
        """The status as JSON takes it."""
        progress = self.progress
        return {
            "id": self.plan.id,
            "state": self.state.value,
            "source": self.plan.source.to_dict(),
            "target": self.plan.target.to_dict(),
            "generation": self.registration.generation,
            "registered_at": self.registration.registered_at,
            "registered_by": self.registration.by,
            "slices": len(self.plan.slices),
            "slices_done": progress.done if progress else None,
            "offsets": self.plan.size,
            "offsets_copied": self.copied,
            "records": progress.count if progress else None,
            "behind": self.behind,
            "debris": [[one.target, one.first, one.last] for one in self.debris],
            "trouble": self.trouble.as_dict() if self.trouble else None,
            "next": self.next_step,
            "notes": list(self.notes),
        }


class CopyStatuses:
    """Reads them."""

    def __init__(self, endpoints: CopyEndpoints, *, control_topic: str) -> None:
        self._endpoints = endpoints
        self._control_topic = control_topic

    def read(self, registrations: Mapping[str, Registration]) -> tuple[CopyStatus, ...]:
        """Those of these plans, the newest first."""
        if not registrations:
            return ()
        read = self._endpoints.target.logs.look_at_records(self._control_topic, jobs=list(registrations))
        ordered = sorted(registrations.values(), key=lambda one: one.registered_at, reverse=True)
        return tuple(self._build(one, read.records[one.plan], is_whole=read.is_whole) for one in ordered)

    def _build(self, registration: Registration, records: tuple[ControlRecord, ...], *, is_whole: bool) -> CopyStatus:
        plan = read_body(registration)
        notes = [] if is_whole else [f"{_HELD} in {self._control_topic}: some slices may be done that are not counted"]
        try:
            progress = read_progress(plan.id, plan.slices, records)
        except RefusedError as error:
            trouble = error if is_whole else self._build_held(plan)
            return CopyStatus(plan, registration, None, trouble=trouble)
        behind = self._count_behind(plan, notes)
        try:
            debris = find_target_debris(self._endpoints.target.kafka, plan, progress)
        except RefusedError as error:
            return CopyStatus(plan, registration, progress, behind=behind, trouble=error, notes=tuple(notes))
        return CopyStatus(plan, registration, progress, behind=behind, debris=debris, notes=tuple(notes))

    def _build_held(self, plan: CopyPlan) -> UnreachableError:
        return UnreachableError(
            f"it can't be told just now how far the copy {plan.id} is",
            cause=f"{_HELD} in {self._control_topic}",
            hint="the brokers end it after some minutes at most: try again then",
        )

    def _count_behind(self, plan: CopyPlan, notes: list[str]) -> int | None:
        try:
            ends = read_ends(self._endpoints.source.kafka, plan)
        except SeamarkError as error:
            notes.append(f"how much has come to the source since is not known: {error.message}")
            return None
        return count_behind(plan, ends)
