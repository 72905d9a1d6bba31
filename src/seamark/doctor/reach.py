"""Who answers: every worker, and the brokers."""

from __future__ import annotations

from collections.abc import Iterator

from seamark.connectors.workers import count_by_worker_id, match_worker_ids
from seamark.context.urls import build_worker_id
from seamark.core.finding import Finding, Severity
from seamark.doctor.check import Check, build_unexamined
from seamark.doctor.evidence import ClusterEvidence, Evidence
from seamark.errors import SeamarkError


def examine_workers(evidence: Evidence) -> Iterator[Finding]:
    """connect.reachable: every url of the context answers, and the context knows every worker."""
    check = "connect.reachable"
    for cluster in evidence.clusters:
        if isinstance(cluster.workers, SeamarkError):
            yield _unreachable(check, cluster.name, cluster.workers)
            continue
        for worker in cluster.workers:
            subject = f"{cluster.name} {worker.url}"
            if worker.is_up:
                yield Finding(check, Severity.OK, subject, f"answers, Connect {worker.version or 'of unknown version'}")
            else:
                fix = "start the worker, or correct its url in the context"
                yield Finding(check, Severity.ERROR, subject, f"does not answer: {worker.error}", fix)
        yield from _find_strangers(check, cluster)


def examine_brokers(evidence: Evidence) -> Iterator[Finding]:
    """kafka.reachable: the brokers answer."""
    check, subject = "kafka.reachable", evidence.address or evidence.context.name
    kafka = evidence.kafka
    if kafka is None:
        yield Finding(
            check,
            Severity.INFO,
            subject,
            "the context names no brokers: internal topics and ACLs can't be examined",
            "add kafka: {bootstrap.servers: HOST:PORT} to the context",
        )
    elif isinstance(kafka, SeamarkError):
        yield _unreachable(check, subject, kafka)
    else:
        brokers = ", ".join(f"{broker.id} at {broker.host}:{broker.port}" for broker in kafka.brokers)
        count = len(kafka.brokers)
        words = f"{count} broker{'s' if count != 1 else ''} of cluster {kafka.cluster_id}: {brokers}"
        yield Finding(check, Severity.OK, subject, words)


def examine_same_cluster(evidence: Evidence) -> Iterator[Finding]:
    """connect.same-cluster: all workers of a cluster stand on one Kafka, the one of the context."""
    check = "connect.same-cluster"
    for cluster in evidence.clusters:
        ids = {worker.url: worker.kafka_cluster_id for worker in cluster.workers_up if worker.kafka_cluster_id}
        distinct = sorted(set(ids.values()))
        if len(distinct) > 1:
            words = ", ".join(f"{url} uses {found}" for url, found in ids.items())
            fix = "these are workers of different clusters: give each its own entry in the context"
            yield Finding(
                check, Severity.ERROR, cluster.name, f"the workers use different Kafka clusters: {words}", fix
            )
        elif not distinct:
            yield Finding(
                check,
                Severity.WARNING,
                cluster.name,
                "not examined: no worker told its cluster",
                "see connect.reachable",
            )
        elif isinstance(evidence.kafka, SeamarkError):
            yield build_unexamined(check, subject=cluster.name, error=evidence.kafka)
        elif evidence.kafka is not None and evidence.kafka.cluster_id != distinct[0]:
            yield Finding(
                check,
                Severity.ERROR,
                cluster.name,
                f"the workers use Kafka cluster {distinct[0]}, the context's brokers are {evidence.kafka.cluster_id}",
                "correct bootstrap.servers, or move this Connect cluster to the context of its own Kafka",
            )
        else:
            yield Finding(check, Severity.OK, cluster.name, f"all workers use Kafka cluster {distinct[0]}")


def _find_strangers(check: str, cluster: ClusterEvidence) -> Iterator[Finding]:
    """Workers that run something and that the context does not know."""
    if isinstance(cluster.connectors, SeamarkError) or isinstance(cluster.workers, SeamarkError):
        return
    by_connector, by_task = count_by_worker_id(cluster.connectors)
    seen = set(by_connector) | set(by_task)
    known = set(match_worker_ids(cluster.workers, seen=seen).values())
    # A worker that just died is still named in states; it has its own finding.
    known |= {build_worker_id(worker.url) for worker in cluster.workers}
    for stranger in sorted(seen - known):
        yield Finding(
            check,
            Severity.INFO,
            f"{cluster.name} {stranger}",
            f"{by_task[stranger]} tasks run on this worker, which is no url of the context",
            f"add its url to connect.{cluster.name}.urls, so that it is examined too",
        )


def _unreachable(check: str, subject: str, error: SeamarkError) -> Finding:
    words = f"{error.message}: {error.cause}" if error.cause else error.message
    return Finding(check, Severity.ERROR, subject, words, error.hint)


REACHABILITY_CHECKS = (
    Check("connect.reachable", examine_workers),
    Check("kafka.reachable", examine_brokers),
    Check("connect.same-cluster", examine_same_cluster),
)
