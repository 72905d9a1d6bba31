"""Every kind of step. Importing this module registers all of them, so that any plan can be decoded."""

from __future__ import annotations

from seamark.changes.step import STEPS

__all__ = ["STEPS"]
