"""What a command found: the view, the errors beside it, and the exit code of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

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


_GLOB = frozenset("*?[")


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str:
        """Its name."""


T = TypeVar("T", bound=Named)


def pick_named(items: Sequence[T], names: Sequence[str]) -> tuple[T, ...]:
    """Those that fit one of the names or globs; all of them without names."""
    return tuple(item for item in items if not names or any(fnmatchcase(item.name, name) for name in names))


def add_missing(answer: Answer, items: Sequence[Named], names: Sequence[str], *, noun: str) -> Answer:
    """The answer with an error for each plain name that is nowhere: most likely it is misspelt."""
    known = {item.name for item in items}
    absent = tuple(
        NotFoundError(
            f"there is no {noun} {name}", hint=f"seamark {noun}s list shows all of them", context={noun: name}
        )
        for name in names
        if name not in known and not _GLOB & set(name)
    )
    if not absent:
        return answer
    code = answer.exit_code or choose_exit_code(absent, all_failed=len(absent) == len(names))
    return replace(answer, errors=(*answer.errors, *absent), exit_code=code)


# Most answers come within a second; a person who has waited for two begins to wonder.
FIRST_SECONDS = 2.0
# Enough to see that it goes on, and not a screen full of it within the minute that a call may take.
EVERY_SECONDS = 10.0
_LONGEST_WORDS = 160


@contextmanager
def report_slow_calls(session: Session, read: Callable[[], Sequence[Wait]]) -> Iterator[None]:
    """Tell on standard error, from another thread, what has been waited for too long. Nothing with `--quiet`."""
    # A program that reads errors as json from a pipe must not find our sentences between them.
    if session.quiet or not (session.output.is_text or is_terminal(session.err)):
        yield
        return
    ended = Event()

    def watch() -> None:
        pause = FIRST_SECONDS
        while not ended.wait(pause):
            sentence = build_sentence(read())
            pause = EVERY_SECONDS if sentence else FIRST_SECONDS / 2
            # While a watch draws, another line would tear its picture; the picture says how old it is.
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
    """One sentence for all calls that take longer than that, the longest first; "" where there is none."""
    long = sorted((wait for wait in waits if wait.seconds >= FIRST_SECONDS), key=lambda wait: -wait.seconds)
    if not long:
        return ""
    first, *more = long
    words = mask_text(first.last_words) or "no answer yet"
    shown = words if len(words) <= _LONGEST_WORDS else f"{words[:_LONGEST_WORDS]} …"
    others = f"; {len(more)} more calls wait too" if len(more) > 1 else "; 1 more call waits too" if more else ""
    what = f"{first.doing} in Connect cluster {first.cluster}"
    return f"… still trying to {what}, {render_duration(first.seconds)}: {shown}{others}"
