"""What a journal needs before the first change: what is there, what is missing, who must be allowed to do what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SetupItem:
    """One topic or folder. `words` say how it is or will be made, `settings` with which configs."""

    name: str
    is_there: bool
    words: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JournalSetup:
    """The journal of one context as it stands.

    `warnings` say where something that is there is not as it should be. `access` are commands that let an operator use
    the journal, for clusters that check.
    """

    context: str
    kind: str
    items: tuple[SetupItem, ...]
    warnings: tuple[str, ...] = ()
    access: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[SetupItem, ...]:
        """What has to be made."""
        return tuple(item for item in self.items if not item.is_there)
