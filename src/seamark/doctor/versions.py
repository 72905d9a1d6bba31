"""What the workers' versions mean: what they can't do, and what is known to be wrong with them."""

from __future__ import annotations

from collections.abc import Iterator

from seamark.connect.capability import Capability, build_capabilities
from seamark.core.finding import Finding, Severity
from seamark.doctor.advisories import find_worker_advisories, list_broker_advisories
from seamark.doctor.check import Check
from seamark.doctor.evidence import ClusterEvidence, Evidence
from seamark.doctor.release import build_release


def examine_versions(evidence: Evidence) -> Iterator[Finding]:
    """connect.versions: one version in each cluster, and one that can stop connectors and write offsets."""
    for cluster in evidence.clusters:
        versions = _list_versions(cluster)
        yield from (_examine_cluster_versions(cluster.name, versions) if versions else _no_version(cluster))


def _examine_cluster_versions(cluster: str, versions: tuple[str, ...]) -> Iterator[Finding]:
    check, is_fine = "connect.versions", True
    if len(versions) > 1:
        is_fine = False
        words = f"the workers run different versions: {', '.join(versions)}"
        yield Finding(
            check, Severity.WARNING, cluster, words, "finish the upgrade: bring every worker to the newest of these"
        )
    unreadable = [version for version in versions if build_release(version) is None]
    if unreadable:
        is_fine = False
        words = f"nothing is known of version {', '.join(unreadable)}"
        yield Finding(check, Severity.INFO, cluster, words, "check by hand what this build can do")
    can = build_capabilities(cluster, versions)
    if not can.has(Capability.STOP):
        is_fine = False
        words = f"Connect {can.words} can neither stop a connector nor tell its offsets; both came with 3.5"
        yield Finding(check, Severity.WARNING, cluster, words, "upgrade every worker to 3.6 or later")
    elif not can.has(Capability.WRITE_OFFSETS):
        is_fine = False
        words = f"Connect {can.words} can tell offsets but not change them; that came with 3.6"
        yield Finding(check, Severity.WARNING, cluster, words, "upgrade every worker to 3.6 or later")
    if is_fine:
        yield Finding(check, Severity.OK, cluster, f"every worker runs {versions[0]}")


def examine_known_bad(evidence: Evidence) -> Iterator[Finding]:
    """connect.known-bad: no worker runs a release with a published fault."""
    check = "connect.known-bad"
    for cluster in evidence.clusters:
        for version in _list_versions(cluster):
            release = build_release(version)
            if release is None or release.is_vendor_build:
                words = f"{version} is not a release of Apache Kafka: which fixes are in it can't be told"
                yield Finding(check, Severity.INFO, cluster.name, words, "ask its vendor for the CVEs it fixes")
                continue
            advisories = find_worker_advisories(release.number)
            for found in advisories:
                fix = f"upgrade the workers; fixed in {', '.join(found.fixed)}"
                yield Finding(
                    check, Severity.WARNING, cluster.name, f"{found.id} in Connect {version}: {found.words}", fix
                )
            if not advisories:
                yield Finding(check, Severity.OK, cluster.name, f"no published fault of Connect {version} is known")


def examine_known_bad_brokers(evidence: Evidence) -> Iterator[Finding]:
    """kafka.known-bad: what to compare the brokers' version with, as they do not tell it."""
    if evidence.kafka is None:
        return
    known = "; ".join(f"{found.id} (fixed in {', '.join(found.fixed)})" for found in list_broker_advisories())
    yield Finding(
        "kafka.known-bad",
        Severity.INFO,
        evidence.address or evidence.context.name,
        f"brokers do not tell their version; published faults are {known}",
        "compare these with the version your brokers run",
    )


def _list_versions(cluster: ClusterEvidence) -> tuple[str, ...]:
    return tuple(sorted({worker.version for worker in cluster.workers_up if worker.version}))


def _no_version(cluster: ClusterEvidence) -> Iterator[Finding]:
    yield Finding(
        "connect.versions",
        Severity.WARNING,
        cluster.name,
        "not examined: no worker told its version",
        "see connect.reachable",
    )


VERSION_CHECKS = (
    Check("connect.versions", examine_versions),
    Check("connect.known-bad", examine_known_bad),
    Check("kafka.known-bad", examine_known_bad_brokers),
)
