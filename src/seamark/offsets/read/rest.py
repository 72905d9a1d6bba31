"""One connector's offsets where nobody can look into the stores: what two workers say, if they agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seamark.changes.effect import Preview
from seamark.connect.model import Connector, State
from seamark.core.offsets import Offset, OffsetMap, Order, spell_identity, spell_offset
from seamark.errors import DeadlineError, RefusedError, SeamarkError, UnreachableError, UnsupportedError
from seamark.kafka.groups import GroupStatus
from seamark.kafka.model import HeldRecord
from seamark.offsets.model import CompletedOffsets, CurrentOffset, OffsetWrite, TopicHolding
from seamark.offsets.semantics.registry import read_meaning

if TYPE_CHECKING:
    from seamark.changes.environment import Clock
    from seamark.connect.api import ConnectPort
    from seamark.context import ConnectSettings, Context
    from seamark.kafka.api import BrokersPort
    from seamark.offsets.semantics import OffsetSemantics

# A worker reads its topic to the end before it answers; one whose reader lags or rebalances is there in some seconds.
_AGREE_SECONDS = 15.0
_PAUSE_SECONDS = 1.0
_WITNESSES = 2

REST_NOTES = (
    "offsets are read and verified through REST, where two workers must agree; nobody looks into topics or groups",
    "the journal keeps what was held as JSON, not to the byte; that a sink's group is empty is left to Connect",
)
"""What the reader of a plan must know where everything goes through REST."""
_ONE_WORKER = "the context names one worker, so that one's word is all there is: name another one under urls"

_OWN_JOURNAL = "the journal is in files of this machine: its locks keep out nobody who works elsewhere"


def build_rest_mode_notes(context: Context, settings: ConnectSettings) -> tuple[str, ...]:
    """What can't be known through REST alone; nothing where the stores are looked into."""
    if context.verify != "rest":
        return ()
    alone = (_ONE_WORKER,) if len(settings.urls) < _WITNESSES else ()
    return (*REST_NOTES, *alone, *(() if context.has_brokers else (_OWN_JOURNAL,)))


