"""The logs that a copy looks into, by the clients of a context."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from seamark.copies.plan.copy_registration import Registered
from seamark.copies.plan.ports import Hold, Sample
from seamark.errors import NotFoundError
from seamark.kafka_sink.control import ControlReading, ControlRecord

# Whoever only looks is not kept waiting for what a dead task left open.
_LOOK_SECONDS = 20.0


class KafkaLogs:
    """Over librdkafka. `build_config` gives the client's settings, with their secrets, when they are needed."""

    def __init__(self, build_config: Callable[[], dict[str, str]]) -> None:
        self._build_config = build_config

    def read_known_configs(self, topic: str) -> frozenset[str]:
        """The names of all configs that the brokers know for a topic."""
        from seamark.kafka.topics import TopicAdmin  # noqa: PLC0415

        with TopicAdmin(self._build_config()) as admin:
            found = admin.read_found([topic]).get(topic)
        return frozenset(found.configs) if found else frozenset()

    def read_samples(self, topic: str, *, ranges: Mapping[int, tuple[int, int]], most: int) -> Iterable[Sample]:
        """Keys of old and new records of each partition."""
        from seamark.kafka.key_samples import read_key_samples  # noqa: PLC0415

        return read_key_samples(self._build_config(), topic, ranges=ranges, most=most)

    def read_registered(self, control_topic: str) -> Registered:
        """The plans that were run."""
        from seamark.copies.plan.registrations import read_registered  # noqa: PLC0415

        return read_registered(self._build_config(), control_topic, patience_seconds=_LOOK_SECONDS)

    def hold(self, control_topic: str, *, plan: str) -> Hold:
        """Take the registration of a plan."""
        from seamark.copies.plan.registrations import RegistryHold  # noqa: PLC0415

        return RegistryHold(self._build_config(), control_topic, plan=plan)

    def read_records(self, control_topic: str, *, jobs: Collection[str]) -> Mapping[str, tuple[ControlRecord, ...]]:
        """The control records of jobs: all that were acknowledged before. It waits for transactions that are open."""
        from seamark.copies.plan.registrations import PATIENCE_SECONDS  # noqa: PLC0415
        from seamark.kafka_sink.control_scan import require_whole  # noqa: PLC0415

        read = self._scan(control_topic, jobs, patience_seconds=PATIENCE_SECONDS)
        return require_whole(read, control_topic, patience_seconds=PATIENCE_SECONDS).records

    def look_at_records(self, control_topic: str, *, jobs: Collection[str]) -> ControlReading:
        """The control records of jobs, as far as they are committed now."""
        return self._scan(control_topic, jobs, patience_seconds=_LOOK_SECONDS)

    def _scan(self, control_topic: str, jobs: Collection[str], *, patience_seconds: float) -> ControlReading:
        from seamark.kafka_sink.control_scan import scan_control  # noqa: PLC0415

        try:
            return scan_control(self._build_config(), control_topic, jobs=jobs, patience_seconds=patience_seconds)
        except NotFoundError:
            return ControlReading(dict.fromkeys(jobs, ()))
