"""Faults on request: what a test wants a worker to do instead of, or besides, answering well."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from tests.fakes.connect import texts
from tests.fakes.connect.message import Reply, Request, build_error, build_page


@dataclass(frozen=True, slots=True)
class Answer:
    """Connect's error with this status and text. The request is not carried out, unless `applied`."""

    status: int
    text: str
    applied: bool = False

    def reply(self) -> Reply:
        """The reply itself."""
        return build_error(self.status, self.text)


@dataclass(frozen=True, slots=True)
class Page:
    """A page for people: Jetty while Connect starts, a proxy, a login form."""

    status: int = 404
    title: str = "Not Found"

    def reply(self) -> Reply:
        """The reply itself."""
        return build_page(self.status, self.title)


@dataclass(frozen=True, slots=True)
class Raw:
    """Any reply at all."""

    status: int
    body: bytes = b""
    content_type: str = ""
    applied: bool = False

    def reply(self) -> Reply:
        """The reply itself."""
        return Reply(self.status, self.body, self.content_type)


@dataclass(frozen=True, slots=True)
class Redirect:
    """Somewhere else."""

    location: str
    status: int = 302

    def reply(self) -> Reply:
        """The reply itself."""
        return Reply(self.status, headers=(("Location", self.location),))


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection breaks without an answer, before or after the request was carried out."""

    applied: bool


@dataclass(frozen=True, slots=True)
class Delay:
    """The request is carried out and answered, late."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Change:
    """The request is carried out, and its JSON answer is changed on the way back."""

    change: Callable[[Any], Any]


Action = Answer | Page | Raw | Redirect | Drop | Delay | Change


@dataclass(slots=True)
class Fault:
    """One fault. `times` counts down to 0; None is for ever. `hits` says how often it happened."""

    match: str
    do: Action
    times: int | None = 1
    worker: int | None = None
    hits: int = 0


@dataclass(slots=True)
class Faults:
    """The faults of a FakeConnect, in the order they were added. The first that fits happens."""

    _faults: list[Fault] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, *, match: str, do: Action, times: int | None = 1, worker: int | None = None) -> Fault:
        """Do `do` to the next `times` requests that fit.

        `match` is a pattern over "METHOD /path?query" with `*` for anything, such as "GET /connectors/*/status".
        `worker` keeps it to one worker.
        """
        fault = Fault(match, do, times, worker)
        with self._lock:
            self._faults.append(fault)
        return fault

    def storm(self, *, text: str = texts.STALE, match: str = "*") -> Fault:
        """Rebalances without end: every request is answered with a 409."""
        return self.add(match=match, do=Answer(409, text), times=None)

    def clear(self) -> None:
        """End every fault."""
        with self._lock:
            self._faults.clear()

    def take(self, request: Request) -> Action | None:
        """The fault for this request, counted."""
        line = f"{request.method} {request.path}"
        with self._lock:
            for fault in self._faults:
                fits = fault.worker in (None, request.worker) and fnmatchcase(line, fault.match)
                if not fits or fault.times == 0:
                    continue
                fault.hits += 1
                if fault.times is not None:
                    fault.times -= 1
                return fault.do
        return None
