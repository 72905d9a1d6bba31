"""The base of steps that only check or wait."""

from __future__ import annotations

from typing import ClassVar

from seamark.changes.step import CanNotUndo, Intent, Step
from seamark.changes.world import World


class Look(Step):
    """A step that checks or waits, and leaves nothing to undo. It has an intent only where it `writes`."""

    __slots__ = ()
    drifts: ClassVar[bool] = True
    acts: ClassVar[bool] = False

    def intend(self, world: World) -> Intent:
        """Return an empty intent."""
        del world
        return Intent(before=None, after=None)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        """Return None: there is nothing to undo."""
        del intent
        return None
