"""What a stack shall hold."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

from seamark.errors import UsageError

KAFKA_VERSION = "4.3.1"
SPARK_VERSION = "4.2.0"


@dataclass(frozen=True, slots=True)
class StackSpec:
    """The servers to start. Each Connect version is a Connect cluster of its own, on the same brokers."""

    brokers: int = 1
    workers: int = 1
    connect_versions: tuple[str, ...] = (KAFKA_VERSION,)
    standalone: bool = False
    postgres: bool = False
    s3: bool = False
    # A standalone Spark master and workers, which start executors as processes of their own. Each worker has a host of
    # its own, 127.0.0.N: Spark starts no speculative copy of a task on the host that runs it.
    spark: bool = False
    spark_workers: int = 1
    exactly_once: bool = False
    # Brokers that ask who somebody is and what he may do, on a second listener; who comes without a name may do all.
    authorizer: bool = False
    # A proxy before each worker's REST API, for faults of the network.
    toxiproxy: bool = False
    # A proxy before a second listener of each broker: who comes through a door is sent to doors only.
    broker_doors: bool = False
    # Proxies before a third listener of each broker, which only the last worker of each Connect cluster uses: that
    # worker can be partitioned from Kafka while all others aren't.
    proxied_worker: bool = False
    # The JVM's second compiler doubles the CPU of a start (34 s against 18 s for five JVMs here) and pays only in
    # long runs: tests go without it, benches ask for it.
    full_jit: bool = False

    def __post_init__(self) -> None:
        """Refuse counts that no server can have."""
        if not 1 <= self.brokers <= 9:
            raise UsageError(f"a stack has 1 to 9 brokers, not {self.brokers}", hint="--brokers 3")
        if not 0 <= self.workers <= 9:
            raise UsageError(f"a stack has 0 to 9 workers, not {self.workers}", hint="--workers 2")
        if self.proxied_worker and self.workers < 1:
            raise UsageError("a stack without workers has no proxied worker", hint="--workers 2 --proxied-worker")
        if not 1 <= self.spark_workers <= 9:
            raise UsageError(f"Spark has 1 to 9 workers, not {self.spark_workers}", hint="--spark-workers 2")

    @property
    def has_proxies(self) -> bool:
        """Whether Toxiproxy is part of the stack."""
        return self.toxiproxy or self.broker_doors or self.proxied_worker

    def clusters(self) -> dict[str, str]:
        """Connect cluster names and their versions: the first is "connect", others carry the version."""
        if not self.workers:
            return {}
        first, *others = dict.fromkeys(self.connect_versions)
        return {"connect": first} | {f"connect-{v.replace('.', '-')}": v for v in others}

    def to_json(self) -> str:
        """The spec as one line of JSON, for the supervisor's command line."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> StackSpec:
        """Read what `to_json` wrote."""
        fields = json.loads(text)
        return cls(**(fields | {"connect_versions": tuple(fields["connect_versions"])}))
