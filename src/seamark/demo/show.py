"""Run the demo: start the servers, play the chapters, end the servers."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from seamark.demo.chapter import EVERYWHERE, Act, Chapter, Need
from seamark.demo.chapters import CHAPTERS
from seamark.demo.servers import Lack, build_refusal, find_lacks, run_servers
from seamark.demo.stage import Stage
from seamark.errors import DevstackError, UsageError
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Span, Style, line, render_lines

# Longer lines are hard to read; a terminal may be narrower, and a pipe has no width.
_WIDTH = 100


@dataclass(slots=True)
class Audience:
    """Writes to one stream; if `waits` is set, the user decides when to continue."""

    out: TextIO
    stdin: TextIO
    width: int | None = None
    color: bool = False
    waits: bool = False

    def title(self, text: str) -> None:
        """Write the title of a chapter."""
        self._write("")
        self._write(text, Style.STRONG)

    def say(self, text: str) -> None:
        """Write a sentence of the narration."""
        self._write("")
        for part in self._wrap(text):
            self._write(part)

    def show(self, prompt: str, text: str) -> None:
        """Write what is done, as a user would type it."""
        self._line(Span(f"{prompt} ", Style.MUTED), Span(text, Style.STRONG))

    def look(self, text: str) -> None:
        """Write what to notice in the previous output."""
        for number, part in enumerate(self._wrap(text, less=2)):
            self._line(Span("  " if number else "→ ", Style.GOOD), part)

    def tell(self, text: str) -> None:
        """Write progress, and remarks."""
        self._write(f"  {text}", Style.MUTED)

    def ask_to_continue(self) -> bool:
        """Wait for Enter; return False if the user quits."""
        if not self.waits:
            return True
        asked = render_lines([line(Span("  Enter continues, q quits", Style.MUTED))], color=self.color)
        self.out.write(f"{asked.rstrip()} ")
        self.out.flush()
        answer = self.stdin.readline()
        # An empty read is the end of the input: there is no user.
        return bool(answer) and answer.strip().lower() not in ("q", "quit")

    def _wrap(self, text: str, *, less: int = 0) -> list[str]:
        return textwrap.wrap(text, min(self.width or _WIDTH, _WIDTH) - less, break_on_hyphens=False)

    def _write(self, text: str, style: Style = Style.PLAIN) -> None:
        self._line(Span(text, style))

    def _line(self, *parts: str | Span) -> None:
        self.out.write(render_lines([line(*parts)], color=self.color))
        # Commands write to the same terminal directly: earlier output must be flushed first.
        self.out.flush()


def play(chapters: Sequence[tuple[int, Chapter]], stage: Stage, audience: Audience) -> bool:
    """Play numbered chapters to their end; return False if the user quit before."""
    for number, chapter in chapters:
        audience.title(f"{number}. {chapter.title}")
        if chapter.set_up is not None:
            chapter.set_up(stage)
        for act in chapter.acts:
            if not _perform(act, stage, audience):
                return False
    return True


def _perform(act: Act, stage: Stage, audience: Audience) -> bool:
    audience.say(act.say)
    command = stage.fill(act.command) if act.command else ""
    if command:
        audience.show("$", command)
    if act.event is not None:
        audience.show(">", act.event.words)
    if (command or act.event) and not audience.ask_to_continue():
        return False
    if command:
        _check_code(act, stage.run(command), audience)
    if act.event is not None:
        act.event.happen(stage)
    if act.until is not None:
        seconds = stage.wait_for(act.until)
        audience.tell(f"{seconds:.1f} s until {act.until.words}")
    if act.look:
        audience.look(act.look)
    return True


def _check_code(act: Act, code: int, audience: Audience) -> None:
    if code:
        audience.tell(f"exit code {code}")
    if code not in act.codes:
        raise DevstackError(
            f"the demo failed: {act.command} ended with exit code {code}",
            cause=f"expected exit code {' or '.join(str(known) for known in act.codes)}",
            hint="report it, with the output above",
        )


@dataclass(frozen=True, slots=True)
class ListedChapter:
    """A chapter with its number, and what this machine lacks for it."""

    number: int
    chapter: Chapter
    lacks: tuple[Lack, ...] = ()


@dataclass(frozen=True, slots=True)
class Programme:
    """The chosen chapters. `lacks` are the missing requirements of the servers themselves."""

    entries: tuple[ListedChapter, ...]
    lacks: tuple[Lack, ...] = ()
    # The optional requirements of chapters that this machine meets.
    granted: frozenset[Need] = frozenset()

    @property
    def played(self) -> tuple[ListedChapter, ...]:
        """Return the chapters whose requirements are met."""
        return tuple(entry for entry in self.entries if not entry.lacks)

    @property
    def left_out(self) -> tuple[ListedChapter, ...]:
        """Return the chapters that can't be played here."""
        return tuple(entry for entry in self.entries if entry.lacks)

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of `devstack up`: a database that no connector can use is not started."""
        postgres = ("--postgres",) if {Need.POSTGRES, Need.JDBC} <= self.granted else ()
        s3 = ("--s3",) if Need.S3 in self.granted else ()
        return ("--workers", "2", *postgres, *s3)

    def check(self) -> None:
        """Raise if nothing could be shown.

        Raises:
            DevstackError: It names what is missing and how to get it.
        """
        if self.lacks:
            raise build_refusal(self.lacks)
        if not self.played:
            names = ", ".join(entry.chapter.name for entry in self.entries)
            lacks = {lack.need: lack for entry in self.entries for lack in entry.lacks}.values()
            raise DevstackError(
                f"chapter {names} can't run on this machine",
                cause="; ".join(lack.why for lack in lacks),
                hint="; ".join(lack.hint for lack in lacks if lack.hint),
            )


def build_programme(
    chosen: Sequence[str] = (),
    *,
    chapters: Sequence[Chapter] = CHAPTERS,
    find: Callable[[Iterable[Need]], tuple[Lack, ...]] = find_lacks,
) -> Programme:
    """Choose chapters by number or name, by default all of them, in their own order."""
    numbered = list(enumerate(chapters, start=1))
    numbers = {_find_number(word, numbered) for word in chosen}
    picked = [(number, chapter) for number, chapter in numbered if not numbers or number in numbers]
    wanted = [need for _, chapter in picked for need in (*chapter.needs, *chapter.wishes)]
    missing = {lack.need: lack for lack in find((*EVERYWHERE, *wanted))}
    return Programme(
        tuple(
            ListedChapter(number, chapter, tuple(missing[need] for need in chapter.needs if need in missing))
            for number, chapter in picked
        ),
        lacks=tuple(missing[need] for need in EVERYWHERE if need in missing),
        granted=frozenset(wanted) - missing.keys(),
    )


def build_programme_view(programme: Programme) -> View[ListedChapter]:
    """Build the view of the chapters."""
    return View(_LISTING, programme.entries)


def _find_number(word: str, numbered: Sequence[tuple[int, Chapter]]) -> int:
    for number, chapter in numbered:
        if word.strip().lower() in (str(number), chapter.name):
            return number
    known = ", ".join(f"{number} {chapter.name}" for number, chapter in numbered)
    raise UsageError(f"unknown chapter {word}", hint=f"use one of: {known}")


_LISTING: Listing[ListedChapter] = Listing(
    kind="ChapterList",
    noun="chapter",
    name=lambda entry: entry.chapter.name,
    columns=(
        Column("number", "NO", lambda entry: entry.number, right=True),
        Column("name", "NAME", lambda entry: entry.chapter.name),
        Column("title", "TITLE", lambda entry: entry.chapter.title),
        Column(
            "needs",
            "NEEDS",
            lambda entry: [need.value for need in entry.chapter.needs],
            text=lambda entry: ", ".join(entry.chapter.needs) or "-",
        ),
        Column(
            "missing",
            "MISSING HERE",
            lambda entry: [lack.need.value for lack in entry.lacks],
            text=lambda entry: ", ".join(lack.need for lack in entry.lacks) or "-",
            long=lambda entry: "; ".join(str(lack) for lack in entry.lacks) or "-",
            style=lambda entry: Style.WARN if entry.lacks else Style.PLAIN,
        ),
    ),
)


_STACK_FILE = "stack.json"

Servers = Callable[..., contextlib.AbstractContextManager[object]]


def run_show(
    programme: Programme, audience: Audience, *, keep: bool = False, color: str = "auto", servers: Servers = run_servers
) -> None:
    """Start the servers, play the chapters, and end the servers in any case."""
    begin = time.monotonic()
    for entry in programme.left_out:
        audience.tell(f"chapter {entry.number}, {entry.chapter.name}, is skipped: {_join(entry.lacks)}")
    with _open_folder(keep=keep) as folder:
        file = folder / _STACK_FILE
        audience.say(f"Starting servers: {_name_servers(programme)}. This takes about 20 s.")
        with servers(file, options=programme.options, keep=keep, tell=audience.tell) as stack:
            stage = Stage(stack, folder=folder, file=file, color=color)  # type: ignore[arg-type]
            stage.write_context()
            chapters = [(entry.number, entry.chapter) for entry in programme.played]
            is_whole = play(chapters, stage, audience)
            if keep:
                _say_how_to_use(stage, audience)
        seconds = time.monotonic() - begin
        ending = "" if keep else " All servers are stopped and their data is removed."
        audience.say(f"{'The demo is finished' if is_whole else 'The demo was ended'}, after {seconds:.0f} s.{ending}")


def _say_how_to_use(stage: Stage, audience: Audience) -> None:
    exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in stage.exports.items())
    audience.say("The servers keep running. To use them:")
    audience.show("$", f"export {exports}")
    audience.show("$", f"cd {shlex.quote(str(stage.folder))} && seamark status")
    audience.say("To stop them and remove their data:")
    audience.show("$", f"python -m seamark.devstack down --file {shlex.quote(str(stage.file))}")


@contextlib.contextmanager
def _open_folder(*, keep: bool) -> Iterator[Path]:
    """Open a folder for the demo: removed at the end, or in the user's state folder if it is kept."""
    if not keep:
        with tempfile.TemporaryDirectory(prefix="seamark-demo-") as name:
            yield Path(name)
        return
    from seamark.context.search import find_state_dir  # noqa: PLC0415

    folder = find_state_dir() / "demo"
    file = folder / _STACK_FILE
    if file.exists():
        raise DevstackError(
            "the servers of an earlier demo --keep still exist",
            hint=f"stop them first: python -m seamark.devstack down --file {shlex.quote(str(file))}",
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    yield folder


def _name_servers(programme: Programme) -> str:
    more = [name for option, name in (("--postgres", "PostgreSQL"), ("--s3", "S3")) if option in programme.options]
    return ", ".join(["a Kafka broker", "two Connect workers", *more])


def _join(lacks: tuple[object, ...]) -> str:
    return "; ".join(f"it needs {lack}" for lack in lacks)
