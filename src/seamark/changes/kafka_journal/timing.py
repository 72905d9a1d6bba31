"""How long the Kafka journal waits for what."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.kafka.log import DEFAULT_PATIENCE_SECONDS
from seamark.kafka.transaction import TRANSACTION_SECONDS, WRITE_SECONDS


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
