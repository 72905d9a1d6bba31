"""The table of what answers mean. The first row that fits decides.

Texts are those of Connect 3.5 to 4.3. Matching them is ugly and without an alternative: four different 409s and a
dozen 500s differ in nothing else.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from seamark.connect.requests import Request, RequestKind
from seamark.core.secrets import hide_values
from seamark.errors import (
    AlreadyExistsError,
    AuthenticationError,
    AuthorizationError,
    DeadlineError,
    NotFoundError,
    RefusedError,
    RejectedError,
    SeamarkError,
    UnreachableError,
    UnsupportedError,
)


class Verdict(StrEnum):
    """What an answer means."""

    DONE = "done"
    DID_NOT_HAPPEN = "did not happen"
    UNKNOWN = "unknown"
    TRY_AGAIN = "try again"


class Shape(StrEnum):
    """What kind of body came: Connect's own error, other JSON, nothing, or a page for people."""

    CONNECT = "connect"
    JSON = "json"
    EMPTY = "empty"
    PAGE = "page"


class Phase(StrEnum):
    """How far a request had gone when it failed without an answer."""

    TOO_LATE = "too late"
    CONNECTING = "connecting"
    SENT = "sent"
    TOO_LARGE = "too large"


DONE, NO, UNKNOWN, AGAIN = Verdict.DONE, Verdict.DID_NOT_HAPPEN, Verdict.UNKNOWN, Verdict.TRY_AGAIN
_NOT_CONNECT = frozenset(Shape) - {Shape.CONNECT}


@dataclass(frozen=True, slots=True)
class ResponseRule:
    """One row of the table: which responses it matches, and what they mean for a read and for a write.

    `error` is raised where the verdict is "did not happen". `elsewhere` asks another worker next. `once` tries again a
    single time and then raises `error`. `is_partial` marks a "try again" that may have changed something each time.
    """

    name: str
    status: int | range
    text: str
    read: Verdict
    write: Verdict
    error: type[SeamarkError] = RejectedError
    hint: str = ""
    kinds: frozenset[RequestKind] = frozenset(RequestKind)
    shapes: frozenset[Shape] = frozenset(Shape)
    elsewhere: bool = False
    once: bool = False
    is_partial: bool = False

    def matches(self, *, status: int, kind: RequestKind, shape: Shape, text: str) -> bool:
        """Whether an answer is of this row. `text` of the row is a pattern searched in what Connect says."""
        fits = status in self.status if isinstance(self.status, range) else status == self.status
        return (
            fits and kind in self.kinds and shape in self.shapes and re.search(self.text, text, re.DOTALL) is not None
        )


_HEALTH = frozenset({RequestKind.HEALTH})
_OFFSETS = frozenset({RequestKind.OFFSETS})
_JSON = frozenset({Shape.JSON, Shape.EMPTY})
_PAGE = frozenset({Shape.PAGE})
_EMPTY = frozenset({Shape.EMPTY})
_CONNECT = frozenset({Shape.CONNECT})

# A follower that could not even open a connection to the leader has handed nothing on.
_LEADER_NOT_REACHED = (
    r"^IO Error trying to forward REST request: .*"
    r"(Connection refused|UnknownHost|UnresolvedAddress|No route to host|Connect Timeout|Network is unreachable)"
)
# The wordings of "there is no such connector": info, config, offsets, delete; stop, pause, resume; restart; status.
_MISSING = (
    r"^(Connector .* not found|Unknown connector:? .*|No status found for .*|Status for connector .* not found"
    r"|Unknown task: .*|Unknown plugin .*|Logger .* not found)"
)
_MALFORMED = (
    r"^(Unrecognized (field|token)|Cannot (deserialize|construct|coerce)|Unexpected (end-of-input|character)"
    r"|Invalid UTF-8|No content to map|Cannot invoke .* because \"(offsets|connectorConfig|createRequest)\" is null)"
)
_HINT_NOT_CONNECT = "check the URL: it must lead to a Connect worker, not to a proxy, a login page or another service"
_HINT_OTHER_URL = "name every worker's URL in the context, the leader's too, and check rest.advertised.host.name"
_HINT_LIST = "list the connectors: seamark connectors list"

