"""`seamark connectors pause|resume|stop|restart|delete`."""

from __future__ import annotations

import click

from seamark.cli.carry_out import ChangeOptions, carry_out, change_options
from seamark.cli.options import global_options, pass_session
from seamark.cli.session import Session
from seamark.cli.targets import Targets, target_options


@click.command("pause")
@target_options
@change_options
@global_options
@pass_session
def pause(session: Session, *, targets: Targets, how: ChangeOptions) -> None:
    """Let connectors wait; their tasks stay where they are."""
    with session.fleet() as fleet:
        carry_out(session, fleet, fleet.connectors.pause(targets.find(fleet)), how)


@click.command("resume")
@target_options
@change_options
@global_options
@pass_session
def resume(session: Session, *, targets: Targets, how: ChangeOptions) -> None:
    """Let connectors run that are paused or stopped."""
    with session.fleet() as fleet:
        carry_out(session, fleet, fleet.connectors.resume(targets.find(fleet)), how)


@click.command("stop")
@target_options
@change_options
@global_options
@pass_session
def stop(session: Session, *, targets: Targets, how: ChangeOptions) -> None:
    """Stop connectors; their tasks end. Needs Connect 3.5."""
    with session.fleet() as fleet:
        carry_out(session, fleet, fleet.connectors.stop(targets.find(fleet)), how)


@click.command("restart")
@target_options
@change_options
@global_options
@pass_session
def restart(session: Session, *, targets: Targets, how: ChangeOptions) -> None:
    """Start failed connectors and failed tasks again; what runs is left alone."""
    with session.fleet() as fleet:
        carry_out(session, fleet, fleet.connectors.restart(targets.find(fleet)), how)


@click.command("delete")
@target_options
@change_options
@global_options
@pass_session
def delete(session: Session, *, targets: Targets, how: ChangeOptions) -> None:
    """Delete connectors, and say what stays behind of them."""
    with session.fleet() as fleet:
        carry_out(session, fleet, fleet.connectors.delete(targets.find(fleet)), how)
