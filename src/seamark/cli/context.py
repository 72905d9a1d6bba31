"""`seamark context`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer
from seamark.cli.complete import complete_contexts
from seamark.cli.context_view import ContextRow, build_contexts_view, build_settings_view
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.core.finding import Finding, Severity
from seamark.doctor.views import build_findings_view
from seamark.errors import ContextNotFoundError, SeamarkError, UnreachableError

if TYPE_CHECKING:
    from seamark.context import Contexts, WrittenFile

_NAME = click.argument("name", required=False, shell_complete=complete_contexts)


@click.group
def context() -> None:
    """Name clusters, and choose one."""


@context.command("add")
@click.argument("name")
@option(
    "--connect",
    multiple=True,
    metavar="[CLUSTER=]URL",
    help="A Connect worker; repeat for more. Without CLUSTER= it belongs to the cluster 'connect'.",
)
@option("--bootstrap", metavar="HOST:PORT", help="The brokers, separated by commas.")
@option("--kafka", multiple=True, metavar="KEY=VALUE", help="Any other setting of a Kafka client; repeat for more.")
@option("--worker-config", multiple=True, metavar="[CLUSTER=]FILE", help="The properties file of the workers.")
@option("--username", metavar="USER", help="The user for the workers' REST API.")
@option("--password", metavar="SECRET", help="Its password: secret://env/NAME, secret://file/PATH#KEY, @FILE or -.")
@option("--protected", is_flag=True, help="Ask for a typed confirmation of every change.")
@option("--insecure", is_flag=True, help="Accept connections that others can read.")
@option("--replace", is_flag=True, help="Replace a context of that name.")
@option("--use", is_flag=True, help="Make it the current context.")
@option("--project", is_flag=True, help="Write to seamark.yaml of the project, not to your own file.")
@global_options
@pass_session
def add(session: Session, /, name: str, **given: object) -> None:
    """Write a new context into your contexts file."""
    from seamark.cli.new_context import build_content  # noqa: PLC0415
    from seamark.context import add_context  # noqa: PLC0415

    content = build_content(session, given)
    written = add_context(
        name,
        kafka=content.kafka,
        connect=content.connect,
        protected=bool(given["protected"]),
        insecure=bool(given["insecure"]),
        replace=bool(given["replace"]),
        make_current=bool(given["use"]),
        project=bool(given["project"]),
    )
    session.reporter.note(f"context {name} written to {written.place}")
    _note_shadow(session, name, written)


@context.command("use")
@click.argument("name", shell_complete=complete_contexts)
@option("--project", is_flag=True, help="Write to seamark.yaml of the project, not to your own file.")
@global_options
@pass_session
def use(session: Session, name: str, *, project: bool) -> None:
    """Make NAME the current context."""
    from seamark.context import use_context  # noqa: PLC0415

    written = use_context(name, project=project)
    session.reporter.note(f"context {name} is current by {written.place}")
    _note_shadow(session, name, written)


@context.command("list")
@global_options
@pass_session
def list_contexts(session: Session) -> None:
    """List every context that is known here."""
    from seamark.context import load_contexts  # noqa: PLC0415

    contexts = load_contexts()
    session.give(Answer(build_contexts_view([_build_row(contexts, name) for name in contexts.names])))


@context.command("show")
@_NAME
@option("--origins", is_flag=True, help="Show where each value comes from.")
@global_options
@pass_session
def show(session: Session, name: str | None, *, origins: bool) -> None:
    """Show the settings of a context; secrets stay hidden."""
    from seamark.context import open_context  # noqa: PLC0415

    opened = open_context(name or session.context)
    settings = opened.settings()
    session.give(Answer(build_settings_view(opened.name, settings, origins=origins)))
    for note in dict.fromkeys(setting.note for setting in settings if setting.note):
        session.reporter.note(f"note: {note}")


@context.command("test")
@_NAME
@global_options
@pass_session
def test(session: Session, name: str | None) -> None:
    """Reach every worker and the brokers, and say what was seen.

    Ends with 6 when one of them can't be reached.
    """
    with session.open_fleet(name or session.context) as fleet:
        findings = fleet.reach()
    session.give(Answer(build_findings_view(findings, show_fine=True), exit_code=choose_exit_code(findings)))


def choose_exit_code(findings: tuple[Finding, ...]) -> int:
    """6 where something does not answer, 1 where something else is wrong, else 0."""
    failed = [finding for finding in findings if finding.severity is Severity.ERROR]
    if any(finding.check.endswith(".reachable") for finding in failed):
        return UnreachableError.exit_code
    return SeamarkError.exit_code if failed else 0


def _build_row(contexts: Contexts, name: str) -> ContextRow:
    current = name == contexts.current
    try:
        opened = contexts.open(name)
    except ContextNotFoundError:
        raise
    except SeamarkError as error:
        # A broken context must not hide the others.
        return ContextRow(name, current=current, error=error.message)
    return ContextRow(
        name=name,
        current=current,
        protected=opened.protected,
        bootstrap_servers=opened.kafka.bootstrap_servers or "",
        clusters=tuple(opened.connect),
    )


def _note_shadow(session: Session, name: str, written: WrittenFile) -> None:
    if written.shadowed_by is not None:
        session.reporter.note(f"note: {written.shadowed_by} still chooses another context than {name}")
