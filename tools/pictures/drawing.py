"""Draw boxes, arrows and terminal text as SVG, with colors for a light and a dark page in one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, 'DejaVu Sans Mono', monospace"
LINE = 18
# The colors of a light page and of a dark one. Each picture has a background of its own, so that its contrast doesn't
# depend on the page.
COLORS = {
    ".page": ("fill:#ffffff;stroke:#d0d7de", "fill:#0d1117;stroke:#30363d"),
    ".box": ("fill:#f6f8fa;stroke:#57606a", "fill:#161b22;stroke:#8b949e"),
    ".key": ("fill:#ddf4ff;stroke:#0969da", "fill:#0c2d4d;stroke:#58a6ff"),
    ".bad": ("fill:#ffebe9;stroke:#cf222e", "fill:#3d1417;stroke:#ff7b72"),
    ".group": ("fill:none;stroke:#8c959f;stroke-dasharray:5 4", "fill:none;stroke:#6e7681;stroke-dasharray:5 4"),
    ".text": ("fill:#1f2328", "fill:#e6edf3"),
    ".soft": ("fill:#57606a", "fill:#9da7b3"),
    ".good": ("fill:#1a7f37", "fill:#3fb950"),
    ".warn": ("fill:#cf222e", "fill:#ff7b72"),
    ".arrow": ("stroke:#57606a", "stroke:#9da7b3"),
    ".head": ("fill:#57606a", "fill:#9da7b3"),
}


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with lines of text: the first is its name."""

    x: int
    y: int
    width: int
    height: int
    lines: tuple[str, ...]
    kind: str = "box"

    def draw(self) -> str:
        """Return the SVG of the box."""
        shape = (
            f'<rect class="{self.kind}" x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="6"/>'
        )
        middle = self.x + self.width // 2
        top = self.y + (self.height - LINE * len(self.lines)) // 2 + 13
        texts = [
            f'<text class="{"text" if number == 0 else "soft"}" x="{middle}" y="{top + LINE * number}" '
            f'text-anchor="middle"{_WEIGHT if number == 0 else ""}>{escape(line, quote=False)}</text>'
            for number, line in enumerate(self.lines)
        ]
        return "\n".join((shape, *texts))


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line of several points, with a head at its end and a label beside its first part."""

    points: tuple[tuple[int, int], ...]
    label: str = ""
    label_at: tuple[int, int] | None = None

    def draw(self) -> str:
        """Return the SVG of the arrow."""
        path = " L".join(f"{x} {y}" for x, y in self.points)
        line = f'<path class="arrow" d="M{path}" fill="none" stroke-width="1.5" marker-end="url(#head)"/>'
        if not self.label:
            return line
        (x, y), (to_x, to_y) = self.points[0], self.points[1]
        at_x, at_y = self.label_at or ((x + to_x) // 2, (y + to_y) // 2 - 6)
        return f"{line}\n{Label(at_x, at_y, self.label, anchor='middle').draw()}"


@dataclass(frozen=True, slots=True)
class Label:
    """Text without a box."""

    x: int
    y: int
    text: str
    kind: str = "soft"
    anchor: str = "start"

    def draw(self) -> str:
        """Return the SVG of the text."""
        words = escape(self.text, quote=False)
        return f'<text class="{self.kind}" x="{self.x}" y="{self.y}" text-anchor="{self.anchor}">{words}</text>'


_WEIGHT = ' font-weight="600"'


def build_diagram(title: str, width: int, height: int, parts: tuple[Box | Arrow | Label, ...]) -> str:
    """Return a whole SVG file with shapes."""
    head = (
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="head" d="M0 0 L10 5 L0 10 z"/></marker></defs>'
    )
    return _wrap(title, (width, height), f"font-family:{FONT};font-size:13px", [head, *(part.draw() for part in parts)])


def build_terminal(title: str, text: str, *, columns: int) -> str:
    """Return a whole SVG file with the lines of a terminal; longer lines are wrapped with an indent."""
    lines = [part for line in text.rstrip("\n").split("\n") for part in wrap(line, columns)]
    # A character of the fonts above is 0.6 of its size wide.
    width, height = round(columns * 12 * 0.602) + 40, LINE * len(lines) + 56
    dots = "".join(f'<circle class="head" cx="{22 + 18 * number}" cy="20" r="5"/>' for number in range(3))
    rows = [
        f'<text class="{_find_color(line)}" x="20" y="{54 + LINE * number}" xml:space="preserve">'
        f"{escape(line, quote=False)}</text>"
        for number, line in enumerate(lines)
        if line
    ]
    return _wrap(title, (width, height), f"font-family:{MONO};font-size:12px", [dots, *rows])


def wrap(line: str, columns: int) -> list[str]:
    """Divide a line at spaces."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    parts = []
    while len(line) > columns:
        end = line.rfind(" ", len(indent), columns)
        if end <= len(indent):
            end = columns
        parts.append(line[:end])
        line = indent + line[end:].lstrip()
    return [*parts, line]


def _find_color(line: str) -> str:
    begin = line.strip()[:1] or " "
    if begin == "$":
        return "text"
    if begin == "✓":
        return "good"
    return "warn" if begin in "✗▲" or line.startswith("error:") else "soft"


def _wrap(title: str, size: tuple[int, int], font: str, parts: Sequence[str]) -> str:
    width, height = size
    light = "".join(f"{name}{{{colors[0]}}}" for name, colors in COLORS.items())
    dark = "".join(f"{name}{{{colors[1]}}}" for name, colors in COLORS.items())
    content = "\n".join(parts)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">
<title>{escape(title)}</title>
<style>text{{{font}}}{light}@media (prefers-color-scheme: dark){{{dark}}}</style>
<rect class="page" x="1" y="1" width="{width - 2}" height="{height - 2}" rx="10"/>
{content}
</svg>
"""
