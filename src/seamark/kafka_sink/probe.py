"""Which rule placed the records of a topic, told from samples of their keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import gcd

from seamark.kafka_sink.routing import Routing, Rule, hash_key, is_keyless

# A wrong rule fits a key by chance once in as many as there are partitions. Several keys that all fit are proof when
# chance would do it once in a million topics.
_LUCK = 1e-6
_CANDIDATES = (Rule.MURMUR2, Rule.CRC32)


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

    rule: Rule
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
    rule: Rule | None
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
    """The routing that goes on as the producers did; None where a person has to say it."""
    if probe.placement is Placement.KEYLESS:
        # Records without a key go by their partition under any rule. A key that the samples did not show is then placed
        # as Connect would, and stops the copy if it does not lie so.
        return Routing(Rule.MURMUR2, probe.partitions, targets=targets)
    if probe.rule is None or probe.placement in {Placement.MIXED, Placement.UNKNOWN}:
        return None
    # Old keys agree with their partition by the former count, new ones by this one: all of them by what divides both.
    modulus = gcd(probe.partitions, probe.grown_from or probe.partitions)
    return Routing(probe.rule, probe.partitions, targets=targets, modulus=modulus)


def _judge(rule: Rule, pairs: Iterable[tuple[int, bytes]], *, partitions: int) -> RuleEvidence:
    numbered = [(part, hash_key(key, rule=rule)) for part, key in pairs if not is_keyless(key, rule=rule)]
    misplaced = [(part, number) for part, number in numbered if number % partitions != part]
    former = tuple(
        count
        for count in range(1, partitions)
        if misplaced and all(number % count == part for part, number in misplaced)
    )
    return RuleEvidence(rule, len(numbered) - len(misplaced), misplaced=len(misplaced), grown_from=former)


def _decide(evidence: tuple[RuleEvidence, ...], *, partitions: int, has_keys: bool) -> tuple[Placement, Rule | None]:
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
            return f"placed by {probe.rule}, and grown from {probe.grown_from} partitions since"
        case Placement.MIXED:
            return f"most keys fit {probe.rule}, but not all"
        case Placement.UNKNOWN:
            return "no rule is proven"
        case Placement.MURMUR2 | Placement.CRC32:
            return f"every key lies where {probe.placement} puts it"
