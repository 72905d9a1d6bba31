"""Store the plans of copies in the control topic: atomically, and by one driver of a plan at a time."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from seamark.core import strict_json as strict
from seamark.core.strict_json import VERSION_FIELD, StoredFormat, check_format
from seamark.errors import (
    FencedError,
    FormatVersionError,
    JournalError,
    NotFoundError,
    RefusedError,
    SeamarkError,
    UsageError,
)
from seamark.kafka.log import PartitionLog
from seamark.kafka.produce import Outgoing
from seamark.kafka.topics import TopicAdmin
from seamark.kafka.transaction import TransactionalWriter
from seamark.kafka_sink.control_reads import ensure_control_topic

# A plan may have a hundred thousand offsets, so it is compressed and split into pieces. A key contains the plan and the
# number of the piece, but not the generation: a later generation replaces the previous one, which compaction then
# removes.

FORMAT = StoredFormat("registered copy plan", 1)

PREFIX = b"/plan/"
"""The prefix of the keys. Those of control records begin with a job's name, which has no slash."""

PARTITION = 0
"""The partition of the control topic that stores all plans, so that one read lists them."""

PIECE_BYTES = 480_000
"""The size of a piece. Brokers accept messages of a megabyte by default; some are configured for less."""

# Compressed offsets take a fifth of their text. A plan of this size would have a hundred million ranges.
_LARGEST_BYTES = 1 << 30
_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")
_HEAD_KEYS = (VERSION_FIELD, "plan", "generation", "piece", "pieces", "sha256")
_BODY_KEYS = ("registered_at", "by", "plan")


@dataclass(frozen=True, slots=True)
class Registration:
    """A plan in the control topic: `body` is the plan as JSON. Each extension increases the generation by one.

    `pieces` is the number of records that it was read from.
    """

    plan: str
    generation: int
    registered_at: str
    by: str
    body: Mapping[str, Any]
    pieces: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        """Refuse an ID that would not be a single part of a key."""
        if not _ID.fullmatch(self.plan) or self.generation < 1:
            raise UsageError(f"invalid plan ID {self.plan!r} or generation {self.generation}")


@dataclass(frozen=True, slots=True)
class Registered:
    """All plans of a control topic by ID, and the errors of unreadable ones by ID: one must not hide the others."""

    found: Mapping[str, Registration] = field(default_factory=dict)
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Piece:
    """One record of a registration."""

    plan: str
    generation: int
    number: int
    count: int
    sha256: str
    data: bytes


def build_transactional_id(plan: str) -> str:
    """Return the transactional ID for the registration of a plan. The last process that takes it fences the others."""
    return f"seamark.copy.{plan}"


def encode_registration(registration: Registration, *, before: int = 0) -> tuple[tuple[bytes, bytes | None], ...]:
    """Encode a registration as pairs of key and value.

    `before` is how many pieces the previous generation had: pieces beyond those of this one are deleted.
    """
    body = {"registered_at": registration.registered_at, "by": registration.by, "plan": dict(registration.body)}
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    # Without the compression time, so that the same plan always has the same bytes.
    packed = gzip.compress(text, mtime=0)
    parts = [packed[at : at + PIECE_BYTES] for at in range(0, len(packed), PIECE_BYTES)]
    digest = hashlib.sha256(packed).hexdigest()
    pieces = (
        _Piece(registration.plan, registration.generation, number, len(parts), digest, part)
        for number, part in enumerate(parts)
    )
    gone = ((_build_key(registration.plan, number), None) for number in range(len(parts), before))
    return (*((_build_key(piece.plan, piece.number), _encode_piece(piece)) for piece in pieces), *gone)


def decode_registrations(records: Iterable[tuple[bytes, bytes | None]], *, place: str) -> Registered:
    """Decode the newest generation of each plan from the records of the control topic, in their order.

    Records that are not part of a plan are skipped. An incomplete plan is an error: half a plan would lose records.
    """
    newest: dict[str, dict[bytes, bytes]] = {}
    for key, value in records:
        if not key.startswith(PREFIX):
            continue
        held = newest.setdefault(key[len(PREFIX) :].rpartition(b"/")[0].decode(errors="replace"), {})
        if value is None:
            held.pop(key, None)
        else:
            held[key] = value
    found: dict[str, Registration] = {}
    failures: dict[str, SeamarkError] = {}
    for plan, held in newest.items():
        try:
            if held:
                where = f"the plan {plan} in {place}"
                found[plan] = _join([_decode_piece(value, where=where) for value in held.values()], plan=plan)
        except FormatVersionError as error:
            failures[plan] = error
        except UsageError as error:
            failures[plan] = RefusedError(
                f"can't read plan {plan} in {place}",
                cause=f"{error.message}: {error.cause}" if error.cause else error.message,
                hint="stop the other producers of this topic, and run the copy from its plan file",
            )
    return Registered(found, failures)


def _build_key(plan: str, number: int) -> bytes:
    return PREFIX + f"{plan}/{number}".encode()


