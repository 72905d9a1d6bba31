"""`connect-offsets --import`, and the ways out of it: `--undo` and `--resume`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.changes.entry import EntryKind
from seamark.cli.carry_out import build_errors
from seamark.cli.progress import StepLines
from seamark.cli.session import Session
from seamark.errors import SeamarkError

if TYPE_CHECKING:
    from seamark.changes.result import ChangeResult
    from seamark.fleet import Fleet

# What the journal's own commands are called here.
_WAY_OUT = re.compile(r"seamark journal (resume|undo) ([0-9A-Z]+)")
# A hundred thousand pairs have some 20 MB.
_LARGEST_BYTES = 1024**3


@dataclass(frozen=True, slots=True)
class Errand:
    """What was asked for: which worker, and whether only to look."""

    session: Session
    config: Path
    dry_run: bool = False
    open_fleet: Callable[[Path, str], Fleet] | None = None

    @contextmanager
    def fleet(self, change: str = "") -> Iterator[Fleet]:
        """The fleet of the worker. Errors on the way say what to type here."""
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
        """Let an error name this program's words for the ways out."""
        error.hint = _WAY_OUT.sub(self._spell, error.hint)
        error.cause = _WAY_OUT.sub(self._spell, error.cause)

    def _spell(self, found: re.Match[str]) -> str:
        return f"connect-offsets --{found[1]}={found[2]} --config={self.config}"


def import_offsets(errand: Errand, file: Path | None) -> None:
    """Read pairs, look at what they change, and write them."""
    from seamark.kip199.pairs import read_wanted  # noqa: PLC0415

    session = errand.session
    name = "standard input" if file is None else str(file)
    wanted = read_wanted(_read(session, file), name=name)
    with errand.fleet() as fleet:
        found = fleet.imports.plan(wanted.offsets)
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


def undo_import(errand: Errand, change: str) -> None:
    """Take an import back. One that a crash left open is settled and closed first."""
    with errand.fleet(change) as fleet:
        entries = fleet.journal.show(change)
        if entries[-1].kind is not EntryKind.CLOSE and not errand.dry_run:
            fleet.journal.unlock(change, nonce=None, progress=StepLines(errand.session))
        planned = fleet.undo(change)
        if errand.dry_run:
            errand.session.reporter.show(planned.build_view())
            return
        _tell(errand, fleet.apply(planned, StepLines(errand.session)))


def resume_import(errand: Errand, change: str) -> None:
    """Finish an import that a crash left open."""
    with errand.fleet(change) as fleet:
        _tell(errand, fleet.journal.resume(change, progress=StepLines(errand.session, change=change)))


def _tell(errand: Errand, result: ChangeResult) -> None:
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
