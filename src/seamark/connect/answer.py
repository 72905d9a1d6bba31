"""The one place that decides what an answer means: done, did not happen, unknown, or try again.

Two rules stand over the table in `rules.py`:

* Connect decides 400, 404 and 409 before it changes anything: the attempt did not happen.
* A write without an answer that proves either is *unknown*, and an unknown write is never repeated. A call is unknown
  as soon as one of its attempts may have acted, whatever the last answer was (`Caller`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from seamark.connect.request import Request
from seamark.connect.rules import ANSWER_RULES, FAILURE_RULES, Phase, Rule, Shape, Verdict
from seamark.core.sensitive import hide_values

# Connect puts whole stack traces and config definitions into messages; a person reads the beginning.
_LONGEST_TEXT = 2000
# A follower of an older version wraps the leader's answer in a 500 of its own.
_FORWARDED = re.compile(r"^(?:Error trying to forward REST request: )+")
_JSON_STARTS = (b"{", b"[", b'"')


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back over HTTP. `location_host` is where a redirect wanted to lead, `date` what its clock said."""

    status: int
    content_type: str = ""
    body: bytes = b""
    location_host: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """What came instead of an answer, and how far the request had gone."""

    phase: Phase
    reason: str
    # Nobody said anything in time, not even that nobody is there.
    is_silence: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """What an answer means for one request, by which rule, and what the other side said."""

    verdict: Verdict
    rule: Rule
    text: str
    status: int = 0


def judge(request: Request, outcome: Answer | Failure) -> Judgement:
    """What an outcome means for the request."""
    if isinstance(outcome, Failure):
        rule = FAILURE_RULES[outcome.phase]
        return Judgement(_verdict(request, rule), rule, outcome.reason)
    return _judge_answer(request, outcome)


def is_unknown(request: Request, judgement: Judgement) -> bool:
    """Return whether the attempt with this judgement may have changed something."""
    return request.writes and (judgement.verdict is Verdict.UNKNOWN or judgement.rule.is_partial)


def _judge_answer(request: Request, answer: Answer) -> Judgement:
    shape, text = _read_body(answer)
    text = _FORWARDED.sub("", hide_values(text, request.secrets))
    for rule in ANSWER_RULES:
        if rule.matches(status=answer.status, kind=request.kind, shape=shape, text=text):
            if answer.location_host:
                text = f"redirect to {answer.location_host}"
            return Judgement(_verdict(request, rule), rule, _shorten(text), answer.status)
    raise AssertionError(f"no rule for status {answer.status}")  # the table ends with rules for every status


def _verdict(request: Request, rule: Rule) -> Verdict:
    return rule.write if request.writes else rule.read


def _read_body(answer: Answer) -> tuple[Shape, str]:
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
