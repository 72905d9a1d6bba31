"""How a record of one topic finds its partition in another, and which partitions feed which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import gcd
from typing import Any

from seamark.core import strict_json as strict
from seamark.errors import UsageError
from seamark.kafka.partitioner import hash_crc32, hash_murmur2


class Partitioner(StrEnum):
    """How the partition of a record is chosen.

    MURMUR2 is Java's default for a key, and so Connect's; CRC32 is librdkafka's. PARTITION looks at no key: a record
    keeps the number of its partition, modulo the partitions there are.
    """

    MURMUR2 = "murmur2"
    CRC32 = "crc32"
    PARTITION = "partition"


def _hash_positive(key: bytes) -> int:
    return hash_murmur2(key) & 0x7FFFFFFF


_HASHES: Mapping[Partitioner, Callable[[bytes], int]] = {
    Partitioner.MURMUR2: _hash_positive,
    Partitioner.CRC32: hash_crc32,
}


def is_keyless(key: bytes | None, *, rule: Partitioner) -> bool:
    """Whether the key says nothing about the partition.

    librdkafka spreads empty keys like missing ones; Java hashes them.
    """
    return key is None or rule is Partitioner.PARTITION or (rule is Partitioner.CRC32 and not key)


def hash_key(key: bytes, *, rule: Partitioner) -> int:
    """The number that a rule makes of a key, never negative. PARTITION makes none."""
    return _HASHES[rule](key)


@dataclass(frozen=True, slots=True)
class Routing:
    """The way of every record from `sources` partitions to `targets`.

    `modulus` says what partitions show about keys: the number of a key and its source partition leave the same
    remainder by it. That is `sources` (0 means the same) if every key is on the correct partition, a divisor of it if
    the topic has grown, and 1 if nothing is known. As the number is reduced by `targets` too, source p feeds target t
    only if both leave the same remainder by the greatest common divisor of `modulus` and `targets`.
    """

    rule: Partitioner
    sources: int
    targets: int
    modulus: int = 0

    def __post_init__(self) -> None:
        """Refuse counts that no topic can have."""
        if self.sources < 1 or self.targets < 1:
            raise UsageError(f"invalid number of partitions {min(self.sources, self.targets)}: expected 1 or more")
        if self.modulus == 0:
            object.__setattr__(self, "modulus", self.sources)
        if self.modulus < 0 or self.sources % self.modulus:
            raise UsageError(f"invalid modulus {self.modulus}: it must divide {self.sources} partitions")

    def choose(self, key: bytes | None, *, source: int) -> int:
        """The target partition of a record. Records without a key keep together what lay together."""
        if key is None or is_keyless(key, rule=self.rule):
            # Repeatable, unlike a round robin; and as gcd divides `targets`, it stays within the lane.
            return source % self.targets
        return hash_key(key, rule=self.rule) % self.targets

    def feeds(self, source: int, *, target: int) -> bool:
        """Whether a record of that source may come to that target. One that does against this is misplaced."""
        if self.rule is Partitioner.PARTITION:
            return source % self.targets == target
        return (source - target) % self.lanes == 0

    def targets_of(self, source: int) -> tuple[int, ...]:
        """The targets that a source partition may feed."""
        if self.rule is Partitioner.PARTITION:
            return (source % self.targets,)
        return tuple(range(source % self.lanes, self.targets, self.lanes))

    def sources_of(self, target: int) -> tuple[int, ...]:
        """The source partitions that may feed a target."""
        if self.rule is Partitioner.PARTITION:
            return tuple(range(target, self.sources, self.targets))
        return tuple(range(target % self.lanes, self.sources, self.lanes))

    @property
    def lanes(self) -> int:
        """Into how many parts that share no partition the graph falls."""
        if self.rule is Partitioner.PARTITION:
            return min(self.sources, self.targets)
        return gcd(self.modulus, self.targets)

    @property
    def needs_shuffle(self) -> bool:
        """Whether some target is fed by several sources, so that one task must gather them to write in order."""
        return self.sources > self.lanes

    @property
    def is_determined_by_source(self) -> bool:
        """Whether each source feeds one target, `source % targets`, so that keys need not be read."""
        return self.rule is Partitioner.PARTITION or self.lanes == self.targets

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
            rule=strict.read_word(fields["rule"], words=Partitioner, what="the rule of a routing"),
            sources=strict.read_count(fields["sources"], what="the sources of a routing"),
            targets=strict.read_count(fields["targets"], what="the targets of a routing"),
            modulus=strict.read_count(fields["modulus"], what="the modulus of a routing"),
        )


# A wrong rule fits a key by chance once in as many as there are partitions. Several keys that all fit are proof when
# chance would do it once in a million topics.
_LUCK = 1e-6
_CANDIDATES = (Partitioner.MURMUR2, Partitioner.CRC32)


class Placement(StrEnum):
    """How the records came to lie where they lie.

    GROWN: some lie where they belong among fewer partitions, so the topic has grown. MIXED: one rule explains many but
    not all. UNKNOWN: none does, or there are too few keys to tell. KEYLESS: no sample has a key.
    """

    MURMUR2 = "murmur2"
    CRC32 = "crc32"
    GROWN = "grown"
    MIXED = "mixed"
    UNKNOWN = "unknown"
    KEYLESS = "keyless"


@dataclass(frozen=True, slots=True)
class RuleEvidence:
    """How far one rule explains the samples, in different pairs of partition and key.

    `fitting` lie where the rule puts them. `misplaced` don't; `grown_from` are the smaller partition counts that would
    explain every one of those.
    """

    rule: Partitioner
    fitting: int
    misplaced: int
    grown_from: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """What the samples of a topic told. `rule` is the best explanation, and None where there is none."""

    partitions: int
    records: int
    keyless: int
    placement: Placement
    rule: Partitioner | None
    evidence: tuple[RuleEvidence, ...]

    @property
    def grown_from(self) -> int | None:
        """The partitions that the topic had before; None unless it has grown."""
        found = next((one for one in self.evidence if one.rule is self.rule), None)
        return found.grown_from[0] if found and self.placement is Placement.GROWN else None

    @property
    def words(self) -> str:
        """The finding with its counts, in one sentence."""
        counts = "; ".join(
            f"{one.rule}: {one.fitting} of {one.fitting + one.misplaced} keys fit" for one in self.evidence
        )
        seen = f"{self.records} records seen, {self.keyless} without a key; {counts}"
        return f"{_explain(self)} ({seen})"


def probe_samples(samples: Iterable[tuple[int, bytes | None]], *, partitions: int) -> Probe:
    """Tell the rule from pairs of partition and key. They should come from old and from new records of each partition.

    A topic that has grown holds its old records where they were, so samples from the end alone would not show it.
    """
    records = keyless = 0
    pairs: set[tuple[int, bytes]] = set()
    for partition, key in samples:
        records += 1
        if key is None:
            keyless += 1
        else:
            pairs.add((partition, key))
    evidence = tuple(_judge(rule, pairs, partitions=partitions) for rule in _CANDIDATES)
    placement, rule = _decide(evidence, partitions=partitions, has_keys=bool(pairs))
    return Probe(partitions, records, keyless, placement=placement, rule=rule, evidence=evidence)


def suggest_routing(probe: Probe, *, targets: int) -> Routing | None:
    """Return the routing that continues the producers' partitioning; None where the user has to choose it."""
    if probe.placement is Placement.KEYLESS:
        # Records without a key go by their partition under any rule. A key that the samples did not show is then placed
        # as Connect would, and stops the copy if it does not lie so.
        return Routing(Partitioner.MURMUR2, probe.partitions, targets=targets)
    if probe.rule is None or probe.placement in {Placement.MIXED, Placement.UNKNOWN}:
        return None
    # Old keys agree with their partition by the previous count, new ones by this one: all by what divides both.
    modulus = gcd(probe.partitions, probe.grown_from or probe.partitions)
    return Routing(probe.rule, probe.partitions, targets=targets, modulus=modulus)


