"""`seamark demo`."""

from __future__ import annotations

import click

from seamark.cli.answer import Answer
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session


@click.command
@option("--chapter", "chosen", multiple=True, metavar="N|NAME", help="Play this chapter only; repeat for more.")
@option("--list", "only_list", is_flag=True, help="List the chapters and what they need, and start nothing.")
@option("--fast", "-y", "--yes", "fast", is_flag=True, help="Do not wait for Enter.")
@option("--keep", is_flag=True, help="Leave the servers running at the end, and say how to use and end them.")
@global_options
@pass_session
def demo(session: Session, *, chosen: tuple[str, ...], only_list: bool, fast: bool, keep: bool) -> None:
    """Start real servers, break something, and mend it.

    Needs Java 17 and Maven; a chapter that needs more is left out where that is missing. Everything happens in a folder
    of its own: your contexts are not touched. The servers end with the demo.
    """
    from seamark.demo.show import Audience, build_programme, build_programme_view, run_show  # noqa: PLC0415
    from seamark.report.terminal import is_terminal  # noqa: PLC0415

    programme = build_programme(chosen)
    if only_list:
        session.show(Answer(build_programme_view(programme)))
        return
    programme.check()
    screen = session.reporter.build_screen()
    is_watched = session.stdin.isatty() and is_terminal(session.out) and not session.no_input
    audience = Audience(
        session.out, stdin=session.stdin, width=screen.width, color=screen.color, waits=is_watched and not fast
    )
    run_show(programme, audience, keep=keep, color=session.color)
