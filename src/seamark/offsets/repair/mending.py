"""What the records of one partition will be when nothing about them is odd any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from seamark.core.offset import OffsetMap, spell_identity
from seamark.errors import RefusedError
from seamark.kafka.records_held import HeldRecord
from seamark.offsets.codec.codec import decode_key, encode_rest_key
from seamark.offsets.codec.verdicts import ValueVerdict
from seamark.offsets.stored_offset import Evidence, StoredOffset
from seamark.offsets.stores.grouping import Home, is_task_key

NEWEST = "newest"
"""Takes the record that was written last, where several differ."""

_READABLE = (ValueVerdict.GOOD, ValueVerdict.TOMBSTONE)


@dataclass(frozen=True, slots=True)
class MendRule:
    """Whose value one partition gets: that of the record which lies under `key` on partition `where` of the topic.

    It is read when it is written, not when the plan is made: a running task moves on until its stop. Unless somebody
    has `said` that it is this one, a record of the same key at home goes before it: that is where tasks write.
    """

    partition: OffsetMap
    where: int
    key: bytes
    said: bool = False

    @property
    def identity(self) -> str:
        """What tells the partition from others."""
        return spell_identity(self.partition)


def is_odd(stored: StoredOffset, home: Home) -> bool:
    """Whether there is anything to mend: several records, one away from home, or one that no task reads."""
    found = stored.evidence
    if stored.others or found.key is None:
        return bool(stored.others)
    return found.partition != home(found.key) or not is_task_key(found.key)


def choose_record(stored: StoredOffset, take: str = "") -> Evidence | None:
    """The record whose value counts; None where nobody can tell and nobody said.

    `take` says it, where they differ: `newest`, or a record's place.
    """
    every = (stored.evidence, *stored.others)
    readable = [found for found in every if found.value_verdict in _READABLE and found.key is not None]
    named = [found for found in readable if found.place == take]
    if named:
        return named[0]
    return stored.evidence if stored.evidence in readable and (stored.is_certain or take == NEWEST) else None


def settle_rule(rule: MendRule, home: Home) -> MendRule:
    """The rule for a look at what was mended: the value is now that at home, of a spelling that was kept."""
    key = rule.key if is_task_key(rule.key) else _spell_rest(rule)
    where = home(key)
    return MendRule(rule.partition, rule.where if where is None else where, key)


def build_mended(
    records: Sequence[HeldRecord],
    rule: MendRule,
    *,
    topic: str,
    home: Home,
    settled: bool = False,
) -> tuple[HeldRecord, ...]:
    """What will be, of all that lies there of one partition: the copies on other partitions first.

    Every spelling that a task may look for, and every copy of it, gets the same value. Keys that no task spells so stay
    as they are. `settled` is for a look afterwards: no record is no value.
    """
    held = {(record.partition, record.key): record.value for record in records}
    value = held.get((rule.where, rule.key)) if settled else _find_value(held, rule, home)
    wanted: dict[tuple[int, bytes], bytes | None] = {}
    kept = _find_kept(held, rule)
    for key in kept:
        place = home(key)
        if place is not None:
            wanted[place, key] = value
    rest = [place for place in held if place not in wanted]
    copies = [HeldRecord(topic, where, key, value) for where, key in rest if key in kept]
    homes = [HeldRecord(topic, where, key, found) for (where, key), found in wanted.items()]
    return (*copies, *homes)


def find_records(records: Iterable[HeldRecord], rule: MendRule) -> list[HeldRecord]:
    """Those of a connector's records that speak of the partition of a rule."""
    return [
        record
        for record in records
        if (key := decode_key(record.key).key) is not None and key.identity == rule.identity
    ]


def _find_value(held: Mapping[tuple[int, bytes], bytes | None], rule: MendRule, home: Home) -> bytes | None:
    place = (rule.where, rule.key)
    at_home = home(rule.key)
    if not rule.said and at_home is not None and (at_home, rule.key) in held:
        place = (at_home, rule.key)
    if place not in held:
        raise RefusedError(
            f"the record of {rule.identity} that was to count is not there any more; nothing was changed",
            cause=f"nothing lies on partition {rule.where} under its key",
            hint="make the plan anew and look at it",
        )
    return held[place]


def _find_kept(held: Mapping[tuple[int, bytes], bytes | None], rule: MendRule) -> list[bytes]:
    keys = list(dict.fromkeys(key for _, key in held if is_task_key(key)))
    # Where no task reads any of them, the spelling that REST and most tasks use is the best there is.
    return keys or [_spell_rest(rule)]


def _spell_rest(rule: MendRule) -> bytes:
    return encode_rest_key(decode_key(rule.key).connector or "", rule.partition)
