"""Read one connector's offsets if the stores can't be read: the answers of two workers, if they agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seamark.changes.effect import Preview
from seamark.connect.model import Connector, State
from seamark.core.offsets import Offset, OffsetMap, spell_identity, spell_offset
from seamark.errors import DeadlineError, RefusedError, SeamarkError, UnreachableError, UnsupportedError
from seamark.kafka.groups import GroupStatus
from seamark.kafka.model import HeldRecord
from seamark.offsets.model import CompletedOffsets, CurrentOffset, OffsetWrite, TopicHolding
from seamark.offsets.read.connector import ConnectorAccess

if TYPE_CHECKING:
    from seamark.changes.environment import Clock
    from seamark.connect.api import ConnectPort
    from seamark.context import ConnectSettings, Context
    from seamark.kafka.api import BrokersPort

# A worker reads its topic to the end before it responds; one that lags or rebalances is up to date in some seconds.
_AGREE_SECONDS = 15.0
_PAUSE_SECONDS = 1.0
_MIN_ANSWERS = 2

REST_NOTES = (
    "offsets are read and verified through REST, where two workers must agree; topics and groups are not read",
    "the journal stores previous offsets as JSON, not as bytes; seamark does not check that a sink's group is empty",
)
"""Notes of a plan in which everything goes through REST."""
_ONE_WORKER = "the context has one worker URL, so seamark can't cross-check its answer: add another one to urls"

_OWN_JOURNAL = "the journal is in local files: its locks don't exclude processes on other machines"


def build_rest_mode_notes(context: Context, settings: ConnectSettings) -> tuple[str, ...]:
    """Return what can't be determined through REST alone; empty if the stores are read."""
    if context.verify != "rest":
        return ()
    alone = (_ONE_WORKER,) if len(settings.urls) < _MIN_ANSWERS else ()
    return (*REST_NOTES, *alone, *(() if context.has_brokers else (_OWN_JOURNAL,)))


class RestOffsets(ConnectorAccess):
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
        super().__init__(name, context=context, client=client, settings=settings, kept=kept)
        self._clock = clock

    def read(self, partitions: Sequence[OffsetMap]) -> tuple[CurrentOffset, ...]:
        """Read these partitions from two workers, in the given order."""
        known = {spell_identity(one.partition): one for one in self._read_agreed()}
        return tuple(_build_held(partition, known.get(spell_identity(partition))) for partition in partitions)

    def read_all(self) -> tuple[CurrentOffset, ...]:
        """Read all partitions that two workers list."""
        return tuple(_build_held(one.partition, one) for one in self._read_agreed())

    def write(self, records: Sequence[HeldRecord], *, into: str = "") -> None:
        """Raise, because the topic can't be reached."""
        del records, into
        raise self._build_refusal("its offsets can't be written to the topic")

    def commit(self, offsets: Sequence[Offset]) -> None:
        """Raise, because the group can't be reached."""
        del offsets
        raise self._build_refusal("its offsets can't be committed to its group")

    def complete(self, held: Sequence[CurrentOffset]) -> CompletedOffsets:
        """Raise, because the encoding of the keys in the topic is unknown."""
        del held
        raise self._build_refusal("its offsets can't be written to the topic")

    def find_holders(self) -> Sequence[str]:
        """Raise, because the worker group can't be reached."""
        raise self._build_refusal("the workers that run it are unknown")

    def read_members(self) -> GroupStatus | None:
        """Return None, because members are unknown. Connect itself rejects offset changes for a group with members."""
        return None

    def preview(self, offsets: Sequence[Offset]) -> tuple[Preview, ...]:
        """Return what changes if these offsets replace the stored ones."""
        from seamark.offsets.read.preview import PreviewCounter  # noqa: PLC0415

        connector = self._read_connector()
        counter = PreviewCounter(
            self._context,
            meaning=self._find_meaning(connector),
            config=connector.config,
            brokers=self._refuse_brokers,
        )
        return counter.count(self.read([found.partition for found in offsets]), offsets)

    def read_topic(self, topic: str) -> TopicHolding:
        """Raise, because the topic can't be reached."""
        raise self._build_refusal(f"topic {topic} can't be read")

    def read_writes(self, partitions: Sequence[OffsetMap]) -> tuple[tuple[OffsetWrite, ...], ...]:
        """Return the current offset of each partition: REST has no history."""
        return tuple(() if one.offset is None else (OffsetWrite(one.offset),) for one in self.read(partitions))

    def find_silent(self, workers: Sequence[str]) -> tuple[str, ...]:
        """Return the workers that do not respond. With exactly-once, Connect itself fences those that come back."""
        return () if self._settings.exactly_once else self._client.find_silent(workers)

    def _read_agreed(self) -> tuple[Offset, ...]:
        """Read offsets from two workers. While the connector runs the later answer wins; then they must agree."""
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
        """Ask two workers and return their answers by URL. A context with one URL has only one answer."""
        said: dict[str, tuple[Offset, ...]] = {}
        failures: list[SeamarkError] = []
        for url in self._settings.urls:
            try:
                said[url] = self._client.read_offsets(self._name, url)
            except (UnreachableError, DeadlineError) as error:
                failures.append(error)
            if len(said) == _MIN_ANSWERS:
                break
        needed = min(_MIN_ANSWERS, len(self._settings.urls))
        if len(said) < needed:
            raise UnreachableError(
                f"only {len(said)} of {needed} workers returned the offsets of {self._settings.name}/{self._name}",
                cause="; ".join(error.message for error in failures),
                hint="check the workers with seamark workers list, or add more of them to urls of the context",
                context={"cluster": self._settings.name},
            )
        return said

    def _is_stopped(self) -> bool:
        return self._client.read_status(self._name).state is State.STOPPED

    def _refuse_brokers(self) -> BrokersPort:
        raise UnsupportedError("the context uses REST only, so the start and end of the log are unknown")

    def _build_refusal(self, why: str) -> SeamarkError:
        return RefusedError(
            f"{self._settings.name}/{self._name}: {why}; no changes were made",
            cause="the context uses REST only (offset_verification: rest)",
            hint="set kafka.bootstrap.servers, offsets_topic and offset_verification: store in the context",
        )


def _build_held(partition: OffsetMap, found: Offset | None) -> CurrentOffset:
    """Build a stored offset. REST lists it without a value if it does not look up that key encoding."""
    ambiguity = ""
    if found is not None and found.offset is None:
        ambiguity = f"{spell_identity(partition)} has no offset in REST: REST does not find its record"
    return CurrentOffset(partition, None if found is None else found.offset, ambiguity=ambiguity)


def _build_spellings(offsets: Sequence[Offset]) -> frozenset[tuple[str, str | None]]:
    return frozenset((spell_identity(one.partition), spell_offset(one.offset)) for one in offsets)


def _build_worker_disagreement(cluster: str, name: str, said: dict[str, tuple[Offset, ...]]) -> SeamarkError:
    (one, first), (other, second) = said.items()
    differing = _build_spellings(first) ^ _build_spellings(second)
    where = sorted({partition for partition, _ in differing})
    return RefusedError(
        f"two workers returned different offsets of {cluster}/{name}; no changes were made",
        cause=f"{one} and {other} differed in {', '.join(where[:5])} for {_AGREE_SECONDS:g} s",
        hint="check whether one of them hangs or belongs to another Connect cluster: seamark workers list",
    )
