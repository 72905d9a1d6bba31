"""The play: chapter after chapter, act after act, until the end or until somebody has had enough."""

from __future__ import annotations

from collections.abc import Sequence

from seamark.demo.audience import Audience
from seamark.demo.chapter import Act, Chapter
from seamark.demo.stage import Stage
from seamark.errors import DevstackError


def play(chapters: Sequence[tuple[int, Chapter]], stage: Stage, audience: Audience) -> bool:
    """Play numbered chapters to their end; False where the person quit before."""
    for number, chapter in chapters:
        audience.title(f"{number}. {chapter.title}")
        if chapter.set_up is not None:
            chapter.set_up(stage)
        for act in chapter.acts:
            if not _perform(act, stage, audience):
                return False
    return True


def _perform(act: Act, stage: Stage, audience: Audience) -> bool:
    audience.say(act.say)
    command = stage.fill(act.command) if act.command else ""
    if command:
        audience.show("$", command)
    if act.event is not None:
        audience.show(">", act.event.words)
    if (command or act.event) and not audience.goes_on():
        return False
    if command:
        _check_code(act, stage.run(command), audience)
    if act.event is not None:
        act.event.happen(stage)
    if act.until is not None:
        seconds = stage.wait_for(act.until)
        audience.tell(f"{seconds:.1f} s until {act.until.words}")
    if act.look:
        audience.look(act.look)
    return True


def _check_code(act: Act, code: int, audience: Audience) -> None:
    if code:
        audience.tell(f"exit code {code}")
    if code not in act.codes:
        raise DevstackError(
            f"the demo did not go as it should: {act.command} ended with {code}",
            cause=f"expected was {' or '.join(str(known) for known in act.codes)}",
            hint="please report it, with what stands above",
        )
