"""A process that writes a file journal, to be killed, stopped and starved by the fault tests.

Each entry that was acknowledged is told on the standard output before the next is begun: `ack NUMBER`. A journal error
is told as JSON and ends the process with 3, being fenced with 4. The last argument plants a bug or sets a limit.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import sys
import time

from seamark.changes.actor import new_ulid
from seamark.changes.file_journal import FileJournal, FileJournalWriter, journal
from seamark.changes.journal import EntryKind, Opening
from seamark.errors import FencedError, JournalError, LockedError

AT = "2026-11-15T08:00:00.000Z"
APPENDS = 5
FENCED, FAILED = 4, 3


def say(words):
    """One line, at once, past Python's buffers."""
    os.write(1, f"{words}\n".encode())


def write_entries(writer):
    """Five entries and the close."""
    say(f"ack {writer.entries[-1].number}")
    for number in range(1, APPENDS + 1):
        entry = writer.append(EntryKind.NOTE, {"note": f"number {number}", "filler": "x" * 300})
        say(f"ack {entry.number}")
    say(f"ack {writer.append(EntryKind.CLOSE, {'ending': 'done'}).number}")
    writer.release()


def begin(folder, change, lock):
    """A whole change, from its open to its close."""
    opening = Opening(change, title="a change", by="child@here", at=AT, nonce="nonce-1", locks=(lock,))
    write_entries(FileJournal(folder).begin(opening))


def take_over(folder, change, lock):
    """A change that somebody left, taken over and closed."""
    write_entries(FileJournal(folder).take_over(change, nonce="nonce-2", by="child@here", at=AT))


def hold(folder, change, lock):
    """A change that waits for a line on the standard input before each entry."""
    opening = Opening(change, title="a change", by="child@here", at=AT, nonce="nonce-1", locks=(lock,))
    writer = FileJournal(folder).begin(opening)
    say("ack 0")
    for _ in sys.stdin:
        say(f"ack {writer.append(EntryKind.NOTE, {}).number}")


def rival(folder, rounds, lock):
    """Some changes on a lock that others want too, each tried until it is had."""
    journal = FileJournal(folder)
    by = f"rival@{os.getpid()}"
    for _ in range(int(rounds)):
        while True:
            change, nonce = new_ulid(time.time(), os.urandom(10)), os.urandom(8).hex()
            try:
                writer = journal.begin(Opening(change, title="a change", by=by, at=AT, nonce=nonce, locks=(lock,)))
                break
            except LockedError:
                time.sleep(os.urandom(1)[0] / 25_600)
        writer.append(EntryKind.NOTE, {})
        writer.append(EntryKind.CLOSE, {"ending": "done"})
        writer.release()
    say(f"won {rounds}")


def plant(what):
    """Plant a bug, or set a limit. No switch for these is in the product."""
    if what == "missed-fsync":
        os.fsync = lambda _: None
    elif what == "no-fence":
        FileJournalWriter._check_fence = lambda *_, **__: None
    elif what == "torn-repaired":
        read = journal.read_change
        journal.read_change = lambda *arguments: dataclasses.replace(read(*arguments), torn=None)
    elif what.startswith("limit-"):
        # No file may grow beyond this: the write that crosses it is cut short, as on a disk that fills up.
        limit = int(what.removeprefix("limit-"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    else:
        raise SystemExit(f"no plant {what!r}")


def main(act, folder, change, lock, planted=""):
    """Do one act on one change."""
    if planted:
        plant(planted)
    say(f"pid {os.getpid()}")
    try:
        {"begin": begin, "take-over": take_over, "hold": hold, "rival": rival}[act](folder, change, lock)
    except (FencedError, JournalError) as error:
        say(json.dumps(error.as_dict()))
        return FENCED if isinstance(error, FencedError) else FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