def _judge(rule: Partitioner, pairs: Iterable[tuple[int, bytes]], *, partitions: int) -> RuleEvidence:
    numbered = [(part, hash_key(key, rule=rule)) for part, key in pairs if not is_keyless(key, rule=rule)]
    misplaced = [(part, number) for part, number in numbered if number % partitions != part]
    former = tuple(
        count
        for count in range(1, partitions)
        if misplaced and all(number % count == part for part, number in misplaced)
    )
    return RuleEvidence(rule, len(numbered) - len(misplaced), misplaced=len(misplaced), grown_from=former)


def _decide(
    evidence: tuple[RuleEvidence, ...], *, partitions: int, has_keys: bool
) -> tuple[Placement, Partitioner | None]:
    if not has_keys:
        return Placement.KEYLESS, None
    whole = [one for one in evidence if not one.misplaced and _is_proof(one.fitting, partitions=partitions)]
    if len(whole) == 1:
        return Placement(whole[0].rule.value), whole[0].rule
    grown = [one for one in evidence if len(one.grown_from) == 1 and _is_proof(one.misplaced, partitions=partitions)]
    if len(grown) == 1:
        return Placement.GROWN, grown[0].rule
    best = max(evidence, key=lambda one: one.fitting)
    keys = best.fitting + best.misplaced
    # Halfway between what chance gives and what a rule gives.
    if not whole and _is_proof(keys, partitions=partitions) and best.fitting / keys > (1 + 1 / partitions) / 2:
        return Placement.MIXED, best.rule
    return Placement.UNKNOWN, None


def _is_proof(keys: int, *, partitions: int) -> bool:
    # Up to `partitions` explanations are tried: the counts that a topic may have grown from.
    return partitions > 1 and keys > 0 and partitions * float(partitions) ** -keys <= _LUCK


def _explain(probe: Probe) -> str:
    match probe.placement:
        case Placement.KEYLESS:
            return "no record has a key"
        case Placement.GROWN:
            return f"placed by {probe.rule}; the topic had {probe.grown_from} partitions before"
        case Placement.MIXED:
            return f"most keys fit {probe.rule}, but not all"
        case Placement.UNKNOWN:
            return "the partitioner is unknown"
        case Placement.MURMUR2 | Placement.CRC32:
            return f"every key is on the partition that {probe.placement} assigns"
