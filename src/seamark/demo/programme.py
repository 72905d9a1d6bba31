"""Which chapters are played here, and which are left out and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from seamark.demo.chapter import EVERYWHERE, Chapter, Need
from seamark.demo.chapters import CHAPTERS
from seamark.demo.needs import Lack, build_refusal, find_lacks
from seamark.errors import DevstackError, UsageError
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Style


@dataclass(frozen=True, slots=True)
class ListedChapter:
    """A chapter with its number, and what this machine lacks for it."""

    number: int
    chapter: Chapter
    lacks: tuple[Lack, ...] = ()


@dataclass(frozen=True, slots=True)
class Programme:
    """The chapters that were asked for. `lacks` are those without which no server starts."""

    entries: tuple[ListedChapter, ...]
    lacks: tuple[Lack, ...] = ()
    # What chapters wish for and this machine has.
    granted: frozenset[Need] = frozenset()

    @property
    def played(self) -> tuple[ListedChapter, ...]:
        """The chapters that have all they need."""
        return tuple(entry for entry in self.entries if not entry.lacks)

    @property
    def left_out(self) -> tuple[ListedChapter, ...]:
        """The chapters that can't be played here."""
        return tuple(entry for entry in self.entries if entry.lacks)

    @property
    def options(self) -> tuple[str, ...]:
        """The options of `devstack up`: a database that no connector can reach is not started."""
        postgres = ("--postgres",) if {Need.POSTGRES, Need.JDBC} <= self.granted else ()
        s3 = ("--s3",) if Need.S3 in self.granted else ()
        return ("--workers", "2", *postgres, *s3)

    def check(self) -> None:
        """Refuse to begin where nothing could be shown.

        Raises:
            DevstackError: it says what is missing and how to get it.
        """
        if self.lacks:
            raise build_refusal(self.lacks)
        if not self.played:
            names = ", ".join(entry.chapter.name for entry in self.entries)
            lacks = {lack.need: lack for entry in self.entries for lack in entry.lacks}.values()
            raise DevstackError(
                f"chapter {names} can't be played on this machine",
                cause="; ".join(lack.why for lack in lacks),
                hint="; ".join(lack.hint for lack in lacks if lack.hint),
            )


def build_programme(
    chosen: Sequence[str] = (),
    *,
    chapters: Sequence[Chapter] = CHAPTERS,
    find: Callable[[Iterable[Need]], tuple[Lack, ...]] = find_lacks,
) -> Programme:
    """Choose chapters by number or name, all of them where none is named, in their own order."""
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
    """The chapters as a list."""
    return View(_LISTING, programme.entries)


def _find_number(word: str, numbered: Sequence[tuple[int, Chapter]]) -> int:
    for number, chapter in numbered:
        if word.strip().lower() in (str(number), chapter.name):
            return number
    known = ", ".join(f"{number} {chapter.name}" for number, chapter in numbered)
    raise UsageError(f"there is no chapter {word}", hint=f"the chapters are: {known}")


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
