"""The tool is partitioned from Kafka while it changes offsets: its journal and its reads are on the other side.

Commands are processes of their own, with a journal in Kafka. They reach the brokers through proxies; the workers and
the test don't. Several are held, each at another point of its change, when the link is cut.
"""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from seamark.devstack.process import state_of, wait_until
from tests.fault.offsets.offset_lane import Lane
from tests.fault.offsets.partition import (
    ANSWERS_LOST,
    REQUESTS_LOST,
    RESET,
    SILENCE,
    Bystander,
    Recorder,
    build_tool_link,
    find_violations,
)
from tests.fault.rig import is_hindered, kill_quietly
from tests.fault.toxic import DOWNSTREAM, Cut
from tests.integration.waits import TRIES, says_hindered

# The first of them waits for its servers too.
pytestmark = [pytest.mark.offset_fault, pytest.mark.timeout(900)]

# What is changed and where the command is held. Steps: 0 stop, 1 prove, 2 preview, 3 write, 4 verify, 5 resume, 6 look
# where it goes on.
HELD = (
    ("source", "after-open:0"),
    ("sink", "after-outcome:0"),
    ("source", "after-perform:3"),
    ("sink", "after-outcome:3"),
)
# Shorter than the 25 s for which an entry is tried: the command waits, and goes on.
SHORT_SECONDS = 8
SHORT_HELD = (("source", "after-outcome:0"), ("sink", "after-intent:3"))
# An entry needs some round trips; the brokers give up its transaction after 15 s.
SLOW = Cut("latency", (DOWNSTREAM,), {"latency": 1500})
# Every connection ends within the answer that brings the metadata or the records.
BROKEN_OFF = Cut("limit_data", (DOWNSTREAM,), {"bytes": 700})
ARRIVE_SECONDS = 120


@pytest.fixture(scope="module")
def recorder(own_stack):
    with Recorder(own_stack) as recorder:
        yield recorder


@pytest.fixture(scope="module")
def bystander(own_stack, recorder, tmp_path_factory):
    lane = Lane(own_stack, tmp_path_factory.mktemp("bystander"), kind="source")
    lane.create()
    yield Bystander(lane)
    lane.delete()


@pytest.fixture
def link(own_stack):
    link = build_tool_link(own_stack)
    yield link
    link.heal()


@pytest.fixture
def make_lanes(own_stack, recorder, tmp_path):
    """A connector for each of these, and commands that reach Kafka through the link."""
    made = []

    def make(*kinds):
        made.extend(Lane(own_stack, tmp_path, kind=kind, servers=own_stack.kafka.door_servers) for kind in kinds)
        with ThreadPoolExecutor(len(made)) as pool:
            list(pool.map(Lane.create, made))
        return made

    yield make
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(Lane.delete, made))


@contextmanager
def hold(lanes, points):
    """Commands that move the lanes, each standing still at its point; what a rebalance hindered is typed again."""
    operators = []

    def all_stand():
        for number, operator in enumerate(operators):
            if operator.poll() is not None:
                ended = lanes[number].read_ended(operator, "move")
                assert is_hindered(operator.returncode, ended.said, ""), ended
                assert lanes[number].settle(ended, by_command=True)[0] is False, ended
                operators[number] = lanes[number].start_change("move", failpoint=f"{points[number]}:stop")
        return all(state_of(operator.pid) == "stopped" for operator in operators)

    try:
        for lane, point in zip(lanes, points, strict=True):
            operators.append(lane.start_change("move", failpoint=f"{point}:stop"))
        wait_until(all_stand, "every command was held", seconds=ARRIVE_SECONDS, every_seconds=0.2)
        yield operators
    finally:
        for operator in operators:
            kill_quietly(operator)


def let_go(operators):
    for operator in operators:
        operator.send_signal(signal.SIGCONT)


def read_all(lanes, operators):
    with ThreadPoolExecutor(len(lanes)) as pool:
        return list(pool.map(lambda lane, operator: lane.read_ended(operator, "move"), lanes, operators))


def check_hit(link, cut):
    """The cut met traffic: bytes went in and never came out; of a delay, that some went through."""
    counted = link.count_bytes()
    if cut.kind == "latency":
        assert all(counted[stream][0] > 0 for stream in cut.streams), counted
    else:
        assert any(counted[stream][1] > 0 for stream in cut.streams), counted
    return counted


def settle_all(lanes, ended, recorder, bystander):
    """Finish what is open and check every invariant; gives for each whether it was moved, and the resumes."""
    with ThreadPoolExecutor(len(lanes)) as pool:
        settled = list(pool.map(lambda lane, one: lane.settle(one, by_command=True), lanes, ended))
        violations = [
            words for found in pool.map(lambda lane: find_violations(lane, recorder), lanes) for words in found
        ]
    assert violations + bystander.find_changes() == []
    return settled


def report(words, lanes, ended, settled, counted):
    """For whoever reads the log of a run: what was hit, how each command ended, and how often it was resumed."""
    rows = [(lane.kind, one.ending, *last) for lane, one, last in zip(lanes, ended, settled, strict=True)]
    print(f"{words}: bytes (in, lost) {counted}; {rows}")


