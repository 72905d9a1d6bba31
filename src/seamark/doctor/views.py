"""The view of the doctor's findings, worst first, each with its fix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seamark.core.readings import Finding, Severity
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Line, Span, Style, line
from seamark.report.words import render_count, render_severity, style_severity

_WORST_FIRST = tuple(Severity)
_NOUNS = {
    Severity.ERROR: ("error", "errors"),
    Severity.WARNING: ("warning", "warnings"),
    Severity.INFO: ("remark", "remarks"),
    Severity.OK: ("check OK", "checks OK"),
}

LISTING: Listing[Finding] = Listing(
    kind="FindingList",
    noun="finding",
    name=lambda finding: f"{finding.check}/{finding.subject}",
    columns=(
        Column("severity", "SEVERITY", lambda finding: finding.severity.value),
        Column("check", "CHECK", lambda finding: finding.check),
        Column("subject", "SUBJECT", lambda finding: finding.subject),
        Column("message", "MESSAGE", lambda finding: finding.message),
        Column("fix", "FIX", lambda finding: finding.fix),
    ),
)


def build_findings_view(findings: Sequence[Finding], *, show_fine: bool = False) -> View[Finding]:
    """Build the findings by severity. What is fine is counted, and listed with `-o wide` or `show_fine`."""
    ordered = sorted(findings, key=lambda finding: _WORST_FIRST.index(finding.severity))
    return View(
        LISTING,
        ordered,
        body=lambda: _build_body(ordered),
        lines=lambda screen: _build_lines(ordered, show_fine=show_fine or screen.wide),
        empty="no checks",
    )


def _count(findings: Sequence[Finding], severity: Severity) -> int:
    return sum(finding.severity is severity for finding in findings)


def _build_body(findings: Sequence[Finding]) -> dict[str, Any]:
    counts = {severity.value: _count(findings, severity) for severity in _WORST_FIRST}
    return {"counts": counts, "items": LISTING.build_items(findings)}


def _build_lines(findings: Sequence[Finding], *, show_fine: bool) -> list[Line]:
    shown = [finding for finding in findings if show_fine or finding.severity is not Severity.OK]
    lines: list[Line] = []
    for finding in shown:
        lines += _build_finding(finding)
    return [*lines, _build_summary(findings)] if findings else []


def _build_finding(finding: Finding) -> list[Line]:
    first, *rest = finding.message.splitlines() or [""]
    lines = [
        line(
            Span(render_severity(finding.severity), style_severity(finding.severity)),
            "  ",
            Span(finding.subject, Style.STRONG),
            f"  {first}",
            Span(f"  ({finding.check})", Style.MUTED),
        )
    ]
    lines += [line(f"    {text}") for text in rest]
    return lines + [
        line(Span("    fix: " if index == 0 else "         ", Style.STRONG), text)
        for index, text in enumerate(finding.fix.splitlines())
    ]


def _build_summary(findings: Sequence[Finding]) -> Line:
    counts = [
        render_count(_count(findings, severity), *_NOUNS[severity])
        for severity in _WORST_FIRST
        if _count(findings, severity)
    ]
    return line(", ".join(counts))
