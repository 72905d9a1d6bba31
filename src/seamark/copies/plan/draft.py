"""A plan of a copy in hand, with what a person needs to decide on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seamark.copies.plan.copy_plan import CopyPlan
from seamark.copies.plan.readers import CopyReader, CopyUsers

if TYPE_CHECKING:
    from seamark.report.listing import View


@dataclass(frozen=True, slots=True)
class PlannedCopy:
    """What `fleet.copies.plan` gives: nothing has been changed, and `fleet.copies.run` does it.

    `bytes` is the size of what is copied, None where nobody tells it.
    """

    plan: CopyPlan
    users: CopyUsers
    bytes: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def readers(self) -> tuple[CopyReader, ...]:
        """Who reads the source."""
        return self.users.readers

    def to_dict(self) -> dict[str, Any]:
        """The draft as JSON takes it; `plan` in it is what a plan file holds."""
        return {
            "plan": self.plan.to_dict(),
            "records": self.plan.size,
            "bytes": self.bytes,
            "readers": [reader.to_dict() for reader in self.users.readers],
            "writers": [
                {"subject": user.subject, "use": user.use.value, "state": user.state} for user in self.users.writers
            ],
            "notes": [*self.notes, *self.users.notes],
        }

    def build_view(self) -> View[Any]:
        """The plan for every output format."""
        from seamark.copies.plan.plan_view import build_draft_view  # noqa: PLC0415

        return build_draft_view(self)

    def __str__(self) -> str:
        """The plan as people read it."""
        from seamark.report.formats import OutputFormat  # noqa: PLC0415
        from seamark.report.render import render_view  # noqa: PLC0415

        return render_view(self.build_view(), OutputFormat.TABLE)

    def _repr_html_(self) -> str:
        """The plan as a notebook shows it."""
        from seamark.report.html import render_html  # noqa: PLC0415

        return render_html(self.build_view())
