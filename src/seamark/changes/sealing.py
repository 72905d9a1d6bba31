"""Keys of a journal: the one that seals secrets and signs entries, and previous ones that only check.

A seal reads `hmac-sha256:KEY:HASH`. KEY is a short name of the key, so that a seal of another key isn't taken for a
changed secret; `find_key_names` of `seamark.changes.images` reads it. A secret can't be computed from its seal.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TypeVar

from seamark.changes.world import Clock, World
from seamark.core.ports import Port

P = TypeVar("P")
_NAME_LENGTH = 8
# 128 bits: two keys have the same fingerprint neither by accident nor by search.
_FINGERPRINT_LENGTH = 32


@dataclass(frozen=True, slots=True)
class SealKey:
    """One key of a journal."""

    key: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """What the journal stores of the key. The key can't be computed from it."""
        digest = hmac.new(self.key, b"seamark: the name of this key", hashlib.sha256).hexdigest()
        return digest[:_FINGERPRINT_LENGTH]

    @property
    def name(self) -> str:
        """The short name of the key that is part of each seal."""
        return self.fingerprint[:_NAME_LENGTH]

    def seal(self, value: str) -> str:
        """Return the seal of a secret, or the signature of a text."""
        return f"hmac-sha256:{self.name}:{hmac.new(self.key, value.encode(), hashlib.sha256).hexdigest()}"


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys of one context: `current` seals and signs, `previous` only check changes that are closed."""

    current: SealKey
    previous: tuple[SealKey, ...] = ()

    @property
    def keys(self) -> tuple[SealKey, ...]:
        """Every key, the current one first."""
        return (self.current, *self.previous)

    def find_previous(self, fingerprint: str) -> SealKey | None:
        """Return the previous key of a fingerprint."""
        return next((key for key in self.previous if key.fingerprint == fingerprint), None)


@dataclass(frozen=True, slots=True)
class SealingWorld:
    """A `World` that seals with another key: for comparing with images that were sealed with it."""

    _world: World
    _key: SealKey

    @property
    def clock(self) -> Clock:
        """The clock of the world."""
        return self._world.clock

    def use(self, port: Port[P]) -> P:
        """Return the capability of the world."""
        return self._world.use(port)

    def reveal(self, reference: str) -> str:
        """Return the value behind a reference."""
        return self._world.reveal(reference)

    def seal(self, value: str) -> str:
        """Return the seal with the other key."""
        return self._key.seal(value)
