"""`--watch`: repeat the same read, redrawn on a terminal, appended everywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any

from seamark.cli.answer import Answer
from seamark.cli.options import Duration, Number, build_options, global_options, option, pass_session
from seamark.cli.session import Session
from seamark.errors import InterruptedRunError, SeamarkError
from seamark.report.listing import render_view
from seamark.report.terminal import is_terminal, render_error
from seamark.report.words import render_duration, render_time

Draw = Callable[[str], None]

# A reading costs each Connect cluster a request; more than ten per second can't be perceived.
_SHORTEST_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Whether to repeat the read, how often, and how many times."""

    watch: bool = False
    interval_seconds: float = 2.0
    max_updates: int | None = None


watch_options = build_options(
    option("-w", "--watch", is_flag=True, help="Repeat until Ctrl-C."),
    option(
        "--interval",
        "interval_seconds",
        type=Duration(minimum_seconds=_SHORTEST_SECONDS),
        default="2s",
        show_default=True,
        metavar="DURATION",
        help="Time between two updates of --watch.",
    ),
    option("--max-updates", type=Number(minimum=1), metavar="N", help="End --watch after N updates."),
    into="watching",
    build=WatchOptions,
)


def watch_command(command: Callable[..., Answer]) -> Callable[..., None]:
    """Turn a read into a command that shows its answer once, or repeatedly with `--watch`."""

    @wraps(command)
    def run(session: Session, /, *, watching: WatchOptions, **given: Any) -> None:
        with session.fleet() as fleet:
            show_answer(session, lambda: command(fleet, **given), watching)

    return watch_options(global_options(pass_session(run)))


def show_answer(session: Session, read: Callable[[], Answer], watching: WatchOptions) -> None:
    """Show the answer once, or repeatedly."""
    if not watching.watch:
        session.show(read())
        return
    try:
        if session.output.is_text and is_terminal(session.out):
            _redraw(session, read, watching)
        else:
            _append(session, read, watching)
    except KeyboardInterrupt:
        # Every watch ends in this way: there is nothing to report.
        session.exit_code = InterruptedRunError.exit_code


def _append(session: Session, read: Callable[[], Answer], watching: WatchOptions) -> None:
    first = True
    for moment, answer in _readings(session, read, watching):
        reporter = session.reporter
        errors = (answer,) if isinstance(answer, SeamarkError) else answer.errors
        if isinstance(answer, Answer):
            reporter.show_tick(answer.view, moment, first=first)
            first = False
        for error in errors:
            reporter.fail(error)


def _redraw(session: Session, read: Callable[[], Answer], watching: WatchOptions) -> None:
    with _open_canvas(session) as draw:
        for moment, answer in _readings(session, read, watching):
            screen = session.reporter.build_screen()
            errors = (answer,) if isinstance(answer, SeamarkError) else answer.errors
            head = f"{render_time(moment)} · every {render_duration(watching.interval_seconds)} · Ctrl-C ends\n"
            body = render_view(answer.view, session.output, screen) if isinstance(answer, Answer) else ""
            draw(head + body + "".join(render_error(error, color=screen.color) for error in errors))


def _readings(
    session: Session, read: Callable[[], Answer], watching: WatchOptions
) -> Iterator[tuple[datetime, Answer | SeamarkError]]:
    """Read until the count is reached. A retryable error is an answer; any other one ends the watch."""
    number = 0
    while watching.max_updates is None or number < watching.max_updates:
        if number:
            session.sleep(watching.interval_seconds)
        number += 1
        moment = session.now()
        answer: Answer | SeamarkError
        try:
            answer = read()
        except SeamarkError as error:
            if not error.retryable:
                raise
            answer = error
        session.exit_code = answer.exit_code
        yield moment, answer


@contextmanager
def _open_canvas(session: Session) -> Iterator[Draw]:
    """Open a part of the terminal that is redrawn in place, without flicker."""
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    color = session.reporter.build_screen().color
    console = Console(file=session.out, force_terminal=True, no_color=not color, highlight=False)
    session.is_redrawing = True
    try:
        with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:
            yield lambda text: live.update(Text.from_ansi(text.rstrip("\n")), refresh=True)
    finally:
        session.is_redrawing = False
