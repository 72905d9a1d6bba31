"""Filling values: `${{ each.NAME }}` and `${{ env.NAME }}`, and nothing else.

Connect's own `${provider:path:key}` is left alone. A literal `${{` is written `$${{`, a literal `$${{` is `$$${{`, and
so on: one dollar more than what shall come out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from seamark.core.sensitive import is_sensitive, mask_value
from seamark.errors import SpecError
from seamark.specs.nodes import Document, Scalar

MARK = "${{"
_MARK = re.compile(r"(?<!\$)(\$+)\{\{")
# The look-behind lets each run of dollars be tried once: a hostile text costs linear time.
_SLOT = re.compile(r"(?<!\$)(\$+)\{\{(?: *(each|env)\.([\w.-]+) *\}\})?")


def escape_marks(text: str) -> str:
    """The text as it must be written, so that filling it gives the text itself."""
    return _MARK.sub(r"$\1{{", text) if MARK in text else text


def has_slots(text: str) -> bool:
    """Whether filling may change the text."""
    return any(len(found[1]) == 1 for found in _MARK.finditer(text))


@dataclass(frozen=True, slots=True)
class Filler:
    """The values at hand: the environment, and those of one row of `each` where there is one."""

    environ: Mapping[str, str] = field(repr=False)
    row: Mapping[str, str] | None = field(default=None, repr=False)

    def with_row(self, row: Mapping[str, str]) -> Filler:
        """The same environment with the values of a row."""
        return replace(self, row=row)

    def fill(self, scalar: Scalar, document: Document) -> str:
        """The text with every slot filled. What is filled in is not looked at again."""
        if MARK not in scalar.text:
            return scalar.text
        parts: list[str] = []
        position = 0
        for number, found in enumerate(_SLOT.finditer(scalar.text)):
            parts.append(scalar.text[position : found.start()])
            position = found.end()
            if len(found[1]) > 1:
                # Escaped: one dollar less, and whatever stands between the braces as it is.
                parts.append(found[0][1:])
            else:
                parts.append(self._look_up(found, _Spot(scalar, document, number)))
        return "".join([*parts, scalar.text[position:]])

    def _look_up(self, found: re.Match[str], spot: _Spot) -> str:
        kind, name = found[2], found[3]
        if kind is None:
            raise spot.error(
                "only ${{ each.NAME }} and ${{ env.NAME }} can be filled in",
                hint="write a literal ${{ as $${{; for logic use a .py file",
            )
        if kind == "env":
            return self._look_up_variable(name, spot)
        if self.row is None:
            raise spot.error(f"each.{name} has a value only within each", hint="move it into an entry of each:")
        if name not in self.row:
            raise spot.error(
                f"each.{name} is not in the row; it has: {', '.join(self.row) or 'nothing'}",
                hint=f"add {name} to every row of for:",
            )
        return self.row[name]

    def _look_up_variable(self, name: str, spot: _Spot) -> str:
        value = self.environ.get(name)
        if is_sensitive(name) or (value and mask_value(name, value) != value):
            raise spot.error(
                f"env.{name} looks like a secret, or holds one, and would be written into the config as it is",
                hint=f"write the whole value as secret://env/{name}",
            )
        if value is None:
            raise spot.error(f"the environment variable {name} is not set", hint=f"export {name}=…")
        return value


@dataclass(frozen=True, slots=True)
class _Spot:
    """The slot that is being filled: the how-manieth of which text."""

    scalar: Scalar
    document: Document
    number: int

    def error(self, problem: str, *, hint: str) -> SpecError:
        raw = self.document.text[self.scalar.start : self.scalar.end]
        found = [match.start() for match in _SLOT.finditer(raw)]
        inside = found[self.number] if self.number < len(found) else 0
        return self.document.error(self.scalar.start + inside, problem, hint=hint)
