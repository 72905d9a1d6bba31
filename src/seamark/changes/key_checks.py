"""The key of a context's journal: checking it before a change, recording it, rotating it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.changes.actor import Actor
from seamark.changes.failpoint import reach
from seamark.changes.journal import Journal
from seamark.changes.journal_key import build_key_record, build_open, check_record, is_rotated_from
from seamark.changes.setup_model import KeyRotation, SetupItem
from seamark.errors import NotFoundError, RefusedError

if TYPE_CHECKING:
    from seamark.changes.key_record import KeyRecord
    from seamark.changes.keys import Keys
    from seamark.changes.sealing import SealKey


def find_record(journal: Journal) -> KeyRecord | None:
    """Return the record of the journal's key; None where the journal isn't set up, or has no key yet."""
    try:
        return journal.read_key()
    except NotFoundError:
        return None


def check_key(journal: Journal, keys: Keys) -> None:
    """Refuse another key than the journal's. In a journal without a record, the first change records its key.

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
    """Return the error for a context with another key than the journal's: it explains how to get the right one."""
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
        hint = "record the present key: seamark init --rotate-key"
    elif is_rotated_from(record, ring):
        message = "the journal's key was rotated; no changes were made"
    return RefusedError(
        message,
        cause=f"{record.by} recorded key {record.fingerprint} at {record.at}; "
        f"this context has {ring.current.fingerprint} ({keys.describe()})",
        hint=hint,
        context={"journal_key": record.fingerprint, "key": ring.current.fingerprint},
    )


def build_key_item(journal: Journal, keys: Keys) -> tuple[SetupItem, str]:
    """Return the key as a part of the journal's setup, and a warning where the journal has another one."""
    record, ring = find_record(journal), keys.find()
    if record is not None and (ring is None or ring.current.fingerprint != record.fingerprint):
        error = build_other_key(record, keys)
        return SetupItem(f"key {record.fingerprint}", is_there=True), f"{error.message}: {error.cause}; {error.hint}"
    name = f"key {ring.current.fingerprint}" if ring is not None else "key"
    words = f"from {keys.describe()}" if ring is not None else f"a new one, in {keys.file}"
    return SetupItem(name, is_there=record is not None, words=words), ""


def record_first_key(journal: Journal, keys: Keys, actor: Actor) -> str:
    """Record the key of a journal that has none. Returns what was recorded; "" where the journal has its key."""
    if journal.read_key() is not None:
        return ""
    key = keys.read().current
    journal.record_key(build_key_record(key, by=actor.name, at=actor.timestamp()))
    return f"key {key.fingerprint}"


def read_rotation(journal: Journal, keys: Keys, *, context: str) -> KeyRotation:
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
                "seamark can't make a new key: the context names the key in journal_key; no changes were made",
                hint="add a new first line to what journal_key refers to (openssl rand -hex 32), keep the present key "
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


def rotate_key(journal: Journal, keys: Keys, actor: Actor, *, context: str) -> KeyRotation:
    """Give the journal another key, or finish a rotation that was interrupted.

    The new key is on the disk before the journal has its fingerprint, and becomes the current key after that. Until
    then the journal's key and the current one are the same, so that a process that ends here leaves all as it was.

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
    """Return the journal's key and the one that takes its place."""
    ring = keys.read()
    previous = ring.find_previous(rotation.previous)
    return (previous, ring.current) if previous is not None else (ring.current, keys.make_next())
