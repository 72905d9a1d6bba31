"""The report of a verification as people read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from seamark.report.listing import Column, Listing, View
from seamark.report.text import Line, Span, Style, line

if TYPE_CHECKING:
    from seamark.copies.verify.verification import Finding, Verification

LISTING: Listing[Finding] = Listing(
    kind="CopyVerification",
    noun="finding",
    name=lambda finding: finding.kind.value,
    columns=(
        Column("kind", "KIND", lambda finding: finding.kind.value),
        Column("source", "SOURCE", lambda finding: str(finding.source) if finding.source else None),
        Column("target", "TARGET", lambda finding: str(finding.target) if finding.target else None),
        Column("count", "RECORDS", lambda finding: finding.count, right=True),
        Column("words", "SEEN", lambda finding: finding.words),
    ),
)


def build_verification_view(report: Verification) -> View[Finding]:
    """The report for every output format."""
    return View(
        LISTING,
        report.findings,
        kind="CopyVerification",
        body=report.to_dict,
        lines=lambda _: list(_build_lines(report)),
    )


def _build_lines(report: Verification) -> Iterator[Line]:
    mark = Span("✓ ", Style.GOOD) if report.is_passed else Span("✗ ", Style.BAD)
    from seamark.copies.verify.verif_words import describe_verification  # noqa: PLC0415

    first, *rest = describe_verification(report)
    yield line(mark, Span(first, Style.STRONG))
    yield from (line(f"  {words}") for words in rest)
