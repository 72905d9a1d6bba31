"""A verification in words."""

from __future__ import annotations

from collections.abc import Iterator

from seamark.copies.verify.verification import Finding, Level, Verification

_LOOKED = {
    Level.QUICK: "control records and the ends of the target; no record was read",
    Level.STANDARD: "counts and checksums of all records, and the partition of every key; not their order",
    Level.FULL: "every record, its place and its order",
}


def describe_verification(found: Verification) -> tuple[str, ...]:
    """The report as lines for a person. Names of topics are as Kafka has them: escape them before a terminal."""
    return tuple(_describe(found))


def _describe(found: Verification) -> Iterator[str]:
    verdict = "passed" if found.is_passed else "FAILED"
    yield f"{verdict}: {found.source} to {found.target}, level {found.level}"
    compared = found.compared
    yield (
        f"compared: {_LOOKED[found.level]}. {compared.control_records} control records tell of "
        f"{compared.told_records} records in {compared.runs} runs"
    )
    if found.level is not Level.QUICK:
        yield f"read: {compared.source_records} records of the source, {compared.target_records} of the target"
    for kind, count in found.counts:
        yield f"{kind}: {count}"
    yield from (f"  {describe_finding(one)}" for one in found.findings)
    shown, wrong = sum(one.count for one in found.findings), sum(count for _, count in found.counts)
    if shown < wrong:
        yield f"  and {wrong - shown} more"
    if found.gone:
        total = sum(one.count for one in found.gone)
        where = ", ".join(str(one.source) for one in found.gone[:5])
        more = f" and {len(found.gone) - 5} more places" if len(found.gone) > 5 else ""
        yield (
            f"not compared with the source: {total} records that compaction or retention has taken from it since, "
            f"among {where}{more}"
        )
    yield from (f"note: {note}" for note in found.notes)


def describe_finding(one: Finding) -> str:
    """One finding in a line."""
    ends = []
    if one.source is not None:
        ends.append(f"source {one.source}")
    if one.target is not None:
        ends.append(f"target {one.target}")
    number = f" ({one.count})" if one.count != 1 else ""
    said = f": {one.words}" if one.words else ""
    return f"{one.kind}{number} {', '.join(ends)}".rstrip() + said
