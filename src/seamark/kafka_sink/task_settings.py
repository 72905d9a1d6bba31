"""How a task writes, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from seamark.kafka_sink.control import CONTROL_TOPIC, Amount, Claim
from seamark.kafka_sink.task_producer import TRANSACTION_SECONDS


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """How a task writes. `client` are librdkafka's settings of the producer, `reader` those for control records.

    `is_ordered` is the caller's promise that the task, run again, gets the same rows in the same order. Then it may be
    cut into several transactions; else it is one, as nobody could say what the second half is.
    """

    client: Mapping[str, str] = field(repr=False)
    reader: Mapping[str, str] = field(repr=False)
    control_topic: str = CONTROL_TOPIC
    # What the control topic was when the job began; "" where nobody asked.
    control_id: str = ""
    is_ordered: bool = False
    # A few seconds of work: what a retry loses, and what a reader of committed records waits for.
    transaction_records: int = 200_000
    transaction_bytes: int = 64 << 20
    # What of a transaction is kept, to be written again after a failure. Beyond it Spark must run the task again.
    kept_bytes: int = 64 << 20
    # Whether a task that is done already compares its input with what was written.
    is_checked: bool = True

    @property
    def transaction_seconds(self) -> float:
        """How long the brokers let a transaction be open."""
        return float(self.client.get("transaction.timeout.ms", TRANSACTION_SECONDS * 1000)) / 1000


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What became of a task. `is_repeat`: all of it was there already. `run` is the one that its record names."""

    claim: Claim
    amount: Amount
    transactions: int = 0
    is_repeat: bool = False
    run: str = ""
