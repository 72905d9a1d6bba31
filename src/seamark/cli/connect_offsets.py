"""`connect-offsets`: the tool that KIP-199 proposed. It needs a worker's properties file and no context.

Kafka discarded KIP-199. KIP-875 superseded it with offsets endpoints in Connect's REST API, which need a worker.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from seamark import __version__
from seamark.changes.journal import EntryKind
from seamark.cli.confirm import StepLines, build_errors
from seamark.cli.main import without_collector
from seamark.cli.session import Session
from seamark.errors import InterruptedRunError, SeamarkError, UsageError

if TYPE_CHECKING:
    from seamark.changes.outcome import ChangeResult
    from seamark.fleet import Fleet
    from seamark.kip199.worker import WorkerExport
    from seamark.offsets.stores.stores import OpenScan


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """One run of the program. Tests pass another topic scan."""

    session: Session
    open_scan: OpenScan | None = None
    open_fleet: Callable[[Path, str], Fleet] | None = None


@dataclass(frozen=True, slots=True)
class ProgramMode:
    """What to do: exactly one of these is set."""

    exports: bool
    imports: bool
    undo: str | None
    resume: str | None

    def check(self, *, connectors: str | None, from_beginning: bool, dry_run: bool) -> None:
        """Raise for no mode, several modes, and parameters of another mode."""
        given = [self.exports, self.imports, self.undo is not None, self.resume is not None]
        if sum(given) != 1:
            words = "say what to do: --export or --import"
            raise UsageError(words, cause="more than one was given" if any(given) else "")
        if not self.exports and (connectors is not None or from_beginning):
            raise UsageError("--connectors and --from-beginning are for --export")
        if dry_run and not (self.imports or self.undo):
            raise UsageError("--dry-run is for --import and --undo")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="connect-offsets", message="%(prog)s %(version)s")
@click.option("--export", "exports", is_flag=True, help="Write the offsets of source connectors as JSON.")
@click.option("--import", "imports", is_flag=True, help="Write pairs from such JSON into the worker's store.")
@click.option("--undo", metavar="CHANGE", help="Undo an import.")
@click.option("--resume", metavar="CHANGE", help="Finish an import that a crash left open.")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The properties file of the worker, distributed or standalone. Required.",
)
@click.option("--connectors", metavar="A,B", help="Only these connectors.")
@click.option("--from-beginning", is_flag=True, help="Also pairs that were overwritten since, the oldest first.")
@click.option(
    "--dry-run",
    type=click.BOOL,
    default=False,
    metavar="[true]",
    help="Write what an import would do, and change nothing. --dry-run alone is enough.",
)
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.pass_obj
def connect_offsets(
    run: ProgramRun,
    *,
    exports: bool,
    imports: bool,
    undo: str | None,
    resume: str | None,
    config: Path | None,
    connectors: str | None,
    from_beginning: bool,
    dry_run: bool,
    file: Path | None,
) -> None:
    """Export and import the offsets of source connectors, without a context, with the workers up or down.

    The JSON goes to FILE or to standard output, and comes from FILE or from standard input: {"CONNECTOR":
    [{"partition": {…}, "offset": {…}}, …], …}. An export replaces no file. In an import, null removes an offset, and
    other offsets are kept. Its connectors must be stopped or absent, or all workers down.
    """
    mode = ProgramMode(exports, imports, undo, resume)
    mode.check(connectors=connectors, from_beginning=from_beginning, dry_run=dry_run)
    if config is None:
        raise UsageError("--config is required", cause="the worker's properties define where offsets are stored")
    if exports:
        _export(run, config, connectors=_parse_names(connectors), from_beginning=from_beginning, file=file)
    else:
        _change(run, mode, config, dry_run=dry_run, file=file)


def _change(run: ProgramRun, mode: ProgramMode, config: Path, *, dry_run: bool, file: Path | None) -> None:

    errand = ConnectOffsetsRequest(run.session, config, dry_run=dry_run, open_fleet=run.open_fleet)
    if file is not None and not mode.imports:
        raise UsageError("a FILE is for --export and --import")
    if mode.undo is not None:
        undo_import(errand, mode.undo)
    elif mode.resume is not None:
        resume_import(errand, mode.resume)
    else:
        import_offsets(errand, None if file is None or str(file) == "-" else file)


def _export(run: ProgramRun, config: Path, *, connectors: list[str], from_beginning: bool, file: Path | None) -> None:
    from seamark.kip199.worker import export_worker_offsets  # noqa: PLC0415
    from seamark.offsets.read.export_file import refuse_existing  # noqa: PLC0415
    from seamark.offsets.stores.stores import open_topic_scan  # noqa: PLC0415

    if file is not None:
        refuse_existing(file)
    found = export_worker_offsets(
        config, connectors=connectors, from_beginning=from_beginning, open_scan=run.open_scan or open_topic_scan
    )
    _write(run.session, found, file)


def _parse_names(text: str | None) -> list[str]:
    if text is None:
        return []
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError("--connectors has an empty name", hint="such as --connectors=orders,customers")
    return names


def _write(session: Session, found: WorkerExport, file: Path | None) -> None:
    from seamark.offsets.read.export_file import write_new  # noqa: PLC0415

    if file is None:
        session.out.write(found.text)
        session.out.flush()
    else:
        write_new(found.text, file)
    reporter = session.reporter
    for note in found.notes:
        reporter.note(note)
    for finding in found.findings:
        whose = f"{finding.connector}: " if finding.connector else ""
        reporter.note(f"{finding.anomaly.value}: {whose}{finding.message}")


def main() -> NoReturn:
    """Run the program."""
    sys.exit(execute(sys.argv[1:]))


def execute(
    argv: Sequence[str],
    *,
    session: Session | None = None,
    open_scan: OpenScan | None = None,
    open_fleet: Callable[[Path, str], Fleet] | None = None,
) -> int:
    """Run one command line and return its exit code. Wrong usage shows the usage."""
    session = session or Session()
    run = ProgramRun(session, open_scan, open_fleet)
    try:
        with (
            connect_offsets.make_context("connect-offsets", _spell_out(argv), obj=run) as ctx,
            without_collector(),
        ):
            connect_offsets.invoke(ctx)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as mistake:
        return _fail_usage(session, UsageError(mistake.format_message().rstrip(".")))
    except UsageError as mistake:
        return _fail_usage(session, mistake)
    except SeamarkError as error:
        session.reporter.fail(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return InterruptedRunError.exit_code
    return session.exit_code


def _spell_out(argv: Sequence[str]) -> list[str]:
    """Expand `--dry-run` without a value to true: in the KIP it has a value, and the next argument may be the file."""
    words = list(argv)
    end = words.index("--") if "--" in words else len(words)
    return ["--dry-run=true" if number < end and word == "--dry-run" else word for number, word in enumerate(words)]


def _fail_usage(session: Session, error: UsageError) -> int:
    with click.Context(connect_offsets, info_name="connect-offsets") as ctx:
        session.err.write(f"{connect_offsets.get_help(ctx)}\n\n")
    session.reporter.fail(error)
    return error.exit_code


# How this program names the journal's commands.
_WAY_OUT = re.compile(r"seamark journal (resume|undo) ([0-9A-Z]+)")
# 100,000 pairs take about 20 MB.
_LARGEST_BYTES = 1024**3


@dataclass(frozen=True, slots=True)
class ConnectOffsetsRequest:
    """What was requested: which worker, and whether only to read."""

    session: Session
    config: Path
    dry_run: bool = False
    open_fleet: Callable[[Path, str], Fleet] | None = None

    @contextmanager
    def fleet(self, change: str = "") -> Iterator[Fleet]:
        """Open the fleet of the worker. Errors have hints with the commands of this program."""
        from seamark.fleet.worker_fleet import open_worker_fleet  # noqa: PLC0415

        opened = (
            self.open_fleet(self.config, change)
            if self.open_fleet is not None
            else open_worker_fleet(
                self.config,
                change=change,
                only_looks=self.dry_run and not change,
                note=self.session.reporter.note,
            )
        )
        try:
            with opened as fleet:
                yield fleet
        except SeamarkError as error:
            self.translate(error)
            raise

    def translate(self, error: SeamarkError) -> None:
        """Rewrite an error's hint with the commands of this program."""
        error.hint = _WAY_OUT.sub(self._spell, error.hint)
        error.cause = _WAY_OUT.sub(self._spell, error.cause)

    def _spell(self, found: re.Match[str]) -> str:
        return f"connect-offsets --{found[1]}={found[2]} --config={self.config}"


