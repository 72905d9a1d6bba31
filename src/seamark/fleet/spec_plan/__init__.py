"""Plans from specs: the way from what runs to what should."""

from __future__ import annotations

from seamark.fleet.spec_plan.plans import SpecPlans

__all__ = ["SpecPlans"]
