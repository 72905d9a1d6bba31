"""Clocks: times in offsets, plans and the journal are compared across machines."""

from __future__ import annotations

from collections.abc import Iterator

from seamark.core.finding import Finding, Severity
from seamark.doctor.check import Check
from seamark.doctor.evidence import Evidence

_CLOCK = "clock"
# An HTTP Date counts whole seconds and is as old as its way back: below 2 s nothing can be told.
_NOTICEABLE_SECONDS = 2.0
# A JDBC source with a timestamp column loses rows when clocks differ by more than its delay, and
# 30 s is beyond any that people set; tokens and certificates begin to fail at about the same.
_HARMFUL_SECONDS = 30.0


def examine_clocks(evidence: Evidence) -> Iterator[Finding]:
    """clock: every worker's clock agrees with ours, by the Date header of its answer."""
    for cluster in evidence.clusters:
        for worker in cluster.workers_up:
            subject = f"{cluster.name} {worker.url}"
            skew = worker.clock_skew_seconds
            if skew is None:
                yield Finding(
                    _CLOCK,
                    Severity.INFO,
                    subject,
                    "not examined: no time came with its answer",
                    "compare its clock by hand",
                )
                continue
            words = f"its clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine's"
            if abs(skew) > _HARMFUL_SECONDS:
                yield Finding(_CLOCK, Severity.ERROR, subject, words, "synchronise both machines by NTP")
            elif abs(skew) > _NOTICEABLE_SECONDS:
                yield Finding(_CLOCK, Severity.WARNING, subject, words, "synchronise both machines by NTP")
            else:
                yield Finding(_CLOCK, Severity.OK, subject, "its clock agrees with this machine's")


CLOCK_CHECKS = (Check(_CLOCK, examine_clocks),)