def test_cut_that_outlasts_the_command_is_told_and_resumed(make_lanes, link, recorder, bystander):
    """Nothing of it comes through until the command has given up: a person is told what to type later."""
    lanes = make_lanes(*(kind for kind, _ in HELD))
    with hold(lanes, [point for _, point in HELD]) as operators:
        link.note_bytes()
        link.cut(SILENCE)
        let_go(operators)
        ended = read_all(lanes, operators)
    for one in ended:
        assert one.ending == "exit code 1", one
        assert f"seamark journal resume {one.change}" in one.said, one
    link.heal()
    counted = check_hit(link, SILENCE)
    settled = settle_all(lanes, ended, recorder, bystander)
    report("outlasts", lanes, ended, settled, counted)
    moved = [moved for moved, _ in settled]
    # What was written before the cut stays written. Of the third the journal lacks the outcome, and the connector was
    # started without the journal.
    assert (moved[2] is not False, moved[3]) == (True, True), (ended, settled)
    with ThreadPoolExecutor(len(lanes)) as pool:
        done = [(lane, one) for lane, one, is_moved in zip(lanes, ended, moved, strict=True) if is_moved]
        list(pool.map(lambda pair: pair[0].undo(pair[1].change), done))
    assert [find_violations(lane, recorder) for lane in lanes] == [[]] * len(lanes)


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(REQUESTS_LOST, id="requests-lost"),
        pytest.param(ANSWERS_LOST, id="answers-lost"),
        pytest.param(RESET, id="reset"),
        pytest.param(SLOW, id="slow"),
    ],
)
def test_short_cut_is_waited_for_or_resumed(make_lanes, link, recorder, bystander, cut):
    lanes = make_lanes(*(kind for kind, _ in SHORT_HELD))
    with hold(lanes, [point for _, point in SHORT_HELD]) as operators:
        link.note_bytes()
        link.cut(cut)
        let_go(operators)
        time.sleep(SHORT_SECONDS)
        link.heal()
        ended = read_all(lanes, operators)
    counted = check_hit(link, cut)
    settled = settle_all(lanes, ended, recorder, bystander)
    report(cut.kind, lanes, ended, settled, counted)


@pytest.mark.parametrize(
    "cut", [pytest.param(REQUESTS_LOST, id="requests-lost"), pytest.param(ANSWERS_LOST, id="answers-lost")]
)
def test_records_of_an_offsets_topic_behind_a_cut_are_written_once_or_not(make_lanes, link, recorder, bystander, cut):
    """REST can't reach the record, so the tool writes to the topic itself, and cuts its own link right before that."""
    (lane,) = make_lanes("stray")
    lane.write_stray(lane.build_offset(lane.lines))
    link.note_bytes()
    for _ in range(TRIES):
        ended = [run_cutting(lane, link, cut)]
        if not says_hindered(ended[0].said):
            break
        assert lane.settle(ended[0], by_command=True)[0] is False, ended
    counted = check_hit(link, cut)
    settled = settle_all([lane], ended, recorder, bystander)
    report(f"records, {cut.streams}", [lane], ended, settled, counted)


def run_cutting(lane, link, cut):
    """A command that cuts its own link behind the intent of its write; it is healed some seconds later."""
    operator = lane.start_change("move", failpoint="after-intent:3:cut", cut=link.build_order(cut))
    try:
        wait_until(lambda: link.is_cut() or operator.poll() is not None, "the link was cut", seconds=ARRIVE_SECONDS)
        if link.is_cut():
            time.sleep(SHORT_SECONDS)
        link.heal()
        return lane.read_ended(operator, "move")
    finally:
        kill_quietly(operator)


@pytest.mark.parametrize("is_told", [True, False], ids=["healed", "cut-to-the-end"])
def test_holder_behind_a_cut_is_taken_over_and_acts_no_more(make_lanes, link, recorder, bystander, is_told):
    """Somebody else resumes the change while its holder is cut off and still tries to write.

    Healed, the holder is fenced. Cut to its end it never hears of the other, and may only start the connector again.
    """
    (lane,) = make_lanes("source")
    with hold([lane], ["after-outcome:0"]) as operators:
        change = lane.read_changes()[-1].id
        link.note_bytes()
        link.cut(SILENCE)
        let_go(operators)
        # It is in its look, or tries to write its entry.
        time.sleep(2)
        other = lane.start("journal", "resume", change, is_direct=True)
        out, err = other.communicate(timeout=120)
        assert operators[0].poll() is None, "the holder had ended before it was taken over"
        if is_told:
            link.heal()
        ended = read_all([lane], operators)
    link.heal()
    counted = check_hit(link, SILENCE)
    kinds = [str(entry.kind) for entry in lane.read_changes()[-1].entries]
    assert kinds.count("taken") >= 1, kinds
    assert ended[0].ending == "exit code 1", ended
    assert other.returncode == 0 or not is_told, (out, err, ended)
    if is_told:
        assert "was taken over by another process" in ended[0].said, ended
    settled = settle_all([lane], ended, recorder, bystander)
    report(f"takeover, told {is_told}, other {other.returncode}", [lane], ended, settled, counted)


@pytest.mark.parametrize("cut", [pytest.param(SILENCE, id="silence"), pytest.param(BROKEN_OFF, id="broken-off")])
def test_cut_before_the_plan_changes_nothing_or_all(make_lanes, link, recorder, bystander, cut):
    """The link is cut when the command starts: it can't read the offsets topic, the group, or its journal."""
    lanes = make_lanes("source", "sink")
    link.note_bytes()
    link.cut(cut)
    operators = [lane.start_change("move") for lane in lanes]
    try:
        ended = read_all(lanes, operators)
    finally:
        for operator in operators:
            kill_quietly(operator)
    link.heal()
    counted = check_hit(link, cut)
    for lane, one in zip(lanes, ended, strict=True):
        if not one.is_done:
            assert lane.read_changes() == [], one
            assert recorder.read(lane) == [], one
    settled = settle_all(lanes, ended, recorder, bystander)
    report(f"before the plan, {cut.kind}", lanes, ended, settled, counted)
    assert cut.kind != SILENCE.kind or [moved for moved, _ in settled] == [False, False], ended
