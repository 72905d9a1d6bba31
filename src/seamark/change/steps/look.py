"""What all steps have in common that only look or wait."""

from __future__ import annotations

from typing import ClassVar

from seamark.change.step import CanNotUndo, Intent, Step
from seamark.change.world import World


class Look:
    """The base of a step that changes nothing: it intends nothing, and leaves nothing to take back."""

    __slots__ = ()
    drifts: ClassVar[bool] = True
    acts: ClassVar[bool] = False
    # Whether what it saw may be over soon: then it is looked at again before an act that comes late relies on it.
    expires: ClassVar[bool] = False
    # Whether it proves that nobody else writes. What is written again needs that anew, however far back it stands.
    proves: ClassVar[bool] = False

    def intend(self, world: World) -> Intent:
        """Nothing is wanted."""
        del world
        return Intent(before=None, after=None)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        """There is nothing to take back."""
        del intent
        return None
