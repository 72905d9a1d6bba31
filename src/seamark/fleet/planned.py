"""A plan in hand: what will be done, what it means, and the secrets that the plan itself does not hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from seamark.change.step import Step
from seamark.model.effect import Effect
from seamark.model.plan import Plan


@dataclass(frozen=True, slots=True)
class Planned:
    """What a service would do. Nothing has been changed; `fleet.apply` does it.

    `steps` hold the secrets of the configs in memory, the plan does not. `print` shows what a person needs to decide.
    """

    plan: Plan
    steps: tuple[Step, ...] = field(repr=False)
    effects: tuple[Effect, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return self.plan.is_empty

    def __str__(self) -> str:
        """The plan as people read it."""
        from seamark.report.formats import OutputFormat  # noqa: PLC0415
        from seamark.report.render import render_view  # noqa: PLC0415
        from seamark.report.views.plan import build_plan_view  # noqa: PLC0415

        return render_view(build_plan_view(self.plan, self.effects), OutputFormat.TABLE)
