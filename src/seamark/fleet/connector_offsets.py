"""One connector's offsets, as the steps of a change see them: read from the stores, written by either route."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from seamark.errors import RefusedError, SeamarkError, UnknownOutcomeError
from seamark.fleet.lock_names import OWN_OFFSETS_TOPIC, find_group
from seamark.fleet.override_config import build_override_config
from seamark.model.connector import Connector, ConnectorType
from seamark.model.group import GroupStatus
from seamark.model.held_offset import HeldOffset, HeldRecord
from seamark.model.offset import Offset, OffsetMap, spell_identity
from seamark.model.preview import Preview
from seamark.model.stored_offset import Evidence, StoredOffset, StoreReading

if TYPE_CHECKING:
    from seamark.context import ConnectSettings, Context
    from seamark.fleet.offset_stores import OffsetStores
    from seamark.fleet.ports import BrokersPort, ConnectPort

# As long as a step may send: half of `ChangeTiming.send_seconds`, which knows, as there may be two topics.
WRITE_SECONDS = 10.0
_PRODUCER = "producer.override."


class ConnectorOffsets:
    """An `OffsetPort` over the clients of one context."""

    def __init__(
        self,
        name: str,
        *,
        context: Context,
        client: ConnectPort,
        settings: ConnectSettings,
        stores: OffsetStores,
        brokers: Callable[[], BrokersPort],
        write_seconds: float = WRITE_SECONDS,
    ) -> None:
        self._name = name
        self._context = context
        self._write_seconds = write_seconds
        self._client = client
        self._settings = settings
        self._stores = stores
        self._brokers = brokers

    def read(self, partitions: Sequence[OffsetMap]) -> tuple[HeldOffset, ...]:
        """What the stores hold of these partitions, in their order."""
        places = self._stores.find(self._read_connector())
        first = _index(places.first.read([self._name]))
        second = _index(places.second.read([self._name])) if places.second is not None else {}
        return tuple(
            _build_held(partition, first.get(spell_identity(partition)), second.get(spell_identity(partition)))
            for partition in partitions
        )

    def read_all(self) -> tuple[HeldOffset, ...]:
        """Everything that is held and not forgotten."""
        places = self._stores.find(self._read_connector())
        first = places.first.read([self._name])
        second = _index(places.second.read([self._name])) if places.second is not None else {}
        return tuple(_build_held(found.key.partition, found, second.get(found.key.identity)) for found in first.offsets)

    def alter(self, offsets: Sequence[Offset]) -> object:
        """Have Connect write them."""
        return self._client.patch_offsets(self._name, offsets)

    def write(self, records: Sequence[HeldRecord]) -> None:
        """Write these records, each where it says, in this order."""
        connector = self._read_connector()
        own = connector.config.get(OWN_OFFSETS_TOPIC)
        elsewhere = build_override_config(connector.config, self._context, prefix=_PRODUCER, name=connector.owner)
        if elsewhere is not None and own == self._settings.offsets_topic:
            raise RefusedError(
                f"the offsets of {connector.owner} are in a topic {own} of another Kafka cluster, named like the "
                "workers' own; nothing was changed",
                hint="nobody could tell the records of the two apart",
            )
        written = 0
        for is_elsewhere, found in groupby(records, key=lambda one: elsewhere is not None and one.topic == own):
            batch = tuple(found)
            try:
                self._write(elsewhere if elsewhere is not None and is_elsewhere else self._kafka_config(), batch)
            except SeamarkError as error:
                raise (_build_half(error, written, len(records)) if written else error) from error
            written += len(batch)

    def _kafka_config(self) -> Mapping[str, str]:
        return self._context.kafka.client_config()

    def _write(self, config: Mapping[str, str], records: Sequence[HeldRecord]) -> None:
        from seamark.kafka.exact_writer import ExactWriter  # noqa: PLC0415
        from seamark.kafka.produce import Outgoing  # noqa: PLC0415

        with ExactWriter(config, timeout_seconds=self._write_seconds) as writer:
            writer.write(
                [Outgoing(one.topic, key=one.key, value=one.value, partition=one.partition) for one in records]
            )

    def read_members(self) -> GroupStatus | None:
        """The consumer group of a sink."""
        connector = self._read_connector()
        if connector.type is not ConnectorType.SINK:
            return None
        group = find_group(self._name, connector.config, self._settings)
        reading = self._brokers().read_groups([group])
        for error in reading.failures.values():
            raise error
        return reading.items[0] if reading.items else None

    def preview(self, offsets: Sequence[Offset]) -> tuple[Preview, ...]:
        """What it comes to if these offsets take the place of those that are held now."""
        from seamark.fleet.offset_meaning import read_meaning  # noqa: PLC0415
        from seamark.fleet.offset_preview import PreviewCounter  # noqa: PLC0415

        connector = self._read_connector()
        counter = PreviewCounter(
            self._context,
            meaning=read_meaning(connector, self._client),
            config=connector.config,
            brokers=lambda: self._stores.find_brokers(connector),
        )
        return counter.count(self.read([found.partition for found in offsets]), offsets)

    def find_silent(self, workers: Sequence[str]) -> tuple[str, ...]:
        """The workers that do not answer. With exactly-once Connect itself fences those that come back."""
        if self._settings.exactly_once or not workers:
            return ()
        return self._client.find_silent(workers)

    def _read_connector(self) -> Connector:
        connector = self._client.read_connector(self._name)
        if connector.type is ConnectorType.UNKNOWN:
            raise RefusedError(
                f"nobody can tell whether {connector.owner} is a source or a sink; nothing was changed",
                hint="its plugin may be missing on a worker: seamark connectors plugins",
            )
        return connector


def _build_half(error: SeamarkError, written: int, total: int) -> SeamarkError:
    if isinstance(error, UnknownOutcomeError):
        return error
    return UnknownOutcomeError(
        f"{written} of {total} records were written, the next was not",
        cause=f"{error.message}: {error.cause}",
        hint=error.hint,
    )


def _index(reading: StoreReading) -> Mapping[str, StoredOffset]:
    return {found.key.identity: found for found in (*reading.offsets, *reading.forgotten)}


def _build_held(partition: OffsetMap, first: StoredOffset | None, second: StoredOffset | None) -> HeldOffset:
    if first is None:
        return HeldOffset(partition, records=tuple(_build_records(second)))
    doubt = ""
    if not first.is_certain:
        places = ", ".join(found.place for found in (first.evidence, *first.others))
        doubt = f"{spell_identity(partition)} is in several records that differ: {places}"
    return HeldOffset(partition, first.offset, (*_build_records(first), *_build_records(second)), doubt)


def _build_records(stored: StoredOffset | None) -> Iterator[HeldRecord]:
    """The records of topics; files and groups have none."""
    for found in (stored.evidence, *stored.others) if stored is not None else ():
        if found.key is not None and found.partition is not None:
            yield HeldRecord(_find_topic(found), found.partition, found.key, found.value)


def _find_topic(evidence: Evidence) -> str:
    return evidence.store.removeprefix("topic ")
