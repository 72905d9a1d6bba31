"""Changes to begin in tests: each with an id, a nonce and locks of its own."""

from __future__ import annotations

import itertools
import secrets
import time

from seamark.changes.actor import new_ulid
from seamark.changes.journal import Ending, EntryKind, Opening

AT = "2026-11-15T08:00:00.000Z"
# Ids of one run grow strictly, however fast they are made.
_ticks = itertools.count()
_START = time.time()


def new_change_id():
    """A change id that sorts behind every one made before it."""
    return new_ulid(_START + next(_ticks) / 1000, secrets.token_bytes(10))


def new_lock():
    """A lock that no other test has."""
    return f"data.topic-{secrets.token_hex(6)}"


def opening(*locks, change=None, by="ann@north:1", title="pause orders", nonce=None, **body):
    """The first entry of a change."""
    return Opening(
        change=change or new_change_id(),
        title=title,
        by=by,
        at=AT,
        nonce=nonce or secrets.token_hex(8),
        locks=tuple(sorted(locks)),
        body=body,
    )


def end(writer, ending=Ending.DONE):
    """Close a change and give its locks back."""
    writer.append(EntryKind.CLOSE, {"ending": str(ending)})
    writer.release()
