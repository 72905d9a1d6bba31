"""How a landing goes, as Spark tells it after each batch. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OBSERVED = "seamark_pipeline"
"""The name under which a query tells what it has seen of its records: `records`, and `newest` in milliseconds."""


@dataclass(frozen=True, slots=True)
class LandProgress:
    """One batch: its records, how long it took, and how many offsets lay behind it then.

    `newest` is the timestamp of its newest record, in milliseconds since the epoch; None where it had none. `behind` is
    None where Spark does not say it. A query with nothing to do tells of no records now and then.
    """

    batch: int
    records: int
    seconds: float
    behind: int | None = None
    newest: int | None = None

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds if self.seconds > 0 else 0.0


def build_progress(told: Mapping[str, Any]) -> LandProgress:
    """Read the JSON of a query's progress."""
    observed = (told.get("observedMetrics") or {}).get(OBSERVED) or {}
    records = observed.get("records")
    return LandProgress(
        int(told["batchId"]),
        records=int(told.get("numInputRows") or 0) if records is None else int(records),
        seconds=(told.get("batchDuration") or 0) / 1000,
        behind=_count_behind(told.get("sources") or ()),
        newest=observed.get("newest"),
    )


def _count_behind(sources: Any) -> int | None:
    """The offsets between where the batch ended and where the topic did."""
    for source in sources:
        end, latest = source.get("endOffset"), source.get("latestOffset")
        if isinstance(end, Mapping) and isinstance(latest, Mapping):
            left: int = sum(
                max(0, offset - end.get(topic, {}).get(number, 0))
                for topic, offsets in latest.items()
                for number, offset in offsets.items()
            )
            return left
    return None
