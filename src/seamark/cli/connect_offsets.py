"""`connect-offsets`: the tool that KIP-199 asked for. It needs a worker's properties file and no context."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from seamark import __version__
from seamark.cli.collector import without_collector
from seamark.cli.session import Session
from seamark.errors import InterruptedRunError, SeamarkError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from seamark.fleet.offset_stores import OpenScan
    from seamark.fleet.worker_offsets import WorkerExport


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the program. Tests put another topic in."""

    session: Session
    open_scan: OpenScan | None = None


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="connect-offsets", message="%(prog)s %(version)s")
@click.option("--export", "exports", is_flag=True, help="Write the offsets of source connectors as JSON.")
@click.option("--import", "imports", is_flag=True, help="Not there yet.")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The properties file of the worker, distributed or standalone. Needed.",
)
@click.option("--connectors", metavar="A,B", help="Only these connectors.")
@click.option("--from-beginning", is_flag=True, help="Also pairs that were overwritten since, the oldest first.")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.pass_obj
def connect_offsets(
    run: Run,
    *,
    exports: bool,
    imports: bool,
    config: Path | None,
    connectors: str | None,
    from_beginning: bool,
    file: Path | None,
) -> None:
    """Export the offsets of source connectors, with the workers up or down.

    The JSON goes to FILE, or to standard output: {"CONNECTOR": [{"partition": {…}, "offset": {…}}, …], …}. A file that
    is there is not replaced.
    """
    if exports == imports:
        raise UsageError("say what to do: --export or --import", cause="both were given" if exports else "")
    if config is None:
        raise UsageError("--config is needed", cause="the worker's properties say where the offsets are")
    names = _parse_names(connectors)
    if imports:
        raise UnsupportedError("--import is not there yet", hint="PATCH /connectors/NAME/offsets of Connect 3.6 can")
    from seamark.fleet.offset_file import refuse_existing  # noqa: PLC0415
    from seamark.fleet.offset_stores import open_topic_scan  # noqa: PLC0415
    from seamark.fleet.worker_offsets import export_worker_offsets  # noqa: PLC0415

    if file is not None:
        refuse_existing(file)
    found = export_worker_offsets(
        config, connectors=names, from_beginning=from_beginning, open_scan=run.open_scan or open_topic_scan
    )
    _write(run.session, found, file)


def _parse_names(text: str | None) -> list[str]:
    if text is None:
        return []
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError("--connectors has an empty name", hint="as in --connectors=orders,customers")
    return names


def _write(session: Session, found: WorkerExport, file: Path | None) -> None:
    from seamark.fleet.offset_file import write_new  # noqa: PLC0415

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
        reporter.note(f"{finding.oddity.value}: {whose}{finding.message}")


def main() -> NoReturn:
    """The entry point of the program."""
    sys.exit(execute(sys.argv[1:]))


def execute(argv: Sequence[str], *, session: Session | None = None, open_scan: OpenScan | None = None) -> int:
    """Run one command line and give its exit code. Wrong use shows how it is used."""
    session = session or Session()
    try:
        with (
            connect_offsets.make_context("connect-offsets", list(argv), obj=Run(session, open_scan)) as ctx,
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


def _fail_usage(session: Session, error: UsageError) -> int:
    with click.Context(connect_offsets, info_name="connect-offsets") as ctx:
        session.err.write(f"{connect_offsets.get_help(ctx)}\n\n")
    session.reporter.fail(error)
    return error.exit_code
