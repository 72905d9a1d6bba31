"""The Kafka clients that the journal uses, all for one Kafka cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from seamark.changes.kafka_journal.heads import OpenChangeIndex
from seamark.changes.kafka_journal.names import JournalNames, JournalTiming
from seamark.errors import InvalidSettingError, NotFoundError
from seamark.kafka.log import Clocks, PartitionLog
from seamark.kafka.produce import RecordWriter
from seamark.kafka.topics import TopicAdmin, TopicFound, TopicSpec
from seamark.kafka.transaction import TransactionalWriter

# More threads don't make anything faster: each only waits for the brokers' responses.
_MOST_THREADS = 8


def run_together(jobs: Sequence[Callable[[], None]]) -> list[BaseException]:
    """Run all jobs concurrently. Return the errors of those that failed, in the order of the jobs."""
    with ThreadPoolExecutor(min(len(jobs), _MOST_THREADS)) as pool:
        pending = [pool.submit(job) for job in jobs]
        return [error for job in pending if (error := job.exception()) is not None]


@dataclass(frozen=True, slots=True)
class JournalClients:
    """Opens clients with the context's settings. The settings contain secrets and are not shown.

    `build_producer` and `build_consumer` replace the classes of librdkafka. With `run` and `clocks`, a simulation
    controls what runs when.
    """

    config: Mapping[str, str] = field(repr=False)
    names: JournalNames
    timing: JournalTiming
    cluster_id: str = ""
    clocks: Clocks = field(default_factory=Clocks)
    build_producer: Callable[[dict[str, Any]], Any] | None = None
    build_consumer: Callable[[dict[str, Any]], Any] | None = None
    run: Callable[[Sequence[Callable[[], None]]], list[BaseException]] = run_together

    def open_journal_log(self) -> PartitionLog:
        """Open a reader of the journal topic."""
        return self._open_log(self.names.journal)

    def open_heads_log(self) -> PartitionLog:
        """Open a reader of the heads topic."""
        return self._open_log(self.names.heads)

    def read_board(self) -> OpenChangeIndex:
        """Read the current content of the heads topic."""
        with self.open_heads_log() as log:
            board = OpenChangeIndex(log, lease_seconds=self.timing.lease_seconds)
            board.catch_up()
            return board

    def open_record_writer(self) -> RecordWriter:
        """Open a writer for the claims of the gate."""
        return RecordWriter(self.config, build_producer=self.build_producer, clocks=self.clocks)

    def open_gate_writer(self) -> TransactionalWriter:
        """Open a writer with the gate's transactional ID."""
        return self._open_writer(self.names.gate_id(self.cluster_id))

    def open_lock_writer(self, lock: str) -> TransactionalWriter:
        """Open a writer with a lock's transactional ID."""
        return self._open_writer(self.names.lock_id(self.cluster_id, lock=lock))

    def connect(self, writers: Sequence[TransactionalWriter]) -> None:
        """Connect writers concurrently."""
        topics = (self.names.journal, self.names.heads)
        for error in self.run([partial(writer.connect, topics) for writer in writers]):
            raise error

    def _open_log(self, topic: str) -> PartitionLog:
        return PartitionLog(
            self.config,
            topic,
            patience_seconds=self.timing.patience_seconds,
            build_consumer=self.build_consumer,
            clocks=self.clocks,
        )

    def _open_writer(self, transactional_id: str) -> TransactionalWriter:
        return TransactionalWriter(
            self.config,
            transactional_id=transactional_id,
            transaction_seconds=self.timing.transaction_seconds,
            write_seconds=self.timing.write_seconds,
            build_producer=self.build_producer,
            clocks=self.clocks,
        )


_HOUR_MS = 3_600_000
# Kafka's usual replication factor of three; with two in-sync replicas an entry survives the loss of a broker.
_COPIES = 3
_IN_SYNC = 2


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of a topic from its required settings.

    If `is_refused`, the journal could lose history, so seamark refuses to use it.
    """

    topic: str
    key: str
    wanted: str
    found: str
    is_refused: bool

    def describe(self) -> str:
        """Return a short description."""
        return f"{self.topic}: {self.key} is {self.found or 'not set'}, wanted {self.wanted}"


@dataclass(frozen=True, slots=True)
class NeededAccess:
    """One ACL that a principal needs, in Kafka's terms. `pattern` is LITERAL or PREFIXED."""

    resource: str
    name: str
    pattern: str
    operation: str


