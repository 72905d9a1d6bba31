"""Names of the journal's topics, record keys and transactional IDs."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from seamark.changes.locks import base_name
from seamark.kafka.log import DEFAULT_PATIENCE_SECONDS
from seamark.kafka.transaction import TRANSACTION_SECONDS, WRITE_SECONDS

GATE_KEY = b"gate"
# The record of the journal's key. The heads topic is compacted, so the newest record stays.
KEY_KEY = b"key"
HEAD_PREFIX = "change/"
PROOF_PREFIX = "proof/"


@dataclass(frozen=True, slots=True)
class JournalNames:
    """The two topics, and the prefix of every transactional ID.

    All users who change the same resources share one set.
    """

    journal: str = "seamark-journal"
    heads: str = "seamark-journal-heads"
    id_prefix: str = "seamark"

    def lock_id(self, cluster_id: str, *, lock: str) -> str:
        """Return the transactional ID of a lock. It depends only on the resource, so all changes of it conflict.

        A consumer group may have any name; characters that an ID or an ACL can't contain are percent-encoded.
        """
        return f"{self.id_prefix}.{cluster_id}.{quote(base_name(lock))}"

    def gate_id(self, cluster_id: str) -> str:
        """Return the transactional ID of the gate. The gate belongs to the heads topic that it protects."""
        return f"{self.id_prefix}.{cluster_id}.gate.{self.heads}"

    def id_pattern(self, cluster_id: str) -> str:
        """Return the prefix of every transactional ID, for a prefixed ACL."""
        return f"{self.id_prefix}.{cluster_id}."


def sorted_locks(change: str, locks: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names to lock, in the order they are taken.

    A change without locks still needs a transactional ID to write its entries, so it locks itself.
    """
    return tuple(sorted({base_name(lock) for lock in locks})) or (f"change.{change}",)


def head_key(change: str) -> bytes:
    """Return the key of a change's head."""
    return f"{HEAD_PREFIX}{change}".encode()


def proof_key(lock: str) -> bytes:
    """Return the key under which a lock's holder proves that it isn't fenced. The value is never read."""
    return f"{PROOF_PREFIX}{lock}".encode()


@dataclass(frozen=True, slots=True)
class JournalTiming:
    """Times of the journal, in seconds.

    `lease` is how long a claim of the gate keeps others out; a begin holds it for about 0.1 s. The lease only keeps
    processes from disturbing each other. The safety of the gate comes from its transactional ID, which every new holder
    takes: an earlier holder that is slower than its lease, for example after the loss of a broker, is fenced and writes
    nothing. `fresh` is how old a claim may be when its holder takes the locks' IDs, which fences their previous
    holders. It leaves 7 s of the lease for a call that needs 10 ms. `write` is how long the writer tries to write an
    entry, including the proofs of its locks; then it gives up. `enter` is how long to wait for the gate: a holder that
    died leaves a lease and a hanging transaction (15 s, and up to 10 s more until the brokers abort it).
    """

    lease_seconds: float = 10.0
    fresh_seconds: float = 3.0
    enter_seconds: float = 30.0
    transaction_seconds: float = TRANSACTION_SECONDS
    write_seconds: float = WRITE_SECONDS
    patience_seconds: float = DEFAULT_PATIENCE_SECONDS
