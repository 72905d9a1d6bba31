"""The options of Spark's own Kafka source for a copy: the caller's for speed and access, ours for what is read."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.errors import UsageError

_ISOLATION = "kafka.isolation.level"
_COMMITTED = "read_committed"
_DEFAULTS = {
    # Two polls of 500 records each cost four more requests than one of a thousand: Spark asks for both ends every time.
    "kafka.max.poll.records": "20000",
    # At the end of a log the consumer asks for more right away, and a broker answers one request of a connection after
    # the other: Spark's next question, for the ends, would wait for half a second in every task.
    "kafka.fetch.max.wait.ms": "20",
}
_REQUIRED = {_ISOLATION: _COMMITTED, "includeHeaders": "true", "failOnDataLoss": "true"}
_FREE = ("groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs")
_SPLITTING = ("minpartitions", "maxrecordsperpartition")


def build_source_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options of the source, but for topic and offsets.

    Spark takes names in any case, gives timestamps precedence over offsets, and passes over what it does not know: so
    only what is known to be harmless may be given.

    Raises:
        UsageError: an option would change which records are copied, or is not known.
    """
    free = {name.lower(): name for name in _FREE}
    chosen = dict(_DEFAULTS)
    for name, value in given.items():
        low = name.lower()
        if low.startswith("kafka."):
            # Every setting of Kafka is in small letters.
            chosen[low] = value
        elif low in free:
            chosen[free[low]] = value
        else:
            raise _refuse(name)
    if chosen.get(_ISOLATION, _COMMITTED) != _COMMITTED:
        raise UsageError(
            f"a copy can't be read with {_ISOLATION}={chosen[_ISOLATION]}",
            cause="records of transactions that were taken back would be copied, and nothing would tell them apart",
            hint="leave it out",
        )
    return {**chosen, **_REQUIRED}


def _refuse(name: str) -> UsageError:
    cause = "the plan says which records are read, and Spark would pass over an option that it does not know"
    if name.lower() in _SPLITTING:
        cause = "it would split a source partition, and each must be read by one task to be written once and in order"
    return UsageError(
        f"a copy takes no source option {name}", cause=cause, hint=f"it takes kafka.* and {', '.join(_FREE)}"
    )
