"""The keys of a context: from the setting `journal_key`, else from a key file of the user.

Both contain one key per line. The first key seals and signs; the others were the journal's key before a rotation and
only verify what was written then. All contexts of a user share one key file until the key of a journal is rotated: then
the context gets its own file, because the other journals still use the shared key.
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

from seamark.changes.actor import Actor
from seamark.changes.file_journal.files import sync_folder
from seamark.changes.interruption import reach
from seamark.changes.journal import JournalPort
from seamark.changes.setup import KeyRotation, SetupItem
from seamark.changes.signing import KeyRing, SealKey, build_key_record, build_open, check_record, is_rotated_from
from seamark.errors import ConfigurationError, InvalidSettingError, NotFoundError, RefusedError

if TYPE_CHECKING:
    from seamark.changes.journal import KeyRecord
    from seamark.context import JournalSettings


def find_record(journal: JournalPort) -> KeyRecord | None:
    """Return the record of the journal's key; None if the journal isn't set up, or has no key yet."""
    try:
        return journal.read_key()
    except NotFoundError:
        return None


def check_key(journal: JournalPort, keys: Keys) -> None:
    """Refuse a key other than the journal's. In a journal without a key record, the first change records its key.

    Raises:
        RefusedError: the journal has another key.
        TamperedJournalError: the record has our fingerprint, but a holder of the key didn't write it.
    """
    record = find_record(journal)
    if record is None:
        return
    mine = keys.read().current
    if record.fingerprint != mine.fingerprint:
        raise build_other_key(record, keys)
    check_record(record, mine)


def build_other_key(record: KeyRecord, keys: Keys) -> RefusedError:
    """Build the error for a context with a key other than the journal's, with instructions to get the right one."""
    ring, new = keys.read(), keys.read_next()
    message = "the journal has another key than this context; no changes were made"
    hint = (
        f"get the journal's key from {record.by} and set journal_key in this context; there it is in journal_key, or "
        "in journal.key or journal-keys/CONTEXT.key of the state folder (~/.local/state/seamark); "
        "a holder of that key can replace it: seamark init --rotate-key"
    )
    if new is not None and new.fingerprint == record.fingerprint:
        message = "the rotation of the journal's key isn't finished; no changes were made"
        hint = "finish it: seamark init --rotate-key"
    elif ring.find_previous(record.fingerprint) is not None:
        message = "the journal has a previous key of this context; no changes were made"
        hint = "record the current key: seamark init --rotate-key"
    elif is_rotated_from(record, ring):
        message = "the journal's key was rotated; no changes were made"
    return RefusedError(
        message,
        cause=f"{record.by} recorded key {record.fingerprint} at {record.at}; "
        f"this context has {ring.current.fingerprint} ({keys.describe()})",
        hint=hint,
        context={"journal_key": record.fingerprint, "key": ring.current.fingerprint},
    )


def build_key_item(journal: JournalPort, keys: Keys) -> tuple[SetupItem, str]:
    """Return the key as a part of the journal's setup, and a warning if the journal has another one."""
    record, ring = find_record(journal), keys.find()
    if record is not None and (ring is None or ring.current.fingerprint != record.fingerprint):
        error = build_other_key(record, keys)
        return SetupItem(f"key {record.fingerprint}", is_there=True), f"{error.message}: {error.cause}; {error.hint}"
    name = f"key {ring.current.fingerprint}" if ring is not None else "key"
    words = f"from {keys.describe()}" if ring is not None else f"a new one, in {keys.file}"
    return SetupItem(name, is_there=record is not None, words=words), ""


def record_first_key(journal: JournalPort, keys: Keys, actor: Actor) -> str:
    """Record the key of a journal that has none. Return what was recorded; "" if the journal already has a key."""
    if journal.read_key() is not None:
        return ""
    key = keys.read().current
    journal.record_key(build_key_record(key, by=actor.name, at=actor.timestamp()))
    return f"key {key.fingerprint}"


def read_rotation(journal: JournalPort, keys: Keys, *, context: str) -> KeyRotation:
    """Return what a rotation would do. Changes nothing.

    Raises:
        RefusedError: the journal has no key, or one that this context doesn't have, or seamark can't write the key.
        LockedError: a change is open.
    """
    record = journal.read_key()
    if record is None:
        raise RefusedError("the journal has no key yet; no changes were made", hint="record it: seamark init")
    ring, new = keys.read(), keys.read_next()
    if new is not None and new.fingerprint == record.fingerprint:
        check_record(record, new)
        return KeyRotation(context, record.previous, new.fingerprint, str(keys.own_file), is_recorded=True)
    if record.fingerprint == ring.current.fingerprint:
        check_record(record, ring.current)
        if keys.is_setting:
            raise RefusedError(
                "seamark can't create a new key, because journal_key of the context sets it; no changes were made",
                hint="add a new first line to what journal_key refers to (openssl rand -hex 32), keep the current key "
                "as the second line, then run the command again",
            )
        rotation = KeyRotation(context, record.fingerprint, new.fingerprint if new else "", str(keys.own_file))
    elif (previous := ring.find_previous(record.fingerprint)) is not None:
        check_record(record, previous)
        rotation = KeyRotation(context, record.fingerprint, ring.current.fingerprint, keys.describe())
    else:
        raise build_other_key(record, keys)
    if heads := journal.open_heads():
        raise build_open(heads)
    return rotation