def import_offsets(errand: ConnectOffsetsRequest, file: Path | None) -> None:
    """Read pairs, show what they change, and write them."""
    from seamark.kip199.action import read_wanted  # noqa: PLC0415

    session = errand.session
    name = "standard input" if file is None else str(file)
    wanted = read_wanted(_read(session, file), name=name)
    with errand.fleet() as fleet:
        found = fleet.connect_offsets.plan(wanted.offsets)
        lines = "".join(f"{pair.describe()}\n" for pair in found.pairs)
        if errand.dry_run:
            session.out.write(lines)
            session.out.flush()
        for note in (*wanted.notes, *found.notes, *found.planned.plan.notes):
            session.reporter.note(note)
        if found.refusal is not None:
            raise found.refusal
        if errand.dry_run:
            return
        progress = StepLines(session)
        result = fleet.apply(found.planned, progress)
        if result.is_done:
            session.out.write(lines)
            session.out.flush()
        _tell(errand, result)


def undo_import(errand: ConnectOffsetsRequest, change: str) -> None:
    """Undo an import. One that a crash left open is resolved and closed first."""
    with errand.fleet(change) as fleet:
        entries = fleet.journal.show(change)
        if entries[-1].kind is not EntryKind.CLOSE and not errand.dry_run:
            fleet.journal.unlock(change, nonce=None, progress=StepLines(errand.session))
        planned = fleet.undo(change)
        if errand.dry_run:
            errand.session.reporter.show(planned.build_view(is_preview=True))
            return
        _tell(errand, fleet.apply(planned, StepLines(errand.session)))


def resume_import(errand: ConnectOffsetsRequest, change: str) -> None:
    """Finish an import that a crash left open."""
    with errand.fleet(change) as fleet:
        _tell(errand, fleet.journal.resume(change, progress=StepLines(errand.session, change=change)))


def _tell(errand: ConnectOffsetsRequest, result: ChangeResult) -> None:
    errors, code = build_errors(result)
    session = errand.session
    if not result.change:
        session.reporter.note("nothing to do")
    elif result.is_done:
        way = f"connect-offsets --undo={result.change} --config={errand.config}"
        session.reporter.note(f"change {result.change} done. Undo: {way}")
    for error in errors:
        errand.translate(error)
        session.reporter.fail(error)
    session.exit_code = code


def _read(session: Session, file: Path | None) -> str:
    if file is None:
        return session.stdin.read()
    from seamark.core.files import read_limited  # noqa: PLC0415

    return read_limited(file, most_bytes=_LARGEST_BYTES, what="offsets").decode(errors="replace")
