"""Whether each key of a topic is bound to one partition: an upsert without an order is right only then. No I/O.

Ranges of several partitions are landed at the same time. If records of one key are in two partitions, the older one may
be landed last, and nothing in the records says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from seamark.core import strict_json as strict
from seamark.errors import PartialError, RefusedError, SeamarkError
from seamark.kafka_sink.routing import Partitioner, Placement, Probe
from seamark.tables.definition import Landing

_KEYS = ("rule", "partitions", "before", "grown_at")


@dataclass(frozen=True, slots=True)
class Binding:
    """How a record's key determines its partition, which every task checks for every record.

    `rule` is None for a topic with one partition, which binds every key. A topic that has grown had `before`
    partitions; records of a partition before its offset in `grown_at` were placed among these.
    """

    rule: Partitioner | None
    partitions: int
    before: int = 0
    grown_at: Mapping[int, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Build the JSON object that goes to the tasks."""
        return {
            "rule": None if self.rule is None else self.rule.value,
            "partitions": self.partitions,
            "before": self.before,
            "grown_at": [list(pair) for pair in sorted(self.grown_at.items())],
        }

    @classmethod
    def from_dict(cls, data: object) -> Binding:
        """Read what `to_dict` built."""
        fields = strict.read_object(data, keys=_KEYS, what="a binding")
        pairs = [
            strict.read_list(pair, what="grown_at", length=2)
            for pair in strict.read_list(fields["grown_at"], what="grown_at")
        ]
        return cls(
            None if fields["rule"] is None else strict.read_word(fields["rule"], words=Partitioner, what="a rule"),
            strict.read_count(fields["partitions"], what="partitions"),
            before=strict.read_count(fields["before"], what="before"),
            grown_at={
                strict.read_count(number, what="a partition"): strict.read_count(offset, what="an offset")
                for number, offset in pairs
            },
        )


def check_bindable(landing: Landing, partitions: int) -> None:
    """Check that the keys of a pipeline can be bound to partitions, as far as that is known without its records.

    Args:
        landing: The pipeline.
        partitions: The partitions of its topic.

    Raises:
        RefusedError: The table's key doesn't come from the record's key, and the topic has several partitions.
    """
    if landing.needs_binding and partitions > 1 and not landing.is_key_in_key:
        raise _build_refusal(
            landing,
            f"{landing.topic} has {partitions} partitions, and to.key is not taken from the record key, so that "
            "records of one key may be in several of them",
        )


def find_binding(landing: Landing, probe: Probe, *, is_first: bool) -> Binding:
    """Find the partitioner that binds keys to partitions.

    Args:
        landing: A pipeline that `check_bindable` accepts.
        probe: What samples of the topic tell.
        is_first: Whether nothing of the topic was landed yet.

    Returns:
        The binding that every record has to meet.

    Raises:
        RefusedError: No partitioner explains where the keys are.
    """
    check_bindable(landing, probe.partitions)
    if probe.partitions == 1:
        return Binding(None, 1)
    if probe.placement is Placement.KEYLESS and probe.records:
        raise _build_refusal(landing, f"the records of {landing.topic} have no key")
    if probe.placement is Placement.GROWN and is_first:
        raise _build_refusal(
            landing,
            f"the partitions of {landing.topic} were increased from {probe.grown_from} to {probe.partitions}, so that "
            "records of one key are in two of them",
        )
    if probe.placement is Placement.MIXED:
        raise _build_refusal(landing, probe.words)
    if probe.rule is not None:
        return Binding(probe.rule, probe.partitions)
    # Too few keys to prove a partitioner. Every record is checked, so one that fits so far is as good as a proven one.
    fitting = [one.rule for one in probe.evidence if not one.misplaced]
    if not fitting:
        raise _build_refusal(landing, probe.words)
    return Binding(fitting[0], probe.partitions)


def check_growth(landing: Landing, known: int, partitions: int) -> None:
    """Check that a topic has grown in a way that leaves each key's earlier records in a known partition.

    Raises:
        RefusedError: Keys moved between partitions that were there before.
    """
    if partitions % known:
        raise _build_refusal(
            landing,
            f"the partitions of {landing.topic} were increased from {known} to {partitions}, which isn't a multiple of "
            f"{known}, so that keys moved between the existing partitions",
        )


