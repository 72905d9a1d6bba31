"""URLs of Connect workers: checked, and parted from the credentials in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from seamark.errors import InvalidSettingError

# Blanks and control characters: urllib drops some of them silently, so two readers would differ.
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\]")


@dataclass(frozen=True, slots=True)
class WorkerUrls:
    """The addresses without credentials, and the credentials that stood in them."""

    urls: tuple[str, ...]
    username: str | None = None
    password: str | None = field(default=None, repr=False)


def parse_urls(texts: Sequence[str], *, key: str, where: str) -> WorkerUrls:
    """Check every URL. No error shows one: a password may stand in it."""
    urls: dict[str, None] = {}
    found: set[tuple[str | None, str | None]] = set()
    for number, text in enumerate(texts, start=1):
        parts, problem = _split_url(text.strip())
        if parts is None:
            raise _invalid(key, where, f"URL {number} of {len(texts)} {problem}")
        host = parts.netloc.rpartition("@")[2]
        urls[urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))] = None
        if parts.username is not None or parts.password is not None:
            found.add((_decode(parts.username), _decode(parts.password)))
    if len(found) > 1:
        raise _invalid(key, where, "the URLs carry different users; one cluster has one", hint="use username, password")
    username, password = next(iter(found), (None, None))
    return WorkerUrls(tuple(urls), username or None, password or None)


def _split_url(text: str) -> tuple[SplitResult | None, str]:
    if _UNSAFE.search(text):
        return None, "contains a space, a backslash or a control character"
    try:
        parts = urlsplit(text)
        port_is_zero = parts.port == 0
    except ValueError:
        return None, "has an invalid host or port"
    problem = ""
    if parts.scheme not in {"http", "https"}:
        problem = "does not start with http:// or https://"
    elif not parts.hostname or port_is_zero:
        problem = "has no host" if not parts.hostname else "has an invalid port"
    elif parts.query or parts.fragment or "?" in text or "#" in text:
        problem = "has a query or a fragment; only scheme, host, port and path are allowed"
    elif "@" in parts.path:
        problem = "has an @ after the host; in a password, / is written %2F"
    return (None, problem) if problem else (parts, "")


def _decode(part: str | None) -> str | None:
    return None if part is None else unquote(part)


def _invalid(key: str, where: str, problem: str, *, hint: str = "") -> InvalidSettingError:
    return InvalidSettingError(
        f"{key} can't be used: {problem}",
        cause=where,
        hint=hint or "write it like http://worker-1:8083 or https://connect.example.org",
        context={"setting": key, "origin": where},
    )


_DEFAULT_PORTS = {"http": 80, "https": 443}


def build_worker_id(url: str) -> str:
    """Return host:port of a worker's URL, as Connect writes it into a status; host names in lower case.

    Members of a worker group choose the URLs that they report. One without a valid host and port is returned as it is.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return url
    return f"{f'[{host}]' if ':' in host else host}:{port or _DEFAULT_PORTS.get(parts.scheme, 0)}"
