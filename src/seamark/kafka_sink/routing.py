"""How a record of one topic finds its partition in another, and which partitions feed which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import gcd
from typing import Any

from seamark.core import strict
from seamark.errors import UsageError
from seamark.kafka.key_hash import hash_crc32, hash_murmur2


class Rule(StrEnum):
    """What chooses the partition.

    MURMUR2 is Java's default for a key, and so Connect's; CRC32 is librdkafka's. PARTITION looks at no key: a record
    keeps the number of its partition, modulo the partitions there are.
    """

    MURMUR2 = "murmur2"
    CRC32 = "crc32"
    PARTITION = "partition"


def _hash_positive(key: bytes) -> int:
    return hash_murmur2(key) & 0x7FFFFFFF


_HASHES: Mapping[Rule, Callable[[bytes], int]] = {Rule.MURMUR2: _hash_positive, Rule.CRC32: hash_crc32}


def is_keyless(key: bytes | None, *, rule: Rule) -> bool:
    """Whether the key says nothing about the partition.

    librdkafka spreads empty keys like missing ones; Java hashes them.
    """
    return key is None or rule is Rule.PARTITION or (rule is Rule.CRC32 and not key)


def hash_key(key: bytes, *, rule: Rule) -> int:
    """The number that a rule makes of a key, never negative. PARTITION makes none."""
    return _HASHES[rule](key)


@dataclass(frozen=True, slots=True)
class Routing:
    """The way of every record from `sources` partitions to `targets`.

    `modulus` is what places tell about keys: the number of a key and its source partition leave the same remainder by
    it. That is `sources` (0 says so) where every key lies in place, a divisor where the topic has grown, and 1 where
    nothing is known. As the number is reduced by `targets` too, source p feeds target t only if both leave the same
    remainder by the greatest common divisor of `modulus` and `targets`.
    """

    rule: Rule
    sources: int
    targets: int
    modulus: int = 0

    def __post_init__(self) -> None:
        """Refuse counts that no topic can have."""
        if self.sources < 1 or self.targets < 1:
            raise UsageError(f"a topic has at least one partition, not {min(self.sources, self.targets)}")
        if self.modulus == 0:
            object.__setattr__(self, "modulus", self.sources)
        if self.modulus < 0 or self.sources % self.modulus:
            raise UsageError(f"{self.modulus} is no divisor of {self.sources} partitions")

    def choose(self, key: bytes | None, *, source: int) -> int:
        """The target partition of a record. Records without a key keep together what lay together."""
        if key is None or is_keyless(key, rule=self.rule):
            # Repeatable, unlike a round robin; and as gcd divides `targets`, it stays within the lane.
            return source % self.targets
        return hash_key(key, rule=self.rule) % self.targets

    def feeds(self, source: int, *, target: int) -> bool:
        """Whether a record of that source may come to that target. One that does against this is misplaced."""
        if self.rule is Rule.PARTITION:
            return source % self.targets == target
        return (source - target) % self.lanes == 0

    def targets_of(self, source: int) -> tuple[int, ...]:
        """The targets that a source partition may feed."""
        if self.rule is Rule.PARTITION:
            return (source % self.targets,)
        return tuple(range(source % self.lanes, self.targets, self.lanes))

    def sources_of(self, target: int) -> tuple[int, ...]:
        """The source partitions that may feed a target."""
        if self.rule is Rule.PARTITION:
            return tuple(range(target, self.sources, self.targets))
        return tuple(range(target % self.lanes, self.sources, self.lanes))

    @property
    def lanes(self) -> int:
        """Into how many parts that share no partition the graph falls."""
        if self.rule is Rule.PARTITION:
            return min(self.sources, self.targets)
        return gcd(self.modulus, self.targets)

    @property
    def needs_shuffle(self) -> bool:
        """Whether some target is fed by several sources, so that one task must gather them to write in order."""
        return self.sources > self.lanes

    @property
    def is_told_by_source(self) -> bool:
        """Whether each source feeds one target, `source % targets`, so that nobody must look at a key to know it."""
        return self.rule is Rule.PARTITION or self.lanes == self.targets

    def to_dict(self) -> dict[str, Any]:
        """The routing as JSON takes it."""
        return {
            "rule": self.rule.value,
            "sources": self.sources,
            "targets": self.targets,
            "modulus": self.modulus,
        }

    @classmethod
    def from_dict(cls, data: object) -> Routing:
        """Read what `to_dict` gave."""
        fields = strict.read_object(data, keys=("rule", "sources", "targets", "modulus"), what="a routing")
        return cls(
            rule=strict.read_word(fields["rule"], words=Rule, what="the rule of a routing"),
            sources=strict.read_count(fields["sources"], what="the sources of a routing"),
            targets=strict.read_count(fields["targets"], what="the targets of a routing"),
            modulus=strict.read_count(fields["modulus"], what="the modulus of a routing"),
        )
