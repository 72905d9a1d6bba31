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


@dataclass(frozen=True, slots=True)
class KeyRotation:
    """The rotation of a journal's key. All keys are named by their fingerprints.

    `previous` is the journal's key now, or before the rotation; `fingerprint` is the new key, "" where it isn't made
    yet. `file` is where the keys are stored afterwards. With `is_recorded` the journal has the new key already.
    """

    context: str
    previous: str
    fingerprint: str
    file: str
    is_recorded: bool = False
