"""A closer look at what the sums of a verification found: which records it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from seamark.copies.verify.match import index_hashes, tell_apart, tell_rest
from seamark.copies.verify.verif_ranges import list_source_ranges, list_target_ranges
from seamark.copies.verify.verif_sums import SumsComparison
from seamark.copies.verify.verification import Coordinates, Finding, Kind
from seamark.copies.verify.verify_match import Unpaired, find_hashes, match_records
from seamark.copies.verify.verify_places import RunTable
from seamark.copies.verify.verify_sides import Sides
from seamark.spark.slices import OffsetRange

OnStage = Callable[[str], None]
"""Called before each stage, with what it does."""


def look_closer(
    judged: SumsComparison,
    table: RunTable,
    sides: Sides,
    *,
    begun: Sequence[OffsetRange],
    on_stage: OnStage,
    examples: int,
) -> tuple[Finding, ...]:
    """Name the records of what the sums found. Only runs that differ are read again."""
    everything = sides.read_source(begun)
    if everything is None:
        # Nothing is left of the source to compare with.
        return judged.findings
    on_stage(f"comparing {len(judged.suspects)} runs record by record")
    runs = [one.run for one in judged.suspects]
    source = sides.read_source([*list_source_ranges(runs), *judged.source_strays])
    target = sides.read_target([*list_target_ranges(runs), *judged.target_strays])
    nothing = everything.where("false")
    matched = match_records(
        nothing if source is None else source,
        nothing if target is None else target,
        table,
        suspects=judged.suspects,
        examples=examples,
    )
    told = tell_apart(matched.unpaired.wanted, matched.unpaired.lying)
    named = [*matched.findings, *told.findings]
    if told.left:
        on_stage(f"looking for {len(told.left)} records of the target in the whole source")
        hashes = find_hashes(everything, (one.hash for one in told.left))
        named += tell_rest(told.left, index_hashes(hashes), covered=table.covered)
    return _settle(judged, [*named, *_list_untold(matched.unpaired)])


def _settle(judged: SumsComparison, named: Sequence[Finding]) -> tuple[Finding, ...]:
    """What was named record by record, and what of the sums it leaves unsaid."""
    kinds = {one.kind for one in named}
    vague = {
        Coordinates(one.run.target, one.run.first_target, one.run.last_target)
        for one in judged.suspects
        if one.is_gone and not one.is_told
    }
    kept = [
        one
        for one in judged.findings
        if not named
        or (one.kind is Kind.WRONG_PARTITION and one.kind not in kinds)
        or (one.target in vague and one.kind is not Kind.WRONG_PARTITION)
    ]
    return (*kept, *named)


def _list_untold(unpaired: Unpaired) -> Iterator[Finding]:
    """What is only counted, as there is too much of it."""
    untold = {
        "source": unpaired.wanted_count - len(unpaired.wanted),
        "target": unpaired.lying_count - len(unpaired.lying),
    }
    for side, count in untold.items():
        if count:
            words = f"more records of the {side} have no equal; what became of those is not told"
            yield Finding(Kind.DIFFERENT, count=count, words=words)
