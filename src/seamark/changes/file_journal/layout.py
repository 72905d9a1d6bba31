"""Where things stand in the journal's folder.

changes/ID.journal   the entries of a change
changes/ID.torn-N    what was found behind the last whole entry, set aside when the change was taken over
open/ID              the change is open; holds the nonce of whoever may write its next entry
locks/HASH.lock      one a lock, held by `flock`; says inside what it locks and who held it last
drafts/              files before they are renamed into place
gate                 `flock`ed for the moment in which a change is begun or taken over, or the key recorded
key                  the record of the journal's key: its fingerprint
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from seamark.changes.file_journal.durable import check_owner, make_folder, read_owned, replace_file, sync_folder
from seamark.changes.key_record import KeyRecord, parse_key_record
from seamark.changes.ulid import LENGTH
from seamark.errors import NotFoundError, TamperedJournalError, UsageError

_SUFFIX = ".journal"
_SHOWN_CANDIDATES = 5


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths below one journal folder."""

    folder: Path

    @property
    def changes(self) -> Path:
        """The files of the changes."""
        return self.folder / "changes"

    @property
    def open(self) -> Path:
        """The list of open changes: a file each."""
        return self.folder / "open"

    @property
    def locks(self) -> Path:
        """The lock files."""
        return self.folder / "locks"

    @property
    def drafts(self) -> Path:
        """Files before they stand in their place."""
        return self.folder / "drafts"

    @property
    def gate(self) -> Path:
        """The file that is locked while a change is begun or taken over."""
        return self.folder / "gate"

    @property
    def key(self) -> Path:
        """The record of the journal's key."""
        return self.folder / "key"

    def change_file(self, change: str) -> Path:
        """The file of a change's entries."""
        return self.changes / f"{change}{_SUFFIX}"

    def marker(self, change: str) -> Path:
        """The file that lists a change as open."""
        return self.open / change

    def next_torn_file(self, change: str) -> Path:
        """A name that is not taken, for what is found behind a change's last whole entry."""
        number = 1
        while (path := self.changes / f"{change}.torn-{number}").exists():
            number += 1
        return path

    def lock_file(self, base_name: str) -> Path:
        """Names of things may hold any letter and be long; the file's name is a hash, the name stands inside."""
        return self.locks / f"{hashlib.sha256(base_name.encode()).hexdigest()[:32]}.lock"

    def draft(self, target: Path) -> Path:
        """Only the holder of the gate writes drafts, so that one name for each target is enough."""
        return self.drafts / target.name

    def make(self) -> None:
        """Make what is missing of the folders, and refuse a folder that others can write."""
        missing = [folder for folder in (self.folder, *self.folder.parents) if not folder.is_dir()]
        for folder in reversed(missing):
            make_folder(folder)
        self.check()
        for folder in (self.changes, self.open, self.locks, self.drafts):
            make_folder(folder)

    def check(self) -> None:
        """Refuse a folder of somebody else, or one that others can write."""
        if self.folder.exists():
            check_owner(self.folder, self.folder.stat())

    def change_ids(self) -> list[str]:
        """Every change, the oldest first."""
        return sorted(name.removesuffix(_SUFFIX) for name in _names(self.changes) if name.endswith(_SUFFIX))

    def open_ids(self) -> list[str]:
        """Every change that is listed open, the oldest first."""
        return sorted(name for name in _names(self.open) if is_change_id(name))

    def resolve(self, change: str) -> str:
        """The whole id for one that may be shortened.

        Raises:
            UsageError: it is no id, or it fits several changes.
            NotFoundError: it fits none.
        """
        wanted = change.strip().upper()
        if not wanted.isascii() or not wanted.isalnum() or len(wanted) > LENGTH:
            raise UsageError(f"{change!r} is no change id", hint="seamark journal list shows the ids")
        if is_change_id(wanted) and self.change_file(wanted).exists():
            return wanted
        found = [name for name in self.change_ids() if name.startswith(wanted)]
        if not found:
            raise NotFoundError(
                f"the journal has no change {change}", hint="seamark journal list", context={"change": change}
            )
        if len(found) > 1:
            shown = ", ".join(found[:_SHOWN_CANDIDATES])
            more = f" and {len(found) - _SHOWN_CANDIDATES} more" if len(found) > _SHOWN_CANDIDATES else ""
            raise UsageError(f"{change} fits {len(found)} changes", cause=f"{shown}{more}", hint="give more letters")
        return found[0]

    def read_marker(self, change: str) -> str | None:
        """The nonce of whoever may write the change's next entry; None if the change is not open."""
        try:
            return read_owned(self.marker(change)).decode()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise TamperedJournalError(f"{self.marker(change)} is not as seamark writes it") from None

    def read_key(self) -> KeyRecord | None:
        """Return the record of the journal's key; None where there is none."""
        try:
            return parse_key_record(read_owned(self.key), where=str(self.key))
        except FileNotFoundError:
            return None

    def write_key(self, record: KeyRecord) -> None:
        """Store the record of the journal's key. Only the holder of the gate may."""
        replace_file(self.key, record.to_bytes(), draft=self.draft(self.key))

    def write_marker(self, change: str, nonce: str) -> None:
        """From now on only the holder of this nonce may write the change's next entry."""
        target = self.marker(change)
        replace_file(target, nonce.encode(), draft=self.draft(target))

    def drop_marker(self, change: str) -> None:
        """The change is no longer open."""
        self.marker(change).unlink(missing_ok=True)

    def drop_change(self, change: str) -> None:
        """Take back a change that was never begun: its file first, so that no open change is ever unlisted."""
        self.change_file(change).unlink(missing_ok=True)
        sync_folder(self.changes)
        self.drop_marker(change)


def is_change_id(text: str) -> bool:
    """Whether this can be a change's id, and so a file's name."""
    return len(text) == LENGTH and text.isascii() and text.isalnum() and text == text.upper()


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
