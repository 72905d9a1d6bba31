"""`seamark demo`."""

from __future__ import annotations

from seamark.cli.answer import Answer
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.cli.tree import command


@command(examples=["seamark demo --list", "seamark demo --chapter 1 --no-pause"])
@option("--chapter", "chosen", multiple=True, metavar="N|NAME", help="Play this chapter only; repeatable.")
@option("--list", "only_list", is_flag=True, help="List chapters and their requirements, and start nothing.")
@option("--no-pause", is_flag=True, help="Don't wait for Enter.")
@option("--keep", is_flag=True, help="Keep the servers running, and print how to use and stop them.")
@global_options
@pass_session
def demo(session: Session, *, chosen: tuple[str, ...], only_list: bool, no_pause: bool, keep: bool) -> None:
    """Play a demo on real servers.

    Needs Java 17 and Maven; a chapter whose further requirements are missing is skipped. The demo uses a folder of its
    own and doesn't change your contexts. The servers stop when the demo ends.
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
        session.out, stdin=session.stdin, width=screen.width, color=screen.color, waits=is_watched and not no_pause
    )
    run_show(programme, audience, keep=keep, color=session.color)
