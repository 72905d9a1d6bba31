"""Writing single records, outside of any transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from seamark.core.secrets import mask_text
from seamark.errors import JournalError
from seamark.kafka.clients import ConnectionEvents, hear_fatal_errors, open_client
from seamark.kafka.log import Clocks

# A broker that dies is missed after its session (9 s) and an election; one lost broker costs time and nothing else.
DEFAULT_TIMEOUT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to be written to one partition. Without `timestamp_ms` it gets the time of its writing."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 0
    partition: int = 0


class Delivery:
    """A producer whose records are acknowledged by all in-sync replicas, each once; the base of those who write."""

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        build_producer: Callable[[dict[str, Any]], Any] | None = None,
        clocks: Clocks | None = None,
    ) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415

        self._timeout_seconds = timeout_seconds
        self._events = ConnectionEvents()
        self._clocks = clocks or Clocks()
        ours = {
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "message.timeout.ms": int(timeout_seconds * 1000),
            "reconnect.backoff.max.ms": 1000,
        }
        self._producer = open_client(config, ours, build=build_producer or Producer, on_error=self._events.record)

    def deliver(self, record: Outgoing) -> tuple[Any, Any]:
        """Write one record and wait for its report: the error and the message, both None where no report came."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        reports: list[tuple[Any, Any]] = []
        deadline = self._clocks.now() + self._timeout_seconds + 1
        try:
            with hear_fatal_errors():
                produce(self._producer, record, on_delivery=lambda error, message: reports.append((error, message)))
                while not reports and self._clocks.now() < deadline:
                    self._producer.poll(0.05)
        except KafkaException as failure:
            reports.append((failure.args[0], None))
        return reports[0] if reports else (None, None)

    def close(self) -> None:
        """Let go of the connections; what was not written is not written any more."""
        self._producer.purge(blocking=False)
        self._producer = None


class RecordWriter(Delivery):
    """Writes one record at a time, or raises."""

    def write(self, record: Outgoing) -> int:
        """Write one record; give its offset."""
        error, message = self.deliver(record)
        if message is None or error is not None:
            last = error or self._events.last
            raise JournalError(
                f"could not write to the topic {record.topic}",
                cause=mask_text(last.str()) if last else f"no answer within {self._timeout_seconds:g} s",
                hint=f"check that the brokers run, and that this principal has WRITE on the topic {record.topic}",
                context={"topic": record.topic, "kafka_error": last.name() if last else ""},
            )
        return int(message.offset())


def produce(producer: Any, record: Outgoing, *, on_delivery: Callable[[Any, Any], None] | None = None) -> None:
    """Hand a record to librdkafka."""
    extra: dict[str, Any] = {"timestamp": record.timestamp_ms} if record.timestamp_ms else {}
    if on_delivery is not None:
        extra["on_delivery"] = on_delivery
    producer.produce(
        record.topic,
        key=record.key,
        value=record.value,
        headers=list(record.headers),
        partition=record.partition,
        **extra,
    )