class RestOffsets:
    """An `OffsetPort` over Connect's REST API alone."""

    def __init__(
        self,
        name: str,
        *,
        context: Context,
        client: ConnectPort,
        settings: ConnectSettings,
        clock: Clock,
        kept: Connector | None = None,
    ) -> None:
        """With `kept`, Connect is not asked what the connector is."""
        self._name = name
        self._kept = kept
        self._context = context
        self._client = client
        self._settings = settings
        self._clock = clock

    def read(self, partitions: Sequence[OffsetMap]) -> tuple[CurrentOffset, ...]:
        """What two workers say of these partitions, in their order."""
        known = {spell_identity(one.partition): one for one in self._read_agreed()}
        return tuple(_build_held(partition, known.get(spell_identity(partition))) for partition in partitions)

    def read_all(self) -> tuple[CurrentOffset, ...]:
        """Everything that two workers name."""
        return tuple(_build_held(one.partition, one) for one in self._read_agreed())

    def alter(self, offsets: Sequence[Offset]) -> object:
        """Have Connect write them."""
        return self._client.patch_offsets(self._name, offsets)

    def write(self, records: Sequence[HeldRecord], *, into: str = "") -> None:
        """Refused: the topic is out of reach."""
        del records, into
        raise self._build_refusal("its offsets can't be written to the topic")

    def commit(self, offsets: Sequence[Offset]) -> None:
        """Refused: the group is out of reach."""
        del offsets
        raise self._build_refusal("its offsets can't be committed to its group")

    def complete(self, held: Sequence[CurrentOffset]) -> CompletedOffsets:
        """Refused: nobody knows how the keys in the topic are spelled."""
        del held
        raise self._build_refusal("its offsets can't be written to the topic")

    def find_holders(self) -> Sequence[str]:
        """Refused: the workers' own group is out of reach."""
        raise self._build_refusal("nobody can tell which workers hold it")

    def read_members(self) -> GroupStatus | None:
        """Nobody tells. Connect itself refuses to change the offsets of a group with members."""
        return None

    def preview(self, offsets: Sequence[Offset]) -> tuple[Preview, ...]:
        """What it comes to if these offsets take the place of those that are held now."""
        from seamark.offsets.write.preview import PreviewCounter  # noqa: PLC0415

        connector = self._read_connector()
        counter = PreviewCounter(
            self._context,
            meaning=self._find_meaning(connector),
            config=connector.config,
            brokers=self._refuse_brokers,
        )
        return counter.count(self.read([found.partition for found in offsets]), offsets)

    def read_topic(self, topic: str) -> TopicHolding:
        """Refused: the topic is out of reach."""
        raise self._build_refusal(f"nobody can look into topic {topic}")

    def read_writes(self, partitions: Sequence[OffsetMap]) -> tuple[tuple[OffsetWrite, ...], ...]:
        """Of each partition what is held now: REST knows nothing older."""
        return tuple(() if one.offset is None else (OffsetWrite(one.offset),) for one in self.read(partitions))

    def compare(self, left: OffsetMap | None, right: OffsetMap | None) -> Order:
        """Where one position lies, seen from another of the same partition."""
        return self._find_meaning(self._read_connector()).compare(left, right)

    def describe(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[str, str]:
        """Partition and offset, each in a few words."""
        return self._find_meaning(self._read_connector()).describe(partition, offset)

    def find_silent(self, workers: Sequence[str]) -> tuple[str, ...]:
        """The workers that do not answer. With exactly-once Connect itself fences those that come back."""
        return () if self._settings.exactly_once else self._client.find_silent(workers)

    def _read_agreed(self) -> tuple[Offset, ...]:
        """What two workers say. While it runs, the later one is the newer; once it is stopped they must agree."""
        deadline = self._clock.now() + _AGREE_SECONDS
        while True:
            said = self._ask()
            last = next(reversed(said.values()))
            if len({_build_spellings(one) for one in said.values()}) == 1 or not self._is_stopped():
                return last
            if self._clock.now() >= deadline:
                raise _build_worker_disagreement(self._settings.name, self._name, said)
            self._clock.sleep(_PAUSE_SECONDS)

    def _ask(self) -> dict[str, tuple[Offset, ...]]:
        """The word of two workers, by their URLs. A context with one URL has only that one's."""
        said: dict[str, tuple[Offset, ...]] = {}
        failures: list[SeamarkError] = []
        for url in self._settings.urls:
            try:
                said[url] = self._client.read_offsets(self._name, url)
            except (UnreachableError, DeadlineError) as error:
                failures.append(error)
            if len(said) == _WITNESSES:
                break
        needed = min(_WITNESSES, len(self._settings.urls))
        if len(said) < needed:
            raise UnreachableError(
                f"{len(said)} of {needed} workers say what {self._settings.name}/{self._name} holds: they must agree",
                cause="; ".join(error.message for error in failures),
                hint="seamark workers list says who is up; the context may name more of them under urls",
                context={"cluster": self._settings.name},
            )
        return said

    def _is_stopped(self) -> bool:
        return self._client.read_status(self._name).state is State.STOPPED

    def _read_connector(self) -> Connector:
        return self._kept or self._client.read_connector(self._name)

    def _find_meaning(self, connector: Connector) -> OffsetSemantics:
        return read_meaning(connector, self._client)

    def _refuse_brokers(self) -> BrokersPort:
        raise UnsupportedError("the context goes through REST alone, so nobody tells where the log begins and ends")

    def _build_refusal(self, why: str) -> SeamarkError:
        return RefusedError(
            f"{self._settings.name}/{self._name}: {why}; nothing was changed",
            cause="the context goes through REST alone (verify: rest)",
            hint="give the context kafka.bootstrap.servers and offsets_topic, and verify: store",
        )


def _build_held(partition: OffsetMap, found: Offset | None) -> CurrentOffset:
    """REST names a partition without an offset where the key in the topic is spelled in a way it does not look up."""
    ambiguity = ""
    if found is not None and found.offset is None:
        ambiguity = (
            f"{spell_identity(partition)} is named without an offset: REST does not reach the record that holds it"
        )
    return CurrentOffset(partition, None if found is None else found.offset, ambiguity=ambiguity)


def _build_spellings(offsets: Sequence[Offset]) -> frozenset[tuple[str, str | None]]:
    return frozenset((spell_identity(one.partition), spell_offset(one.offset)) for one in offsets)


def _build_worker_disagreement(cluster: str, name: str, said: dict[str, tuple[Offset, ...]]) -> SeamarkError:
    (one, first), (other, second) = said.items()
    differing = _build_spellings(first) ^ _build_spellings(second)
    where = sorted({partition for partition, _ in differing})
    return RefusedError(
        f"two workers say different things of the offsets of {cluster}/{name}; nothing was changed",
        cause=f"{one} and {other} differ on {', '.join(where[:5])}, {_AGREE_SECONDS:g} s long",
        hint="one of them may hang or belong to another cluster: seamark workers list",
    )
