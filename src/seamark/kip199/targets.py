"""Which records of a store a wanted pair is written over, and what that changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from seamark.core.offset import Offset, OffsetMap, spell_identity, spell_offset
from seamark.errors import RefusedError
from seamark.offsets.codec.codec import encode_key, encode_rest_key, encode_value
from seamark.offsets.stored_offset import Evidence, StoredOffset, StoreReading
from seamark.offsets.stores.grouping import is_task_key


@dataclass(frozen=True, slots=True)
class PairChange:
    """What an import does to one partition of a connector. `after` is None where its offset is taken away."""

    connector: str
    partition: OffsetMap
    before: OffsetMap | None
    after: OffsetMap | None

    @property
    def is_needed(self) -> bool:
        """Whether it changes anything."""
        return spell_offset(self.before) != spell_offset(self.after)

    def describe(self) -> str:
        """One line: `set orders {"table":"o"}: {"seq":2} -> {"seq":1}`."""
        name = f"{self.connector} {spell_identity(self.partition)}"
        before, after = spell_offset(self.before), spell_offset(self.after)
        if not self.is_needed:
            return f"keep {name}: {after or 'nothing is held'}"
        if after is None:
            return f"remove {name}: {before}"
        return f"set {name}: {before or 'nothing'} -> {after}"


@dataclass(frozen=True, slots=True)
class Target:
    """A needed change with the keys that it is written to: each with its place in a topic, None in a file or where new.

    `is_guessed`: nobody has written the key yet, and a task may spell it otherwise.
    """

    pair: PairChange
    keys: tuple[tuple[int | None, bytes], ...]
    is_guessed: bool = False

    @property
    def value(self) -> bytes | None:
        """The bytes that are written; None for no offset."""
        return encode_value(self.pair.after)


def build_targets(
    reading: StoreReading, wanted: Mapping[str, Sequence[Offset]]
) -> tuple[list[PairChange], list[Target]]:
    """Every pair, and those that change with their keys.

    Raises:
        RefusedError: several records speak of one partition and differ, so that nobody can tell which one counts.
    """
    held = {(one.key.connector, one.key.identity): one for one in (*reading.offsets, *reading.forgotten)}
    pairs, targets, doubts = [], [], []
    for connector, offsets in wanted.items():
        for one in offsets:
            stored = held.get((connector, spell_identity(one.partition)))
            pair = PairChange(connector, one.partition, None if stored is None else stored.offset, one.offset)
            pairs.append(pair)
            doubt = _find_doubt(stored)
            if doubt:
                doubts.append(f"{connector} {spell_identity(one.partition)} {doubt}")
            elif pair.is_needed:
                targets.append(_build_target(pair, stored))
    if doubts:
        raise RefusedError(
            f"nobody can tell which record of {reading.store} holds an offset; nothing was changed",
            cause="; ".join(doubts),
            hint="connect-offsets --export says what is odd; seamark offsets mend puts it right",
        )
    return pairs, targets


def build_notes(targets: Sequence[Target]) -> list[str]:
    """What is to be said of keys that nobody has written before."""
    guessed = [one for one in targets if one.is_guessed]
    return [
        f"{one.pair.connector} {spell_identity(one.pair.partition)}: nobody has written this key yet; its fields "
        "stand in the order of your file, and a task that orders them otherwise does not find it"
        for one in guessed
    ]


def _build_target(pair: PairChange, stored: StoredOffset | None) -> Target:
    found = tuple((one.partition, one.key) for one in _find_read(stored) if one.key is not None)
    if found:
        return Target(pair, found)
    key = encode_key(pair.connector, pair.partition)
    return Target(pair, ((None, key),), is_guessed=key != encode_rest_key(pair.connector, pair.partition))


def _find_read(stored: StoredOffset | None) -> Iterator[Evidence]:
    """The records that a task may read. What no task spells so stays as it is."""
    if stored is not None:
        yield from (one for one in (stored.evidence, *stored.others) if is_task_key(one.key))


def _find_doubt(stored: StoredOffset | None) -> str:
    if stored is None:
        return ""
    if not stored.is_certain:
        return f"is in several records that differ: {', '.join(one.place for one in (stored.evidence, *stored.others))}"
    if not any(_find_read(stored)):
        return f"is in {stored.evidence.place} alone, under a key that no task spells so: it is never read"
    return ""
