"""What can go wrong at a call, and a process to which it happens.

Every call of a process to the outside (a read or write of Connect, an entry of a file, a request to the brokers, a
sleep, the spool) has a number. A fault is set for a number and strikes at the first call from there on to which it can
happen.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Killed(BaseException):
    """kill -9: nothing of the process runs after it. Every later call of it raises this again."""


class Violation(AssertionError):  # noqa: N818 - it is what the tests are about
    """An invariant does not hold."""


class Call(StrEnum):
    """Kinds of calls."""

    READ = "read"
    WRITE = "write"
    APPEND = "append"
    SLEEP = "sleep"
    SPOOL = "spool"
    # Requests of the Kafka journal to the brokers.
    ASK = "ask the brokers"
    FETCH = "fetch"
    PRODUCE = "produce"
    TAKE = "take a transactional ID"
    COMMIT = "commit"
    ABORT = "abort"


class Kind(StrEnum):
    """Kinds of faults."""

    KILL = "kill"  # before anything happens
    KILL_AFTER = "kill after"  # written, or sent and carried out
    KILL_LATE = "kill, lands late"  # sent, and carried out some time later
    KILL_LOST = "kill, never lands"  # sent, and never carried out
    LOST_DONE = "answer lost, done"
    LOST_LATE = "answer lost, lands late"
    LOST_NEVER = "answer lost, never done"
    REJECTED = "rejected"
    DENIED = "denied"
    DEADLINE = "deadline"
    UNREACHABLE = "unreachable"
    LATER = "409 first, then done"
    SLOW_STATUS = "shows late"
    OUTAGE = "outage"
    REBALANCE = "rebalance"
    JOURNAL_FAILS = "journal fails"
    JOURNAL_UNSURE = "journal fails, written"
    JOURNAL_SLOW = "journal slow"
    JOURNAL_LATE = "journal fails, written late"
    JOURNAL_PARTIAL = "journal gives a part"
    LEADER_MOVED = "another leader, with another clock"
    BROKER_STEPPED = "the clock of the brokers is set"
    SLEEPS = "stopped for a while"  # SIGSTOP, SIGCONT
    TAKEN = "stopped and taken over"  # SIGSTOP, somebody resumes the change, SIGCONT
    TAKEN_AND_ON = "taken over, others go on"  # ... and somebody else makes another change
    STOPPED_BETWEEN = "stopped between two attempts"  # ... of one request, and taken over; others may go on
    RIVAL = "rival"  # another operator wants to change the same thing
    FOREIGN_CONFIG = "foreign config"  # somebody with curl
    FOREIGN_STATE = "foreign state"
    FOREIGN_DELETE = "foreign delete"


_ANYWHERE = frozenset({Kind.KILL, Kind.SLEEPS, Kind.TAKEN, Kind.TAKEN_AND_ON, Kind.RIVAL})
FOREIGN = frozenset({Kind.FOREIGN_CONFIG, Kind.FOREIGN_STATE, Kind.FOREIGN_DELETE})
# Faults in which other people act, or nobody does.
PLAYED = (_ANYWHERE | FOREIGN | {Kind.STOPPED_BETWEEN}) - {Kind.KILL}
KILLS = frozenset({Kind.KILL, Kind.KILL_AFTER, Kind.KILL_LATE, Kind.KILL_LOST})
# What a change must survive with its end reached, not only with the truth told.
HARMLESS = KILLS | {
    Kind.SLEEPS,
    Kind.TAKEN,
    Kind.RIVAL,
    Kind.LATER,
    Kind.JOURNAL_SLOW,
    Kind.JOURNAL_PARTIAL,
    Kind.LEADER_MOVED,
    Kind.BROKER_STEPPED,
}
_BROKERS = (
    _ANYWHERE
    | FOREIGN
    | {Kind.KILL_AFTER, Kind.JOURNAL_FAILS, Kind.JOURNAL_SLOW, Kind.LEADER_MOVED, Kind.BROKER_STEPPED}
)
APPLICABLE: dict[Call, frozenset[Kind]] = {
    Call.READ: _ANYWHERE | FOREIGN | {Kind.DENIED, Kind.UNREACHABLE, Kind.OUTAGE, Kind.REBALANCE},
    Call.WRITE: _ANYWHERE
    | KILLS
    | {
        Kind.LOST_DONE,
        Kind.LOST_LATE,
        Kind.LOST_NEVER,
        Kind.REJECTED,
        Kind.DENIED,
        Kind.DEADLINE,
        Kind.UNREACHABLE,
        Kind.LATER,
        Kind.SLOW_STATUS,
        Kind.STOPPED_BETWEEN,
    },
    Call.APPEND: _ANYWHERE | FOREIGN | {Kind.KILL_AFTER, Kind.JOURNAL_FAILS, Kind.JOURNAL_UNSURE, Kind.JOURNAL_SLOW},
    Call.SLEEP: _ANYWHERE | FOREIGN | {Kind.OUTAGE, Kind.REBALANCE},
    Call.ASK: _BROKERS,
    Call.FETCH: _BROKERS | {Kind.JOURNAL_PARTIAL},
    Call.PRODUCE: _BROKERS | {Kind.JOURNAL_UNSURE, Kind.KILL_LATE, Kind.DENIED},
    Call.TAKE: _BROKERS | {Kind.JOURNAL_UNSURE, Kind.KILL_LATE, Kind.DENIED},
    Call.COMMIT: _BROKERS | {Kind.JOURNAL_UNSURE, Kind.JOURNAL_LATE, Kind.KILL_LATE},
    Call.ABORT: _BROKERS | {Kind.JOURNAL_UNSURE, Kind.JOURNAL_LATE, Kind.KILL_LATE},
    Call.SPOOL: frozenset({Kind.KILL, Kind.KILL_AFTER, Kind.JOURNAL_FAILS, Kind.SLEEPS}),
}

_AROUND = frozenset({Call.APPEND, Call.ASK, Call.FETCH, Call.PRODUCE, Call.TAKE, Call.COMMIT, Call.ABORT})


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: from which call on, what, and a number in [0, 1) for its size."""

    at: int
    kind: Kind
    size: float = 0.5


