"""What the failure of a task's producer means: another attempt took over, a second try may help, or neither."""

from __future__ import annotations

from enum import Enum
from typing import Any

from seamark.core.sensitive import mask_text
from seamark.errors import AuthorizationError, FencedError, RejectedError, SeamarkError, UnreachableError
from seamark.kafka.failures import IMMEDIATE, build_connection_error
from seamark.kafka_sink.control import Claim

_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
_DENIED = {
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "WRITE and DESCRIBE on transactional ids that begin with seamark.sink.",
    "TOPIC_AUTHORIZATION_FAILED": "WRITE on the topic, and WRITE and READ on the control topic",
    "CLUSTER_AUTHORIZATION_FAILED": "IDEMPOTENT_WRITE on the cluster",
}
_REJECTED = {
    "MSG_SIZE_TOO_LARGE": "raise max.message.bytes of the topic, and kafka.message.max.bytes of the sink",
    "INVALID_MSG_SIZE": "raise max.message.bytes of the topic, and kafka.message.max.bytes of the sink",
    "RECORD_LIST_TOO_LARGE": "raise max.message.bytes of the topic, or lower kafka.batch.size",
    "INVALID_TIMESTAMP": "see message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic",
    "INVALID_RECORD": "a compacted topic takes no record without a key; see also message.timestamp.after.max.ms",
    "INVALID_TRANSACTION_TIMEOUT": "set kafka.transaction.timeout.ms to no more than transaction.max.timeout.ms",
    "POLICY_VIOLATION": "see the policy of the brokers",
    "UNKNOWN_TOPIC_OR_PART": "make the topic, or check the partition column",
    "_UNKNOWN_TOPIC": "make the topic, or check the topic column",
    "_UNKNOWN_PARTITION": "check the partition column: the topic has fewer partitions",
    "_INVALID_ARG": "check the columns",
}


class FailureAction(Enum):
    """What to do after a failure."""

    FENCED = "another attempt took over"
    HOPELESS = "no second try would help"
    PASSING = "a new producer may succeed"


def judge(error: Any) -> FailureAction:
    """Which kind of failure it is."""
    name = error.name()
    if name in _FENCED:
        return FailureAction.FENCED
    if name in _REJECTED or name in _DENIED or name in IMMEDIATE:
        return FailureAction.HOPELESS
    return FailureAction.PASSING


def build_late_error(error: Any, *, claim: Claim, seconds: float, more: str = "") -> SeamarkError:
    """Our error for a task whose transaction the brokers ended for its age, which to its producer is a fence."""
    return UnreachableError(
        f"{claim} was too slow for its transaction",
        cause=f"it was open for more than {seconds:g} s ({error.name()})" + (f"; {more}" if more else ""),
        hint="make the tasks smaller (of a copy: its slices), or raise kafka.transaction.timeout.ms",
        context={"kafka_error": error.name(), "job": claim.job, "task": str(claim.task)},
    )


def build_task_error(error: Any, *, claim: Claim, spot: str = "", more: str = "") -> SeamarkError:
    """Our error for a task that could not write."""
    name, cause = error.name(), mask_text(error.str())
    context = {"kafka_error": name, "job": claim.job, "task": str(claim.task)}
    where = f" to {spot}" if spot else ""
    if name in _FENCED:
        return FencedError(
            f"{claim} was taken over by another attempt, which has not finished it",
            cause=cause,
            hint="Spark runs it again; is another job running under this name?",
            context=context,
        )
    if name in _DENIED:
        return AuthorizationError(
            f"{claim} may not write{where}", cause=cause, hint=f"grant {_DENIED[name]}", context=context
        )
    if name in _REJECTED:
        return RejectedError(f"{claim} could not write{where}", cause=cause, hint=_REJECTED[name], context=context)
    if name in IMMEDIATE:
        return build_connection_error(error, action=f"write {claim}", subject=claim.job, was_late=False)
    return UnreachableError(
        f"{claim} could not write{where}",
        cause=f"{cause} ({name})" + (f"; {more}" if more else ""),
        hint="check the brokers; run the job again under the same name: what is written is not written twice",
        context=context,
    )
