"""What seamark and other tools can do, as data: `peers.toml`."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

DATA = Path(__file__).with_name("peers.toml")


class State(StrEnum):
    """Whether a tool has a capability. UNKNOWN claims nothing."""

    FULL = "full"
    PARTIAL = "partial"
    NONE = "none"
    UNKNOWN = "unknown"


_SYMBOLS = {State.FULL: "✓", State.PARTIAL: "◐", State.NONE: "·", State.UNKNOWN: "?"}
_WORDS = {
    State.FULL: "full",
    State.PARTIAL: "partial",
    State.NONE: "looked for and not found",
    State.UNKNOWN: "not examined",
}


@dataclass(frozen=True, slots=True)
class Claim:
    """The state of one peer, and the keys of its evidence."""

    state: State
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Capability:
    """One row: what seamark has, the test that shows it, and what each peer has."""

    name: str
    area: str
    seamark: State
    test: str
    peers: Mapping[str, Claim]


@dataclass(frozen=True, slots=True)
class Comparison:
    """All rows. `peers` are names by code, `evidence` files, addresses and threads by key."""

    peers: Mapping[str, str]
    capabilities: tuple[Capability, ...]
    evidence: Mapping[str, tuple[str, ...]]


def read_comparison(path: Path = DATA) -> Comparison:
    """Read the data. A peer that a capability doesn't list has none of it."""
    body = tomllib.loads(path.read_text(encoding="utf-8"))
    peers = {code: str(peer["name"]) for code, peer in body["peers"].items()}
    return Comparison(
        peers,
        tuple(_build_capability(entry, peers) for entry in body["capability"]),
        {key: tuple(found) for key, found in body["evidence"].items()},
    )


def _build_capability(entry: Mapping[str, object], peers: Mapping[str, str]) -> Capability:
    given = entry.get("peers", {})
    if not isinstance(given, dict) or given.keys() - peers.keys():
        raise ValueError(f"{entry['name']}: unknown peers")
    claims = {code: _parse_claim(str(given.get(code, State.NONE))) for code in peers}
    return Capability(
        str(entry["name"]), str(entry["area"]), State(str(entry["seamark"])), str(entry.get("test", "")), claims
    )


def _parse_claim(text: str) -> Claim:
    state, *evidence = text.split()
    return Claim(State(state), tuple(evidence))


def format_markdown(comparison: Comparison) -> str:
    """Return the comparison as Markdown: a table for each area, and the number of full capabilities of each tool."""
    areas = dict.fromkeys(one.area for one in comparison.capabilities)
    parts = [
        ", ".join(f"{symbol} {_WORDS[state]}" for state, symbol in _SYMBOLS.items()),
        _format_counts(comparison),
        *(_format_area(area, comparison) for area in areas),
    ]
    return "\n\n".join(parts) + "\n"


def _format_counts(comparison: Comparison) -> str:
    full = Counter(
        code for one in comparison.capabilities for code, claim in one.peers.items() if claim.state is State.FULL
    )
    unknown = {
        code
        for code in comparison.peers
        if all(one.peers[code].state is State.UNKNOWN for one in comparison.capabilities)
    }
    own = sum(one.seamark is State.FULL for one in comparison.capabilities)
    ranked = sorted(comparison.peers, key=lambda code: -full[code])
    rows = [("seamark", own), *((comparison.peers[code], full[code]) for code in ranked if code not in unknown)]
    total = len(comparison.capabilities)
    return "\n".join([f"| tool | full, of {total} |", "|---|---|", *(f"| {name} | {count} |" for name, count in rows)])


def _format_area(area: str, comparison: Comparison) -> str:
    rows = [one for one in comparison.capabilities if one.area == area]
    head = ["capability", "seamark", *comparison.peers]
    return "\n".join(
        [
            f"## {area}",
            "",
            _format_row(head),
            _format_row(["---"] * len(head)),
            *(
                _format_row(
                    [
                        row.name,
                        _SYMBOLS[row.seamark],
                        *(_SYMBOLS[row.peers[code].state] for code in comparison.peers),
                    ]
                )
                for row in rows
            ),
        ]
    )


def _format_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
