"""Writing records where they must lie: one after the other, each to the partition it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from seamark.errors import UnknownOutcomeError
from seamark.kafka.outcomes import build_no_answer, build_write_failure
from seamark.kafka.produce import DEFAULT_TIMEOUT_SECONDS, Outgoing, deliver, open_producer
from seamark.kafka.wait import ConnectionEvents


class ExactWriter:
    """Writes records in their order, each acknowledged by all in-sync replicas before the next is sent."""

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        build_producer: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._events = ConnectionEvents()
        self._producer = open_producer(
            config, timeout_seconds=timeout_seconds, build=build_producer, on_error=self._events.record
        )

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
            error, message = deliver(self._producer, record, seconds=self._timeout_seconds + 1)
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

    def close(self) -> None:
        """Let go of the connections."""
        self._producer.purge(blocking=False)
        self._producer = None
