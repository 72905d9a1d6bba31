"""`seamark offsets relocate`."""

from __future__ import annotations

import click

from seamark.cli.carry_out import ChangeOptions, carry_out, change_options
from seamark.cli.complete import complete_connectors
from seamark.cli.offset_moves import option_accept_zombie, option_wait
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.errors import UsageError


@click.command("relocate")
@click.argument("owner", shell_complete=complete_connectors)
@option("--topic", metavar="TOPIC", help="The offsets topic that it shall have; made where it is not there.")
@option("--workers", is_flag=True, help="Back to the offsets topic of its workers.")
@option_accept_zombie
@option_wait
@change_options
@global_options
@pass_session
def relocate(
    session: Session,
    *,
    owner: str,
    topic: str | None,
    workers: bool,
    accept_zombie: bool,
    wait: float | None,
    how: ChangeOptions,
) -> None:
    """Let source OWNER keep its offsets in a topic of its own, or in that of its workers again.

    It reads nothing again: it is stopped, its records are carried over to the byte and verified, then its config names
    the topic (offsets.storage.topic), and it goes on.
    """
    if (topic is None) is not workers:
        raise UsageError("say one of --topic and --workers", hint="seamark offsets relocate NAME --topic TOPIC")
    with session.fleet() as fleet:
        planned = fleet.offsets.relocate(owner, topic, accept_zombies=accept_zombie, wait_seconds=wait)
        carry_out(session, fleet, planned, how)
