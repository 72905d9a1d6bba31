"""The report of a verification: whether a copy equals its source, and the differences with their coordinates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from seamark.copies.plan.endpoints import build_ends
from seamark.copies.plan.registry import PlanLike, find_plan
from seamark.errors import RefusedError, UsageError
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Line, Span, Style, line
from seamark.spark.settings import SparkOptions, build_copy_work, build_source, open_spark, require_spark

if TYPE_CHECKING:
    from seamark.copies.plan.endpoints import CopyEndpoints


EXAMPLES = 20
"""How many findings a report lists. The counts always include all of them."""


class Level(StrEnum):
    """The level of a verification.

    QUICK reads no record: it compares the control records with the ends of the target. STANDARD reads both topics once
    and compares counts and checksums, and the partition of every key. FULL also compares the order, and lists each
    record.
    """

    QUICK = "quick"
    STANDARD = "standard"
    FULL = "full"


class Kind(StrEnum):
    """The kind of a finding.

    MOVED records are intact, but at another offset than the control records state: translated offsets would be wrong.
    DIFFERENT is a run whose checksum differs; which of its records differ is not known yet.
    """

    LOST = "lost"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    WRONG_PARTITION = "wrong partition"
    WRONG_TIMESTAMP = "wrong timestamp"
    CHANGED = "changed"
    CHANGED_HEADER = "changed header"
    FOREIGN = "foreign record"
    MISSING_CONTROL = "missing control record"
    MOVED = "moved"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Coordinates:
    """An offset of a partition, or a range up to `last`."""

    partition: int
    offset: int
    last: int | None = None

    def __post_init__(self) -> None:
        """Normalize a range of one offset."""
        if self.last == self.offset:
            object.__setattr__(self, "last", None)

    def __str__(self) -> str:
        """Return `partition@offset`."""
        until = "" if self.last is None else f"-{self.last}"
        return f"{self.partition}@{self.offset}{until}"

    def to_dict(self) -> dict[str, int]:
        """Return the coordinates as JSON has them."""
        last = self.offset if self.last is None else self.last
        return {"partition": self.partition, "offset": self.offset, "last": last}


@dataclass(frozen=True, slots=True)
class CopyFinding:
    """One difference: a number of records with their source and target. `words` describe the observation."""

    kind: Kind
    source: Coordinates | None = None
    target: Coordinates | None = None
    count: int = 1
    words: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON has it."""
        return {
            "kind": self.kind.value,
            "source": self.source and self.source.to_dict(),
            "target": self.target and self.target.to_dict(),
            "count": self.count,
            "words": self.words,
        }


@dataclass(frozen=True, slots=True)
class Gone:
    """Copied records that the source has no longer, so that they can't be compared with it."""

    source: Coordinates
    count: int

    def to_dict(self) -> dict[str, Any]:
        """Return the records as JSON has them."""
        return {"source": self.source.to_dict(), "count": self.count}


@dataclass(frozen=True, slots=True)
class Compared:
    """How much was compared. A quick verification reads no records."""

    control_records: int = 0
    runs: int = 0
    told_records: int = 0
    source_records: int = 0
    target_records: int = 0

    def to_dict(self) -> dict[str, int]:
        """Return the counts as JSON has them."""
        return {
            "control_records": self.control_records,
            "runs": self.runs,
            "told_records": self.told_records,
            "source_records": self.source_records,
            "target_records": self.target_records,
        }


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a verification.

    `counts` are those of all findings, by kind; `findings` are examples of each. `gone` could not be compared, because
    compaction or retention has deleted it from the source since; that is not a failure. `notes` are further remarks.
    """

    plan: str
    source: str
    target: str
    level: Level
    compared: Compared
    counts: tuple[tuple[Kind, int], ...] = ()
    findings: tuple[CopyFinding, ...] = ()
    gone: tuple[Gone, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_passed(self) -> bool:
        """Whether there are no findings."""
        return not self.counts

    def count(self, kind: Kind) -> int:
        """Return how many records, or control records, have findings of this kind."""
        return dict(self.counts).get(kind, 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it. It contains no times, so that equal verifications give equal reports."""
        return {
            "plan": self.plan,
            "source": self.source,
            "target": self.target,
            "level": self.level.value,
            "passed": self.is_passed,
            "compared": self.compared.to_dict(),
            "counts": {kind.value: count for kind, count in self.counts},
            "findings": [one.to_dict() for one in self.findings],
            "gone": [one.to_dict() for one in self.gone],
            "notes": list(self.notes),
        }


def count_findings(findings: Iterable[CopyFinding]) -> tuple[tuple[Kind, int], ...]:
    """Return the number of records by kind, in the order of `Kind`."""
    found: Counter[Kind] = Counter()
    for one in findings:
        found[one.kind] += one.count
    return tuple((kind, found[kind]) for kind in Kind if found[kind])


