"""The record of which key a journal has. It holds a fingerprint of the key, from which the key can't be computed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from seamark.core.format_version import StoredFormat, check_format
from seamark.errors import TamperedJournalError

KEY_FORMAT = StoredFormat("journal key", 1)
_FIELDS = ("fingerprint", "by", "at", "previous", "signature", "previous_signature")


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """The key of a journal, as the journal stores it.

    `by` recorded it at the time `at`. `signature` is made with the key itself. After a rotation, `previous` is the
    fingerprint of the key before it, and `previous_signature` is made with that one: a holder of the previous key can
    check that another holder of it rotated the key.
    """

    fingerprint: str
    by: str
    at: str
    previous: str = ""
    signature: str = ""
    previous_signature: str = ""

    @property
    def signed_text(self) -> str:
        """What both signatures are made over. The first word keeps it apart from the text of an entry."""
        return json.dumps(["journal-key", self.fingerprint, self.previous, self.by, self.at], ensure_ascii=False)

    def to_bytes(self) -> bytes:
        """Return the record as it is stored."""
        body = {**KEY_FORMAT.field, **{name: getattr(self, name) for name in _FIELDS}}
        return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def parse_key_record(data: bytes, *, where: str) -> KeyRecord:
    """Return a stored record. `where` is its location, for errors.

    Raises:
        FormatVersionError: it has another format version.
        TamperedJournalError: it is something else.
    """
    try:
        body: Any = json.loads(data)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise _build_unreadable(where)
    check_format(KEY_FORMAT, body, where=where)
    if not all(isinstance(body.get(name), str) for name in _FIELDS):
        raise _build_unreadable(where)
    return KeyRecord(**{name: body[name] for name in _FIELDS})


def _build_unreadable(where: str) -> TamperedJournalError:
    return TamperedJournalError(
        f"{where} is not a record of the journal's key",
        hint="find out what else writes to the journal; only seamark may",
    )
