"""Before offsets are written, what the plan promised is counted once more: its owner stands still now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from seamark.changes.look import Look
from seamark.changes.step import Intent, Observed, step_kind
from seamark.changes.world import World
from seamark.core.offset import Offset
from seamark.errors import RefusedError
from seamark.offsets.port import OFFSETS
from seamark.offsets.write.preview_totals import DEFAULT_TOLERANCE, Tolerance, Total, sum_previews

# A count may run into the time limit of the database for each of many tables; the budget of all is half of this.
_SETTLE_SECONDS = 60.0


@step_kind("check-preview")
@dataclass(frozen=True, slots=True)
class CheckPreview(Look):
    """A stopped connector's way from where it stands to `offsets` is counted, and held against what the plan said.

    A source that ran until the stop has moved on. Beyond the tolerance it is not what somebody said yes to.
    """

    aspect: ClassVar[str] = "preview"
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS

    cluster: str
    name: str
    offsets: tuple[Offset, ...]
    planned: Total
    tolerance: Tolerance = DEFAULT_TOLERANCE

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        return f"count again what the new offsets of {self.subject} mean"

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        found = self._count(world)
        trouble = self._find_trouble(found)
        if trouble:
            raise RefusedError(
                f"the new offsets of {self.subject} mean something else than when the plan was made",
                cause=trouble,
                hint="its run state is restored; make the plan anew, or allow more: --tolerance N or N%",
            )

    def observe(self, world: World, intent: Intent) -> Observed:
        del intent
        return Observed.BEFORE if self._find_trouble(self._count(world)) else Observed.AFTER

    def _count(self, world: World) -> Total:
        return sum_previews(world.use(OFFSETS)(self.cluster, self.name).preview(self.offsets))

    def _find_trouble(self, found: Total) -> str:
        """What is beyond the tolerance; "" where nothing is."""
        for words, planned, now in (
            ("read again", self.planned.again, found.again),
            ("skipped", self.planned.skipped, found.skipped),
        ):
            allowed = self.tolerance.allow(planned, self.planned.unit)
            if now > allowed:
                return f"{now} {found.unit} would be {words}; the plan said {planned}, and up to {allowed} is allowed"
        if found.unknown > self.planned.unknown:
            return f"{found.unknown - self.planned.unknown} partitions that were counted for the plan can't be any more"
        return ""
