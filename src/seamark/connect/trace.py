"""A Java stack trace, folded to the lines that say why."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.core.sensitive import mask_text

_CAUSE = "Caused by:"


@dataclass(frozen=True, slots=True)
class FoldedTrace:
    """The telling lines of a trace and how many were left out."""

    lines: tuple[str, ...]
    hidden: int

    @property
    def root(self) -> str:
        """The innermost cause, without its "Caused by:"."""
        return self.lines[-1].removeprefix(_CAUSE).strip() if self.lines else ""


def fold_trace(trace: str) -> FoldedTrace:
    """The first line and every "Caused by" line, without secrets.

    A message that goes over several lines keeps its first only; the whole is shown by `-o wide`.
    """
    lines = clean_trace(trace)
    kept = tuple(text.strip() for index, text in enumerate(lines) if index == 0 or text.strip().startswith(_CAUSE))
    return FoldedTrace(kept, len(lines) - len(kept))


def explain_trace(trace: str) -> str:
    """One line that says what failed and why: the first line, and the innermost cause where there is one."""
    folded = fold_trace(trace)
    if not folded.lines:
        return "without a trace"
    first = folded.lines[0]
    return first if len(folded.lines) == 1 else f"{first} ({folded.root})"


def clean_trace(trace: str) -> list[str]:
    """Every line of a trace, without secrets and without the blanks at the ends."""
    return [text.rstrip().replace("\t", "    ") for text in mask_text(trace).split("\n") if text.strip()]
