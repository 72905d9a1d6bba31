"""The head of a change: its state, built from its entries, stored in the heads topic as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seamark.changes.journal import Entry, EntryKind, Head, KeyRecord, Opening, parse_key_record
from seamark.changes.kafka_journal.names import GATE_KEY, HEAD_PREFIX, KEY_KEY, PROOF_PREFIX
from seamark.changes.locks import conflicts
from seamark.core.strict_json import VERSION_FIELD, StoredFormat, check_format
from seamark.errors import LockedError, TamperedJournalError
from seamark.kafka.log import LogRecord, PartitionLog

FORMAT = StoredFormat("journal head", 1)


class HeadTrack:
    """Follows a change entry by entry. It keeps what a head needs, never the entries' bodies.

    `head` is the head after the newest entry that was followed.
    """

    def __init__(self, opened: Entry) -> None:
        self._steps = _read_steps(opened.body)
        self.head = Head.build([opened])

    def follow(self, entry: Entry) -> Head:
        """Return the head after one more entry."""
        self.head = self.preview(entry)
        return self.head

    def preview(self, entry: Entry, *, after: Head | None = None) -> Head:
        """Return the head that the entry would result in. `by` is the current holder: a `taken` entry changes it."""
        head = after or self.head
        taken = entry.kind is EntryKind.TAKEN
        return dataclasses.replace(
            head,
            by=entry.by if taken else head.by,
            nonce=str(entry.body.get("nonce", "")) if taken else head.nonce,
            last_at=entry.at,
            last_kind=entry.kind,
            last_number=entry.number,
            last_hash=entry.hash,
            step=self._describe_step(entry.body["step"]) if "step" in entry.body else head.step,
            ending=str(entry.body.get("ending", "")) if entry.kind is EntryKind.CLOSE else "",
        )

    def _describe_step(self, number: object) -> str:
        known = isinstance(number, int) and 0 <= number < len(self._steps)
        return f"{number} ({self._steps[number]})" if known and isinstance(number, int) else str(number)


def track_entries(entries: tuple[Entry, ...]) -> HeadTrack:
    """Build a track that has followed a whole change."""
    track = HeadTrack(entries[0])
    for entry in entries[1:]:
        track.follow(entry)
    return track


def build_head_value(head: Head) -> bytes:
    """Return a head as it is stored in the heads topic."""
    body = {**FORMAT.field, **dataclasses.asdict(head), "locks": list(head.locks)}
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def read_head_value(value: bytes, *, where: str = "a journal head") -> Head:
    """Build the head from what `build_head_value` returned. `where` is its location, for errors.

    Raises:
        FormatVersionError: it has another format version.
        TamperedJournalError: it is something else.
    """
    try:
        body: dict[str, Any] = json.loads(value)
        check_format(FORMAT, body, where=where)
        del body[VERSION_FIELD]
        return Head(**body | {"locks": tuple(body["locks"]), "last_kind": EntryKind(body["last_kind"])})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TamperedJournalError("a head can't be read", cause=str(error)) from None


def _read_steps(opened: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the description of each step of the plan in an `open` entry; empty without a plan."""
    plan = opened.get("plan")
    steps = plan.get("steps") if isinstance(plan, Mapping) else None
    if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
        return ()
    return tuple(f"{step.get('kind', '?')} {step.get('subject', '?')}" for step in steps)


# All processes that have read the topic up to the same offset have the same state. It contains four kinds of records:
#
#     change/ID     the head of an open change; a tombstone once it is closed
#     gate          a claim of the gate, or its release
#     key           the record of the journal's key
#     proof/LOCK    written by a lock's holder to prove that it isn't fenced; readers ignore it
#
# Any other key is refused, because a newer seamark may store locks under it.

CLAIM_FORMAT = StoredFormat("gate claim", 1)
# How far the clock of a broker may jump forward while it leads the topic. chrony and systemd-timesyncd step a clock
# when they start, and slew it afterwards.
_STEP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class AppendTime:
    """When the topic's leader appended a record, by the leader's clock. Comparable within one leader epoch."""

    at_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class GateClaim:
    """A claim of the gate by one process. `at_ms` is the brokers' time, the same for every reader."""

    nonce: str
    by: str
    at_ms: int
    stamp: AppendTime | None = None


