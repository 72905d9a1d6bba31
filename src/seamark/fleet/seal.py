"""Sealing secrets for the journal: equal secrets give equal seals, and nobody gets back from a seal to its secret.

A seal reads `hmac-sha256:KEY:HASH`. KEY is a short name of the key, so that a seal of another key is told apart from
a changed secret; `find_key_names` of `seamark.change.image` reads it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.errors import ConfigurationError, InvalidSettingError

if TYPE_CHECKING:
    from seamark.context import JournalSettings

_KEY = re.compile(r"[0-9a-f]{64}")
# Shorter keys could be guessed from a seal of a known value.
_SHORTEST_KEY = 16


@dataclass(frozen=True, slots=True)
class SealKey:
    """The key of one context's journal."""

    key: bytes = field(repr=False)

    @property
    def name(self) -> str:
        """A short name by which two keys can be told apart. It tells nothing of the key."""
        return hmac.new(self.key, b"seamark: the name of this key", hashlib.sha256).hexdigest()[:8]

    def seal(self, value: str) -> str:
        """The seal of a secret."""
        return f"hmac-sha256:{self.name}:{hmac.new(self.key, value.encode(), hashlib.sha256).hexdigest()}"


def read_seal_key(settings: JournalSettings) -> SealKey:
    """The key that the context names, else the one of the user's key file, which is made if it is not there."""
    if settings.key is None:
        return SealKey(_read_key_file(settings.key_file))
    text = settings.key.reveal()
    if len(text) < _SHORTEST_KEY:
        raise InvalidSettingError(
            f"journal_key is shorter than {_SHORTEST_KEY} characters",
            cause="a short key can be guessed from what it seals",
            hint="make one: openssl rand -hex 32",
            context={"setting": "journal_key"},
        )
    return SealKey(text.encode())


def _read_key_file(path: Path) -> bytes:
    try:
        if not path.exists():
            _write_key_file(path)
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigurationError(
                f"the journal's key can be read by others: {path}",
                hint=f"chmod 600 {path}; where others may have read it, make a new one",
            )
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise ConfigurationError(
            f"the journal's key can't be used: {path}",
            cause=error.strerror or type(error).__name__,
            hint="look whether you may write in that folder, or name a key in the context: journal_key",
        ) from None
    if not _KEY.fullmatch(text):
        raise ConfigurationError(f"{path} does not hold a key", hint="put the key back from a copy of it")
    return bytes.fromhex(text)


def _write_key_file(path: Path) -> None:
    """Make a key, whole or not at all. Who is second takes the key of the first."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