def rotate_key(journal: JournalPort, keys: Keys, actor: Actor, *, context: str) -> KeyRotation:
    """Rotate the journal's key, or finish an interrupted rotation.

    The new key is on disk before the journal has its fingerprint, and becomes the current key after that. Until then
    the journal's key and the current one are the same, so that a process that ends in between leaves everything as it
    was.

    Raises:
        RefusedError, LockedError: see `read_rotation`, or another process was faster.
    """
    rotation = read_rotation(journal, keys, context=context)
    if not rotation.is_recorded:
        old, new = _find_pair(rotation, keys)
        reach("key-made")
        record = build_key_record(new, by=actor.name, at=actor.timestamp(), previous=old)
        journal.record_key(record)
        reach("key-recorded")
        rotation = KeyRotation(context, rotation.previous, new.fingerprint, rotation.file, is_recorded=True)
    new_key = keys.read_next()
    if new_key is not None and new_key.fingerprint == rotation.fingerprint:
        keys.promote_next()
    return rotation


def _find_pair(rotation: KeyRotation, keys: Keys) -> tuple[SealKey, SealKey]:
    """Return the journal's key and the key that replaces it."""
    ring = keys.read()
    previous = ring.find_previous(rotation.previous)
    return (previous, ring.current) if previous is not None else (ring.current, keys.make_next())


_KEY = re.compile(r"[0-9a-f]{64}")
# A shorter key could be guessed from the seal of a known value.
_SHORTEST_KEY = 16


class Keys:
    """The keys of one context, read when they are first needed."""

    def __init__(self, settings: JournalSettings) -> None:
        self._settings = settings
        self._ring: KeyRing | None = None

    def read(self) -> KeyRing:
        """Return the keys. A missing key file is created.

        Raises:
            ConfigurationError: a key can't be read, or others can read it.
        """
        self._ring = self._ring or read_keys(self._settings)
        return self._ring

    def find(self) -> KeyRing | None:
        """Return the keys; None if the key file doesn't exist yet."""
        return self.read() if self.is_setting or self.file.exists() else None

    @property
    def is_setting(self) -> bool:
        """Whether the context sets the key, so that seamark can't write it."""
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
        """Return the new key of an unfinished rotation; None if there is none."""
        path = _next_file(self._settings)
        return _read_key_file(path).current if not self.is_setting and path.exists() else None

    def make_next(self) -> SealKey:
        """Return the new key of a rotation. It is on disk, and stays the same until the rotation is finished.

        It is never replaced by another one, because the journal may already have its fingerprint.
        """
        path = _next_file(self._settings)
        with _explain(path):
            if not path.exists():
                _write(path, [secrets.token_bytes(32), *(key.key for key in self.read().keys)])
        return _read_key_file(path).current

    def promote_next(self) -> None:
        """Make the new key of a rotation the current one, in one rename, followed by all present keys.

        If the new key no longer exists, another process has already done this.
        """
        path = _next_file(self._settings)
        present = read_keys(self._settings).keys
        with _explain(path), suppress(FileNotFoundError):
            path.stat()
            # Further keys, such as those of a colleague, may have been added to the key file since the new key was
            # created.
            new = _read_key_file(path).current
            kept = (key for key in present if key != new)
            _write(path, [new.key, *(key.key for key in kept)], is_new=False)
            path.replace(self._settings.own_key_file)
            sync_folder(path.parent)
        self._ring = None


def read_keys(settings: JournalSettings) -> KeyRing:
    """Return the keys that the context sets, else those of the user's key file, which is created if missing.

    Raises:
        ConfigurationError: a key can't be read, or others can read it.
        InvalidSettingError: the context sets a key that is too short.
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
            hint="create one: openssl rand -hex 32",
            context={"setting": "journal_key"},
        )
    # The setting accepts the content of a key file, so that a key can be shared by copying it.
    return _build_ring([bytes.fromhex(text) if _KEY.fullmatch(text) else text.encode() for text in texts])


def _find_key_file(settings: JournalSettings) -> Path:
    """Return the context's own key file, created by a rotation, else the one that the user's contexts share."""
    return settings.own_key_file if settings.own_key_file.exists() else settings.key_file


def _next_file(settings: JournalSettings) -> Path:
    path = settings.own_key_file
    return path.with_name(f"{path.name}.next")


def _read_key_file(path: Path) -> KeyRing:
    with _explain(path):
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigurationError(
                f"the journal's key can be read by others: {path}",
                hint=f"chmod 600 {path}; if others may have read it, rotate the key: seamark init --rotate-key",
            )
        lines = path.read_text(encoding="ascii", errors="replace").split()
    if not lines or not all(_KEY.fullmatch(line) for line in lines):
        raise ConfigurationError(f"{path} contains no valid key", hint="restore the key from a backup")
    return _build_ring([bytes.fromhex(line) for line in lines])


def _build_ring(keys: Sequence[bytes]) -> KeyRing:
    current, *previous = keys
    return KeyRing(SealKey(current), tuple(SealKey(key) for key in previous))


def _write(path: Path, keys: Sequence[bytes], *, is_new: bool = True) -> None:
    """Write a key file atomically. If two processes create it, the second one uses the file of the first."""
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
    """Convert an error of the file system into one that names the key file."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"the journal's key can't be used: {path}",
            cause=error.strerror or type(error).__name__,
            hint="check that you can write to that folder, or set journal_key in the context",
        ) from None
