"""What the journal's topics, keys and transactional ids are called."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from seamark.changes.locks import base_name
from seamark.kafka.log import DEFAULT_PATIENCE_SECONDS
from seamark.kafka.transaction import TRANSACTION_SECONDS, WRITE_SECONDS

GATE_KEY = b"gate"
# The record of the journal's key: the topic of heads is compacted, so that the newest one stays.
KEY_KEY = b"key"
HEAD_PREFIX = "change/"
PROOF_PREFIX = "proof/"


@dataclass(frozen=True, slots=True)
class JournalNames:
    """The two topics, and the first part of every transactional id. One set for all who change the same things."""

    journal: str = "seamark-journal"
    heads: str = "seamark-journal-heads"
    id_prefix: str = "seamark"

    def lock_id(self, cluster_id: str, *, lock: str) -> str:
        """The transactional id of a lock: the thing alone, so that every way to change it meets at the same id.

        A consumer group may be called anything; what an id or an ACL can't hold is percent-encoded.
        """
        return f"{self.id_prefix}.{cluster_id}.{quote(base_name(lock))}"

    def gate_id(self, cluster_id: str) -> str:
        """The transactional id of the gate. The gate belongs to the topic of heads that it guards."""
        return f"{self.id_prefix}.{cluster_id}.gate.{self.heads}"

    def id_pattern(self, cluster_id: str) -> str:
        """What every transactional id begins with, for a prefixed ACL."""
        return f"{self.id_prefix}.{cluster_id}."


def sorted_locks(change: str, locks: tuple[str, ...]) -> tuple[str, ...]:
    """The names to lock, in the order they are taken. A change without locks still needs a pen: it locks itself."""
    return tuple(sorted({base_name(lock) for lock in locks})) or (f"change.{change}",)


def head_key(change: str) -> bytes:
    """The key of a change's head."""
    return f"{HEAD_PREFIX}{change}".encode()


def proof_key(lock: str) -> bytes:
    """The key under which a lock's holder proves that it is not fenced. Nobody reads its value."""
    return f"{PROOF_PREFIX}{lock}".encode()


@dataclass(frozen=True, slots=True)
class JournalTiming:
    """Times of the journal, in seconds.

    `lease` is how long a claim of the gate keeps others out; a begin holds it for some 0.1 s. The lease only keeps
    people from disturbing each other. What makes the gate safe is its transactional id, which every new holder takes:
    an earlier one that is slower than its lease, as where a broker was lost, is fenced and writes nothing.

    `fresh` is how old a claim may be when its holder takes the locks' ids, which fences whoever has them. It leaves 7 s
    of the lease for a call that needs 10 ms.

    `write` is how long an entry is tried to be written, its locks proven included; then the writer gives up.

    `enter` is how long to wait for the gate: a holder that died leaves a lease and a hanging transaction behind (15 s,
    and up to 10 s more until the brokers end it).
    """

    lease_seconds: float = 10.0
    fresh_seconds: float = 3.0
    enter_seconds: float = 30.0
    transaction_seconds: float = TRANSACTION_SECONDS
    write_seconds: float = WRITE_SECONDS
    patience_seconds: float = DEFAULT_PATIENCE_SECONDS
