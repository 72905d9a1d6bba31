"""The words of `-o`. Alone in a module, because every start of the command line needs them."""

from __future__ import annotations

from enum import StrEnum


class OutputFormat(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    CSV = "csv"

    @property
    def is_text(self) -> bool:
        """Whether a person reads it rather than a program."""
        return self in (OutputFormat.TABLE, OutputFormat.WIDE)