def build_topics(brokers: int, *, names: JournalNames | None = None) -> tuple[TopicSpec, TopicSpec]:
    """Build the journal topic and the heads topic for a Kafka cluster with this number of brokers."""
    names = names or JournalNames()
    copies = min(_COPIES, brokers)
    safe = {"min.insync.replicas": str(min(_IN_SYNC, brokers)), "unclean.leader.election.enable": "false"}
    journal = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        # An `open` entry has the time of its change's ID, and is found by it.
        "message.timestamp.type": "CreateTime",
    }
    heads = {
        "cleanup.policy": "compact",
        "message.timestamp.type": "LogAppendTime",
        # Claims of the gate share a key; compaction keeps all claims of the last hour, 360 times as long as one is
        # valid.
        "min.compaction.lag.ms": str(_HOUR_MS),
        # A search for open changes reads this topic from its beginning, and the active segment is never compacted. An
        # hour or 16 MiB (about 20,000 entries) is read in well under a second.
        "segment.ms": str(_HOUR_MS),
        "segment.bytes": str(16 * 1024 * 1024),
        "min.cleanable.dirty.ratio": "0.1",
    }
    return (
        TopicSpec(names.journal, partitions=1, replication_factor=copies, configs=journal | safe),
        TopicSpec(names.heads, partitions=1, replication_factor=copies, configs=heads | safe),
    )


def create_topics(admin: TopicAdmin, *, names: JournalNames | None = None) -> tuple[str, ...]:
    """Create the missing topics and return their names. Existing topics aren't changed."""
    specs = build_topics(len(admin.read_cluster().brokers), names=names)
    return admin.create_topics(specs)


def check_topics(admin: TopicAdmin, *, names: JournalNames | None = None) -> tuple[Difference, ...]:
    """Compare the topics with `build_topics` and return the differences.

    Raises:
        NotFoundError: a topic doesn't exist.
    """
    specs = build_topics(len(admin.read_cluster().brokers), names=names)
    found = admin.read_found([spec.name for spec in specs])
    missing = [spec.name for spec in specs if spec.name not in found]
    if missing:
        raise NotFoundError(
            f"the journal is not set up: no topic {' and no topic '.join(missing)}",
            hint="create the journal's topics: seamark init",
            context={"topics": ", ".join(missing)},
        )
    return tuple(difference for spec in specs for difference in compare_topic(spec, found[spec.name]))


def compare_topic(spec: TopicSpec, found: TopicFound) -> tuple[Difference, ...]:
    """Compare one topic and return the differences."""
    differences = []
    if found.partitions != spec.partitions:
        differences.append(_differ(spec.name, "partitions", spec.partitions, found.partitions, is_refused=True))
    if found.replication_factor < spec.replication_factor:
        wanted, copies = spec.replication_factor, found.replication_factor
        differences.append(_differ(spec.name, "replication factor", wanted, copies, is_refused=False))
    for key, wanted_value in spec.configs.items():
        value = found.configs.get(key, "")
        if value != wanted_value and not (key == "min.insync.replicas" and int(value or 0) > int(wanted_value)):
            is_refused = key in ("cleanup.policy", "retention.ms", "retention.bytes")
            differences.append(_differ(spec.name, key, wanted_value, value, is_refused=is_refused))
    return tuple(differences)


def refuse_differences(differences: Sequence[Difference]) -> None:
    """Refuse a topic that could lose data: the journal must keep all records, the heads topic the newest per key."""
    bad = [difference for difference in differences if difference.is_refused]
    if not bad:
        return
    configs = [difference for difference in bad if difference.key != "partitions"]
    fixes = [
        f"kafka-configs.sh --bootstrap-server HOST:PORT --alter --topic {difference.topic} --add-config "
        f"{difference.key}={difference.wanted}"
        for difference in configs
    ]
    if len(configs) < len(bad):
        fixes.append("set journal_topic to another topic: Kafka can't remove partitions")
    raise InvalidSettingError(
        "a topic of the journal has settings that could delete history; no changes were made",
        cause="; ".join(difference.describe() for difference in bad),
        hint="; ".join(fixes),
    )


def build_needed_access(cluster_id: str, *, names: JournalNames | None = None) -> tuple[NeededAccess, ...]:
    """Build the ACLs that every user of this journal needs."""
    names = names or JournalNames()
    topics = tuple(
        NeededAccess("TOPIC", topic, "LITERAL", operation)
        for topic in (names.journal, names.heads)
        for operation in ("READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS")
    )
    prefix = names.id_pattern(cluster_id)
    ids = tuple(NeededAccess("TRANSACTIONAL_ID", prefix, "PREFIXED", operation) for operation in ("WRITE", "DESCRIBE"))
    return topics + ids


def build_setup_access(*, names: JournalNames | None = None) -> tuple[NeededAccess, ...]:
    """Build the additional ACLs that `seamark init` needs."""
    names = names or JournalNames()
    return tuple(NeededAccess("TOPIC", topic, "LITERAL", "CREATE") for topic in (names.journal, names.heads))


def _differ(topic: str, key: str, wanted: object, found: object, *, is_refused: bool) -> Difference:
    return Difference(topic, key=key, wanted=str(wanted), found=str(found), is_refused=is_refused)
