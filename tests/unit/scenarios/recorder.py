"""What a scenario's commands printed, as one readable text."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.stubs import Outcome
from tests.unit.scenarios.normalize import Normalizer, format_output


class Recorder:
    """Collects sections: commands with their outputs, comments, and states of the fakes."""

    def __init__(self, folder: Path) -> None:
        self._normalizer = Normalizer(folder)
        self._sections: list[str] = []

    @property
    def text(self) -> str:
        """All sections so far."""
        return "\n".join(self._sections)

    def add_comment(self, words: str) -> None:
        """Add a comment: what happens outside of seamark."""
        self._sections.append(self._normalizer.normalize(f"# {words}\n"))

    def add_command(self, command: str, ended: Outcome, *, is_raw: bool = False) -> None:
        """Add a command with its exit code and both outputs. Raw JSON keeps its order of keys and its layout."""
        parts = [f"$ {command}\nexit code: {ended.code}\n"]
        for name, output in (("stdout", ended.out), ("stderr", ended.err)):
            if output:
                shown = output if is_raw else format_output(output)
                parts.append(f"--- {name}\n{shown}" + ("" if shown.endswith("\n") else "\n"))
        self._sections.append(self._normalizer.normalize("".join(parts)))

    def add_document(self, title: str, text: str) -> None:
        """Add a text or JSON document that is no output of a command."""
        shown = format_output(text)
        self._sections.append(
            self._normalizer.normalize(f"# {title}\n{shown}" + ("" if shown.endswith("\n") else "\n"))
        )