class Stage(Protocol):
    """What faults that need other people are played on."""

    counts: Counter[str]

    def play(self, process: Process, fault: Fault) -> None:
        """Let other people act while this process stands still."""
        ...

    def take_in_unjournaled(self, name: str) -> None:
        """Take in that a request of a process that is dead landed, of which only the spool of its machine knows."""
        ...


class Process:
    """One seamark at work: it counts its calls, and may be hit by faults."""

    def __init__(self, name: str, stage: Stage, faults: tuple[Fault, ...] = ()) -> None:
        self.name = name
        self.is_dead = False
        self.calls = 0
        self.hit: list[Kind] = []
        self.trace: list[Call] = []
        self.has_spooled = False
        self._stage = stage
        self._faults = list(faults)

    def call(self, call: Call) -> Fault | None:
        """Begin a call. Gives the fault that strikes it; a kill strikes here, and other people act here."""
        if self.is_dead:
            raise Killed
        self.calls += 1
        self.trace.append(call)
        if not self._faults:
            return None
        fault = self._find(call)
        if fault is None:
            return None
        self.hit.append(fault.kind)
        self._stage.counts[f"{call}: {fault.kind}"] += 1
        if fault.kind is Kind.KILL:
            self.kill()
        # In a write they act afterwards, and around a call of the journal before it or after it.
        later = call is Call.WRITE or (call in _AROUND and fault.size * 10 % 1 < 0.5)
        if fault.kind in PLAYED and not later:
            self._stage.play(self, fault)
            return None
        return fault

    def play(self, fault: Fault | None) -> None:
        """Let other people act after a call, if that is what the fault is."""
        if fault is not None and fault.kind in PLAYED:
            self._stage.play(self, fault)

    def report_unjournaled(self, name: str) -> None:
        """Report that a request landed that was sent without the journal, by the process that is dead now."""
        self._stage.take_in_unjournaled(name)

    def kill(self) -> None:
        """End here."""
        self.is_dead = True
        raise Killed

    def _find(self, call: Call) -> Fault | None:
        applicable = APPLICABLE[call]
        for fault in self._faults:
            if fault.at <= self.calls and fault.kind in applicable:
                self._faults.remove(fault)
                return fault
        return None
