"""The result of a command: the view, the errors beside it, and the exit code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from seamark.core.refs import GLOB
from seamark.core.secrets import mask_text
from seamark.errors import NotFoundError, PartialError, SeamarkError, UnreachableError
from seamark.report.listing import View
from seamark.report.terminal import is_terminal
from seamark.report.words import render_duration

if TYPE_CHECKING:
    from seamark.cli.session import Session
    from seamark.connect.model import Wait


@dataclass(frozen=True, slots=True)
class Answer:
    """A view and what could not be read. The errors are written after the view, to standard error."""

    view: View[Any]
    errors: tuple[SeamarkError, ...] = ()
    exit_code: int = 0


def build_answer(view: View[Any], failures: Mapping[str, SeamarkError], *, asked: int) -> Answer:
    """Build the answer of a read from `asked` Connect clusters, of which those in `failures` failed."""
    errors = tuple(failures.values())
    if errors:
        # If a Connect cluster did not respond, an empty list does not mean that there are none.
        view = replace(view, empty="")
    return Answer(view, errors, exit_code=choose_exit_code(errors, all_failed=len(errors) >= asked))


def choose_exit_code(errors: tuple[SeamarkError, ...], *, all_failed: bool) -> int:
    """Return 0 without errors; 3 if some parts succeeded; else the code that all errors share, or 6."""
    if not errors:
        return 0
    if not all_failed:
        return PartialError.exit_code
    codes = {error.exit_code for error in errors}
    # The causes differ: use the code for "try again later", the least demanding one.
    return codes.pop() if len(codes) == 1 else UnreachableError.exit_code


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str:
        """Return its name."""


T = TypeVar("T", bound=Named)


def pick_named(items: Sequence[T], names: Sequence[str]) -> tuple[T, ...]:
    """Return the items that match one of the names or globs; all of them without names."""
    return tuple(item for item in items if not names or any(fnmatchcase(item.name, name) for name in names))


def add_missing(answer: Answer, known: Collection[str], names: Sequence[str], *, noun: str) -> Answer:
    """Add an error for each plain name that does not exist: it is probably misspelled."""
    absent = tuple(
        NotFoundError(f"{noun} {name} does not exist", hint=f"run: seamark {noun}s list", context={noun: name})
        for name in names
        if name not in known and not GLOB & set(name)
    )
    if not absent:
        return answer
    code = answer.exit_code or choose_exit_code(absent, all_failed=len(absent) == len(names))
    return replace(answer, errors=(*answer.errors, *absent), exit_code=code)


# Most responses come within a second; after two, users want to know what takes so long.
FIRST_SECONDS = 2.0
# Frequent enough to show progress, but not a screenful within the minute that a call may take.
EVERY_SECONDS = 10.0
_LONGEST_WORDS = 160


@contextmanager
def report_slow_calls(session: Session, read: Callable[[], Sequence[Wait]]) -> Iterator[None]:
    """Report calls that take too long on standard error, from another thread. Nothing with `--quiet`."""
    # A program that reads JSON errors from a pipe must not find other text between them.
    if session.quiet or not (session.output.is_text or is_terminal(session.err)):
        yield
        return
    ended = Event()

    def watch() -> None:
        pause = FIRST_SECONDS
        while not ended.wait(pause):
            sentence = build_sentence(read())
            pause = EVERY_SECONDS if sentence else FIRST_SECONDS / 2
            # While a watch redraws the screen, another line would corrupt it; the screen shows how old it is.
            if sentence and not session.is_redrawing and not ended.is_set():
                with suppress(OSError, ValueError):
                    session.reporter.note(sentence)

    thread = Thread(target=watch, name="seamark-waits", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def build_sentence(waits: Sequence[Wait]) -> str:
    """Build one sentence for all calls that take too long, the longest first; "" if there is none."""
    long = sorted((wait for wait in waits if wait.seconds >= FIRST_SECONDS), key=lambda wait: -wait.seconds)
    if not long:
        return ""
    first, *more = long
    words = mask_text(first.last_words) or "no answer yet"
    shown = words if len(words) <= _LONGEST_WORDS else f"{words[:_LONGEST_WORDS]} …"
    others = f"; {len(more)} more calls wait too" if len(more) > 1 else "; 1 more call waits too" if more else ""
    what = f"{first.doing} in Connect cluster {first.cluster}"
    return f"… still trying to {what}, {render_duration(first.seconds)}: {shown}{others}"
