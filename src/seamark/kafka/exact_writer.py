"""Writing records where they must lie: one after the other, each to the partition it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from seamark.core.deadline import check_deadline, limit_timeout, read_clock
from seamark.errors import DeadlineError, SeamarkError, UnknownOutcomeError
from seamark.kafka.outcomes import build_no_answer, build_write_failure
from seamark.kafka.produce import Delivery, Outgoing
from seamark.kafka.records_held import HeldRecord


class ExactWriter(Delivery):
    """Writes records in their order, each acknowledged by all in-sync replicas before the next is sent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, records: Sequence[Outgoing], *, until: float | None = None) -> None:
        """Write them. None is begun after `until`, a time of `read_clock`: a process that was stopped may be fenced.

        The first one is not begun after the deadline of the request either.

        Raises:
            UnknownOutcomeError: some may be there.
            SeamarkError: none is.
        """
        for number, record in enumerate(records):
            action = f"write record {number + 1} of {len(records)} to {record.topic}-{record.partition}"
            if until is not None and read_clock() > until:
                raise _build_late(number, len(records), record.topic)
            if number == 0:
                check_deadline(action)
            error, message = self.deliver(record)
            if error is None and message is not None:
                continue
            failure = (
                build_no_answer(action=action, subject=record.topic, seconds=self._timeout_seconds)
                if error is None
                else build_write_failure(
                    error, action=action, subject=record.topic, operation="WRITE", last_event=self._events.last
                )
            )
            if number == 0 or isinstance(failure, UnknownOutcomeError):
                raise failure
            raise UnknownOutcomeError(
                f"{number} of {len(records)} records were written, the next was not",
                cause=f"{failure.message}: {failure.cause}",
                hint=failure.hint,
                context={"topic": record.topic},
            )


def write_records(
    config: Mapping[str, str], records: Sequence[HeldRecord], *, timeout_seconds: float, until: float | None = None
) -> None:
    """Write records of an offsets topic, to the byte, by a writer of their own; none is begun after `until`."""
    outgoing = [Outgoing(one.topic, key=one.key, value=one.value, partition=one.partition) for one in records]
    # The producer sends a record at any time until its timeout.
    timeout_seconds = limit_timeout(timeout_seconds, action="write records of an offsets topic")
    with ExactWriter(config, timeout_seconds=timeout_seconds) as writer:
        writer.write(outgoing, until=until)


def _build_late(written: int, count: int, topic: str) -> SeamarkError:
    kind = UnknownOutcomeError if written else DeadlineError
    return kind(
        f"{written} of {count} records were written, and there was no time left for the next",
        cause="the brokers are slow, or this process was stopped for a while",
        hint="a context with a longer in_flight has more time",
        context={"topic": topic},
    )
