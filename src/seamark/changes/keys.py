"""The keys of a context: from the setting `journal_key`, else from a key file of the user.

Both hold one key per line. The first one seals and signs; the others were the journal's key before a rotation and only
check what was written then. All contexts of a user share one key file until the key of a journal is rotated: then the
context gets a file of its own, because the other journals still have the shared key.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.changes.file_journal.durable import sync_folder
from seamark.changes.sealing import KeyRing, SealKey
from seamark.errors import ConfigurationError, InvalidSettingError

if TYPE_CHECKING:
    from seamark.context import JournalSettings

_KEY = re.compile(r"[0-9a-f]{64}")
# Shorter keys could be guessed from a seal of a known value.
_SHORTEST_KEY = 16


class Keys:
    """The keys of one context, read when they are first needed."""

    def __init__(self, settings: JournalSettings) -> None:
        self._settings = settings
        self._ring: KeyRing | None = None

    def read(self) -> KeyRing:
        """Return the keys. A key file that isn't there is created.

        Raises:
            ConfigurationError: a key can't be read, or others can read it.
        """
        self._ring = self._ring or read_keys(self._settings)
        return self._ring

    def find(self) -> KeyRing | None:
        """Return the keys; None where the key file isn't there yet."""
        return self.read() if self.is_setting or self.file.exists() else None

    @property
    def is_setting(self) -> bool:
        """Whether the context names the key, so that seamark can't write it."""
        return self._settings.key is not None

    @property
    def file(self) -> Path:
        """The key file."""
        return _find_key_file(self._settings)

    @property
    def own_file(self) -> Path:
        """The key file after a rotation."""
        return self._settings.own_key_file

    def describe(self) -> str:
        """Return where the keys are stored."""
        return "the setting journal_key" if self.is_setting else str(self.file)

    def read_next(self) -> SealKey | None:
        """Return the new key of a rotation that isn't finished; None where there is none."""
        path = _next_file(self._settings)
        return _read_key_file(path).current if not self.is_setting and path.exists() else None

    def make_next(self) -> SealKey:
        """Return the new key of a rotation. It is on the disk, and stays the same until the rotation is finished.

        It is never replaced by another one, because the journal may have its fingerprint already.
        """
        path = _next_file(self._settings)
        with _explain(path):
            if not path.exists():
                _write(path, [secrets.token_bytes(32), *(key.key for key in self.read().keys)])
        return _read_key_file(path).current

    def promote_next(self) -> None:
        """Make the new key of a rotation the current one, in one rename, with all present keys after it.

        Where the new key isn't there any more, another process has done so.
        """
        path = _next_file(self._settings)
        present = read_keys(self._settings).keys
        with _explain(path), suppress(FileNotFoundError):
            path.stat()
            # The key file may have got further keys since the new key was made, such as those of a colleague.
            new = _read_key_file(path).current
            kept = (key for key in present if key != new)
            _write(path, [new.key, *(key.key for key in kept)], is_new=False)
            path.replace(self._settings.own_key_file)
            sync_folder(path.parent)
        self._ring = None


def read_keys(settings: JournalSettings) -> KeyRing:
    """Return the keys that the context names, else those of the user's key file, which is created if it isn't there.

    Raises:
        ConfigurationError: a key can't be read, or others can read it.
        InvalidSettingError: the context names a key that is too short.
    """
    if settings.key is None:
        path = _find_key_file(settings)
        with _explain(path):
            if not path.exists():
                _write(path, [secrets.token_bytes(32)])
        return _read_key_file(path)
    texts = [line.strip() for line in settings.key.reveal().splitlines() if line.strip()]
    if not texts or any(len(text) < _SHORTEST_KEY for text in texts):
        raise InvalidSettingError(
            f"journal_key is shorter than {_SHORTEST_KEY} characters",
            cause="a short key can be guessed from what it seals",
            hint="make one: openssl rand -hex 32",
            context={"setting": "journal_key"},
        )
    # What a key file holds is the same key in the setting, so that it can be shared by copying it.
    return _build_ring([bytes.fromhex(text) if _KEY.fullmatch(text) else text.encode() for text in texts])


def _find_key_file(settings: JournalSettings) -> Path:
    """Return the context's own key file, which a rotation makes, else the one that the user's contexts share."""
    return settings.own_key_file if settings.own_key_file.exists() else settings.key_file


def _next_file(settings: JournalSettings) -> Path:
    path = settings.own_key_file
    return path.with_name(f"{path.name}.next")


def _read_key_file(path: Path) -> KeyRing:
    with _explain(path):
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigurationError(
                f"the journal's key can be read by others: {path}",
                hint=f"chmod 600 {path}; where others may have read it, make a new one",
            )
        lines = path.read_text(encoding="ascii", errors="replace").split()
    if not lines or not all(_KEY.fullmatch(line) for line in lines):
        raise ConfigurationError(f"{path} does not hold a key", hint="put the key back from a copy of it")
    return _build_ring([bytes.fromhex(line) for line in lines])


def _build_ring(keys: Sequence[bytes]) -> KeyRing:
    current, *previous = keys
    return KeyRing(SealKey(current), tuple(SealKey(key) for key in previous))


def _write(path: Path, keys: Sequence[bytes], *, is_new: bool = True) -> None:
    """Write a key file, whole or not at all. Of two processes that create it, the second takes the first one's file."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write("".join(f"{key.hex()}\n" for key in keys))
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            with suppress(FileExistsError):
                os.link(draft, path)
        else:
            draft.replace(path)
        sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _explain(path: Path) -> Iterator[None]:
    """Turn an error of the file system into one that names the key file."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"the journal's key can't be used: {path}",
            cause=error.strerror or type(error).__name__,
            hint="look whether you may write in that folder, or name a key in the context: journal_key",
        ) from None
