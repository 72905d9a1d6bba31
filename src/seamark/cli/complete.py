"""Shell completion: contexts, Connect clusters, connectors, plugins, loggers, topics, groups, changes.

A shell must never hang or show an error on TAB: after any failure, nothing is offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from seamark.cli.main import COMPLETE_VAR
from seamark.cli.options import pass_session
from seamark.cli.session import Session
from seamark.cli.tree import command
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.fleet import Fleet


# Users wait a second for TAB, not more. A thread that is late is abandoned; the process ends at once.
_BUDGET_SECONDS = 1.0
# A screenful of IDs; an older ID can be typed from `journal list`.
_MOST_CHANGES = 50


Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def complete_contexts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Return the names of contexts that begin with the typed text."""

    def read() -> list[str]:
        from seamark.context import load_contexts  # noqa: PLC0415

        return list(load_contexts().names)

    return _offer(read, incomplete)


def _build_completer(read: Callable[[Fleet, str | None], Iterable[str]]) -> Completer:
    """Build a completer of what `read` finds in the fleet. `read` gets the value of `--cluster`, to read less."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
        session = ctx.find_object(Session) or Session()

        def open_and_read() -> list[str]:
            with session.open_fleet(session.context) as fleet:
                return list(read(fleet, ctx.params.get("cluster")))

        return _offer(open_and_read, incomplete)

    return complete


# A connector is offered as NAME and as CLUSTER/NAME, a plugin by its class and by the last part of it.
complete_connectors = _build_completer(
    lambda fleet, cluster: (
        name for found in fleet.connectors.list(cluster=cluster).items for name in (found.name, found.owner)
    )
)
complete_plugins = _build_completer(
    lambda fleet, cluster: (
        name
        for found in fleet.connectors.plugins(cluster=cluster).items
        for name in (found.class_name, found.class_name.rpartition(".")[2])
    )
)
complete_loggers = _build_completer(
    lambda fleet, cluster: (found.name for found in fleet.loggers.list(cluster=cluster).items)
)
# No server is read for these two.
complete_clusters = _build_completer(lambda fleet, _: fleet.context.connect)
complete_workers = _build_completer(
    lambda fleet, _: (url for settings in fleet.context.connect.values() for url in settings.urls)
)
complete_topics = _build_completer(lambda fleet, _: (topic.name for topic in fleet.topics.list().items))
complete_groups = _build_completer(lambda fleet, _: (group.name for group in fleet.groups.list().items))
complete_changes = _build_completer(lambda fleet, _: (head.change for head in fleet.journal.list(limit=_MOST_CHANGES)))
complete_open_changes = _build_completer(
    lambda fleet, _: (head.change for head in fleet.journal.list(limit=_MOST_CHANGES, only_open=True))
)


def _offer(read: Callable[[], list[str]], incomplete: str) -> list[str]:
    found: list[str] = []

    def fill() -> None:
        with suppress(Exception):
            found.extend(read())

    thread = Thread(target=fill, daemon=True)
    thread.start()
    thread.join(_BUDGET_SECONDS)
    # A shell can't safely complete a name with a control character or a space.
    return sorted({name for name in found if name.startswith(incomplete) and name.isprintable() and " " not in name})


@command(examples=['eval "$(seamark completion bash)"', "seamark completion fish > seamark.fish"])
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@pass_session
def completion(session: Session, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  eval "$(seamark completion bash)"     in ~/.bashrc
    zsh:   eval "$(seamark completion zsh)"      in ~/.zshrc
    fish:  seamark completion fish > ~/.config/fish/completions/seamark.fish
    """  # noqa: D301 - Click keeps the lines of a paragraph that begins with a backspace, not with a backslash
    script = get_completion_class(shell)
    if script is None:
        raise UsageError(f"completion is not available for {shell}")
    root = click.get_current_context().find_root().command
    source = script(root, {}, "seamark", COMPLETE_VAR)
    # Not `.source()`: for bash, that starts a bash to ask for its version.
    session.out.write(source.source_template % source.source_vars())
