"""The checkers of histories and requests can say no."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from seamark.changes.journal import Entry
from tests.fault.history import Change, find_breaks
from tests.soak.changes.lane import Lane
from tests.soak.intents import check_intents
from tests.soak.offsets import commits as commits_of
from tests.soak.offsets import offset_history
from tests.soak.offsets.commits import Commit, Write, check_commits
from tests.soak.offsets.delivered import Delivered, Start, check_delivered
from tests.soak.proxy import Request
from tests.soak.record import Table, append_row

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


def build_write(name, before, after, *, begins, outcome="done", kind="write-offsets", entries=()):
    """A change that writes offsets in its one step."""
    step = {"kind": kind, "arguments": {"route": "rest"}}
    bodies = [
        ("open", {"plan": {"steps": [step]}}),
        ("intent", {"step": 0, "before": before, "after": after}),
        *entries,
        ("outcome", {"step": 0, "outcome": outcome}),
        ("close", {"ending": "done"}),
    ]
    made = tuple(
        Entry(name, number=number, kind=kind, at=at(begins + number), by="somebody", body=body)
        for number, (kind, body) in enumerate(bodies)
    )
    return Change(name, entries=made, begins=begins, ends=begins + len(made) - 1)


def image(value):
    return {"offsets": {'{"filename":"f"}': value}}


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (build_write("B", image("1"), image("2"), begins=10), None),
        (build_write("B", image("0"), image("2"), begins=10), "had been left as"),
        (build_write("B", None, image("2"), begins=10), "had been left as"),
        (build_write("B", image("1"), image("2"), begins=2), "before A has ended"),
        (build_write("B", image("1"), image("2"), begins=10, outcome="foreign change"), "ended as 'foreign change'"),
    ],
)
def test_history_of_offsets_that_is_not_one_line_is_found(second, said):
    first = build_write("A", image("0"), image("1"), begins=0)
    breaks = offset_history.find_breaks([first, second], is_still=True)
    assert len(breaks) == (said is not None)
    assert said is None or said in breaks[0]


def test_forgotten_group_that_is_found_with_commits_is_a_break():
    first = build_write("A", {"t": {"0": {"offset": 5}}}, None, begins=0, kind="delete-group")
    good = build_write("B", None, {"t": {"0": {"offset": 1}, "1": {"offset": 1}}}, begins=10)
    again = build_write("C", {"t": {"1": {"offset": 1}}}, None, begins=20)
    last = build_write("D", {"t": {"0": {"offset": 1}, "1": None}}, {"t": {"0": None, "1": {"offset": 3}}}, begins=30)
    wrong = build_write("B", {"t": {"0": {"offset": 5}}}, {"t": {"0": {"offset": 1}}}, begins=10)
    assert offset_history.find_breaks([first, good, again, last], is_still=True) == []
    assert len(offset_history.find_breaks([first, wrong], is_still=True)) == 1


AGAIN = [
    ("outcome", {"step": 0, "outcome": "did not happen", "again": True}),
    ("intent", {"step": 0, "before": image("0"), "after": image("1")}),
]


@pytest.mark.parametrize(
    ("entries", "requests", "said"),
    [
        ((), [Request(INTENT_SECONDS + 0.1, "offsets", "it", None)], []),
        ((), [], []),
        ((), [Request(INTENT_SECONDS - 0.1, "offsets", "it", 200)], ["had no intent before it"]),
        ((), [Request(INTENT_SECONDS + 0.1, "stop", "it", 200)], ["had no intent", "1 requests to stop on 0"]),
        ((), [Request(INTENT_SECONDS - 9, "offsets", "it", 200)], ["before any change"]),
        ((), [Request(INTENT_SECONDS + 1, "offsets", "it", None, spoiled="lost")] * 2, ["2 requests to offsets on 1"]),
        # The same again where Connect said that it did nothing, or where there is an intent for each.
        ((), [Request(INTENT_SECONDS + one, "offsets", "it", status) for one, status in ((1, 409), (2, 200))], []),
        (AGAIN, [Request(INTENT_SECONDS + one, "offsets", "it", None) for one in (0.5, 3)], []),
        # What was spoiled was perhaps done, whatever Connect would have said.
        (
            (),
            [Request(INTENT_SECONDS + one, "offsets", "it", None, "", "500 after") for one in (1, 2)],
            ["2 requests to offsets on 1"],
        ),
    ],
)
def test_request_of_offsets_without_its_intent_is_found(entries, requests, said):
    change = build_write("A", image("0"), image("1"), begins=0, entries=entries)
    wrong = check_intents([change], requests)
    assert len(wrong) == len(said)
    assert all(words in sentence for words, sentence in zip(said, wrong, strict=True))


def test_intent_in_the_spool_is_one_for_its_own_change_alone():
    change = build_write("A", image("0"), image("1"), begins=0)
    requests = [Request(INTENT_SECONDS + one, "offsets", "it", None) for one in (0.5, 3)]
    assert check_intents([change], requests, [("A", INTENT_SECONDS + 2, 0)]) == []
    assert len(check_intents([change], requests, [("B", INTENT_SECONDS + 2, 0)])) == 1
    foreign = build_write("A", image("0"), image("1"), begins=0, outcome="foreign change")
    assert offset_history.find_breaks([foreign], spooled={"A"}) == []
    assert len(offset_history.find_breaks([foreign], spooled={"B"})) == 1


def numbers(*found, at=100.0):
    return [Delivered(number, at) for number in found]


MOVED = Start(50.0, before=4, after=1)
SKIPPED = Start(50.0, before=2, after=5)


@pytest.mark.parametrize(
    ("delivered", "starts", "options", "said"),
    [
        (numbers(0, 1, 2, 3), [], {"held": {0}, "died": []}, None),
        (numbers(0, 1, 3), [], {"held": {3}, "died": [(0, 999)]}, "after 1 came 3"),
        (numbers(0, 1, 2), [], {}, "the last one is 2"),
        (numbers(1, 2, 3), [], {}, "after -1 came 1"),
        # Back where a change moved it, and not where none did.
        (numbers(0, 1, 2, 3, 1, 2, 3), [MOVED], {"held": {0}, "died": []}, None),
        (numbers(0, 1, 2, 3, 2, 3), [MOVED], {"held": {0}, "died": []}, "after 3 came 2"),
        (numbers(0, 1, 2, 3, 1, 2, 3, at=49.0), [MOVED], {"held": {0}, "died": []}, "after 3 came 1"),
        # Back to where it had flushed, and what a producer sends twice while a broker is dead.
        (numbers(0, 1, 2, 3, 2, 3), [], {"held": {2}, "died": []}, None),
        (numbers(0, 1, 2, 3, 2, 3), [], {"held": {0}, "died": [(90, 110)]}, None),
        (numbers(0, 1, 2, 3, 2, 3), [], {"held": {0}, "died": [(0, 99)]}, "after 3 came 2"),
        # Forward only from where it stood: 2 and 3 were skipped as somebody said, 1 was not.
        (numbers(0, 1, 5, 6), [SKIPPED], {"end": 7}, None),
        (numbers(0, 5, 6), [SKIPPED], {"end": 7}, "after 0 came 5"),
        (numbers(0, 1, 8, 9), [SKIPPED, Start(60.0, before=5, after=8)], {"end": 10}, None),
        (numbers(0, 1, 8, 9), [SKIPPED, Start(60.0, before=6, after=8)], {"end": 10}, "after 1 came 8"),
    ],
)
def test_delivery_that_no_change_ordered_is_found(delivered, starts, options, said):
    wrong, counts = check_delivered(delivered, starts, **({"end": 4} | options))
    assert len(wrong) == (said is not None)
    assert said is None or said in wrong[0]
    assert (counts["unexplained"] > 0) == (said is not None and said.startswith("after"))


def commits(*offsets, at=100.0):
    return [Commit(at + number, offset) for number, offset in enumerate(offsets)]


@pytest.mark.parametrize(
    ("committed", "writes", "delivered", "said"),
    [
        (commits(2, 4), [], [0, 1, 2, 3], []),
        # Back to what was committed before the kill: what came behind it comes again.
        (commits(2, 4), [], [0, 1, 2, 2, 3], []),
        (commits(2, 4), [], [0, 1, 2, 1, 2, 3], ["after 2 came 1, and the group had not stood there"]),
        # Back to an older commit than the last one that the sink began from.
        (commits(1, 2, 4), [], [0, 1, 2, 2, 3, 1, 2, 3], ["after 3 came 1, and the group had not stood there"]),
        # The group was left behind or beyond, and no change had said so.
        (commits(3, 1, 4), [], [0, 1, 2, 1, 2, 3], ["1 was committed at 101.000 behind 3"]),
        (commits(4, None, 4), [], [0, 1, 2, 3] * 2, ["None was committed at 101.000 behind 4"]),
        (commits(1, 3, 4), [], [0, 3], ["1 to 2 were committed as read 1 times and delivered 0 times"]),
        # As changes wrote: back, forward, deleted; and each of them once.
        (commits(4, 1, 4), [Write(101, 102, 1)], [0, 1, 2, 3, 1, 2, 3], []),
        (commits(1, 3, 4), [Write(101, 102, 3)], [0, 3], []),
        (commits(4, None, 4), [Write(100.5, 101.5, None)], [0, 1, 2, 3] * 2, []),
        (commits(4, 1, 1, 4), [Write(101, 103, 1)], [0, 1, 2, 3, 1, 2, 3], []),
        (commits(4, 1, 4, 1, 4), [Write(101, 109, 1)], [0, 1, 2, 3] + [1, 2, 3] * 2, ["at 103.000 behind 4"]),
        # A change that wrote something else, or at another time.
        (commits(4, 1, 4), [Write(101, 102, 2)], [0, 1, 2, 3, 1, 2, 3], ["1 was committed at 101.000 behind 4"]),
        (commits(4, 1, 4), [Write(102, 103, 1)], [0, 1, 2, 3, 1, 2, 3], ["1 was committed at 101.000 behind 4"]),
        # Moved back, and committed as read once more without having been delivered once more: lost.
        (commits(4, 1, 4), [Write(101, 102, 1)], [0, 1, 2, 3], ["1 to 3 were committed as read 2 times"]),
        # The end was not reached, in the group or in the file.
        (commits(2), [], [0, 1, 2, 3], ["the group stands at 2, and there are 4"]),
        (commits(2, 4), [], [0, 1, 2], ["3 to 3 were committed as read 1 times", "the last one is 2"]),
        ([], [], [], ["the group stands at 0", "the last one is none"]),
    ],
)
def test_sink_that_is_not_where_its_commits_and_changes_say_is_found(committed, writes, delivered, said):
    wrong, counts = check_commits(committed, writes, delivered, end=4)
    assert len(wrong) == len(said), wrong
    assert all(words in sentence for words, sentence in zip(said, wrong, strict=True)), wrong
    assert counts["commits: moved"] + counts["commits: progress"] + sum("behind" in one for one in wrong) == len(
        committed
    )


def read_spot(partition, offset):
    return partition, None if offset is None else int(offset)


def test_writes_of_a_change_last_from_its_intent_to_its_end():
    whole = build_write("A", {"offsets": {"p": "4", "q": "2"}}, None, begins=0)
    repeated = build_write("B", {"offsets": {"p": None}}, {"offsets": {"p": "1"}}, begins=10, entries=AGAIN_OF_P)
    found = offset_history.find_writes([whole, repeated], read_spot)
    begins = INTENT_SECONDS - 0.5
    assert found["q"] == [Write(begins, INTENT_SECONDS + 2.5, None)]
    assert found["p"] == [
        Write(begins, INTENT_SECONDS + 2.5, None),
        Write(begins + 10, INTENT_SECONDS + 14.5, 1),
        Write(begins + 12, INTENT_SECONDS + 14.5, 1),
    ]


AGAIN_OF_P = [
    ("outcome", {"step": 0, "outcome": "did not happen", "again": True}),
    ("intent", {"step": 0, "before": {"offsets": {"p": None}}, "after": {"offsets": {"p": "1"}}}),
]


def spell(text):
    return len(text).to_bytes(2, "big") + text.encode()


def test_keys_and_values_of_the_groups_topic_are_read():
    key = (1).to_bytes(2, "big") + spell("connect-it") + spell("topic") + (2).to_bytes(4, "big")
    assert commits_of.parse_key(key) == ("connect-it", "topic:2")
    # The metadata of a group, which has another version.
    assert commits_of.parse_key((2).to_bytes(2, "big") + spell("connect-it")) is None
    value = (3).to_bytes(2, "big") + (77).to_bytes(8, "big") + (-1).to_bytes(4, "big", signed=True) + spell("")
    assert commits_of.parse_value(value + (1794729601000).to_bytes(8, "big")) == 77
    assert commits_of.parse_value(None) is None


def test_row_goes_to_the_table_under_its_heading(tmp_path):
    page = tmp_path / "page.md"
    first, second = Table("## A", ("x",)), Table("## B", ("x",))
    page.write_text("## A\n\n| x |\n|---|\n\n## B\n\nwords\n\n| x |\n|---|\n| 1 |\n\nmore words\n")
    append_row("| a |", first, page)
    append_row("| b |", second, page)
    assert page.read_text() == (
        "## A\n\n| x |\n|---|\n| a |\n\n## B\n\nwords\n\n| x |\n|---|\n| 1 |\n| b |\n\nmore words\n"
    )
    with pytest.raises(SystemExit, match="the row is"):
        append_row("| c |", Table("## C", ()), page)
