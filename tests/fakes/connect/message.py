"""A request as it reached a worker, and the reply that goes back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote

from tests.fakes.connect import texts

JSON = "application/json"


class Refusal(Exception):  # noqa: N818 - it is an answer, not a fault of the fake
    """An answer other than success, raised where it is found."""

    def __init__(self, status: int, message: str, *, content_type: str = JSON) -> None:
        super().__init__(message)
        self.reply = build_error(status, message, content_type=content_type)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a worker sends back."""

    status: int
    body: bytes = b""
    content_type: str = ""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What a worker was asked. `segments` are decoded and without matrix parameters, as Jersey hands them on."""

    worker: int
    method: str
    path: str
    segments: tuple[str, ...]
    query: dict[str, list[str]] = field(default_factory=dict)
    content_type: str = ""
    body: bytes = b""
    authorization: str = ""

    def first(self, key: str, default: str = "") -> str:
        """A query parameter."""
        return self.query.get(key, [default])[0]

    def read_json(self) -> Any:
        """The body; None where there is none. Jackson's complaint is a 500."""
        if not self.body.strip():
            return None
        try:
            return json.loads(self.body)
        except ValueError:
            raise Refusal(500, "Unexpected end-of-input: expected close marker for Object") from None

    def read_object(self, entity: str, *, absent: str, fields: tuple[str, ...]) -> dict[str, Any]:
        """The body as an object of Connect's, which may have these fields and no others."""
        value = self.read_json()
        if value is None:
            raise Refusal(500, absent)
        if not isinstance(value, dict):
            raise Refusal(500, f"Cannot deserialize value of type `{entity}`")
        for field_name in value:
            if field_name not in fields:
                raise Refusal(500, texts.unrecognized_field(field_name, entity))
        return value

    def read_strings(self, *, absent: str) -> dict[str, str | None]:
        """The body as a map of strings. Connect turns numbers and booleans into strings and refuses the rest."""
        value = self.read_json()
        if value is None:
            raise Refusal(500, absent)
        return to_strings(value)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request that was served, for tests to look at. `status` is 0 where the connection was dropped."""

    worker: int
    method: str
    path: str
    body: bytes
    status: int


def to_strings(value: Any) -> dict[str, str | None]:
    """A map of strings, as Jackson makes one."""
    if not isinstance(value, dict):
        raise Refusal(500, "Cannot deserialize value of type `java.util.LinkedHashMap<java.lang.String,...>`")
    return {key: _to_string(item) for key, item in value.items()}


def _to_string(item: Any) -> str | None:
    if item is None or isinstance(item, str):
        return item
    if isinstance(item, dict):
        found = "Object value (token `JsonToken.START_OBJECT`)"
        raise Refusal(500, f"Cannot deserialize value of type `java.lang.String` from {found}")
    if isinstance(item, list):
        found = "Array value (token `JsonToken.START_ARRAY`)"
        raise Refusal(500, f"Cannot deserialize value of type `java.lang.String` from {found}")
    return json.dumps(item)


def split_target(target: str) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """Segments and query of a request line. What follows a bare `;` in a segment is a matrix parameter and is lost."""
    path, _, query = target.partition("?")
    segments = tuple(unquote(raw.partition(";")[0]) for raw in path.strip("/").split("/") if raw)
    return segments, parse_qs(query)


def build_json(status: int, value: Any) -> Reply:
    """A reply with a JSON body."""
    return Reply(status, json.dumps(value, ensure_ascii=False).encode(), JSON)


def build_error(status: int, message: str, *, content_type: str = JSON) -> Reply:
    """Connect's error body."""
    body = json.dumps({"error_code": status, "message": message}, ensure_ascii=False).encode()
    return Reply(status, body, content_type)


def build_page(status: int, title: str) -> Reply:
    """Jetty's page, from where Connect has no say."""
    text = f"<html>\n<head>\n<title>Error {status} {title}</title>\n</head>\n<body><h2>HTTP ERROR {status} {title}</h2>"
    return Reply(status, f"{text}</body>\n</html>\n".encode(), "text/html;charset=iso-8859-1")


def no_such_path() -> Refusal:
    """A path that this version does not have. It comes without a content type, as from Jersey."""
    return Refusal(404, "HTTP 404 Not Found", content_type="")


def not_allowed() -> Refusal:
    """A path that this version has, but not with this method."""
    return Refusal(405, f"HTTP 405 {HTTPStatus.METHOD_NOT_ALLOWED.phrase}", content_type="")
