"""What a chapter is: values that say what shall be shown, and no word on how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark.demo.stage import Stage


class Need(StrEnum):
    """Something a chapter can't do without. The value is its name for people."""

    JAVA = "Java 17"
    JARS = "Kafka's jars"
    POSTGRES = "PostgreSQL"
    JDBC = "the JDBC connector"
    S3 = "the S3 server"
    S3_SINK = "the S3 connector"
    SPARK = "PySpark"


EVERYWHERE = (Need.JAVA, Need.JARS)
"""What no chapter can do without."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What is waited for: words that end the sentence "until …", and the question whether it has come."""

    words: str
    has_come: Callable[[Stage], bool]
    # A rebalance of two workers on two busy cores took up to 15 s here; four times that is something that hangs.
    deadline_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens past seamark. `words` are shown as what it is: a REST call, a line of a file."""

    words: str
    happen: Callable[[Stage], None]


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that is shown: a sentence, then a command or an event, then what to look at.

    `command` is what a person would type; `{change}` in it is the id of the newest change, `{bucket}` the folder behind
    the bucket. `codes` are the exit codes that the story goes on with: any other one ends the demo as a failure.
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

    `needs` leave it out where they are missing; `wishes` are started for it where they are there. `set_up` makes what
    the acts build upon, where no earlier chapter has; it must do nothing where it is there already.
    """

    name: str
    title: str
    acts: tuple[Act, ...]
    needs: tuple[Need, ...] = ()
    wishes: tuple[Need, ...] = ()
    set_up: Callable[[Stage], None] | None = None
