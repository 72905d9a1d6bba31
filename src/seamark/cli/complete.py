"""What the shell offers on TAB: names of contexts and connectors.

A shell must never hang or show an error on TAB: whatever goes wrong, nothing is offered.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Thread

import click

from seamark.cli.session import Session

# People wait a second for TAB, not more. A thread that is late is left behind; the process ends at once.
_BUDGET_SECONDS = 1.0


def complete_contexts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The names of contexts that begin with what was typed."""

    def read() -> list[str]:
        from seamark.context import load_contexts  # noqa: PLC0415

        return list(load_contexts().names)

    return _offer(read, incomplete)


def complete_connectors(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The connectors that begin with what was typed; with a slash in it, as CLUSTER/NAME."""
    session = ctx.find_object(Session) or Session()

    def read() -> list[str]:
        with session.fleet() as fleet:
            found = fleet.connectors.all().items
        return [name for connector in found for name in (connector.name, connector.owner)]

    return _offer(read, incomplete)


def _offer(read: Callable[[], list[str]], incomplete: str) -> list[str]:
    found: list[str] = []

    def fill() -> None:
        with suppress(Exception):
            found.extend(read())

    thread = Thread(target=fill, daemon=True)
    thread.start()
    thread.join(_BUDGET_SECONDS)
    # A name with a control character or a blank can't be completed by a shell without harm.
    return sorted({name for name in found if name.startswith(incomplete) and name.isprintable() and " " not in name})