def _encode_piece(piece: _Piece) -> bytes:
    head = {
        **FORMAT.field,
        "plan": piece.plan,
        "generation": piece.generation,
        "piece": piece.number,
        "pieces": piece.count,
        "sha256": piece.sha256,
    }
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + piece.data


def _decode_piece(value: bytes, *, where: str) -> _Piece:
    head, _, data = value.partition(b"\n")
    body = strict.read_json(head, what="the head of a piece")
    check_format(FORMAT, body, where=where)
    fields = strict.read_object(body, keys=_HEAD_KEYS, what="the head of a piece")
    return _Piece(
        plan=strict.read_text(fields["plan"], what="its plan"),
        generation=strict.read_count(fields["generation"], what="its generation"),
        number=strict.read_count(fields["piece"], what="the number of the piece"),
        count=strict.read_count(fields["pieces"], what="the count of pieces"),
        sha256=strict.read_text(fields["sha256"], what="its sum"),
        data=data,
    )


def _join(pieces: list[_Piece], *, plan: str) -> Registration:
    generation = max(piece.generation for piece in pieces)
    own = sorted((piece for piece in pieces if piece.generation == generation), key=lambda piece: piece.number)
    if any(piece.plan != plan for piece in own) or [piece.number for piece in own] != list(range(own[0].count)):
        raise UsageError(f"{len(own)} of its {own[0].count} pieces were found")
    packed = b"".join(piece.data for piece in own)
    if hashlib.sha256(packed).hexdigest() != own[0].sha256:
        raise UsageError("its pieces do not match")
    fields = strict.read_object(strict.read_json(_unpack(packed), what="its body"), keys=_BODY_KEYS, what="its body")
    if not isinstance(fields["plan"], dict):
        raise UsageError("its plan is not a JSON object")
    return Registration(
        plan,
        generation,
        registered_at=strict.read_text(fields["registered_at"], what="its time"),
        by=strict.read_text(fields["by"], what="its author"),
        body=fields["plan"],
        pieces=max(piece.number for piece in pieces) + 1,
    )


def _unpack(packed: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            text = file.read(_LARGEST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError("it is not in the format of a plan", cause=str(error)) from None
    if len(text) > _LARGEST_BYTES:
        raise UsageError("it is larger than a plan can be")
    return text


# As long as a task of a copy may keep a transaction open on the control topic, plus the brokers' check interval.
PATIENCE_SECONDS = 330.0


def read_registered(config: Mapping[str, str], topic: str, *, patience_seconds: float = PATIENCE_SECONDS) -> Registered:
    """Read every plan of the control topic; return none if the topic doesn't exist.

    The result contains everything that was acknowledged before this call: it waits for open transactions before the
    end.
    """
    try:
        with PartitionLog(config, topic, partition=PARTITION, patience_seconds=patience_seconds) as log:
            records = ((record.key, record.value) for record in log.read() if record.key is not None)
            return decode_registrations(records, place=f"{topic}-{PARTITION}")
    except NotFoundError:
        return Registered()


class HeldRegistration:
    """The one driver of a plan that may register it. The next process that takes the registration fences this one."""

    def __init__(
        self,
        config: Mapping[str, str],
        topic: str,
        *,
        plan: str,
        build_producer: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        self._config = config
        self._topic = topic
        self._plan = plan
        with TopicAdmin(config) as admin:
            ensure_control_topic(admin, topic)
        self._writer = TransactionalWriter(
            config, transactional_id=build_transactional_id(plan), build_producer=build_producer
        )
        self._call(self._take)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self) -> Registration | None:
        """Return the newest generation of the plan, including what the previous holder has written."""
        registered = read_registered(self._config, self._topic)
        if self._plan in registered.failures:
            raise registered.failures[self._plan]
        return registered.found.get(self._plan)

    def write(self, registration: Registration, *, former: Registration | None) -> Registration:
        """Replace the previous generation by the next one in one transaction; return it with its number of pieces."""
        pairs = encode_registration(registration, before=former.pieces if former else 0)
        records = [Outgoing(self._topic, key, value, partition=PARTITION) for key, value in pairs]
        self._call(lambda: self._writer.write(records))
        return replace(registration, pieces=sum(value is not None for _, value in pairs))

    def close(self) -> None:
        """Close the connections. The transactional ID stays taken until another process takes it."""
        self._writer.close()

    def _take(self) -> None:
        self._writer.connect([self._topic])
        self._writer.take()

    def _call(self, act: Callable[[], None]) -> None:
        try:
            act()
        except FencedError as error:
            raise FencedError(
                f"another process runs copy {self._plan}",
                cause=error.cause,
                hint=f"wait until it ends, or stop it; check its progress: seamark copies status {self._plan}",
                context=error.context,
            ) from None
        except JournalError as error:
            raise SeamarkError(
                f"could not register plan {self._plan} in {self._topic}",
                cause=f"{error.message}: {error.cause}",
                hint=f"{error.hint}; then run the copy again",
                context=error.context,
            ) from None
