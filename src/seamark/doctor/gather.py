"""Reading the evidence: every server is asked once, and no single failure ends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from seamark.connect.clusters import Clusters
from seamark.core.fanout import fan_out
from seamark.core.reading import Reading
from seamark.doctor.evidence import ClusterEvidence, Evidence, OffsetsEvidence, TransactionsEvidence
from seamark.errors import SeamarkError, UnreachableError
from seamark.kafka.api import KafkaPort
from seamark.kafka.groups import GroupStatus
from seamark.kafka.topic import TopicStatus

if TYPE_CHECKING:
    from seamark.context import Context, KafkaSettings

T = TypeVar("T")
N = TypeVar("N", TopicStatus, GroupStatus)
BuildKafka = Callable[["KafkaSettings"], KafkaPort]
ReadOffsets = Callable[[ClusterEvidence, TopicStatus], OffsetsEvidence]
ReadTransactions = Callable[[Sequence[TopicStatus]], TransactionsEvidence]

# The client looks the coordinator of every group up one by one. Sinks of one fleet mostly share
# their ACLs, so a sample tells as much as ten thousand lookups.
GROUP_SAMPLE = 50


def read_reachability(context: Context, *, clusters: Clusters, build_kafka: BuildKafka) -> Evidence:
    """Only who answers: one call to every worker and one to the brokers."""
    found = _ask_each(clusters, _read_workers)
    return _with_kafka(Evidence(context, clusters=found), build_kafka, is_deep=False)


def read_evidence(
    context: Context,
    *,
    clusters: Clusters,
    build_kafka: BuildKafka,
    read_offsets: ReadOffsets | None = None,
    read_transactions: ReadTransactions | None = None,
) -> Evidence:
    """Everything the checks need."""
    found = _ask_each(clusters, _read_cluster)
    evidence = _with_kafka(Evidence(context, clusters=found), build_kafka, is_deep=True)
    if read_transactions is not None:
        evidence = replace(evidence, transactions=_read_transactions(evidence, read_transactions))
    return evidence if read_offsets is None else replace(evidence, offsets=_read_offsets(evidence, read_offsets))


def _read_transactions(evidence: Evidence, read: ReadTransactions) -> TransactionsEvidence | SeamarkError | None:
    """Of all internal topics that were found; None where there are none."""
    topics = [topic for topic in evidence.topics.values() if isinstance(topic, TopicStatus)]
    return _keep(lambda: read(topics)) if topics else None


def _read_offsets(evidence: Evidence, read: ReadOffsets) -> dict[str, OffsetsEvidence | SeamarkError]:
    """Of every cluster whose offsets topic was found."""
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
        # Not even a client could be made, for example because a secret is missing.
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
            f"no worker of Connect cluster {name} answers",
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
    """The same evidence with what the brokers told."""
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
    """The answer, or the error in its place."""
    try:
        return call()
    except SeamarkError as error:
        return error
