"""Plans from specs: the way from what runs to what should."""

from __future__ import annotations

from seamark.specs.plan.plans import SpecPlans

__all__ = ["SpecPlans"]
