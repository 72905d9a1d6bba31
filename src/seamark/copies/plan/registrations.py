"""The plans of copies in the control topic: written whole or not at all, and by one driver of a plan at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from seamark.copies.plan.copy_registration import (
    PARTITION,
    Registered,
    Registration,
    build_transactional_id,
    decode_registrations,
    encode_registration,
)
from seamark.errors import FencedError, JournalError, NotFoundError, SeamarkError
from seamark.kafka.log import PartitionLog
from seamark.kafka.produce import Outgoing
from seamark.kafka.topics import TopicAdmin
from seamark.kafka.transaction import TransactionalWriter
from seamark.kafka_sink.control_topic import ensure_control_topic

# As long as a task of a copy may keep a transaction open on the control topic, and the brokers' next look after it.
PATIENCE_SECONDS = 330.0


def read_registered(config: Mapping[str, str], topic: str, *, patience_seconds: float = PATIENCE_SECONDS) -> Registered:
    """Every plan of the control topic; none where there is no such topic.

    What was acknowledged before this call is seen: it waits for transactions that are open before the end.
    """
    try:
        with PartitionLog(config, topic, partition=PARTITION, patience_seconds=patience_seconds) as log:
            records = ((record.key, record.value) for record in log.read() if record.key is not None)
            return decode_registrations(records, place=f"{topic}-{PARTITION}")
    except NotFoundError:
        return Registered()


class RegistryHold:
    """The one driver of a plan that may register it. Whoever holds it next fences this one."""

    def __init__(
        self,
        config: Mapping[str, str],
        topic: str,
        *,
        plan: str,
        build_producer: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        self._config = config
        self._topic = topic
        self._plan = plan
        with TopicAdmin(config) as admin:
            ensure_control_topic(admin, topic)
        self._writer = TransactionalWriter(
            config, transactional_id=build_transactional_id(plan), build_producer=build_producer
        )
        self._call(self._take)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self) -> Registration | None:
        """The newest generation of the plan; what the former holder has written is seen."""
        registered = read_registered(self._config, self._topic)
        if self._plan in registered.failures:
            raise registered.failures[self._plan]
        return registered.found.get(self._plan)

    def write(self, registration: Registration, *, former: Registration | None) -> Registration:
        """Write the next generation, in one transaction, in place of the former one; it has then its pieces."""
        pairs = encode_registration(registration, before=former.pieces if former else 0)
        records = [Outgoing(self._topic, key, value, partition=PARTITION) for key, value in pairs]
        self._call(lambda: self._writer.write(records))
        return replace(registration, pieces=sum(value is not None for _, value in pairs))

    def close(self) -> None:
        """Let go of the connections. The id stays taken until somebody else takes it."""
        self._writer.close()

    def _take(self) -> None:
        self._writer.connect([self._topic])
        self._writer.take()

    def _call(self, act: Callable[[], None]) -> None:
        try:
            act()
        except FencedError as error:
            raise FencedError(
                f"somebody else has begun to run the copy {self._plan}",
                cause=error.cause,
                hint=f"let one of the two run: seamark copy status {self._plan} says how far it is",
                context=error.context,
            ) from None
        except JournalError as error:
            raise SeamarkError(
                f"the plan {self._plan} could not be registered in {self._topic}",
                cause=f"{error.message}: {error.cause}",
                hint=f"{error.hint}; then run it again",
                context=error.context,
            ) from None
