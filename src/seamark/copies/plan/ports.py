"""What a copy needs of the brokers beyond what everybody does: samples, all configs, the control topic."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from seamark.copies.plan.copy_registration import Registered, Registration
from seamark.kafka_sink.control import ControlReading, ControlRecord

Sample = tuple[int, bytes | None]


class Hold(Protocol):
    """The registration of one plan, held by one driver. `seamark.copies.plan.registrations.RegistryHold` is it."""

    def read(self) -> Registration | None:
        """The newest generation."""

    def write(self, registration: Registration, *, former: Registration | None) -> Registration:
        """Write the next one, and give it with the number of its pieces."""

    def close(self) -> None:
        """Let go of it."""


class CopyLogs(Protocol):
    """The logs that a copy looks into. `seamark.copies.plan.logs.KafkaLogs` is the real one."""

    def read_known_configs(self, topic: str) -> frozenset[str]:
        """The names of all configs that the brokers know for a topic."""

    def read_samples(self, topic: str, *, ranges: Mapping[int, tuple[int, int]], most: int) -> Iterable[Sample]:
        """Keys of old and new records of each partition."""

    def read_registered(self, control_topic: str) -> Registered:
        """The plans that were run."""

    def hold(self, control_topic: str, *, plan: str) -> Hold:
        """Take the registration of a plan."""

    def read_records(self, control_topic: str, *, jobs: Collection[str]) -> Mapping[str, tuple[ControlRecord, ...]]:
        """The control records of jobs: all that were acknowledged before. It waits for transactions that are open."""

    def look_at_records(self, control_topic: str, *, jobs: Collection[str]) -> ControlReading:
        """The control records of jobs, as far as they are committed now."""
