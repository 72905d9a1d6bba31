"""Builds docs/performance.md and its plots from the recorded results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.harness.definition import Bench, Claim
from bench.harness.plot import Point, render_history
from bench.harness.record import ROOT, Record

PAGE = Path("performance.md")
PLOTS = Path("performance")
HEAD = """\
# Performance

<!-- Written by `python -m bench report` from bench/results/results.jsonl. Do not edit. -->

Each claim is a ratio of two legs that do the same work in the same run. The legs take turns, the order turns
round with every pair, the warm-up does not count, and every result is checked. The figure is the median of the
paired ratios. Behind it stands the interval of the true median: two of the measured ratios, chosen by rank, with the
probability that they enclose it (90 % or more from 5 pairs on; a quick run has 3 and reaches 75 %).
Absolute seconds say little, since everything shares one machine; where a bar is absolute, its claim names the unit.
How to run and add a bench: [CONTRIBUTING](../CONTRIBUTING.md#add-a-bench).
"""


def build_report(records: Sequence[Record], *, benches: Iterable[Bench[Any, Any]]) -> dict[Path, str]:
    """Every file of the report, by its path below docs/."""
    known = {bench.name: bench for bench in benches}
    sections = [HEAD]
    files: dict[Path, str] = {}
    for name, bench in sorted(known.items()):
        own = [record for record in records if record.bench == name]
        sections.append(_render_bench(bench, own))
        if own:
            files |= _build_plots(bench, own)
    gone = sorted({record.bench for record in records} - set(known))
    if gone:
        sections.append(f"## No longer run\n\n{', '.join(gone)}: the results are still in the file.\n")
    return {PAGE: "\n".join(sections), **files}


def write_report(
    records: Sequence[Record], *, benches: Iterable[Bench[Any, Any]], docs: Path = ROOT / "docs"
) -> list[Path]:
    """Write the report, remove plots that no longer belong to it, and say which files were written."""
    files = build_report(records, benches=benches)
    (docs / PLOTS).mkdir(parents=True, exist_ok=True)
    for old in (docs / PLOTS).glob("*.svg"):
        if PLOTS / old.name not in files:
            old.unlink()
    for path, text in files.items():
        (docs / path).write_text(text, encoding="utf-8")
    return list(files)


def _render_bench(bench: Bench[Any, Any], records: Sequence[Record]) -> str:
    lines = [f"## {bench.name}", "", f"{bench.compares}", ""]
    if not records:
        lines += ["No result is recorded yet.", ""]
        return "\n".join(lines)
    last = records[-1]
    if (measured := tuple(last.sizes)) != bench.choose_sizes(quick=last.quick):
        lines += [f"The latest result is older than this description: it was measured at {_list_sizes(measured)}.", ""]
    lines += _render_claims(bench, last)
    for claim in _list_recorded(bench, records):
        lines += [f"![{claim.name} over time, against its bar]({_plot_path(bench, claim)})", ""]
    lines += _render_legs(last)
    for name, growth in last.growth.items():
        lines += _table([f"{name}: size", *map(str, growth.sizes)], [[growth.of, *map(_figure, growth.values)]])
    lines += _render_past(records)
    return "\n".join(lines)


def _render_claims(bench: Bench[Any, Any], last: Record) -> list[str]:
    rows = []
    for claim in bench.claims:
        point = _build_point(claim, last)
        if point is None:
            continue
        held = "yes" if point.held else "**no**"
        rows.append([claim.name, _bar_text(claim, last), _figure(point.figure), _interval(claim, last), held])
    return _table(["claim", "bar", "latest", "interval", "held"], rows)


def _render_legs(last: Record) -> list[str]:
    processes = list(dict.fromkeys(name for used in last.cpu_seconds.values() for name in used))
    gauges = list(dict.fromkeys(name for measured in last.gauges.values() for name in measured))
    rows = [
        [
            leg,
            _figure(seconds),
            *(_figure(last.cpu_seconds[leg][name]) for name in processes),
            *(_figure(found) if (found := last.gauges.get(leg, {}).get(name)) is not None else "" for name in gauges),
        ]
        for leg, seconds in last.seconds.items()
    ]
    return _table(["leg, one run", "seconds", *(f"CPU s, {name}" for name in processes), *gauges], rows)


def _render_past(records: Sequence[Record]) -> list[str]:
    rows = [
        [
            record.date,
            record.commit,
            _list_sizes(record.sizes),
            "; ".join(f"{name} {_figure(figure)}" for name, figure in record.build_figures().items()),
            "yes" if record.held else "**no**",
            "quick" if record.quick else str(max(map(len, record.pairs.values()), default=0)),
            ", ".join(f"{name} {number}" for name, number in record.versions.items()),
            f"{record.machine.cores} cores, {record.machine.system}",
        ]
        for record in reversed(records)
    ]
    return _table(["date", "commit", "sizes", "figures", "held", "pairs", "versions", "machine"], rows)


def _build_plots(bench: Bench[Any, Any], records: Sequence[Record]) -> dict[Path, str]:
    files = {}
    for claim in _list_recorded(bench, records):
        points = [point for record in records if (point := _build_point(claim, record)) is not None]
        files[_plot_path(bench, claim)] = render_history(
            f"{bench.name}: {claim.name}", points, bar=claim.bar, bar_text=f"bar {_claimed(claim)}"
        )
    return files


def _list_recorded(bench: Bench[Any, Any], records: Sequence[Record]) -> list[Claim]:
    """List the claims that have a figure: a new claim has none before its first recorded run."""
    known = {name for record in records for name in record.build_figures()}
    return [claim for claim in bench.claims if claim.name in known]


def _build_point(claim: Claim, record: Record) -> Point | None:
    label = f"{record.date[:10]} {record.commit[:7]}"
    figure = record.build_figures().get(claim.name)
    if figure is None:
        return None
    # The exponent of a growth is one fit, and has no interval.
    interval = record.intervals.get(claim.name)
    low, high = (interval.low, interval.high) if interval else (figure, figure)
    # Judged by the bar of its own day: a bar that was raised later does not make an old result false.
    held = record.directions[claim.name].is_held(figure, record.bars[claim.name])
    return Point(label=label, figure=figure, low=low, high=high, held=held, quick=record.quick)


def _bar_text(claim: Claim, record: Record) -> str:
    return f"{record.directions[claim.name].value.replace('_', ' ')} {_figure(record.bars[claim.name])}"


def _claimed(claim: Claim) -> str:
    return f"{claim.direction.value.replace('_', ' ')} {_figure(claim.bar)}"


def _interval(claim: Claim, record: Record) -> str:
    interval = record.intervals.get(claim.name)
    if interval is None:
        return ""
    return f"{_figure(interval.low)} to {_figure(interval.high)} ({interval.coverage:.0%})"


def _plot_path(bench: Bench[Any, Any], claim: Claim) -> Path:
    slug = re.sub(r"[^a-z0-9]+", "-", claim.name.lower()).strip("-")
    return PLOTS / f"{bench.name}-{slug}.svg"


def _list_sizes(sizes: Sequence[int]) -> str:
    return ", ".join(f"{size:,}" for size in sizes)


def _figure(value: float) -> str:
    return f"{value:.3g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    return [line(head), line("---" for _ in head), *map(line, rows), ""]
