"""The values of a chapter: what is shown, independent of how it is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark.demo.stage import Stage


class Need(StrEnum):
    """A requirement of a chapter. The value is its display name."""

    JAVA = "Java 17"
    JARS = "Kafka's jars"
    POSTGRES = "PostgreSQL"
    JDBC = "the JDBC connector"
    S3 = "the S3 server"
    S3_SINK = "the S3 connector"
    SPARK = "PySpark"


EVERYWHERE = (Need.JAVA, Need.JARS)
"""The requirements of every chapter."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A condition to wait for: words that complete the sentence "until …", and the check."""

    words: str
    has_come: Callable[[Stage], bool]
    # A rebalance of two workers on two busy cores took up to 15 s here; after four times that, something hangs.
    deadline_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens outside seamark. `words` are shown as what it is: a REST call, a line of a file."""

    words: str
    happen: Callable[[Stage], None]


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that is shown: a sentence, then a command or an event, then what to notice.

    `command` is what a user would type; `{change}` in it is the ID of the newest change, `{bucket}` the folder of the
    bucket. `codes` are the expected exit codes: any other one ends the demo as a failure.
    """

    say: str
    command: str = ""
    event: Event | None = None
    until: Moment | None = None
    look: str = ""
    codes: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Chapter:
    """One part of the demo.

    The chapter is skipped if one of `needs` is missing; `wishes` are started for it if they are available. `set_up`
    creates what the acts build on, if no earlier chapter has; it must do nothing if that exists.
    """

    name: str
    title: str
    acts: tuple[Act, ...]
    needs: tuple[Need, ...] = ()
    wishes: tuple[Need, ...] = ()
    set_up: Callable[[Stage], None] | None = None
