"""Everything that the checks use, as one value. What could not be read is included as its error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from seamark.connect.clusters import Clusters
from seamark.connect.model import Connector, Plugin, Worker
from seamark.connectors.workers import count_work
from seamark.core.readings import Finding, Reading, Severity, fan_out
from seamark.core.refs import ConnectorType
from seamark.errors import SeamarkError, UnreachableError
from seamark.kafka.api import KafkaPort
from seamark.kafka.groups import GroupStatus
from seamark.kafka.model import KafkaCluster, OpenTransaction, TopicStatus
from seamark.offsets.model import StoreReading

if TYPE_CHECKING:
    from seamark.context import ConnectSettings, Context, KafkaSettings
    from seamark.kafka.worker_group import WorkerGroup


_OWN, _ELSEWHERE = "offsets.storage.topic", "producer.override.bootstrap.servers"


@dataclass(frozen=True, slots=True)
class ClusterEvidence:
    """What was read from one Connect cluster. `plugins` is by the URL of each worker that responded.

    `group` is the worker group. It is read only if a worker is idle, and None if the context doesn't lead to it.
    """

    settings: ConnectSettings
    workers: tuple[Worker, ...] | SeamarkError
    connectors: tuple[Connector, ...] | SeamarkError = ()
    plugins: Mapping[str, tuple[Plugin, ...] | SeamarkError] = field(default_factory=dict)
    group: WorkerGroup | SeamarkError | None = None

    @property
    def name(self) -> str:
        """Return the Connect cluster's name in the context."""
        return self.settings.name

    @property
    def workers_up(self) -> tuple[Worker, ...]:
        """Return the workers that responded."""
        return () if isinstance(self.workers, SeamarkError) else tuple(found for found in self.workers if found.is_up)

    @property
    def counted_workers(self) -> tuple[Worker, ...]:
        """Return the workers with the number of their connectors and tasks."""
        if isinstance(self.workers, SeamarkError) or isinstance(self.connectors, SeamarkError):
            return ()
        return count_work(self.workers, self.connectors)

    @property
    def idle_workers(self) -> tuple[Worker, ...]:
        """Return the workers that respond and run nothing, among them URLs that may not be those of workers."""
        return tuple(worker for worker in self.counted_workers if worker.connectors == worker.tasks == 0)

    @property
    def sinks(self) -> tuple[Connector, ...]:
        """Return the sinks, as far as they are known."""
        if isinstance(self.connectors, SeamarkError):
            return ()
        return tuple(found for found in self.connectors if found.type is ConnectorType.SINK)

    @property
    def internal_topics(self) -> dict[str, str | None]:
        """Return the internal topics by their purpose; None if the context does not name them."""
        return {
            "offsets": self.settings.offsets_topic,
            "config": self.settings.config_topic,
            "status": self.settings.status_topic,
        }

    @property
    def own_topics(self) -> tuple[str, ...]:
        """Return the sources' own offsets topics on the workers' Kafka cluster."""
        known = () if isinstance(self.connectors, SeamarkError) else self.connectors
        found = [one.config.get(_OWN, "") for one in known if not one.config.get(_ELSEWHERE)]
        return tuple(dict.fromkeys(topic for topic in found if topic))

    def find_group(self, sink: Connector) -> str:
        """Return the consumer group of a sink: its own override, else the workers', else connect-NAME."""
        override = sink.config.get("consumer.override.group.id")
        return override or self.settings.consumer_group_id or f"connect-{sink.name}"


@dataclass(frozen=True, slots=True)
class OffsetsEvidence:
    """What was read from an offsets topic: its maximum number of records, and how many were written in the last day.

    `reading` is None if there are too many records to read each of them.
    """

    most: int
    written_per_day: int
    reading: StoreReading | None = None


