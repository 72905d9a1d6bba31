"""Landings as the files declare them, checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from seamark.context.reference import Secret
from seamark.core.files import Place
from seamark.errors import NotFoundError, SpecError, UsageError
from seamark.kafka.model import Edge
from seamark.pipelines.definition import DEFAULT_MAX, DeadLetters, Format, LandColumn, Landing, Mode, Store
from seamark.tables.model import DEFAULT_TOMBSTONE_SECONDS

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.context.context import LakeSettings


@dataclass(frozen=True, slots=True)
class DesiredColumn:
    """A column of a landing's table. `source` is where in a record it comes from; empty: the field of its name."""

    name: str
    type: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class DesiredDeadLetters:
    """What `on_error.dead_letter` says; an empty word is left to its default."""

    table: str = ""
    max: str = ""


@dataclass(frozen=True, slots=True)
class DesiredLanding:
    """A topic that is to be landed in a table. The words are those of the file, and not checked yet.

    `database` or `lake` is its name in the context. `every` is how often a batch is landed, in seconds; None: once.
    Without `dead_letters`, a record that can't be a row stops the run.
    """

    name: str
    place: Place
    topic: str
    table: str
    columns: tuple[DesiredColumn, ...]
    database: str = ""
    lake: str = ""
    date: str = ""
    mode: str = "append"
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    tombstones: float | None = None
    format: str = "json"
    schemas: bool = False
    start: str = "earliest"
    dead_letters: DesiredDeadLetters | None = None
    every: float | None = None
    records: int | None = None


Word = TypeVar("Word", bound=StrEnum)


class _Start(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Declared:
    """A landing, and how it is run. `where` names its database or its lake.

    `dsn` is that of a database; `lake` is what it takes to open a lake.
    """

    landing: Landing
    place: Place
    where: str
    dsn: Secret | None = None
    lake: LakeSettings | None = None
    start: Edge = Edge.EARLIEST
    every_seconds: float | None = None
    records: int | None = None

    @property
    def url(self) -> str:
        """The DSN of its database, not to be shown. It is looked up now: who only looks at a file needs no secret."""
        return self.dsn.reveal() if self.dsn is not None else ""


def choose_declared(
    context: Context, landings: Iterable[DesiredLanding], *, names: Sequence[str], missing: str, hint: str
) -> tuple[Declared, ...]:
    """Those of the landings that are named, or all, each checked. `missing` and `hint` say that one is not there."""
    known = {one.name: one for one in landings}
    for name in names:
        if name not in known:
            cause = f"there are {', '.join(known)}" if known else "there are none"
            raise NotFoundError(f"{missing} {name}", cause=cause, hint=hint)
    return tuple(build_declared(context, known[name]) for name in (names or known))


def build_declared(context: Context, desired: DesiredLanding) -> Declared:
    """A landing of a file, with every word checked. An error says where it stands."""
    settings = context.databases.get(desired.database)
    lake = context.lakes.get(desired.lake)
    if settings is None and lake is None:
        what = f"lake {desired.lake}" if desired.lake else f"database {desired.database}"
        example = f"lakes: {{{desired.lake}: {{url: s3://BUCKET/PREFIX, …}}}}"
        if not desired.lake:
            example = f"databases: {{{desired.database}: {{jdbc_url: …, dsn: secret://…}}}}"
        raise SpecError(
            f"pipeline {desired.name}: the context {context.name} has no {what}",
            cause=str(desired.place),
            hint=f"add it: {example}",
        )
    try:
        landing = Landing(
            desired.name,
            topic=desired.topic,
            table=desired.table,
            columns=tuple(LandColumn(one.name, one.type, one.source) for one in desired.columns),
            mode=_read_word(desired.mode, Mode, what="mode"),
            key=desired.key,
            format=_read_word(desired.format, Format, what="format"),
            schemas=desired.schemas,
            dead_letters=_build_letters(desired.dead_letters),
            store=Store.DELTA if lake is not None else Store.POSTGRESQL,
            date_from=desired.date,
            order=desired.order,
            tombstone_seconds=DEFAULT_TOMBSTONE_SECONDS if desired.tombstones is None else int(desired.tombstones),
        )
        start = Edge(_read_word(desired.start, _Start, what="start"))
    except UsageError as error:
        raise SpecError(
            f"pipeline {desired.name}: {error.message}", cause=str(desired.place), hint=error.hint
        ) from None
    return Declared(
        landing,
        desired.place,
        desired.lake or desired.database,
        dsn=settings.dsn if settings is not None else None,
        lake=lake,
        start=start,
        every_seconds=desired.every,
        records=desired.records,
    )


def check_landings(context: Context, landings: Iterable[DesiredLanding]) -> tuple[str, ...]:
    """Refuse a pipeline that could not be run. Gives their names. Nobody is asked, and no secret is looked up."""
    return tuple(build_declared(context, one).landing.name for one in landings)


def _build_letters(desired: DesiredDeadLetters | None) -> DeadLetters | None:
    return None if desired is None else DeadLetters(desired.table, desired.max or DEFAULT_MAX)


def _read_word(word: str, words: type[Word], *, what: str) -> Word:
    if word not in set(words):
        raise UsageError(f"{what} can't be {word!r}", hint=f"one of {', '.join(words)}")
    return words(word)
