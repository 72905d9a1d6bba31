"""Check for secrets and connections that others can read."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from seamark.core.readings import Finding, Severity
from seamark.doctor.evidence import Check, ClusterEvidence, Evidence, build_unexamined, or_ok
from seamark.errors import AuthorizationError, SeamarkError

_ACLS = "kafka.acls"


@dataclass(frozen=True, slots=True)
class NeededOperations:
    """Operations by Kafka's names: those to read, and those needed in addition to change something."""

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
    """Check kafka.acls: this principal has every permission that seamark needs.

    The brokers themselves report which operations they would allow, so no permission to list ACLs is needed. Without an
    authorizer they allow everything.
    """
    if evidence.kafka is None:
        return
    if isinstance(evidence.kafka, SeamarkError):
        yield build_unexamined(_ACLS, subject=evidence.context.name, error=evidence.kafka)
        return
    faults = (
        *_compare(evidence.kafka.operations, CLUSTER_NEED, target="the Kafka cluster"),
        *_examine_topics(evidence),
        *_examine_groups(evidence),
    )
    words = (
        "every operation that seamark needs is allowed on the Kafka cluster, the internal topics and the sinks' groups"
    )
    yield from or_ok(faults, _ACLS, evidence.context.name, words)


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
        fix = f"grant {', '.join(for_change)} on {target} to the principals that change offsets"
        yield Finding(_ACLS, Severity.INFO, target, words, fix)


PERMISSION_CHECKS = (Check(_ACLS, examine_acls),)


_SECRETS = "context.secrets"


def examine_secrets(evidence: Evidence) -> tuple[Finding, ...]:
    """Check context.secrets: no password is in a file, and none is sent in clear text."""
    words = "no secret in plain text in the contexts file, and none is sent unencrypted"
    return or_ok(_find_exposed(evidence), _SECRETS, evidence.context.name, words)


def _find_exposed(evidence: Evidence) -> Iterator[Finding]:
    for setting in evidence.context.settings():
        note = f"; {setting.note}" if setting.note else ""
        if setting.is_literal:
            words = f"plain text in {setting.origin}{note}"
            fix = "replace it with secret://env/NAME or secret://file/PATH#KEY"
            yield Finding(_SECRETS, Severity.WARNING, setting.key, words, fix)
        elif note:
            yield Finding(_SECRETS, Severity.WARNING, setting.key, setting.note, "chmod 600 that file")
    for cluster in evidence.clusters:
        for url in cluster.settings.urls:
            if cluster.settings.password is not None and _is_plain(url) and not is_loopback(url):
                words = "user and password are sent over plain http, unencrypted"
                yield Finding(_SECRETS, Severity.WARNING, f"{cluster.name} {url}", words, "use https")


_REST = "connect.security"


def examine_rest(evidence: Evidence) -> Iterator[Finding]:
    """Check connect.security: the REST API is reached over TLS, with a verified server."""
    for cluster in evidence.clusters:
        yield from or_ok(_find_unsafe_rest(cluster), _REST, cluster.name, "https, or only on this machine")


def _find_unsafe_rest(cluster: ClusterEvidence) -> Iterator[Finding]:
    for url in cluster.settings.urls:
        if _is_plain(url) and not is_loopback(url):
            words = "plain http: configs and the secrets in them are sent unencrypted"
            fix = "set listeners=https://… on the worker, and use https here"
            yield Finding(_REST, Severity.INFO, f"{cluster.name} {url}", words, fix)
    if not cluster.settings.verify:
        words = "certificates are not verified: another server can impersonate a worker"
        fix = f"set connect.{cluster.name}.ca_file to the certificate authority, and remove tls_verify: false"
        yield Finding(_REST, Severity.WARNING, cluster.name, words, fix)


_KAFKA = "kafka.security"


def examine_kafka(evidence: Evidence) -> Iterator[Finding]:
    """Check kafka.security: connections to the brokers are encrypted, with verified brokers."""
    if evidence.kafka is None:
        return
    subject = evidence.address or evidence.context.name
    told = {setting.key: setting.value for setting in evidence.context.settings()}
    protocol = told.get("kafka.security.protocol", "PLAINTEXT").upper()
    is_local = all(is_loopback(f"kafka://{place.strip()}") for place in evidence.address.split(","))
    words = f"{protocol}{', on this machine' if is_local else ''}"
    yield from or_ok(
        (*_find_plain(subject, protocol, told, is_local=is_local), *_find_unverified(subject, told)),
        _KAFKA,
        subject,
        words,
    )


def _find_plain(subject: str, protocol: str, told: Mapping[str, str], *, is_local: bool) -> Iterator[Finding]:
    mechanism = (told.get("kafka.sasl.mechanism") or told.get("kafka.sasl.mechanisms") or "").upper()
    if protocol == "SASL_PLAINTEXT":
        replay = " and, before Kafka 3.7.2, replayed (CVE-2024-56128)" if mechanism.startswith("SCRAM") else ""
        words = f"{mechanism or 'the login'} without TLS can be read in transit{replay}"
        yield Finding(_KAFKA, Severity.WARNING, subject, words, "use security.protocol=SASL_SSL")
    elif protocol == "PLAINTEXT" and not is_local:
        words = "the connection to the brokers is not encrypted, and clients don't authenticate"
        yield Finding(_KAFKA, Severity.INFO, subject, words, "use security.protocol=SSL or SASL_SSL")


def _find_unverified(subject: str, told: Mapping[str, str]) -> Iterator[Finding]:
    unverified = [key for key, good in _VERIFICATION.items() if told.get(f"kafka.{key}", good).lower() != good]
    for key in unverified:
        words = f"{key}={told[f'kafka.{key}']}: another server can impersonate a broker"
        fix = f"remove {key}, and set ssl.ca.location to the certificate authority"
        yield Finding(_KAFKA, Severity.WARNING, subject, words, fix)


_VERIFICATION = {"enable.ssl.certificate.verification": "true", "ssl.endpoint.identification.algorithm": "https"}


def is_loopback(url: str) -> bool:
    """Return whether a URL is on this machine."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        # Brackets without an IPv6 address: it can't be reached, which other checks report.
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_plain(url: str) -> bool:
    return urlsplit(url).scheme == "http"


SECURITY_CHECKS = (
    Check(_SECRETS, examine_secrets),
    Check(_REST, examine_rest),
    Check(_KAFKA, examine_kafka),
)