@dataclass(frozen=True, slots=True)
class TransactionsEvidence:
    """The open transactions on the internal topics at a point in time, and how many partitions were checked."""

    at_seconds: float
    partitions: int
    open: tuple[OpenTransaction, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was read from the whole context. `kafka` is None if the context names no brokers.

    `address` is the bootstrap address. `groups` is a sample: see `GROUP_SAMPLE`. `pipelines` are
    findings already, because the rules for pipelines are those of `seamark pipelines status`.
    """

    context: Context
    address: str = ""
    kafka: KafkaCluster | SeamarkError | None = None
    clusters: tuple[ClusterEvidence, ...] = ()
    topics: Mapping[str, TopicStatus | SeamarkError] = field(default_factory=dict)
    groups: Mapping[str, GroupStatus | SeamarkError] = field(default_factory=dict)
    offsets: Mapping[str, OffsetsEvidence | SeamarkError] = field(default_factory=dict)
    transactions: TransactionsEvidence | SeamarkError | None = None
    pipelines: tuple[Finding, ...] | SeamarkError = ()


@dataclass(frozen=True, slots=True)
class Check:
    """One check of the doctor. `name` never changes, because scripts and the documentation refer to it."""

    name: str
    examine: Callable[[Evidence], Iterable[Finding]]


def run_check(check: Check, evidence: Evidence) -> tuple[Finding, ...]:
    """Return all findings of one check. A check that can't run reports that; it never makes the others fail."""
    subject = evidence.context.name
    try:
        findings = tuple(check.examine(evidence))
    except SeamarkError as error:
        return (build_unexamined(check.name, subject=subject, error=error),)
    except Exception as error:  # noqa: BLE001
        # A bug in one check must not hide the findings of the others.
        return (
            Finding(
                check.name,
                Severity.WARNING,
                subject=subject,
                message=f"not examined: the check itself failed with {type(error).__name__}",
                fix="report this as a bug of seamark",
            ),
        )
    if not findings:
        return (Finding(check.name, Severity.OK, subject=subject, message="nothing to check"),)
    return findings


def or_ok(found: Iterable[Finding], check: str, subject: str, message: str) -> tuple[Finding, ...]:
    """Return the findings; without any, one that states what is in order."""
    return tuple(found) or (Finding(check, Severity.OK, subject, message),)


def build_unexamined(check: str, *, subject: str, error: SeamarkError) -> Finding:
    """Build the finding of a check that could not run."""
    return Finding(
        check,
        Severity.WARNING,
        subject=subject,
        message=f"not examined: {error.message}",
        fix=error.hint or error.cause,
    )


T = TypeVar("T")
N = TypeVar("N", TopicStatus, GroupStatus)
BuildKafka = Callable[["KafkaSettings"], KafkaPort]
ReadOffsets = Callable[[ClusterEvidence, TopicStatus], OffsetsEvidence]
ReadTransactions = Callable[[Sequence[TopicStatus]], TransactionsEvidence]
ReadPipelines = Callable[[], tuple[Finding, ...]]
ReadMembers = Callable[[str], "WorkerGroup | None"]

# The client looks up the coordinator of every group one by one. Sinks of one fleet mostly share their ACLs, so a sample
# is as informative as ten thousand lookups.
GROUP_SAMPLE = 50


def read_reachability(context: Context, *, clusters: Clusters, build_kafka: BuildKafka) -> Evidence:
    """Read only what responds: one request to every worker and one to the brokers."""
    found = _ask_each(clusters, _read_workers)
    return _with_kafka(Evidence(context, clusters=found), build_kafka, is_deep=False)


def read_evidence(
    context: Context,
    *,
    clusters: Clusters,
    build_kafka: BuildKafka,
    read_offsets: ReadOffsets | None = None,
    read_transactions: ReadTransactions | None = None,
    read_pipelines: ReadPipelines | None = None,
    read_members: ReadMembers | None = None,
) -> Evidence:
    """Read everything that the checks need."""
    found = _ask_each(clusters, _read_cluster)
    if read_members is not None:
        found = _with_groups(found, read_members)
    evidence = _with_kafka(Evidence(context, clusters=found), build_kafka, is_deep=True)
    if read_transactions is not None:
        evidence = replace(evidence, transactions=_read_transactions(evidence, read_transactions))
    if read_pipelines is not None and isinstance(evidence.kafka, KafkaCluster):
        evidence = replace(evidence, pipelines=_keep(read_pipelines))
    return evidence if read_offsets is None else replace(evidence, offsets=_read_offsets(evidence, read_offsets))


def _with_groups(found: Sequence[ClusterEvidence], read: ReadMembers) -> tuple[ClusterEvidence, ...]:
    """Add the worker groups of the Connect clusters that have an idle worker: is it a worker of the same group?"""
    idle = [cluster.name for cluster in found if cluster.idle_workers]
    answers = fan_out({name: partial(read, name) for name in idle})
    groups: dict[str, WorkerGroup | SeamarkError | None] = {**answers.results, **answers.failures}
    return tuple(replace(cluster, group=groups.get(cluster.name)) for cluster in found)


def _read_transactions(evidence: Evidence, read: ReadTransactions) -> TransactionsEvidence | SeamarkError | None:
    """Read the transactions of all internal topics that were found; None if there are none."""
    topics = [topic for topic in evidence.topics.values() if isinstance(topic, TopicStatus)]
    return _keep(lambda: read(topics)) if topics else None


def _read_offsets(evidence: Evidence, read: ReadOffsets) -> dict[str, OffsetsEvidence | SeamarkError]:
    """Read the offsets topic of every Connect cluster where it was found."""
    topics = {
        cluster.name: (cluster, topic)
        for cluster in evidence.clusters
        if isinstance(topic := evidence.topics.get(cluster.settings.offsets_topic or ""), TopicStatus)
    }
    answers = fan_out({name: partial(read, cluster, topic) for name, (cluster, topic) in topics.items()})
    return {**answers.results, **answers.failures}


def _ask_each(clusters: Clusters, read: Callable[[Clusters, str], ClusterEvidence]) -> tuple[ClusterEvidence, ...]:
    answers = fan_out({name: lambda name=name: read(clusters, name) for name in clusters.names})  # type: ignore[misc]
    return tuple(
        answers.results.get(name)
        # The client could not be created, for example because a secret is missing.
        or ClusterEvidence(clusters.settings(name), workers=answers.failures[name], connectors=answers.failures[name])
        for name in clusters.names
    )


def _read_workers(clusters: Clusters, name: str) -> ClusterEvidence:
    return ClusterEvidence(clusters.settings(name), workers=clusters.client(name).read_workers())


def _read_cluster(clusters: Clusters, name: str) -> ClusterEvidence:
    client, settings = clusters.client(name), clusters.settings(name)
    workers = client.read_workers()
    up = [worker.url for worker in workers if worker.is_up]
    if not up:
        silence = UnreachableError(
            f"no worker of Connect cluster {name} responds",
            cause="; ".join(f"{worker.url}: {worker.error}" for worker in workers),
            hint="see connect.reachable",
        )
        return ClusterEvidence(settings, workers=workers, connectors=silence)
    return ClusterEvidence(
        settings,
        workers=workers,
        connectors=_keep(lambda: tuple(map(clusters.types.clean, client.read_connectors()))),
        plugins={url: _keep(lambda url=url: client.read_plugins(url)) for url in up},  # type: ignore[misc]
    )


def _with_kafka(evidence: Evidence, build_kafka: BuildKafka, *, is_deep: bool) -> Evidence:
    """Return the evidence with what was read from the brokers."""
    settings = evidence.context.kafka
    address = _keep(lambda: settings.bootstrap_servers)
    if isinstance(address, SeamarkError):
        # The address itself is a reference that can't be resolved.
        return replace(evidence, kafka=address)
    if not address:
        return evidence
    evidence = replace(evidence, address=address)
    admin = _keep(lambda: build_kafka(settings))
    if isinstance(admin, SeamarkError):
        return replace(evidence, kafka=admin)
    try:
        return _ask_brokers(evidence, admin, is_deep=is_deep)
    finally:
        admin.close()


def _ask_brokers(evidence: Evidence, admin: KafkaPort, *, is_deep: bool) -> Evidence:
    kafka = _keep(admin.read_cluster)
    if isinstance(kafka, SeamarkError) or not is_deep:
        return replace(evidence, kafka=kafka)
    topics = [topic for found in evidence.clusters for topic in found.internal_topics.values() if topic]
    topics += [topic for found in evidence.clusters for topic in found.own_topics if topic not in topics]
    groups = [found.find_group(sink) for found in evidence.clusters for sink in found.sinks]
    return replace(
        evidence,
        kafka=kafka,
        topics=_read_named(admin.read_topics, topics),
        groups=_read_named(admin.read_groups, list(dict.fromkeys(groups))[:GROUP_SAMPLE]),
    )


def _read_named(read: Callable[[Sequence[str]], Reading[N]], names: Sequence[str]) -> Mapping[str, N | SeamarkError]:
    reading = _keep(lambda: read(names))
    if isinstance(reading, SeamarkError):
        return dict.fromkeys(names, reading)
    return {**{item.name: item for item in reading.items}, **reading.failures}


def _keep(call: Callable[[], T]) -> T | SeamarkError:
    """Return the result of a call, or its error."""
    try:
        return call()
    except SeamarkError as error:
        return error
