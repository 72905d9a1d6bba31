"""What an error of librdkafka means to the person who reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from seamark.core.secrets import MASK, is_sensitive, mask_text
from seamark.errors import (
    AlreadyExistsError,
    AuthenticationError,
    AuthorizationError,
    DeadlineError,
    InvalidSettingError,
    NotFoundError,
    RefusedError,
    RejectedError,
    SeamarkError,
    UnknownOutcomeError,
    UnreachableError,
    UnsupportedError,
)

_AUTHENTICATION = {
    "_AUTHENTICATION",
    "SASL_AUTHENTICATION_FAILED",
    "UNSUPPORTED_SASL_MECHANISM",
    "ILLEGAL_SASL_STATE",
}
_UNREACHABLE = {"_TRANSPORT", "_RESOLVE", "_ALL_BROKERS_DOWN", "BROKER_NOT_AVAILABLE", "NETWORK_EXCEPTION"}
_LATE = {"_TIMED_OUT", "_TIMED_OUT_QUEUE", "REQUEST_TIMED_OUT"}
# The brokers are busy with themselves, or with a transaction that is still open; or librdkafka has just learnt that a
# broker is gone, and drops what was for it. It passes.
_LATER = {
    "_DESTROY_BROKER",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "LEADER_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "NOT_LEADER_FOR_PARTITION",
    "OFFSET_NOT_AVAILABLE",
    "UNKNOWN_LEADER_EPOCH",
    "UNSTABLE_OFFSET_COMMIT",
}
_MISSING = {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "_NOENT", "GROUP_ID_NOT_FOUND"}
_DENIED_RESOURCES = {
    "TOPIC_AUTHORIZATION_FAILED": "topic",
    "GROUP_AUTHORIZATION_FAILED": "group",
    "CLUSTER_AUTHORIZATION_FAILED": "cluster",
}
# OpenSSL's words, and what to do about each; looked for in this order.
_TLS_HINTS = {
    "certificate has expired": "renew the brokers' certificate",
    "hostname mismatch": "use the host name of the brokers' certificate in bootstrap.servers",
    "ip address mismatch": "use the host name of the brokers' certificate in bootstrap.servers",
    "self-signed": "set ssl.ca.location to the certificate authority",
    "self signed": "set ssl.ca.location to the certificate authority",
    "unable to get local issuer": "set ssl.ca.location to the certificate authority",
    "wrong version number": "check security.protocol and the port, which doesn't use TLS",
    "certificate required": "set ssl.keystore.location: the brokers require a client certificate",
}

IMMEDIATE = frozenset({*_AUTHENTICATION, "_SSL"})
"""Errors that no waiting will heal."""


def build_error(error: Any, *, action: str, subject: str, operation: str, last_event: Any = None) -> SeamarkError:
    """Our error for a `confluent_kafka.KafkaError`.

    Args:
        error: The error itself.
        action: What was tried, as in "read the topic connect-offsets".
        subject: To what: the topic, the group, or the bootstrap address.
        operation: The ACL operation that the call needs.
        last_event: The latest error of a connection, which often is the real cause of a timeout.
    """
    name, cause = error.name(), mask_text(error.str())
    context = {"kafka_error": name, "subject": subject}
    if name in _DENIED_RESOURCES:
        kind = _DENIED_RESOURCES[name]
        target = "the cluster" if kind == "cluster" else f"the {kind} {subject}"
        hint = f"grant {operation} on {target} to the principal of this context"
        return AuthorizationError(f"not allowed to {action}", cause=cause, hint=hint, context=context)
    if name in _MISSING:
        return NotFoundError(
            f"could not {action}: it does not exist", cause=cause, hint="check the name", context=context
        )
    if last_event is not None and name in _LATE | _UNREACHABLE and last_event.name() not in _LATE:
        return build_connection_error(last_event, action=action, subject=subject, was_late=name in _LATE)
    if name in IMMEDIATE | _UNREACHABLE | _LATE:
        return build_connection_error(error, action=action, subject=subject, was_late=False)
    if name in _LATER:
        return UnreachableError(
            f"could not {action} just now", cause=cause, hint="try again in a moment", context=context
        )
    return RejectedError(
        f"the brokers refused to {action}", cause=cause, hint="see the brokers' log for the reason", context=context
    )


def is_passing(error: SeamarkError) -> bool:
    """Whether the brokers were only busy with themselves: asked again, they know where to send us."""
    return error.context.get("kafka_error") in _LATER - {"UNSTABLE_OFFSET_COMMIT"}


def build_connection_error(error: Any, *, action: str, subject: str, was_late: bool) -> SeamarkError:
    """Our error for a connection that could not be made or kept."""
    name, cause = error.name(), mask_text(error.str())
    context = {"kafka_error": name, "subject": subject}
    if name in _AUTHENTICATION:
        hint = "check sasl.mechanism, sasl.username and sasl.password of the context"
        return AuthenticationError(
            f"could not {action}: the brokers rejected the login", cause=cause, hint=hint, context=context
        )
    if name == "_SSL":
        return AuthenticationError(
            f"could not {action}: no TLS connection to the brokers",
            cause=cause,
            hint=_tls_hint(cause),
            context=context,
        )
    if name in _LATE:
        return DeadlineError(
            f"could not {action}: the brokers did not answer in time",
            cause=cause,
            hint="check that the address is a Kafka listener and that security.protocol matches it",
            context=context,
        )
    kind = DeadlineError if was_late else UnreachableError
    hint = "check bootstrap.servers and that the brokers run; brokers must also be reachable at their advertised names"
    return kind(f"could not {action}: the brokers can't be reached", cause=cause, hint=hint, context=context)


def build_setting_error(text: str, config: Mapping[str, str]) -> InvalidSettingError:
    """Our error for a config that the client does not take. No secret of the config is in it."""
    for key, value in config.items():
        if value and is_sensitive(key):
            text = text.replace(value, MASK)
    return InvalidSettingError(
        "the Kafka settings of this context can't be used",
        cause=mask_text(text),
        hint="show where each setting comes from: seamark context show --origins",
    )


def _tls_hint(cause: str) -> str:
    lowered = cause.lower()
    for words, hint in _TLS_HINTS.items():
        if words in lowered:
            return hint
    return "check ssl.ca.location, security.protocol and the port"


# Only what is named here is known not to have happened. A broker that lost its place as coordinator or controller
# while it worked, too few replicas, an error of the server: the write may be in a log and take effect later. Then it
# is unknown and must be looked at.

# The names are librdkafka's, which are not always Kafka's own.
_REJECTED: dict[str, tuple[type[SeamarkError], str]] = {
    "TOPIC_ALREADY_EXISTS": (AlreadyExistsError, "choose another name, or update the existing one"),
    "UNKNOWN_TOPIC_OR_PART": (NotFoundError, "list the topics: seamark topics list"),
    "UNKNOWN_TOPIC_ID": (NotFoundError, "list the topics: seamark topics list"),
    "GROUP_ID_NOT_FOUND": (NotFoundError, "list the groups: seamark groups list"),
    "NON_EMPTY_GROUP": (RefusedError, "stop its members first; to list them: seamark groups show"),
    # The coordinator accepts a commit from outside of a group only while the group has no members.
    "UNKNOWN_MEMBER_ID": (RefusedError, "stop the members of the group first; to list them: seamark groups show"),
    "ILLEGAL_GENERATION": (RefusedError, "stop the members of the group first"),
    "STALE_MEMBER_EPOCH": (RefusedError, "stop the members of the group first"),
    "FENCED_MEMBER_EPOCH": (RefusedError, "stop the members of the group first"),
    "REBALANCE_IN_PROGRESS": (RefusedError, "stop the members of the group first"),
    "GROUP_SUBSCRIBED_TO_TOPIC": (RefusedError, "stop the members of the group first: it consumes the topic"),
    "INVALID_GROUP_ID": (RejectedError, "check the name of the group"),
    "OFFSET_METADATA_TOO_LARGE": (
        RejectedError,
        "shorten the metadata: it is longer than the brokers' offset.metadata.max.bytes",
    ),
    "INVALID_COMMIT_OFFSET_SIZE": (RejectedError, "commit fewer partitions at once"),
    "COORDINATOR_LOAD_IN_PROGRESS": (UnreachableError, "try again in a moment: the coordinator has just started"),
    "TOPIC_EXCEPTION": (RejectedError, "use letters, digits, dots, dashes and underscores, at most 249"),
    "INVALID_PARTITIONS": (RejectedError, "choose a higher number: Kafka can't remove partitions"),
    "INVALID_REPLICATION_FACTOR": (RejectedError, "choose a lower replication factor: there are not enough brokers"),
    "INVALID_REPLICA_ASSIGNMENT": (RejectedError, "check the brokers of the replicas"),
    "INVALID_CONFIG": (RejectedError, "check the keys and values of the config"),
    "INVALID_REQUEST": (RejectedError, "see the brokers' log for the reason"),
    "POLICY_VIOLATION": (
        RejectedError,
        "request the change from the operators of the brokers, whose policy rejects it",
    ),
    "TOPIC_DELETION_DISABLED": (RejectedError, "set delete.topic.enable to true on the brokers"),
    "REASSIGNMENT_IN_PROGRESS": (RejectedError, "wait until the reassignment of its partitions has finished"),
    "THROTTLING_QUOTA_EXCEEDED": (RejectedError, "try again later: the brokers throttle such changes"),
    "UNSUPPORTED_VERSION": (UnsupportedError, "upgrade the brokers: their version doesn't support this"),
    "_UNSUPPORTED_FEATURE": (UnsupportedError, "upgrade the brokers: their version doesn't support this"),
    "_INVALID_ARG": (RejectedError, "report this: it is a bug of seamark"),
}
_DENIED_ERRORS = frozenset(
    {"TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "SECURITY_DISABLED"}
)
# librdkafka tells at which stage an operation ended. Before "waiting for response" nothing had been sent.
_UNSENT = re.compile(r"(?:Failed while|Timed out) (?:initializing|constructing request|waiting for (?!response))")
# A request about a group goes to its coordinator, which the client looks up first. An error with this text is from the
# lookup; the text of an error of the write itself differs.
_NO_COORDINATOR = "worker coordinator request failed"
_LOOK = "check the state before you try again"


def build_write_failure(
    error: Any, *, action: str, subject: str, operation: str, last_event: Any = None
) -> SeamarkError:
    """Our error for a write that failed: an UnknownOutcomeError unless it is certain that nothing happened."""
    name, cause = error.name(), mask_text(error.str())
    context = {"kafka_error": name, "subject": subject}
    if name in _REJECTED:
        kind, hint = _REJECTED[name]
        return kind(f"could not {action}", cause=cause, hint=hint, context=context)
    if name in _DENIED_ERRORS or _is_unsent(error):
        return build_error(error, action=action, subject=subject, operation=operation, last_event=last_event)
    said = mask_text(last_event.str()) if last_event is not None else ""
    return UnknownOutcomeError(
        f"it is unknown whether the brokers did {action}",
        cause=f"{cause}; {said}" if said else cause,
        hint=_LOOK,
        context=context,
    )


def _is_unsent(error: Any) -> bool:
    """Whether it was never sent."""
    is_lookup = _NO_COORDINATOR in error.str() and not error.name().startswith("_")
    return is_lookup or _UNSENT.search(error.str()) is not None


def build_no_answer(*, action: str, subject: str, seconds: float) -> UnknownOutcomeError:
    """Our error for a write that was sent, and nothing came back."""
    return UnknownOutcomeError(
        f"it is unknown whether the brokers did {action}: no answer within {seconds:g} s",
        hint=_LOOK,
        context={"subject": subject},
    )


def is_known(error: SeamarkError) -> bool:
    """Whether an error says for certain that nothing happened."""
    return not isinstance(error, UnknownOutcomeError)
