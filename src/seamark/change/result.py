"""What became of a change. The values stand in `model`, so that reports can show them."""

from __future__ import annotations

from seamark.model.result import GOOD, UNSETTLED, ChangeResult, Outcome, StepResult, build_ending

__all__ = ["GOOD", "UNSETTLED", "ChangeResult", "Outcome", "StepResult", "build_ending"]
