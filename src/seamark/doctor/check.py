"""A check: its stable name and the function that looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from seamark.core.finding import Finding, Severity
from seamark.doctor.evidence import Evidence
from seamark.errors import SeamarkError


@dataclass(frozen=True, slots=True)
class Check:
    """One thing the doctor looks at. `name` never changes: scripts and the docs hold on to it."""

    name: str
    examine: Callable[[Evidence], Iterable[Finding]]


def run_check(check: Check, evidence: Evidence) -> tuple[Finding, ...]:
    """Everything one check has to say. A check that can't run says that; it never takes the others down."""
    subject = evidence.context.name
    try:
        findings = tuple(check.examine(evidence))
    except SeamarkError as error:
        return (build_unexamined(check.name, subject=subject, error=error),)
    except Exception as error:  # noqa: BLE001
        # A fault of ours in one check must not hide what the others found.
        return (
            Finding(
                check.name,
                Severity.WARNING,
                subject=subject,
                message=f"not examined: the check itself failed with {type(error).__name__}",
                fix="please report this as a fault of seamark",
            ),
        )
    if not findings:
        return (Finding(check.name, Severity.OK, subject=subject, message="nothing to look at"),)
    return findings


def build_unexamined(check: str, *, subject: str, error: SeamarkError) -> Finding:
    """The finding of a check that could not look."""
    return Finding(
        check,
        Severity.WARNING,
        subject=subject,
        message=f"not examined: {error.message}",
        fix=error.hint or error.cause,
    )