def build_misplaced(landing: Landing, *, partition: int, offset: int, binding: Binding) -> RefusedError:
    """Build the error for a record whose key doesn't belong in its partition."""
    rule = "" if binding.rule is None else f" by {binding.rule}"
    return _build_refusal(
        landing,
        f"misplaced record {landing.topic}-{partition}@{offset}: its key belongs to another of {binding.partitions} "
        f"partitions{rule}",
    )


def _build_refusal(landing: Landing, cause: str) -> RefusedError:
    what = "orders records by kafka.offset" if landing.order else "has no to.order"
    return RefusedError(
        f"pipeline {landing.name} can't upsert: it {what}, and records of one key may be in several partitions",
        cause=cause,
        hint="set to.order to a column that increases with each update, such as order: [updated_at], or to "
        "order: [kafka.timestamp]",
        context={"pipeline": landing.name, "topic": landing.topic},
    )


_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 60.0
PATIENCE_SECONDS = 3600.0
"""How long an outage may last. Longer than a failover or a rolling upgrade takes, shorter than a night."""
# Of an error of a task, and of its own Kafka client, Spark passes on the text alone.
# As `spark/tasks.py` writes the errors of tasks, which Spark passes on as text.
_OURS = re.compile(r"^seamark\.errors\.\w+: (.+)(?:\n  cause: (.+))?", re.MULTILINE)
_PASSING = re.compile(
    r"seamark\.errors\.(Unreachable|Deadline|Unsettled)Error"
    r"|org\.apache\.kafka\.common\.errors\."
    r"(Timeout|Disconnect|Network|BrokerNotAvailable|LeaderNotAvailable|NotLeaderOrFollower|CoordinatorNotAvailable"
    r"|CoordinatorLoadInProgress|KafkaStorage)Exception"
    r"|java\.net\.(Connect|Socket|NoRouteToHost)Exception"
)


@dataclass(frozen=True, slots=True)
class RetryWait:
    """A pause before the next try: how long, its number, and the transient errors so far."""

    seconds: float
    number: int
    reason: str


OnWait = Callable[[RetryWait], None]


def is_passing(error: BaseException) -> bool:
    """Whether an error is likely to be transient: a server can't be reached, and nothing is wrong with the work."""
    if isinstance(error, PartialError):
        return bool(error.failures) and all(is_passing(one) for one in error.failures.values())
    if isinstance(error, SeamarkError):
        return error.retryable
    return _PASSING.search(str(error)) is not None


class Outage:
    """The back-off of one run: pauses double from 1 s to 60 s, and restart at 1 s after each batch that was landed."""

    def __init__(self, *, patience_seconds: float = PATIENCE_SECONDS, clock: Callable[[], float]) -> None:
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._began_at: float | None = None
        self._number = 0

    def end(self) -> None:
        """Note that work was done: whatever comes next is another outage."""
        self._began_at, self._number = None, 0

    def plan(self, error: BaseException) -> RetryWait | None:
        """Plan the pause after an error.

        Args:
            error: What ended the last try.

        Returns:
            The pause; None where the error doesn't pass, or has lasted for too long.
        """
        if not is_passing(error):
            return None
        now = self._clock()
        if self._began_at is None:
            self._began_at = now
        if now - self._began_at >= self._patience_seconds:
            return None
        seconds = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2**self._number)
        self._number += 1
        return RetryWait(seconds, self._number, describe_error(error))


def is_ours(error: BaseException) -> bool:
    """Whether an error is one of ours, also where Spark passes on its text from a task."""
    return isinstance(error, SeamarkError) or _OURS.search(str(error)) is not None


def describe_error(error: BaseException) -> str:
    """Return the reason of an error in one line."""
    if isinstance(error, SeamarkError):
        return error.message
    if (ours := _OURS.search(str(error))) is not None:
        return f"{ours[1]}: {ours[2]}"[:200] if ours[2] else ours[1][:200]
    found = _PASSING.search(str(error))
    line = str(error)[found.start() :].partition("\n")[0] if found else str(error).partition("\n")[0]
    return line[:200]