ANSWER_RULES: tuple[ResponseRule, ...] = (
    # Status and body together say whether a worker is healthy; 500 and 503 are answers.
    ResponseRule("health", range(200, 600), "", DONE, DONE, kinds=_HEALTH, shapes=frozenset({Shape.JSON})),
    ResponseRule("done", range(200, 300), "", DONE, DONE, shapes=_JSON),
    ResponseRule("page for an answer", range(200, 300), "", NO, UNKNOWN, UnreachableError, _HINT_NOT_CONNECT),
    # Connect never redirects. Following a redirect would send credentials and bodies to the server that it names.
    ResponseRule("redirect", range(100, 400), "", NO, UNKNOWN, UnreachableError, _HINT_NOT_CONNECT),
    ResponseRule("unauthenticated", 401, "", NO, NO, AuthenticationError, "check username and password of the context"),
    ResponseRule(
        "topic tracking off",
        403,
        "^Topic tracking (reset )?is disabled",
        NO,
        NO,
        UnsupportedError,
        "set topic.tracking.enable and topic.tracking.allow.reset to true in the worker's config",
    ),
    ResponseRule(
        "unauthorized", 403, "", NO, NO, AuthorizationError, "request access from the operators of this Connect cluster"
    ),
    # While a worker starts, Jetty answers before Connect's resources are there: a page, or Jetty's own JSON.
    ResponseRule(
        "starting", 404, "", AGAIN, AGAIN, UnreachableError, _HINT_NOT_CONNECT, shapes=_NOT_CONNECT, elsewhere=True
    ),
    ResponseRule(
        "no such path",
        404,
        "^HTTP 404 Not Found",
        NO,
        NO,
        UnsupportedError,
        "upgrade the worker: its version doesn't have this endpoint",
    ),
    ResponseRule(
        "no such level",
        404,
        "^invalid log level",
        NO,
        NO,
        RejectedError,
        "use one of TRACE, DEBUG, INFO, WARN, ERROR, FATAL",
    ),
    # A worker that lags behind the config topic says the same as one that knows: asked twice, believed.
    ResponseRule(
        "missing", 404, "", AGAIN, AGAIN, NotFoundError, _HINT_LIST, shapes=_CONNECT, elsewhere=True, once=True
    ),
    ResponseRule(
        "too old", 405, "", NO, NO, UnsupportedError, "upgrade the worker: its version doesn't have this endpoint"
    ),
    # Four 409s. Three are a rebalance and pass; the fourth is a fact.
    ResponseRule(
        "exists",
        409,
        "^Connector .* already exists",
        NO,
        NO,
        AlreadyExistsError,
        "update it instead: seamark connectors update",
    ),
    ResponseRule("no leader known", 409, "no known leader URL", AGAIN, AGAIN),
    ResponseRule(
        "two hops", 409, "because of a conflicting operation", AGAIN, AGAIN, hint=_HINT_OTHER_URL, elsewhere=True
    ),
    ResponseRule("stale configuration", 409, "due to stale configuration", AGAIN, AGAIN),
    ResponseRule(
        "not stopped",
        400,
        "^Connectors must be in the STOPPED state",
        NO,
        NO,
        RejectedError,
        "stop it, wait until its state is STOPPED and it has no tasks, then try again",
    ),
    # Jetty 12 came with Connect 4.0 and refuses paths that are quoted well.
    ResponseRule(
        "unaddressable",
        400,
        "(Ambiguous URI|Suspicious Path|Bad Message|Bad Request)",
        NO,
        NO,
        RejectedError,
        "use a name without slash, percent sign, backslash and control characters: this worker can't address it",
        shapes=_PAGE,
    ),
    ResponseRule("request timeout", 408, "", AGAIN, UNKNOWN, UnreachableError),
    ResponseRule("too many requests", 429, "", AGAIN, AGAIN, UnreachableError),
    ResponseRule("rejected", range(400, 500), "", NO, NO),
    # From here on a write is unknown unless the text proves that nothing was begun.
    ResponseRule("rebalance on a read", 500, "because a rebalance is expected", AGAIN, AGAIN),
    ResponseRule("forwarded: later", 500, "^Cannot complete request (momentarily|because)", AGAIN, AGAIN),
    ResponseRule(
        "forwarded: missing", 500, _MISSING, AGAIN, AGAIN, NotFoundError, _HINT_LIST, elsewhere=True, once=True
    ),
    ResponseRule(
        "forwarded: exists",
        500,
        "^Connector .* already exists",
        NO,
        NO,
        AlreadyExistsError,
        "update it instead: seamark connectors update",
    ),
    ResponseRule("timed out", 500, "^Request timed out", AGAIN, UNKNOWN, UnreachableError),
    ResponseRule(
        "leader not reached", 500, _LEADER_NOT_REACHED, AGAIN, AGAIN, UnreachableError, _HINT_OTHER_URL, elsewhere=True
    ),
    ResponseRule(
        "forwarding broke",
        500,
        "^IO Error trying to forward",
        AGAIN,
        UNKNOWN,
        UnreachableError,
        _HINT_OTHER_URL,
        elsewhere=True,
    ),
    # Connect says itself that this one can be repeated. It is not atomic: some partitions may have moved.
    ResponseRule(
        "zombie sink task",
        500,
        "^Failed to (alter|reset) consumer group offsets .* can be safely retried",
        AGAIN,
        AGAIN,
        hint="if the error persists, restart the worker that still runs a task of this sink",
        kinds=_OFFSETS,
        is_partial=True,
    ),
    ResponseRule(
        "offsets not modifiable",
        500,
        "doesn't support external modification of offsets",
        NO,
        NO,
        UnsupportedError,
        "use the plugin's own tools: it rejects changes of its offsets",
        kinds=_OFFSETS,
    ),
    ResponseRule("offsets not primitive", 500, "^Offsets may only contain primitive types", NO, NO, kinds=_OFFSETS),
    # Jackson could not parse the body, so that no worker acted on it.
    ResponseRule("malformed body", 500, _MALFORMED, NO, NO),
    ResponseRule(
        "plugin missing",
        500,
        "Failed to find any class that implements Connector",
        NO,
        NO,
        RejectedError,
        "install the plugin on every worker; to see where it is missing: seamark doctor",
    ),
    ResponseRule("empty 500", 500, "", AGAIN, UNKNOWN, UnreachableError, shapes=_EMPTY),
    ResponseRule("gateway", range(502, 505), "", AGAIN, UNKNOWN, UnreachableError, elsewhere=True),
    ResponseRule(
        "page for an error", range(500, 600), "", NO, UNKNOWN, UnreachableError, _HINT_NOT_CONNECT, shapes=_PAGE
    ),
    ResponseRule(
        "server error", range(500, 600), "", NO, UNKNOWN, RejectedError, "check the worker's log for the cause"
    ),
    ResponseRule("unknown status", range(1000), "", NO, UNKNOWN, UnreachableError, _HINT_NOT_CONNECT),
)

