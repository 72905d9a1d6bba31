"""The comparison with other tools, from `tools/peers/peers.toml`."""

from __future__ import annotations

from collections.abc import Iterable

from tools.peers import Capability, State, read_comparison

# The tools of the page, by the question that leads to them: one more connector tool, a user interface, an operator,
# infrastructure as code, and what is part of Kafka.
CODES = ("KC", "KU", "ST", "N4", "TF", "CG")
_CELLS = {State.FULL: "yes", State.PARTIAL: "partly", State.NONE: "no", State.UNKNOWN: "?"}


def build_peers() -> str:
    """Return a table of each area: what seamark and the chosen tools have of each capability."""
    comparison = read_comparison()
    names = [comparison.peers[code] for code in CODES]
    lines = []
    for area in dict.fromkeys(one.area for one in comparison.capabilities):
        rows = [_build_row(one) for one in comparison.capabilities if one.area == area]
        lines += [f"### {area}", "", *_build_table(["capability", "seamark", *names], rows), ""]
    return "\n".join(lines)


def build_gaps() -> str:
    """Return a table of what seamark lacks wholly or partly, with the tools that have all of it."""
    comparison = read_comparison()
    rows = [
        [
            one.name,
            _CELLS[one.seamark],
            ", ".join(comparison.peers[code] for code, claim in one.peers.items() if claim.state is State.FULL) or "no",
        ]
        for one in comparison.capabilities
        if one.seamark is not State.FULL
    ]
    return "\n".join(_build_table(["capability", "seamark", "tools that have all of it"], rows)) + "\n"


def _build_row(one: Capability) -> list[str]:
    return [one.name, _CELLS[one.seamark], *(_CELLS[one.peers[code].state] for code in CODES)]


def _build_table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
