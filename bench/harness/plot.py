"""Draws the history of one claim as SVG: medians with their intervals against the bar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

# Pixels. At 640 wide a code host shows it unscaled beside its margins.
WIDTH = 640
HEIGHT = 260
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 34, 48
_OPENING = (
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
    'role="img" aria-labelledby="title desc" font-family="sans-serif" font-size="12">'
)
# Twelve pixels a point keep neighbouring interval bars apart; older results stay in the file.
MOST_POINTS = 40


@dataclass(frozen=True, slots=True)
class Point:
    """One recorded figure. A quick one is drawn hollow, one that did not hold as a cross."""

    label: str
    figure: float
    low: float
    high: float
    held: bool
    quick: bool


@dataclass(frozen=True, slots=True)
class _Scale:
    """Turns a figure into a height."""

    least: float
    most: float

    def y(self, figure: float) -> float:
        share = (figure - self.least) / (self.most - self.least)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def render_history(title: str, points: Sequence[Point], *, bar: float, bar_text: str) -> str:
    """The whole SVG file. The same points give the same bytes."""
    shown = points[-MOST_POINTS:]
    scale = _build_scale(shown, bar)
    parts = [
        _OPENING,
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="desc">{escape(_describe(shown, bar_text))}</desc>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="20" font-weight="bold" fill="#222222">{escape(title)}</text>',
        *_render_axis(scale),
        *_render_bar(scale, bar, bar_text),
    ]
    step = (WIDTH - LEFT - RIGHT) / max(1, len(shown))
    for index, point in enumerate(shown):
        parts += _render_point(scale, point, x=LEFT + (index + 0.5) * step)
    parts += _render_ends(shown, step)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _build_scale(points: Sequence[Point], bar: float) -> _Scale:
    figures = [bar, *(point.low for point in points), *(point.high for point in points)]
    least, most = min(figures), max(figures)
    # A tenth of the range as air; where all figures are equal, a tenth of the figure.
    air = (most - least) * 0.1 or abs(most) * 0.1 or 1.0
    return _Scale(least=least - air, most=most + air)


def _render_axis(scale: _Scale) -> list[str]:
    lines = []
    for quarter in range(5):
        figure = scale.least + (scale.most - scale.least) * quarter / 4
        y = scale.y(figure)
        lines.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e4e4e4"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#555555">{figure:.2f}</text>')
    return lines


def _render_bar(scale: _Scale, bar: float, text: str) -> list[str]:
    y = scale.y(bar)
    style = 'stroke="#b35900" stroke-width="1.5" stroke-dasharray="6 4"'
    return [
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" {style}/>',
        f'<text x="{WIDTH - RIGHT}" y="{y - 5:.1f}" text-anchor="end" fill="#b35900">{escape(text)}</text>',
    ]


def _render_point(scale: _Scale, point: Point, *, x: float) -> list[str]:
    y = scale.y(point.figure)
    colour = "#1f5fa8" if point.held else "#b00020"
    ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{scale.y(point.low):.1f}" y2="{scale.y(point.high):.1f}"'
    lines = [f'<line {ends} stroke="{colour}" stroke-width="2"/>']
    if point.held:
        fill = "#ffffff" if point.quick else colour
        lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{colour}" stroke-width="2"/>')
    else:
        # Another shape, not only another colour.
        cross = f"M{x - 5:.1f} {y - 5:.1f} l10 10 M{x - 5:.1f} {y + 5:.1f} l10 -10"
        lines.append(f'<path d="{cross}" stroke="{colour}" stroke-width="2" fill="none"/>')
    return lines


def _render_ends(points: Sequence[Point], step: float) -> list[str]:
    # Labels of all points would overlap: the first and the last tell the span.
    y = HEIGHT - BOTTOM + 20
    ends = [(points[0], LEFT + 0.5 * step, "start")] if len(points) > 1 else []
    ends += [(points[-1], LEFT + (len(points) - 0.5) * step, "end" if len(points) > 1 else "middle")] if points else []
    return [
        f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" fill="#555555">{escape(point.label)}</text>'
        for point, x, anchor in ends
    ]


def _describe(points: Sequence[Point], bar_text: str) -> str:
    figures = "; ".join(f"{point.label}: {point.figure:g}, {'held' if point.held else 'not held'}" for point in points)
    return f"Recorded medians against the bar ({bar_text}). {figures}"
