"""Healing: what became of the connectors that had failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seamark.connectors.healing import HealedConnector, RestartDecision
from seamark.errors import SeamarkError
from seamark.report.error import build_failures
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Style

_SYMBOLS = {
    RestartDecision.WELL: "✓",
    RestartDecision.WATCHED: "✓",
    RestartDecision.GIVEN_UP: "✗",
    RestartDecision.LEFT_ALONE: "‖",
    RestartDecision.UNKNOWN: "?",
}


def _style(found: HealedConnector) -> Style:
    if found.is_mended:
        return Style.GOOD
    return Style.BAD if found.care is RestartDecision.GIVEN_UP else Style.WARN


HEAL_LISTING: Listing[HealedConnector] = Listing(
    kind="Healing",
    noun="connector",
    name=lambda found: found.owner,
    columns=(
        Column("owner", "CONNECTOR", lambda found: found.owner),
        Column(
            "outcome",
            "OUTCOME",
            lambda found: found.care.value,
            text=lambda found: f"{_SYMBOLS.get(found.care, '▲')} {found.care}",
            style=_style,
        ),
        Column("restarts", "RESTARTS", lambda found: found.restarts, right=True),
        Column("why", "WHY IT FAILED", lambda found: found.why),
    ),
)


def build_heal_view(
    connectors: Sequence[HealedConnector], failures: Mapping[str, SeamarkError]
) -> View[HealedConnector]:
    """The connectors that had failed; none is a good answer."""
    return View(
        HEAL_LISTING,
        connectors,
        body=lambda: {"items": HEAL_LISTING.build_items(connectors), "failures": build_failures(failures)},
        empty="nothing has failed",
    )