def choose_examples(findings: Sequence[CopyFinding], *, limit: int = EXAMPLES) -> tuple[CopyFinding, ...]:
    """Choose examples of the findings: the first of each kind before the second of any."""
    ranks: Counter[Kind] = Counter()
    ranked: list[tuple[int, int, CopyFinding]] = []
    order = list(Kind)
    for one in findings:
        ranked.append((ranks[one.kind], order.index(one.kind), one))
        ranks[one.kind] += 1
    chosen = sorted(ranked, key=lambda entry: entry[:2])[:limit]
    return tuple(one for _, _, one in sorted(chosen, key=lambda entry: (entry[1], entry[0])))


_LOOKED = {
    Level.QUICK: "control records and the end offsets of the target; no record was read",
    Level.STANDARD: "counts and checksums of all records, and the partition of every key, but not the order",
    Level.FULL: "every record, its offset and its order",
}


def describe_verification(found: Verification) -> tuple[str, ...]:
    """Format the report as lines. Topic names are not escaped: escape them before you print to a terminal."""
    return tuple(_describe(found))


def _describe(found: Verification) -> Iterator[str]:
    verdict = "passed" if found.is_passed else "FAILED"
    yield f"{verdict}: {found.source} to {found.target}, level {found.level}"
    compared = found.compared
    yield (
        f"compared: {_LOOKED[found.level]}. {compared.control_records:,} control records describe "
        f"{compared.told_records:,} records in {compared.runs:,} runs"
    )
    if found.level is not Level.QUICK:
        yield f"read: {compared.source_records:,} records of the source, {compared.target_records:,} of the target"
    for kind, count in found.counts:
        yield f"{kind}: {count:,}"
    yield from (f"  {describe_finding(one)}" for one in found.findings)
    shown, wrong = sum(one.count for one in found.findings), sum(count for _, count in found.counts)
    if shown < wrong:
        yield f"  and {wrong - shown:,} more"
    if found.gone:
        total = sum(one.count for one in found.gone)
        where = ", ".join(str(one.source) for one in found.gone[:5])
        more = f" and {len(found.gone) - 5:,} more ranges" if len(found.gone) > 5 else ""
        yield (
            f"not compared with the source: {total:,} records that compaction or retention has deleted there since, "
            f"in {where}{more}"
        )
    yield from (f"note: {note}" for note in found.notes)


def describe_finding(one: CopyFinding) -> str:
    """Format one finding as a line."""
    ends = []
    if one.source is not None:
        ends.append(f"source {one.source}")
    if one.target is not None:
        ends.append(f"target {one.target}")
    number = f" ({one.count})" if one.count != 1 else ""
    said = f": {one.words}" if one.words else ""
    return f"{one.kind}{number} {', '.join(ends)}".rstrip() + said


LISTING: Listing[CopyFinding] = Listing(
    kind="CopyVerification",
    noun="finding",
    name=lambda finding: finding.kind.value,
    columns=(
        Column("kind", "KIND", lambda finding: finding.kind.value),
        Column("source", "SOURCE", lambda finding: str(finding.source) if finding.source else None),
        Column("target", "TARGET", lambda finding: str(finding.target) if finding.target else None),
        Column("count", "RECORDS", lambda finding: finding.count, right=True),
        Column("words", "DETAILS", lambda finding: finding.words),
    ),
)


def build_verification_view(report: Verification) -> View[CopyFinding]:
    """Return the report for every output format."""
    return View(
        LISTING,
        report.findings,
        kind="CopyVerification",
        body=report.to_dict,
        lines=lambda _: list(_build_lines(report)),
    )


def _build_lines(report: Verification) -> Iterator[Line]:
    mark = Span("✓ ", Style.GOOD) if report.is_passed else Span("✗ ", Style.BAD)

    first, *rest = describe_verification(report)
    yield line(mark, Span(first, Style.STRONG))
    yield from (line(f"  {words}") for words in rest)


def verify(
    endpoints: CopyEndpoints,
    what: PlanLike,
    *,
    level: str,
    spark: SparkOptions,
    control_topic: str,
    on_stage: Callable[[str], None] | None,
) -> Verification:
    """Compare the target of a copy with its source. Differences are in the report, and raise nothing.

    Raises:
        NotFoundError: there is no such plan.
        RefusedError: the plan was never run.
        UsageError: the level is unknown.
    """
    require_spark()
    known = find_plan(endpoints.target.logs, control_topic, what)
    if level not in list(Level):
        raise UsageError(f"invalid value {level!r} for --level", hint=f"use one of {', '.join(Level)}")
    if known.registration is None:
        raise RefusedError(
            f"can't verify copy {known.plan.id}: it was never run",
            hint="run it first: seamark copies run PLANFILE",
        )
    with open_spark(spark, build_copy_work(known.plan.id)) as session:
        from seamark.copies.verify.spark_verify import verify_copy  # noqa: PLC0415

        ends = build_ends(endpoints, control_topic=control_topic)
        far = build_source(endpoints.target.context)
        return verify_copy(session, known.plan, ends, level=Level(level), on_stage=on_stage, target_source=far)
