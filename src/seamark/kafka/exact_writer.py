"""Writing records where they must lie: one after the other, each to the partition it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from seamark.errors import UnknownOutcomeError
from seamark.kafka.outcomes import build_no_answer, build_write_failure
from seamark.kafka.produce import Delivery, Outgoing
from seamark.model.held_offset import HeldRecord


class ExactWriter(Delivery):
    """Writes records in their order, each acknowledged by all in-sync replicas before the next is sent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, records: Sequence[Outgoing]) -> None:
        """Write them.

        Raises:
            UnknownOutcomeError: some may be there.
            SeamarkError: none is.
        """
        for number, record in enumerate(records):
            action = f"write record {number + 1} of {len(records)} to {record.topic}-{record.partition}"
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


def write_records(config: Mapping[str, str], records: Sequence[HeldRecord], *, timeout_seconds: float) -> None:
    """Write records of an offsets topic, to the byte, by a writer of their own."""
    with ExactWriter(config, timeout_seconds=timeout_seconds) as writer:
        writer.write([Outgoing(one.topic, key=one.key, value=one.value, partition=one.partition) for one in records])
