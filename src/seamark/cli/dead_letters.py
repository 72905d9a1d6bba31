"""`seamark offsets skip`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from seamark.cli.carry_out import (
    ChangeOptions,
    build_errors,
    carry_out,
    change_options,
    confirm_plan,
    run_change,
    show_plan,
)
from seamark.cli.complete import complete_connectors
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.progress import StepLines
from seamark.cli.session import Session
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.dead_letters.service import Search
    from seamark.fleet import Fleet


@click.command("skip")
@click.argument("owner", shell_complete=complete_connectors)
@option("--at", metavar="TOPIC-PARTITION@OFFSET", help="The record, where you know it: orders-3@123.")
@option(
    "--park",
    metavar="TOPIC",
    help="Where the record is parked. Without it the sink's own dead-letter topic, or NAME-dlq.",
)
@option(
    "--lend",
    "lent",
    multiple=True,
    metavar="KEY=VALUE",
    help="A key of its config for the time in which it takes records one by one, such as flush.size=1.",
)
@option("--show", is_flag=True, help="Show the first bytes of the record's value, and the words of the error.")
@option(
    "--accept-zombie",
    is_flag=True,
    help="Go on although a worker that ran it can't be reached. Only if you have ended that worker.",
)
@change_options
@global_options
@pass_session
def skip(
    session: Session,
    *,
    owner: str,
    at: str | None,
    park: str | None,
    lent: tuple[str, ...],
    show: bool,
    accept_zombie: bool,
    how: ChangeOptions,
) -> None:
    """Let a failed sink go on behind the one record that it can't take.

    The record is found by its bytes, by the task's trace, or by letting the sink take records one by one. All before it
    are delivered; it alone is parked in a dead-letter topic, with its place and the error.
    """
    from seamark.kafka.record import parse_place  # noqa: PLC0415

    lend = _parse_lent(lent)
    with session.fleet() as fleet:
        poison = fleet.skips.find(owner, at=None if at is None else parse_place(at))
        if poison is None:
            search = fleet.skips.search(owner, lend=lend)
            if not _carry_out_search(session, fleet, search, how):
                return
            poison = search.read_poison()
        planned = fleet.skips.plan(owner, poison, park=park, lend=lend, accept_zombies=accept_zombie, show=show)
        carry_out(session, fleet, planned, how)


def _carry_out_search(session: Session, fleet: Fleet, search: Search, how: ChangeOptions) -> bool:
    """Let the sink stand at the record. False where nothing was tried, or it did not come to an end."""
    if how.dry_run or how.out is not None:
        carry_out(session, fleet, search.planned, how)
        return False
    show_plan(session, search.planned, is_data=False)
    word = confirm_plan(session, fleet, search.planned, yes=how.yes)
    if session.output.is_text:
        return run_change(session, lambda progress: fleet.apply(search.planned, progress, confirm=word)).is_done
    # A program gets one document: that of the change that skips.
    result = fleet.apply(search.planned, StepLines(session), confirm=word)
    errors, session.exit_code = build_errors(result)
    for error in errors:
        session.reporter.fail(error)
    return result.is_done


def _parse_lent(lent: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in lent]
    if wrong := [key for key, sign, _ in pairs if not sign or not key.strip()]:
        raise UsageError(f"{wrong[0]!r} is no key with a value", hint="write --lend flush.size=1")
    return {key.strip(): value.strip() for key, _, value in pairs}