class OpenChangeIndex:
    """The state of the heads topic as far as it was read: heads of changes, gate and key."""

    def __init__(self, log: PartitionLog, *, lease_seconds: float) -> None:
        self._log = log
        self._lease_ms = lease_seconds * 1000
        self._next: int | None = None
        self.heads: dict[str, Head] = {}
        self.gate: GateClaim | None = None
        self.key: KeyRecord | None = None
        # The changes whose closing was read.
        self.closed: set[str] = set()
        # For each open change, when the entries up to a number were appended.
        self._stamps: dict[str, list[tuple[int, AppendTime]]] = {}

    def catch_up(self) -> None:
        """Read to the current end of the topic."""
        low, end = self._log.read_bounds()
        start = low if self._next is None else max(low, self._next)
        for record in self._log.read(start, end):
            self.apply(record)
        self._next = end

    def apply(self, record: LogRecord) -> None:
        """Apply one record, in the order of offsets."""
        key = (record.key or b"").decode(errors="replace")
        try:
            if record.key == GATE_KEY:
                self._apply_gate(record)
            elif record.key == KEY_KEY:
                self._apply_key(record)
            elif key.startswith(HEAD_PREFIX):
                self._apply_head(key.removeprefix(HEAD_PREFIX), record)
            elif not key.startswith(PROOF_PREFIX):
                _refuse_key(key)
        except (TamperedJournalError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise TamperedJournalError(
                f"the record at offset {record.offset} of topic {self._log.topic} is not a record of seamark",
                cause=error.message if isinstance(error, TamperedJournalError) else str(error),
                hint="find the program that writes to this topic; only seamark may",
                context={"topic": self._log.topic, "offset": str(record.offset), "key": key},
            ) from None

    def open_heads(self) -> tuple[Head, ...]:
        """Return every open change, the newest first."""
        return tuple(self.heads[change] for change in sorted(self.heads, reverse=True))

    def measure_ages(self, change: str) -> tuple[tuple[int, float], ...]:
        """Return how long before the current claim of the gate entries of a change were written, by their numbers.

        Both times are the leader's, so that the clocks of seamark processes don't matter. Entries that another leader
        appended, and those of a topic with CreateTime, have no age.
        """
        now = self.gate.stamp if self.gate is not None else None
        if now is None:
            return ()
        found = (
            (number, (now.at_ms - stamp.at_ms) / 1000 - _STEP_SECONDS)
            for number, stamp in self._stamps.get(change, ())
            if stamp.leader_epoch == now.leader_epoch
        )
        return tuple((number, seconds) for number, seconds in found if seconds > 0)

    def refuse_conflict(self, opening: Opening) -> None:
        """Refuse if an open change, with or without a live process, has a conflicting lock."""
        for head in self.open_heads():
            for mine in opening.locks:
                theirs = next((lock for lock in head.locks if conflicts(mine, lock)), None)
                if theirs is not None:
                    raise _locked(mine, theirs, head)

    def _apply_gate(self, record: LogRecord) -> None:
        said = json.loads(record.value or b"null")
        check_format(CLAIM_FORMAT, said, where=self._describe(record))
        if "release" in said:
            if self.gate is not None and self.gate.nonce == said["release"]:
                self.gate = None
            return
        claim = GateClaim(
            str(said["claim"]), by=str(said["by"]), at_ms=record.timestamp_ms, stamp=_find_append_time(record)
        )
        if self.gate is None or claim.at_ms - self.gate.at_ms > self._lease_ms:
            self.gate = claim

    def _apply_key(self, record: LogRecord) -> None:
        value = record.value
        self.key = None if value is None else parse_key_record(value, where=self._describe(record))

    def _apply_head(self, change: str, record: LogRecord) -> None:
        if record.value is None:
            self.closed.add(change)
            self.heads.pop(change, None)
            self._stamps.pop(change, None)
            return
        head = read_head_value(record.value, where=self._describe(record))
        if head.change != change:
            raise TamperedJournalError(f"it is the head of change {head.change}")
        self.heads[change] = head
        if (stamp := _find_append_time(record)) is not None:
            self._stamps.setdefault(change, []).append((head.last_number, stamp))

    def _describe(self, record: LogRecord) -> str:
        return f"offset {record.offset} of topic {self._log.topic}"


def _find_append_time(record: LogRecord) -> AppendTime | None:
    if not record.is_append_time or record.leader_epoch is None:
        return None
    return AppendTime(record.timestamp_ms, record.leader_epoch)


def _refuse_key(key: str) -> None:
    raise TamperedJournalError(f"unknown key {key!r}")


def build_claim_value(nonce: str, *, by: str) -> bytes:
    """Return a claim of the gate."""
    return json.dumps({**CLAIM_FORMAT.field, "claim": nonce, "by": by}, ensure_ascii=False).encode()


def build_release_value(nonce: str) -> bytes:
    """Return the release of a claim."""
    return json.dumps({**CLAIM_FORMAT.field, "release": nonce}).encode()


def _locked(mine: str, theirs: str, head: Head) -> LockedError:
    step = f"at step {head.step}" if head.step else "before its first step"
    return LockedError(
        f"{mine} is locked by change {head.change} ({head.title})",
        cause=f"{head.by} has held {theirs} since {head.opened_at}, {step}, last entry at {head.last_at}",
        hint=f"wait until it ends, or show it: seamark journal show {head.change}; "
        f"if its process has ended: seamark journal resume {head.change}",
        context={"change": head.change, "lock": theirs, "nonce": head.nonce, "by": head.by},
    )
