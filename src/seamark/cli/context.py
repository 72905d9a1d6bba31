"""`seamark context`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seamark.cli.answer import Answer
from seamark.cli.complete import complete_contexts
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.cli.tree import group
from seamark.core.readings import Finding, Severity
from seamark.core.secrets import is_reference, is_sensitive, mask_text
from seamark.doctor.views import build_findings_view
from seamark.errors import ContextNotFoundError, SeamarkError, UnreachableError, UsageError
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Style

if TYPE_CHECKING:
    from seamark.context import Contexts, Setting, WrittenFile


@dataclass(frozen=True, slots=True)
class ContextRow:
    """One context in the list. `error` is why it can't be opened."""

    name: str
    current: bool = False
    protected: bool = False
    bootstrap_servers: str = ""
    clusters: tuple[str, ...] = ()
    error: str = ""


LISTING: Listing[ContextRow] = Listing(
    kind="ContextList",
    noun="context",
    name=lambda row: row.name,
    columns=(
        Column("current", "CURRENT", lambda row: row.current, text=lambda row: "*" if row.current else ""),
        Column("name", "NAME", lambda row: row.name),
        Column("clusters", "CONNECT", lambda row: list(row.clusters), text=lambda row: ",".join(row.clusters) or "-"),
        Column("bootstrap_servers", "KAFKA", lambda row: row.bootstrap_servers),
        Column("protected", "PROTECTED", lambda row: row.protected, text=lambda row: "yes" if row.protected else "no"),
        Column("error", "ERROR", lambda row: row.error, style=lambda row: Style.BAD if row.error else Style.PLAIN),
    ),
)

_KEY: Column[Setting] = Column("key", "KEY", lambda setting: setting.key)
_VALUE: Column[Setting] = Column("value", "VALUE", lambda setting: setting.value)
_ORIGIN: Column[Setting] = Column("origin", "ORIGIN", lambda setting: str(setting.origin), style=lambda _: Style.MUTED)


def build_contexts_view(rows: Sequence[ContextRow]) -> View[ContextRow]:
    """Build the view of all contexts."""
    return View(LISTING, rows, empty="no contexts; add one with: seamark context add NAME --connect URL")


def build_settings_view(name: str, settings: Sequence[Setting], *, origins: bool) -> View[Setting]:
    """Build the view of one context's settings, with `origins` also where each came from."""
    columns = (_KEY, _VALUE, _ORIGIN) if origins else (_KEY, _VALUE)
    listing = Listing(kind="Context", noun="setting", name=lambda setting: setting.key, columns=columns)
    return View(listing, settings, body=lambda: {"name": name, "settings": listing.build_items(settings)})


_NAME = click.argument("name", required=False, shell_complete=complete_contexts)


@group(
    {
        "add-context": "context add",
        "set-context": "context add",
        "new": "context add",
        "use-context": "context use",
        "get-contexts": "context list",
        "current-context": "context show",
        "view": "context show",
        "check": "context test",
        "ping": "context test",
        "delete-context": "context remove",
        "delete": "context remove",
        "rm": "context remove",
        "rename-context": "context rename",
    }
)
def context() -> None:
    """Add, choose and test contexts."""


@context.command(
    "add",
    examples=["seamark context add dev --connect http://worker:8083 --bootstrap broker:9092"],
)
@click.argument("name")
@option(
    "--connect",
    multiple=True,
    metavar="[CLUSTER=]URL",
    help="A Connect worker; repeatable. The default of CLUSTER is 'connect'.",
)
@option("--bootstrap", metavar="HOST:PORT", help="The brokers, separated by commas.")
@option("--kafka", multiple=True, metavar="KEY=VALUE", help="Another setting of the Kafka clients; repeatable.")
@option("--worker-config", multiple=True, metavar="[CLUSTER=]FILE", help="The properties file of the workers.")
@option("--username", metavar="USER", help="The user for the workers' REST API.")
@option("--password", metavar="SECRET", help="Its password: secret://env/NAME, secret://file/PATH#KEY, @FILE or -.")
@option("--protected", is_flag=True, help="Require a typed confirmation of every change.")
@option("--insecure", is_flag=True, help="Allow unencrypted connections.")
@option("--replace", is_flag=True, help="Replace the context of that name.")
@option("--use", is_flag=True, help="Make it the current context.")
@option("--project", is_flag=True, help="Write to seamark.yaml of the project instead of your own file.")
@global_options
@pass_session
def add(session: Session, /, name: str, **given: object) -> None:
    """Add a context to your contexts file."""
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


@context.command("use", examples=["seamark context use dev"])
@click.argument("name", shell_complete=complete_contexts)
@option("--project", is_flag=True, help="Write to seamark.yaml of the project instead of your own file.")
@global_options
@pass_session
def use(session: Session, name: str, *, project: bool) -> None:
    """Make NAME the current context."""
    from seamark.context import use_context  # noqa: PLC0415

    written = use_context(name, project=project)
    session.reporter.note(f"context {name} is the current one (set in {written.place})")
    _note_shadow(session, name, written)


