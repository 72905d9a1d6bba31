"""What the brokers' answer to a write means: it did not happen, or nobody knows.

Only what is named here is known not to have happened. A broker that lost its place as coordinator or controller while
it worked, too few replicas, an error of the server: the write may be in a log and take effect later. Then it is unknown
and must be looked at.
"""

from __future__ import annotations

import re
from typing import Any

from seamark.core.sensitive import mask_text
from seamark.errors import (
    AlreadyExistsError,
    NotFoundError,
    RefusedError,
    RejectedError,
    SeamarkError,
    UnknownOutcomeError,
    UnreachableError,
    UnsupportedError,
)
from seamark.kafka.failures import build_error

# The names are librdkafka's, which are not always Kafka's own.
_REJECTED: dict[str, tuple[type[SeamarkError], str]] = {
    "TOPIC_ALREADY_EXISTS": (AlreadyExistsError, "choose another name, or change the one that is there"),
    "UNKNOWN_TOPIC_OR_PART": (NotFoundError, "seamark topics list shows what is there"),
    "UNKNOWN_TOPIC_ID": (NotFoundError, "seamark topics list shows what is there"),
    "GROUP_ID_NOT_FOUND": (NotFoundError, "seamark groups list shows what is there"),
    "NON_EMPTY_GROUP": (RefusedError, "stop its members first; seamark groups show names them"),
    # The coordinator takes a stranger's commit for a group only while nobody is in it.
    "UNKNOWN_MEMBER_ID": (RefusedError, "the group is in use: stop its members first; seamark groups show names them"),
    "ILLEGAL_GENERATION": (RefusedError, "the group is in use: stop its members first"),
    "STALE_MEMBER_EPOCH": (RefusedError, "the group is in use: stop its members first"),
    "FENCED_MEMBER_EPOCH": (RefusedError, "the group is in use: stop its members first"),
    "REBALANCE_IN_PROGRESS": (RefusedError, "the group is in use: stop its members first"),
    "GROUP_SUBSCRIBED_TO_TOPIC": (RefusedError, "the group reads the topic: stop its members first"),
    "INVALID_GROUP_ID": (RejectedError, "check the name of the group"),
    "OFFSET_METADATA_TOO_LARGE": (RejectedError, "the brokers' offset.metadata.max.bytes is smaller than the text"),
    "INVALID_COMMIT_OFFSET_SIZE": (RejectedError, "commit fewer partitions at once"),
    "COORDINATOR_LOAD_IN_PROGRESS": (UnreachableError, "the coordinator has just started: try again in a moment"),
    "TOPIC_EXCEPTION": (RejectedError, "a topic has letters, digits, dots, dashes and underscores, up to 249"),
    "INVALID_PARTITIONS": (RejectedError, "partitions can only become more"),
    "INVALID_REPLICATION_FACTOR": (RejectedError, "there are not so many brokers to hold copies"),
    "INVALID_REPLICA_ASSIGNMENT": (RejectedError, "check the brokers that shall hold copies"),
    "INVALID_CONFIG": (RejectedError, "check the keys and values of the config"),
    "INVALID_REQUEST": (RejectedError, "see the brokers' log for the reason"),
    "POLICY_VIOLATION": (RejectedError, "the brokers' own policy says no: ask whoever runs them"),
    "TOPIC_DELETION_DISABLED": (RejectedError, "delete.topic.enable is false on the brokers"),
    "REASSIGNMENT_IN_PROGRESS": (RejectedError, "wait until its partitions are where they shall be"),
    "THROTTLING_QUOTA_EXCEEDED": (RejectedError, "the brokers take no more such changes just now: try again later"),
    "UNSUPPORTED_VERSION": (UnsupportedError, "the brokers are too old for it"),
    "_UNSUPPORTED_FEATURE": (UnsupportedError, "the brokers are too old for it"),
    "_INVALID_ARG": (RejectedError, "this is a fault of seamark: please report it"),
}
_DENIED_ERRORS = frozenset(
    {"TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "SECURITY_DISABLED"}
)
# librdkafka tells at which stage an operation ended. Before "waiting for response" nothing had been sent.
_UNSENT = re.compile(r"(?:Failed while|Timed out) (?:initializing|constructing request|waiting for (?!response))")
# What a group needs goes to its coordinator, who is asked for first. An answer told in these words is the one
# to that question; the answer to the write itself is told in other words.
_NO_COORDINATOR = "worker coordinator request failed"
_LOOK = "look at it before you repeat it"


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
