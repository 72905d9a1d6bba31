"""What the doctor found: one thing, how bad it is, and its fix."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is, worst first. OK means looked at and fine."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing the doctor looked at.

    `check` is the stable name of the check, `subject` what was looked at, `message` what was
    seen, `fix` the next step; an OK finding needs none.
    """

    check: str
    severity: Severity
    subject: str
    message: str
    fix: str = ""