@context.command("rename", examples=["seamark context rename prod production"])
@click.argument("old", shell_complete=complete_contexts)
@click.argument("new")
@global_options
@pass_session
def rename(session: Session, old: str, new: str) -> None:
    """Rename a context in your contexts file.

    If it is the current context, it stays so. Its journal stays usable. A context that another file defines, wholly or
    in part, is refused.
    """
    from seamark.context import rename_context  # noqa: PLC0415

    written = rename_context(old, new)
    session.reporter.note(f"context {old} renamed to {new} in {written.place}")
    if written.journal is not None:
        session.reporter.note(f"note: its journal stays in {written.journal}; journal_folder names it")
    _note_old_name(session, old, written)


@context.command("remove", examples=["seamark context remove lab"])
@click.argument("name", shell_complete=complete_contexts)
@global_options
@pass_session
def remove(session: Session, name: str) -> None:
    """Remove a context from your contexts file.

    The clusters and the journal of the context are not changed. If it is the current context, no context is current
    afterwards. A context that another file defines, wholly or in part, is refused.
    """
    from seamark.context import remove_context  # noqa: PLC0415

    written = remove_context(name)
    session.reporter.note(f"context {name} removed from {written.place}")
    if written.journal is not None:
        session.reporter.note(f"note: its journal stays in {written.journal}")
    _note_old_name(session, name, written)


@context.command("list", examples=["seamark context list"])
@global_options
@pass_session
def list_contexts(session: Session) -> None:
    """List contexts."""
    from seamark.context import load_contexts  # noqa: PLC0415

    contexts = load_contexts()
    session.show(Answer(build_contexts_view([_build_row(contexts, name) for name in contexts.names])))


@context.command("show", examples=["seamark context show", "seamark context show dev --origins"])
@_NAME
@option("--origins", is_flag=True, help="Add the origin of each value.")
@global_options
@pass_session
def show(session: Session, name: str | None, *, origins: bool) -> None:
    """Show the settings of a context, without secrets."""
    from seamark.context import open_context  # noqa: PLC0415

    opened = open_context(name or session.context)
    settings = opened.settings()
    session.show(Answer(build_settings_view(opened.name, settings, origins=origins)))
    for note in dict.fromkeys(setting.note for setting in settings if setting.note):
        session.reporter.note(f"note: {note}")


@context.command("test", examples=["seamark context test dev"])
@_NAME
@global_options
@pass_session
def test(session: Session, name: str | None) -> None:
    """Connect to every worker and the brokers.

    Ends with exit code 6 if one of them can't be reached.
    """
    with session.open_fleet(name or session.context) as fleet:
        findings = fleet.check_connectivity()
    session.show(Answer(build_findings_view(findings, show_fine=True), exit_code=choose_exit_code(findings)))


def choose_exit_code(findings: tuple[Finding, ...]) -> int:
    """Return 6 if something does not respond, 1 if something else is wrong, else 0."""
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
        # An invalid context must not hide the others.
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
        session.reporter.note(f"note: {written.shadowed_by} still selects another context than {name}")


def _note_old_name(session: Session, name: str, written: WrittenFile) -> None:
    if written.shadowed_by is not None:
        session.reporter.note(f"note: {written.shadowed_by} still selects context {name}, which no longer exists")


# Every user of the machine can see a command line, and the shell's history stores it.

_HOW = "give secret://env/NAME, secret://file/PATH#KEY, @FILE, or - to read it from standard input"


def read_secret(session: Session, given: str, *, option: str) -> str:
    """Return what to write to a contexts file for a secret.

    A reference stays unchanged, `@FILE` becomes a reference to the whole file, and `-` is the first line of standard
    input.
    """
    if is_reference(given):
        return given
    if given == "-":
        return _read_line(session, option=option)
    if given.startswith("@") and len(given) > 1:
        return _build_file_reference(Path(given[1:]), option=option)
    # The message must not repeat the value: it is a secret.
    raise UsageError(f"{option} accepts only a reference to a secret", hint=_HOW)


def _build_file_reference(path: Path, *, option: str) -> str:
    whole = path.expanduser().resolve()
    if not whole.is_file():
        raise UsageError(f"the file of {option} does not exist: {path}", hint=_HOW)
    if "#" in str(whole):
        raise UsageError(
            f"the path of {option} contains #: {path}", hint="# separates the key; rename the file or folder"
        )
    return f"secret://file/{whole}"


