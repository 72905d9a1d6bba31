"""ACLs: what this principal may not do and will need to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from seamark.core.finding import Finding, Severity
from seamark.doctor.check import Check, build_unexamined
from seamark.doctor.evidence import Evidence
from seamark.errors import AuthorizationError, SeamarkError

_ACLS = "kafka.acls"


@dataclass(frozen=True, slots=True)
class NeededOperations:
    """Operations in Kafka's words: those to look, and those more to change something."""

    to_look: tuple[str, ...]
    to_change: tuple[str, ...] = ()


CLUSTER_NEED = NeededOperations(to_look=("DESCRIBE",))
GROUP_NEED = NeededOperations(to_look=("DESCRIBE",), to_change=("READ", "DELETE"))
TOPIC_NEEDS = {
    "offsets": NeededOperations(to_look=("DESCRIBE", "DESCRIBE_CONFIGS", "READ"), to_change=("WRITE",)),
    "config": NeededOperations(to_look=("DESCRIBE", "DESCRIBE_CONFIGS", "READ")),
    "status": NeededOperations(to_look=("DESCRIBE", "DESCRIBE_CONFIGS", "READ")),
}


def examine_acls(evidence: Evidence) -> Iterator[Finding]:
    """kafka.acls: nothing that seamark needs is forbidden to this principal.

    The brokers themselves are asked which operations they would allow, so no right to list ACLs
    is needed. Without an authorizer they allow everything.
    """
    if evidence.kafka is None:
        return
    if isinstance(evidence.kafka, SeamarkError):
        yield build_unexamined(_ACLS, subject=evidence.context.name, error=evidence.kafka)
        return
    faults = (
        *_compare(evidence.kafka.operations, CLUSTER_NEED, target="the cluster"),
        *_examine_topics(evidence),
        *_examine_groups(evidence),
    )
    yield from faults
    if not faults:
        words = (
            "every operation that seamark needs is allowed on the cluster, the internal topics and the sinks' groups"
        )
        yield Finding(_ACLS, Severity.OK, evidence.context.name, words)


def _examine_topics(evidence: Evidence) -> Iterator[Finding]:
    seen: set[str] = set()
    for cluster in evidence.clusters:
        for kind, topic in cluster.internal_topics.items():
            found = evidence.topics.get(topic) if topic else None
            if topic is None or found is None or topic in seen:
                continue
            seen.add(topic)
            if isinstance(found, AuthorizationError):
                yield from _compare(frozenset(), TOPIC_NEEDS[kind], target=f"topic {topic}")
            elif not isinstance(found, SeamarkError):
                yield from _compare(found.operations, TOPIC_NEEDS[kind], target=f"topic {topic}")


def _examine_groups(evidence: Evidence) -> Iterator[Finding]:
    for group, found in evidence.groups.items():
        if isinstance(found, AuthorizationError):
            yield from _compare(frozenset(), GROUP_NEED, target=f"group {group}")
        elif isinstance(found, SeamarkError):
            yield build_unexamined(_ACLS, subject=f"group {group}", error=found)
        else:
            yield from _compare(found.operations, GROUP_NEED, target=f"group {group}")


def _compare(allowed: frozenset[str], need: NeededOperations, *, target: str) -> Iterator[Finding]:
    lacking = [operation for operation in need.to_look if operation not in allowed]
    if lacking:
        words = f"not allowed: {', '.join(lacking)}"
        fix = f"grant {', '.join(lacking)} on {target} to the principal of this context"
        yield Finding(_ACLS, Severity.WARNING, target, words, fix)
    for_change = [operation for operation in need.to_change if operation not in allowed]
    if for_change:
        words = f"not allowed: {', '.join(for_change)}; needed only to change offsets"
        fix = f"grant {', '.join(for_change)} on {target} to whoever shall change offsets"
        yield Finding(_ACLS, Severity.INFO, target, words, fix)


PERMISSION_CHECKS = (Check(_ACLS, examine_acls),)
