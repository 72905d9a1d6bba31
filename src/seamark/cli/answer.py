"""What a command found: the view, the errors beside it, and the exit code of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from seamark.errors import PartialError, SeamarkError, UnreachableError
from seamark.report.listing import View


@dataclass(frozen=True, slots=True)
class Answer:
    """A view and what could not be had. The errors are written after the view, to standard error."""

    view: View[Any]
    errors: tuple[SeamarkError, ...] = ()
    exit_code: int = 0


def build_answer(view: View[Any], failures: Mapping[str, SeamarkError], *, asked: int) -> Answer:
    """The answer of a read over `asked` clusters, of which those in `failures` gave none."""
    errors = tuple(failures.values())
    if errors:
        # Where somebody did not answer, an empty list does not mean that there are none.
        view = replace(view, empty="")
    return Answer(view, errors, exit_code=choose_exit_code(errors, all_failed=len(errors) >= asked))


def choose_exit_code(errors: tuple[SeamarkError, ...], *, all_failed: bool) -> int:
    """0 without errors; 3 where some parts worked; else the code that all errors share, or 6."""
    if not errors:
        return 0
    if not all_failed:
        return PartialError.exit_code
    codes = {error.exit_code for error in errors}
    # Different reasons everywhere: "try again later" is the one that asks for least.
    return codes.pop() if len(codes) == 1 else UnreachableError.exit_code
