"""What the shell offers on TAB: contexts, clusters, connectors, plugins, loggers, topics, groups, changes.

A shell must never hang or show an error on TAB: whatever goes wrong, nothing is offered.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from seamark.cli.main import COMPLETE_VAR
from seamark.cli.options import pass_session
from seamark.cli.session import Session
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.fleet import Fleet


# People wait a second for TAB, not more. A thread that is late is left behind; the process ends at once.
_BUDGET_SECONDS = 1.0
# A screen of ids; whoever wants an older one types its beginning from `journal list`.
_MOST_CHANGES = 50


def complete_contexts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The names of contexts that begin with what was typed."""

    def read() -> list[str]:
        from seamark.context import load_contexts  # noqa: PLC0415

        return list(load_contexts().names)

    return _offer(read, incomplete)


def complete_connectors(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The connectors that begin with what was typed; with a slash in it, as CLUSTER/NAME."""

    def read(fleet: Fleet) -> list[str]:
        found = fleet.connectors.all(cluster=_find_option(ctx, "cluster")).items
        return [name for connector in found for name in (connector.name, connector.owner)]

    return _offer_from_fleet(ctx, read, incomplete)


def complete_clusters(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The Connect clusters of the context that begin with what was typed. Nobody is asked for them."""
    return _offer_from_fleet(ctx, lambda fleet: list(fleet.context.connect), incomplete)


def complete_workers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The workers' URLs that begin with what was typed. Nobody is asked for them."""

    def read(fleet: Fleet) -> list[str]:
        return [url for settings in fleet.context.connect.values() for url in settings.urls]

    return _offer_from_fleet(ctx, read, incomplete)


def complete_plugins(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The plugins whose class begins with what was typed, or ends with a simple name that does."""

    def read(fleet: Fleet) -> list[str]:
        classes = [plugin.class_name for plugin in fleet.connectors.plugins(cluster=_find_option(ctx, "cluster")).items]
        return [name for class_name in classes for name in (class_name, class_name.rpartition(".")[2])]

    return _offer_from_fleet(ctx, read, incomplete)


def complete_loggers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The loggers that begin with what was typed."""

    def read(fleet: Fleet) -> list[str]:
        return [logger.name for logger in fleet.loggers.all(cluster=_find_option(ctx, "cluster")).items]

    return _offer_from_fleet(ctx, read, incomplete)


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The topics that begin with what was typed."""
    return _offer_from_fleet(ctx, lambda fleet: [topic.name for topic in fleet.topics.all().items], incomplete)


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The groups that begin with what was typed."""
    return _offer_from_fleet(ctx, lambda fleet: [group.name for group in fleet.groups.all().items], incomplete)


def complete_changes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The newest changes of the journal whose ids begin with what was typed."""
    return _offer_from_fleet(
        ctx, lambda fleet: [head.change for head in fleet.journal.list(limit=_MOST_CHANGES)], incomplete
    )


def complete_open_changes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The changes that are not finished and whose ids begin with what was typed."""
    return _offer_from_fleet(
        ctx, lambda fleet: [head.change for head in fleet.journal.list(limit=_MOST_CHANGES, only_open=True)], incomplete
    )


def _find_option(ctx: click.Context, name: str) -> str | None:
    """What was typed for an option of the same command, so that less has to be asked for."""
    value = ctx.params.get(name)
    return value if isinstance(value, str) else None


def _offer_from_fleet(ctx: click.Context, read: Callable[[Fleet], list[str]], incomplete: str) -> list[str]:
    session = ctx.find_object(Session) or Session()

    def open_and_read() -> list[str]:
        with session.open_fleet(session.context) as fleet:
            return read(fleet)

    return _offer(open_and_read, incomplete)


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


@click.command
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@pass_session
def completion(session: Session, shell: str) -> None:
    r"""Write the completion script of a shell.

    \b
    bash:  eval "$(seamark completion bash)"     in ~/.bashrc
    zsh:   eval "$(seamark completion zsh)"      in ~/.zshrc
    fish:  seamark completion fish > ~/.config/fish/completions/seamark.fish
    """
    script = get_completion_class(shell)
    if script is None:
        raise UsageError(f"there is no completion for {shell}")
    root = click.get_current_context().find_root().command
    source = script(root, {}, "seamark", COMPLETE_VAR)
    # Not `.source()`: for bash that runs a bash to ask for its version.
    session.out.write(source.source_template % source.source_vars())
