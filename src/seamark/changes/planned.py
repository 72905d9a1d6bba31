"""A plan in hand: what will be done, what it means, and the secrets that the plan itself does not hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seamark.changes.action import Needs
from seamark.changes.effect import ClusterSurvey, Drift, Effect
from seamark.changes.plan import Plan
from seamark.changes.step import Step

if TYPE_CHECKING:
    from seamark.report.listing import View


@dataclass(frozen=True, slots=True)
class Planned:
    """What a service would do. Nothing has been changed; `fleet.apply` does it.

    `steps` hold the secrets of the configs in memory, the plan does not. `print` shows what a person needs to decide,
    and a notebook shows it by itself. `drifts` is what was changed outside the spec that the plan came from, and
    `survey` what was looked at for it. One that `is_saved` came from a file: its text leaves nothing out, because
    the file may have been edited.
    """

    plan: Plan
    steps: tuple[Step, ...] = field(repr=False)
    effects: tuple[Effect, ...] = ()
    drifts: tuple[Drift, ...] = ()
    survey: tuple[ClusterSurvey, ...] = ()
    needs: Needs = field(default_factory=Needs, repr=False)
    is_saved: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return self.plan.is_empty

    def build_view(self) -> View[Effect]:
        """The plan for every output format."""
        from seamark.changes.plan_view import build_plan_view  # noqa: PLC0415

        return build_plan_view(
            self.plan, self.effects, drifts=self.drifts, survey=self.survey, is_complete=self.is_saved
        )

    def __str__(self) -> str:
        """The plan as people read it."""
        from seamark.report.formats import OutputFormat  # noqa: PLC0415
        from seamark.report.render import render_view  # noqa: PLC0415

        return render_view(self.build_view(), OutputFormat.TABLE)

    def _repr_html_(self) -> str:
        """The plan as a notebook shows it."""
        from seamark.report.html import render_html  # noqa: PLC0415

        return render_html(self.build_view())
