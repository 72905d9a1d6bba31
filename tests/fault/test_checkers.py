"""The checkers of histories and requests can say no."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from seamark.model.entry import Entry
from tests.fault.history import Change, find_breaks
from tests.soak.lane import Lane
from tests.soak.proxy import Request

STEPS = [{"kind": "put-config", "arguments": {}}]


def at(second):
    return f"2026-11-15T08:00:{second:02d}.000Z"


def build_change(name, before, after, *, begins, outcome="done", closed=True):
    """A change of one step that began at a second."""
    bodies = [("open", {"plan": {"steps": STEPS}}), ("intent", {"step": 0, "before": before, "after": after})]
    bodies += [("outcome", {"step": 0, "outcome": outcome})] + ([("close", {"ending": "done"})] if closed else [])
    entries = tuple(
        Entry(name, number=number, kind=kind, at=at(begins + number), by="somebody", body=body)
        for number, (kind, body) in enumerate(bodies)
    )
    return Change(name, entries=entries, begins=begins, ends=begins + len(entries) - 1)


FIRST = build_change("A", 0, 1, begins=0)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (build_change("B", 1, 2, begins=10), None),
        (build_change("B", 0, 2, begins=10), "had been left as 1"),
        (build_change("B", 1, 2, begins=2), "before A has ended"),
        (build_change("B", 1, 2, begins=10, closed=False), "is open"),
        (build_change("B", 1, 2, begins=10, outcome="unknown"), "ended as 'unknown'"),
    ],
)
def test_history_that_is_not_one_line_is_found(second, said):
    breaks = find_breaks([FIRST, second])
    assert len(breaks) == (said is not None)
    assert said is None or said in breaks[0]


INTENT_SECONDS = 1794729601.0  # 2026-11-15T08:00:01Z


@pytest.mark.parametrize(
    ("requests", "count"),
    [
        ([Request(INTENT_SECONDS + 0.1, "config", "it", 200)], 0),
        ([Request(INTENT_SECONDS + 0.1, "config", "it", 409), Request(INTENT_SECONDS + 0.2, "config", "it", 200)], 0),
        ([Request(INTENT_SECONDS - 0.1, "config", "it", 200)], 1),
        ([Request(INTENT_SECONDS + 0.1, "config", "it", 200), Request(INTENT_SECONDS + 9, "config", "it", None)], 1),
        ([Request(INTENT_SECONDS + 0.1, "stop", "it", 200)], 2),
    ],
)
def test_request_without_its_intent_is_found(requests, count, capsys):
    lane = Lane.__new__(Lane)
    lane.rig = SimpleNamespace(name="it", journal="kafka")
    lane.counts, lane.violations, lane.seed = Counter(), [], 0
    lane._proxies = [SimpleNamespace(requests={"it": requests})]
    lane._check_intents(FIRST)
    assert len(lane.violations) == count
    assert capsys.readouterr().out.count("VIOLATION I1") == count
