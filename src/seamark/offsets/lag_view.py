"""How far sources are behind, for every output format."""

from __future__ import annotations

from seamark.core.distance import Certainty
from seamark.core.reading import Reading
from seamark.offsets.source_lag import SourceLag
from seamark.report.error import build_failures
from seamark.report.listing import Column, Listing, View
from seamark.report.words import render_number

_PREFIX = {Certainty.BOUND: "at most ", Certainty.ESTIMATE: "about "}


def _say_total(found: SourceLag) -> str:
    return "-" if found.total is None else f"{_PREFIX.get(found.certainty, '')}{render_number(found.total)}"


SOURCE_LAGS: Listing[SourceLag] = Listing(
    kind="SourceLagList",
    noun="source",
    name=lambda found: found.owner,
    columns=(
        Column("owner", "SOURCE", lambda found: found.owner),
        Column("state", "STATE", lambda found: found.state),
        Column("partitions", "PARTITIONS", lambda found: len(found.partitions), right=True),
        Column("behind", "BEHIND", lambda found: found.total, text=_say_total, right=True),
        Column("unit", "UNIT", lambda found: found.unit),
        Column("certainty", "CERTAINTY", lambda found: found.certainty.value),
        Column("worst", "WORST", lambda found: found.worst.partition if found.worst else ""),
        Column("reason", "WHY", lambda found: found.reason),
    ),
)


def build_source_lag_view(reading: Reading[SourceLag]) -> View[SourceLag]:
    """Every source, the one with the most to read first."""
    return View(
        SOURCE_LAGS,
        reading.items,
        body=lambda: {
            "items": SOURCE_LAGS.build_items(reading.items),
            "failures": build_failures(reading.failures),
        },
        empty="no sources",
    )
