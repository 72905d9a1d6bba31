"""Consumer groups: every sink must have its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from seamark.core.finding import Finding, Severity
from seamark.doctor.check import Check, build_unexamined
from seamark.doctor.evidence import ClusterEvidence, Evidence
from seamark.errors import SeamarkError

_GROUPS = "connect.consumer-group"


def examine_groups(evidence: Evidence) -> Iterator[Finding]:
    """connect.consumer-group: no two sinks share a group."""
    for cluster in evidence.clusters:
        group = cluster.settings.consumer_group_id
        if group:
            words = (
                f"the workers set consumer.group.id={group}: all sinks are one group, and forgetting one forgets all"
            )
            fix = "give each sink its offsets under connect-NAME, then remove consumer.group.id from the worker config"
            yield Finding(_GROUPS, Severity.ERROR, cluster.name, words, fix)
        elif cluster.settings.worker_config is None:
            words = "whether the workers set consumer.group.id is not known: Connect's REST API does not tell it"
            fix = f"name worker_config in connect.{cluster.name}"
            yield Finding(_GROUPS, Severity.INFO, cluster.name, words, fix)
        if isinstance(cluster.connectors, SeamarkError):
            yield build_unexamined(_GROUPS, subject=cluster.name, error=cluster.connectors)
    shared = tuple(_find_shared_groups(evidence))
    yield from shared
    sinks = sum(len(cluster.sinks) for cluster in evidence.clusters)
    if not shared and sinks and not any(cluster.settings.consumer_group_id for cluster in evidence.clusters):
        yield Finding(_GROUPS, Severity.OK, evidence.context.name, f"{sinks} sinks, each with a group of its own")


def _find_shared_groups(evidence: Evidence) -> Iterator[Finding]:
    """Groups of several sinks, also of sinks of the same name in two Connect clusters on one Kafka."""
    users: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cluster in evidence.clusters:
        kafka = _find_kafka(cluster)
        for sink in cluster.sinks:
            group = cluster.find_group(sink)
            is_told_already = group == cluster.settings.consumer_group_id
            # A reference is resolved by the worker; equal text may be another group on another worker.
            if not is_told_already and "${" not in group:
                users[kafka, group].append(sink.owner)
    for (_, group), sinks in users.items():
        if len(sinks) > 1:
            words = f"{', '.join(sinks)} are in one group: each gets only a part of the records"
            fix = "give all but one another consumer.override.group.id, or another name"
            yield Finding(_GROUPS, Severity.ERROR, group, words, fix)


def _find_kafka(cluster: ClusterEvidence) -> str:
    return next((found.kafka_cluster_id for found in cluster.workers_up if found.kafka_cluster_id), cluster.name)


GROUP_CHECKS = (Check(_GROUPS, examine_groups),)
