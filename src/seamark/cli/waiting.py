"""Saying what is waited for: a worker that hangs or a rebalance may take a minute, and silence looks like a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

from seamark.core.sensitive import mask_text
from seamark.report.terminal import is_terminal
from seamark.report.words import render_duration

if TYPE_CHECKING:
    from seamark.cli.session import Session
    from seamark.connect.wait import Wait

# Most answers come within a second; a person who has waited for two begins to wonder.
FIRST_SECONDS = 2.0
# Enough to see that it goes on, and not a screen full of it within the minute that a call may take.
EVERY_SECONDS = 10.0
_LONGEST_WORDS = 160


@contextmanager
def telling_waits(session: Session, read: Callable[[], Sequence[Wait]]) -> Iterator[None]:
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
            if sentence and not session.draws and not ended.is_set():
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
