"""Where a context keeps its journal: a topic beside the data, or a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

from seamark.context.files import expand_path
from seamark.context.layer import KeyPath
from seamark.context.reference import Secret
from seamark.context.schema import JOURNAL_KEYS, VERIFY, SettingKind
from seamark.context.search import Surroundings, find_state_dir
from seamark.context.value import Value, build_invalid, read_text, refuse_reference
from seamark.core.time import parse_duration

DEFAULT_TOPIC = "seamark-journal"
# Connect's REST API gives up after 90 s, a fixed number; what it began may end until then.
DEFAULT_IN_FLIGHT_SECONDS = 90.0
# A plan that was reviewed yesterday is still worth applying; one of last week should be made again.
DEFAULT_PLAN_TTL_SECONDS = 24 * 3600.0
_HEADS = "-heads"
# Kafka takes 249 characters; the topic of heads has six more than this one.
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,243}")


class JournalKind(StrEnum):
    """What `journal` takes."""

    KAFKA = "kafka"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """Where changes are recorded.

    `key` seals the secrets in entries and signs entries; without it the key is in `key_file`, which is created when it
    is first needed. A saved plan can be applied for `plan_ttl_seconds`.
    """

    context: str
    kind: JournalKind = JournalKind.KAFKA
    topic: str = DEFAULT_TOPIC
    own_folder: Path | None = None
    key: Secret | None = None
    in_flight_seconds: float = DEFAULT_IN_FLIGHT_SECONDS
    plan_ttl_seconds: float = DEFAULT_PLAN_TTL_SECONDS
    # Asked for when it is needed: a journal in Kafka has no use for the user's folders.
    find_state_dir: Callable[[], Path] = field(default=find_state_dir, repr=False, compare=False)

    @property
    def heads_topic(self) -> str:
        """The compacted topic that tells where each change stands."""
        return f"{self.topic}{_HEADS}"

    @property
    def folder(self) -> Path:
        """The folder of `journal: file`."""
        return self.own_folder or self.find_state_dir() / "journal" / self.context

    @property
    def key_file(self) -> Path:
        """The file of the key that is made where the context names none. All contexts of a user share it."""
        return self.find_state_dir() / "journal.key"

    @property
    def own_key_file(self) -> Path:
        """The file of the keys of this context alone, which a rotation makes."""
        return self.find_state_dir() / "journal-keys" / f"{quote(self.context, safe='')}.key"

    @property
    def spool_folder(self) -> Path:
        """Where the restore of a run state is noted if the journal fails after a stop."""
        return self.find_state_dir() / "spool"


@dataclass(frozen=True, slots=True)
class JournalPart:
    """The settings of the journal with the values they were made of."""

    settings: JournalSettings
    values: tuple[Value, ...]


def build_journal(
    name: str, own: Mapping[KeyPath, Value], *, surroundings: Surroundings, has_brokers: bool = True
) -> JournalPart:
    """The journal of the context of that name. `own` are the values of the context.

    Without brokers it is in files, unless the context says otherwise.
    """
    given = {key: own[(key,)] for key in JOURNAL_KEYS if (key,) in own}
    for key, value in given.items():
        if JOURNAL_KEYS[key] is not SettingKind.SECRET:
            refuse_reference(value)
    settings = JournalSettings(
        name,
        kind=_read_kind(given.get("journal"), JournalKind.KAFKA if has_brokers else JournalKind.FILE),
        topic=_read_topic(given.get("journal_topic")),
        own_folder=_read_folder(given.get("journal_folder"), home=surroundings.home),
        key=given["journal_key"].as_secret() if "journal_key" in given else None,
        in_flight_seconds=_read_seconds(given.get("in_flight_timeout"), DEFAULT_IN_FLIGHT_SECONDS, example="90s"),
        plan_ttl_seconds=_read_seconds(given.get("plan_ttl"), DEFAULT_PLAN_TTL_SECONDS, example="24h"),
        find_state_dir=lambda: find_state_dir(surroundings.environ),
    )
    return JournalPart(settings, _build_values(given, settings))


def _build_values(given: Mapping[str, Value], settings: JournalSettings) -> tuple[Value, ...]:
    """What is shown: all that is given, and the defaults that this kind of journal goes by."""
    defaults = {"journal": settings.kind.value, "in_flight_timeout": f"{settings.in_flight_seconds:g}s"}
    if settings.kind is JournalKind.KAFKA:
        defaults["journal_topic"] = settings.topic
    else:
        defaults["journal_folder"] = str(settings.folder)
    shown = {key: Value(key, text) for key, text in defaults.items()} | dict(given)
    return tuple(shown[key] for key in JOURNAL_KEYS if key in shown)


def _read_kind(value: Value | None, default: JournalKind) -> JournalKind:
    if value is None:
        return default
    text = read_text(value).lower()
    if text not in set(JournalKind):
        raise build_invalid(value, "must be kafka or file", hint="write journal: kafka or journal: file")
    return JournalKind(text)


def _read_topic(value: Value | None) -> str:
    if value is None:
        return DEFAULT_TOPIC
    text = read_text(value)
    if not _TOPIC.fullmatch(text) or text in {".", ".."}:
        raise build_invalid(
            value, "is not a valid topic name", hint="use letters, digits, '.', '_' and '-', at most 243 of them"
        )
    return text


def _read_folder(value: Value | None, *, home: Path | None) -> Path | None:
    return None if value is None else expand_path(read_text(value), folder=value.folder, home=home)


def _read_seconds(value: Value | None, default: float, *, example: str) -> float:
    if value is None:
        return default
    try:
        seconds = parse_duration(read_text(value))
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise build_invalid(value, "is not a duration", hint=f"write {example}, or remove it")
    return seconds


class Verify(StrEnum):
    """The values of `offset_verification`. `STORE` reads topics and groups; `REST` asks two workers."""

    STORE = "store"
    REST = "rest"


def build_verify(own: Mapping[KeyPath, Value], *, has_stores: bool) -> tuple[Verify, Value]:
    """The word that counts, and the value it came from. Without brokers or a worker's file there is only one."""
    value = own.get((VERIFY,))
    if value is None:
        found = Verify.STORE if has_stores else Verify.REST
        return found, Value(VERIFY, found.value)
    refuse_reference(value)
    text = read_text(value).lower()
    if text not in set(Verify):
        raise build_invalid(value, "must be store or rest", hint=f"write {VERIFY}: store or {VERIFY}: rest")
    return Verify(text), value