def _read_line(session: Session, *, option: str) -> str:
    if session.stdin is sys.stdin and session.stdin.isatty():
        if session.no_input:
            raise UsageError(f"{option} - asks for the value, but --no-input is set", hint=_HOW)
        from click import prompt  # noqa: PLC0415

        return str(prompt(option.lstrip("-"), hide_input=True, err=True))
    line = session.stdin.readline().rstrip("\r\n")
    if not line:
        raise UsageError(f"standard input is empty, but {option} reads from it", hint=_HOW)
    return line


DEFAULT_CLUSTER = "connect"

_NAMED_URL = re.compile(r"(?:(?P<cluster>[^=:/]+)=)?(?P<url>https?://\S+)")


@dataclass(frozen=True, slots=True)
class NewContext:
    """The two sections of a context."""

    kafka: dict[str, str] = field(default_factory=dict)
    connect: dict[str, dict[str, Any]] = field(default_factory=dict)


def build_content(session: Session, given: Mapping[str, Any]) -> NewContext:
    """Build the sections from the options; secrets are read last, so that a typing error comes before a prompt."""
    connect: dict[str, dict[str, Any]] = {
        cluster: {"urls": urls} for cluster, urls in build_clusters(given["connect"]).items()
    }
    for cluster, path in build_worker_configs(given["worker_config"], clusters=tuple(connect)).items():
        connect.setdefault(cluster, {})["worker_config"] = path
    kafka = build_kafka(given["bootstrap"], given["kafka"])
    if not connect and not kafka:
        raise UsageError(
            "a context needs a Connect worker or brokers", hint="pass --connect URL or --bootstrap HOST:PORT"
        )
    login = _build_login(session, given)
    if login and not connect:
        raise UsageError("--username and --password are for Connect workers", hint="pass --connect URL too")
    return NewContext(kafka, {cluster: {**part, **login} for cluster, part in connect.items()})


def build_clusters(given: Iterable[str]) -> dict[str, list[str]]:
    """Parse worker URLs by Connect cluster, from `[CLUSTER=]URL`."""
    clusters: dict[str, list[str]] = {}
    for text in given:
        found = _NAMED_URL.fullmatch(text)
        if found is None:
            raise UsageError(
                f"{mask_text(text)!r} is not [CLUSTER=]URL",
                hint="such as http://worker:8083 or game=http://worker:8083",
            )
        if mask_text(found["url"]) != found["url"]:
            raise UsageError("a URL must not contain a user or password", hint="pass --username and --password")
        clusters.setdefault(found["cluster"] or DEFAULT_CLUSTER, []).append(found["url"])
    return clusters


def build_worker_configs(given: Iterable[str], *, clusters: tuple[str, ...]) -> dict[str, str]:
    """Parse paths of worker files by Connect cluster, from `[CLUSTER=]FILE`. With one, its name may be omitted."""
    files: dict[str, str] = {}
    for text in given:
        cluster, path = _split_cluster(text, clusters=clusters)
        whole = Path(path).expanduser().resolve()
        if not whole.is_file():
            raise UsageError(f"the worker config does not exist: {path}", hint="pass the path of a properties file")
        files[cluster] = str(whole)
    return files


def _split_cluster(text: str, *, clusters: tuple[str, ...]) -> tuple[str, str]:
    cluster, equals, path = text.partition("=")
    # A path may contain a =, too: only a name that --connect gave counts as a Connect cluster.
    if equals and cluster in (clusters or (DEFAULT_CLUSTER,)):
        return cluster, path
    if len(clusters) > 1:
        raise UsageError(
            f"the Connect cluster of the worker config {text} is ambiguous",
            hint=f"pass --worker-config {clusters[0]}={text}",
        )
    return clusters[0] if clusters else DEFAULT_CLUSTER, text


def build_kafka(bootstrap: str | None, given: Iterable[str]) -> dict[str, str]:
    """Build client settings from `--bootstrap` and `KEY=VALUE`. A secret must be a reference."""
    settings = {"bootstrap.servers": bootstrap} if bootstrap else {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{mask_text(text)!r} is not KEY=VALUE", hint="such as security.protocol=SSL")
        if is_sensitive(key) and not is_reference(value):
            raise UsageError(
                f"{key} is a secret, and only a reference to it is accepted", hint=f"pass {key}=secret://env/NAME"
            )
        settings[key] = value
    return settings


def _build_login(session: Session, given: Mapping[str, Any]) -> dict[str, str]:
    login: dict[str, str] = {}
    if given["username"]:
        login["username"] = given["username"]
    if given["password"]:
        login["password"] = read_secret(session, given["password"], option="--password")
        if not is_reference(login["password"]):
            _warn_of_literal(session, is_project=given["project"])
    return login


def _warn_of_literal(session: Session, *, is_project: bool) -> None:
    if is_project:
        raise UsageError(
            "a password can't be written into the file of a project", hint="pass a reference: secret://env/NAME"
        )
    session.reporter.note("note: the password is stored as plain text in your contexts file; a reference is safer")
