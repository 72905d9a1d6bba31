"""`seamark destroy`."""

from __future__ import annotations

import click

from seamark.cli.carry_out import ChangeOptions, carry_out, change_options
from seamark.cli.options import global_options, pass_session
from seamark.cli.session import Session
from seamark.cli.spec_options import SpecOptions, spec_options


@click.command("destroy")
@spec_options()
@change_options
@global_options
@pass_session
def destroy(session: Session, *, what: SpecOptions, how: ChangeOptions) -> None:
    """Delete the connectors that the files name; their offsets and groups stay."""
    with session.fleet() as fleet:
        planned = fleet.destroy(what.paths, names=what.names, adopt=what.adopt, allow_python=what.allow_python)
        carry_out(session, fleet, planned, how)