FAILURE_RULES: dict[Phase, ResponseRule] = {
    # The deadline passed before the first byte.
    Phase.TOO_LATE: ResponseRule("too late", range(0), "", NO, NO, DeadlineError),
    # Nothing was sent, so a write may go to the next worker as well.
    Phase.CONNECTING: ResponseRule(
        "not connected",
        range(0),
        "",
        AGAIN,
        AGAIN,
        UnreachableError,
        "check the URLs of the context, and that a worker runs",
        elsewhere=True,
    ),
    Phase.SENT: ResponseRule("no answer", range(0), "", AGAIN, UNKNOWN, UnreachableError, elsewhere=True),
    Phase.TOO_LARGE: ResponseRule("answer too large", range(0), "", NO, UNKNOWN, RefusedError, _HINT_NOT_CONNECT),
}


# Two rules stand over the table in `rules.py`:
#
# * Connect decides 400, 404 and 409 before it changes anything: the attempt did not happen.
# * A write without an answer that proves either is *unknown*, and an unknown write is never repeated. A call is
#   unknown as soon as one of its attempts may have acted, whatever the last answer was (`Caller`).

# Connect puts whole stack traces and config definitions into messages; a person reads the beginning.
_LONGEST_TEXT = 2000
# A follower of an older version wraps the leader's answer in a 500 of its own.
_FORWARDED = re.compile(r"^(?:Error trying to forward REST request: )+")
_JSON_STARTS = (b"{", b"[", b'"')


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An HTTP response. `location_host` is the target of a redirect, `date` the time by the server's clock."""

    status: int
    content_type: str = ""
    body: bytes = b""
    location_host: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """A request that got no response, and how far it had gone."""

    phase: Phase
    reason: str
    # No response arrived in time, not even a refused connection.
    is_silence: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """What an answer means for one request, by which rule, and what the other side said."""

    verdict: Verdict
    rule: ResponseRule
    text: str
    status: int = 0


def judge(request: Request, outcome: HttpResponse | RequestFailure) -> Judgement:
    """What an outcome means for the request."""
    if isinstance(outcome, RequestFailure):
        rule = FAILURE_RULES[outcome.phase]
        return Judgement(_verdict(request, rule), rule, outcome.reason)
    return _judge_answer(request, outcome)


def is_unknown(request: Request, judgement: Judgement) -> bool:
    """Return whether the attempt with this judgement may have changed something."""
    return request.writes and (judgement.verdict is Verdict.UNKNOWN or judgement.rule.is_partial)


def _judge_answer(request: Request, answer: HttpResponse) -> Judgement:
    shape, text = _read_body(answer)
    text = _FORWARDED.sub("", hide_values(text, request.secrets))
    for rule in ANSWER_RULES:
        if rule.matches(status=answer.status, kind=request.kind, shape=shape, text=text):
            if answer.location_host:
                text = f"redirect to {answer.location_host}"
            return Judgement(_verdict(request, rule), rule, _shorten(text), answer.status)
    raise AssertionError(f"no rule for status {answer.status}")  # the table ends with rules for every status


def _verdict(request: Request, rule: ResponseRule) -> Verdict:
    return rule.write if request.writes else rule.read


def _read_body(answer: HttpResponse) -> tuple[Shape, str]:
    body = answer.body
    if not body.strip():
        return Shape.EMPTY, ""
    if answer.status < 300:
        # A fleet's body is large and is decoded once, by wire.py; here its first byte is enough.
        is_json = "json" in answer.content_type or body.lstrip()[:1] in _JSON_STARTS
        return (Shape.JSON, "") if is_json else (Shape.PAGE, _page_text(body))
    value = _parse_error(body)
    if value is None:
        return Shape.PAGE, _page_text(body)
    # Only Connect's own errors have an error_code. Jetty's, from before Connect's resources are up, do not.
    shape = Shape.CONNECT if "error_code" in value else Shape.JSON
    return shape, str(value.get("message") or "")


def _parse_error(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _page_text(body: bytes) -> str:
    """The words of an HTML page or whatever else came, on one line."""
    text = re.sub(r"<[^>]*>", " ", body[:_LONGEST_TEXT].decode(errors="replace"))
    return " ".join(text.split())


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + " …"
