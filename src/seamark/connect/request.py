"""One question to Connect, before anyone sends it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import quote, urlencode

from seamark.errors import UsageError


class RequestKind(StrEnum):
    """What a path is about. The same status means different things on different paths."""

    ROOT = "root"
    HEALTH = "health"
    FLEET = "fleet"
    CONNECTOR = "connector"
    CONFIG = "config"
    STATUS = "status"
    STATE = "state"
    RESTART = "restart"
    TOPICS = "topics"
    OFFSETS = "offsets"
    PLUGINS = "plugins"
    LOGGERS = "loggers"


# These are answered from a worker's own snapshot. Everything else waits for the herder's one thread.
_SNAPSHOT_KINDS = frozenset(
    {
        RequestKind.ROOT,
        RequestKind.HEALTH,
        RequestKind.FLEET,
        RequestKind.STATUS,
        RequestKind.TOPICS,
        RequestKind.LOGGERS,
    }
)


@dataclass(frozen=True, slots=True)
class Request:
    """A method, a path and a body, with the words to speak of it.

    `doing` completes "can't …". `writes` is False for what changes nothing and may be repeated at will; that is not
    the same as GET: a validation is a PUT. `secrets` are values that must not come back in a message.
    """

    kind: RequestKind
    method: str
    path: str
    doing: str
    writes: bool = False
    # Configs hold secrets, and a repr ends up in logs.
    body: bytes | None = field(default=None, repr=False)
    subject: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def queues(self) -> bool:
        """Whether Connect answers it on the herder's thread, where it may wait up to 90 s."""
        return self.writes or self.kind not in _SNAPSHOT_KINDS


def build_path(*segments: str, query: Sequence[tuple[str, str]] = ()) -> str:
    """A path of which every segment is quoted, so that no name can lead to another path.

    Raises:
        UsageError: a segment is empty, `.` or `..`. Quoting does not change those, and every client and server on the
            way would read them as part of the path.
    """
    for segment in segments:
        if segment in ("", ".", ".."):
            raise UsageError(
                f"{segment!r} can't be addressed through Connect's REST API",
                cause="in a URL it means another path",
                hint="use the connector's real name; one that is called so must be renamed with Kafka's own tools",
            )
    path = "/" + "/".join(quote(segment, safe="") for segment in segments)
    return f"{path}?{urlencode(query)}" if query else path


def build_body(value: Mapping[str, Any]) -> bytes:
    """JSON as Connect reads it: UTF-8, and no NaN, which is not JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
