"""Which endpoint answers a request, by path, method and version."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.fakes.connect import admin, connectors, offsets
from tests.fakes.connect.message import (
    Refusal,
    Reply,
    Request,
    build_page,
    no_such_path,
    not_allowed,
    split_target,
)
from tests.fakes.connect.state import FakeState
from tests.fakes.connect.worker import Call, Setup

Version = tuple[int, int]
_FIRST: Version = (0, 0)
_AMBIGUITIES = (
    ("/", "Ambiguous URI path separator"),
    ("%", "Ambiguous URI path encoding"),
    (r"^\.{1,2}$", "Ambiguous URI path segment"),
    (r"[\\\x00-\x1f\x7f]", "Suspicious Path Character"),
)
_NEVER: Version = (999, 0)


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint. `*` stands for any one segment; the second segment below /connectors is the connector's name."""

    method: str
    path: str
    answer: Callable[[Call], Reply]
    since: Version = _FIRST
    before: Version = _NEVER

    def fits(self, segments: tuple[str, ...], version: Version) -> bool:
        """Whether this version has the path."""
        parts = tuple(part for part in self.path.split("/") if part)
        same = len(parts) == len(segments) and all(p in ("*", s) for p, s in zip(parts, segments, strict=True))
        return same and self.since <= version < self.before


ROUTES = (
    Route("GET", "/", admin.read_root),
    Route("GET", "/health", admin.read_health, since=(3, 9)),
    Route("GET", "/connectors", connectors.list_connectors),
    Route("POST", "/connectors", connectors.create),
    Route("GET", "/connectors/*", connectors.read_info),
    Route("DELETE", "/connectors/*", connectors.delete),
    Route("GET", "/connectors/*/config", connectors.read_config),
    Route("PUT", "/connectors/*/config", connectors.put_config),
    Route("PATCH", "/connectors/*/config", connectors.patch_config, since=(3, 8)),
    Route("GET", "/connectors/*/status", connectors.read_status),
    Route("GET", "/connectors/*/tasks", connectors.read_tasks),
    Route("GET", "/connectors/*/tasks-config", connectors.read_tasks_config, before=(4, 0)),
    Route("GET", "/connectors/*/tasks/*/status", connectors.read_task_status),
    Route("POST", "/connectors/*/tasks/*/restart", connectors.restart_task),
    Route("POST", "/connectors/*/restart", connectors.restart),
    Route("PUT", "/connectors/*/pause", connectors.pause),
    Route("PUT", "/connectors/*/resume", connectors.resume),
    Route("PUT", "/connectors/*/stop", connectors.stop, since=(3, 5)),
    Route("GET", "/connectors/*/topics", connectors.read_topics),
    Route("PUT", "/connectors/*/topics/reset", connectors.reset_topics),
    Route("GET", "/connectors/*/offsets", offsets.read, since=(3, 5)),
    Route("PATCH", "/connectors/*/offsets", offsets.patch, since=(3, 6)),
    Route("DELETE", "/connectors/*/offsets", offsets.delete, since=(3, 6)),
    Route("GET", "/connector-plugins", admin.list_plugins),
    Route("GET", "/connector-plugins/*/config", admin.read_plugin_config, since=(3, 2)),
    Route("PUT", "/connector-plugins/*/config/validate", admin.validate),
    Route("GET", "/admin/loggers", admin.list_loggers),
    Route("GET", "/admin/loggers/*", admin.read_logger),
    Route("PUT", "/admin/loggers/*", admin.set_logger),
)


def answer(request: Request, *, state: FakeState, setup: Setup) -> Reply:
    """The reply of a worker that is well."""
    if complaint := _find_ambiguity(request, setup):
        return build_page(400, complaint)
    name = request.segments[1] if len(request.segments) > 1 and request.segments[0] == "connectors" else ""
    try:
        return _find_route(request, setup).answer(Call(request, state, setup, name))
    except Refusal as refusal:
        return refusal.reply


def has_route(request: Request, setup: Setup) -> bool:
    """Whether this version has the path: a request for another one never reaches the herder."""
    return any(route.fits(request.segments, setup.numbers) for route in ROUTES)


def _find_route(request: Request, setup: Setup) -> Route:
    """Path first, then method, then media type: the order in which Jersey looks."""
    routes = [route for route in ROUTES if route.fits(request.segments, setup.numbers)]
    if not routes:
        raise no_such_path()
    chosen = next((route for route in routes if route.method == request.method), None)
    if chosen is None:
        raise not_allowed()
    if request.body and "application/json" not in request.content_type:
        raise Refusal(415, "HTTP 415 Unsupported Media Type")
    return chosen


def _find_ambiguity(request: Request, setup: Setup) -> str:
    """What Jetty has against a path. Jetty 12, with which 4.0 came, knows more that it does not like."""
    segments, _ = split_target(request.path)
    if any("\0" in segment for segment in segments):
        return "Bad Request"
    if not setup.is_at_least(4, 0):
        return ""
    for pattern, complaint in _AMBIGUITIES:
        if any(re.search(pattern, segment) for segment in segments):
            return complaint
    return ""
