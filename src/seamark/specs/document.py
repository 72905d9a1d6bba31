"""A spec file: its text, the location of an offset in it, and errors with the location."""

from __future__ import annotations

from seamark.context.files import build_file_error
from seamark.context.yaml import Node, YamlDocument, YamlRules
from seamark.core.files import FileLocation
from seamark.errors import SpecError

# Aliases expand a file: this is the limit after expansion. 10,000 connectors of 50 keys are a million nodes.
RULES = YamlRules("a spec file", 2_000_000, has_merge_keys=True, is_edited=True)


class Document(YamlDocument):
    """The text of one spec file."""

    def __init__(self, file: str, text: str, *, folder: str = "", encoding: str = "utf-8") -> None:
        super().__init__(file, text, rules=RULES)
        self.folder = folder
        self.encoding = encoding

    def line_start(self, offset: int) -> int:
        """Return the offset at which the line of an offset begins."""
        return self.text.rfind("\n", 0, offset) + 1

    def line_span(self, first: int, last: int) -> tuple[int, int]:
        """Return the span from the first to the last line, without its line break. Line numbers start at 1."""
        start = self._line_starts[first - 1]
        end = self.line_end(self._line_starts[last - 1])
        return start, end - 1 if end > start and self.text[end - 1] == "\r" else end

    @property
    def newline(self) -> str:
        """Return the line ending of this file."""
        return "\r\n" if "\r\n" in self.text else "\n"

    def error(self, at: Node | int, problem: str, *, hint: str = "") -> SpecError:
        """Build the error for one location in this file."""
        return build_spec_error(self.place(at), problem, hint=hint)


def build_spec_error(place: FileLocation, problem: str, *, hint: str = "") -> SpecError:
    """Build the error for one location. `problem` must not repeat a config's value: it may be a secret."""
    return build_file_error(SpecError, place, problem, hint=hint)
