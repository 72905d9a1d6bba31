"""What the soak of offset changes reads from seamark's answers, and what it decides by itself."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import ClassVar

import pytest

from seamark.changes.journal import Entry, EntryKind
from seamark.changes.journal_views import build_entries_view
from seamark.changes.outcome import ChangeResult, Outcome, StepResult
from seamark.changes.preconditions import build_moved_on
from seamark.cli.confirm import build_errors
from seamark.core.offsets import Offset
from seamark.errors import UnknownOutcomeError
from seamark.offsets.write.steps import WriteOffsets
from seamark.report.data import OutputFormat
from seamark.report.listing import render_view
from tests.fault.history import Change
from tests.soak.__main__ import read_arguments
from tests.soak.chaos import Chaos, draw_pause
from tests.soak.offsets import brokers as soak_brokers
from tests.soak.offsets.offset_history import find_breaks
from tests.soak.offsets.offset_lane import is_advised
from tests.soak.offsets.undecidable import check_forced, check_held, find_advised, find_nonce, find_unknown

CHANGE = "01KTESTCHANGE00000000000000"
WRITE = WriteOffsets("game", "orders", (Offset({"filename": "f"}, {"position": 1}),))
STATE = {"kind": "set-run-state", "arguments": {"state": "RUNNING"}}
STEPS = [{"kind": "write-offsets", "arguments": {"route": "rest"}}, STATE]
BEFORE, AFTER = ({"offsets": {'{"filename":"f"}': value}} for value in ("0", "1"))
UNDECIDABLE = build_moved_on(WRITE)
UNREADABLE = UnknownOutcomeError("no broker answers")


def print_error(error):
    """What a resume prints that ended with this error of the write."""
    result = StepResult(0, "write-offsets", WRITE.subject, words=WRITE.describe(), outcome=Outcome.UNKNOWN, error=error)
    errors, _ = build_errors(ChangeResult(CHANGE, title="move", ending=None, steps=(result,)))
    return "\n".join(f"{one.message}\n{one.cause}\n{one.hint}" for one in errors)


def outcome(number, words, error=None):
    return "outcome", {"step": number, "outcome": words} | ({"error": error.as_dict()} if error else {})


def build_change(*outcomes, is_closed=True):
    bodies = [
        ("open", {"plan": {"steps": STEPS}, "title": "move orders", "nonce": "first-nonce"}),
        ("intent", {"step": 0, "before": BEFORE, "after": AFTER}),
        ("taken", {"nonce": "second-nonce"}),
        *outcomes,
        *([("close", {"ending": "partly"})] if is_closed else []),
    ]
    entries = tuple(
        Entry(
            CHANGE, number=number, kind=EntryKind(kind), at=f"2026-11-15T08:00:{number:02d}.000Z", by="soak", body=body
        )
        for number, (kind, body) in enumerate(bodies)
    )
    return Change(CHANGE, entries=entries, begins=0, ends=len(entries))


def test_only_an_undecidable_change_is_told_to_be_closed_with_force():
    assert find_advised(print_error(UNDECIDABLE)) == CHANGE
    assert find_advised(print_error(UNREADABLE)) is None


def test_a_command_that_names_the_next_one_is_no_violation():
    assert is_advised(print_error(UNDECIDABLE), "journal resume")
    assert is_advised(print_error(UNREADABLE), "journal resume")
    assert not is_advised("change X is open", "journal resume")


def test_nonce_of_the_newest_holder_is_read_from_journal_show():
    entries = build_change(outcome(0, "unknown", UNDECIDABLE), is_closed=False).entries
    shown = render_view(build_entries_view(entries), OutputFormat.TABLE)
    assert find_nonce(shown, CHANGE) == "second-nonce"
    assert find_nonce(shown, "another") is None
    assert find_nonce("error: no broker answers", CHANGE) is None


@pytest.mark.parametrize(
    ("outcomes", "is_unknown", "said"),
    [
        ([outcome(0, "unknown", UNDECIDABLE), outcome(1, "done")], True, ""),
        # The brokers may be down again when it is closed.
        ([outcome(0, "unknown", UNDECIDABLE), outcome(0, "unknown", UNREADABLE)], True, ""),
        ([outcome(0, "unknown", UNREADABLE), outcome(1, "done")], True, "doesn't say"),
        ([outcome(0, "unknown", UNDECIDABLE), outcome(1, "unknown", UNREADABLE)], True, "set-run-state"),
        ([outcome(0, "unknown", UNDECIDABLE), outcome(0, "done")], False, ""),
    ],
)
def test_only_a_write_whose_connector_runs_again_is_undecidable(outcomes, is_unknown, said):
    change = build_change(*outcomes)
    assert bool(find_unknown(change)) == is_unknown
    assert (said in check_forced(change)) if said else check_forced(change) == ""


def test_an_unknown_outcome_breaks_the_history_unless_it_is_undecidable():
    change = build_change(outcome(0, "unknown", UNDECIDABLE), outcome(1, "done"))
    assert "ended as 'unknown'" in find_breaks([change])[0]
    assert find_breaks([change], undecidable={CHANGE}) == []
    # The run state is never undecidable.
    intent = ("intent", {"step": 1, "before": None, "after": None})
    other = build_change(outcome(0, "unknown", UNDECIDABLE), intent, outcome(1, "unknown"))
    assert len(find_breaks([other], undecidable={CHANGE})) == 1


def test_offsets_of_an_undecidable_change_are_those_before_or_after_it():
    assert check_held({"f": 0}, {"f": 0}, {"f": 1}) == ""
    assert check_held({"f": 1}, {"f": 0}, {"f": 1}) == ""
    assert "neither" in check_held({"f": 2}, {"f": 0}, {"f": 1})


@pytest.mark.parametrize("every", [21.0, 120.0])
def test_servers_are_killed_as_often_as_asked_on_average(every):
    rng = random.Random(1)
    drawn = [draw_pause(rng, every) for _ in range(4000)]
    assert sum(drawn) / len(drawn) == pytest.approx(every, rel=0.03)
    assert min(drawn) >= every * 12 / 21
    assert max(drawn) <= every * 30 / 21


def test_no_server_is_killed_with_an_interval_of_zero():
    struck = []
    chaos = Chaos(None, proxies=(), groups=(), brokers=None, rng=random.Random(1), every_seconds=0)
    chaos._choose = struck.append
    with chaos:
        chaos._thread.join(5)
    assert (struck, chaos.trouble, sum(chaos.counts.values())) == ([], "", 0)


def test_options_of_the_rate_are_read_and_checked(capsys):
    wanted = read_arguments(["30", "--offsets", "--servers-every", "90", "--resume-share", "0.7", "--lanes", "24"])
    assert (wanted.servers_every, wanted.resume_share, wanted.lanes) == (90.0, 0.7, 24)
    assert read_arguments(["30", "--offsets"]).servers_every == 21.0
    for words in (["--servers-every", "-1"], ["--servers-every", "nan"], ["--resume-share", "1.5"]):
        with pytest.raises(SystemExit):
            read_arguments(["30", *words])
    assert "invalid share 1.5: expected 0 to 1" in capsys.readouterr().err


class FakeAdmin:
    """An admin client whose first request fails if a test says so."""

    made: ClassVar[list] = []
    failing: ClassVar[list] = []

    def __init__(self, **_):
        self.is_closed = False
        self.made.append(self)

    def describe_topics(self, topics):
        del topics
        if self.failing:
            raise self.failing.pop()
        return [{"partitions": [1]}]

    def close(self):
        self.is_closed = True


@pytest.fixture
def brokers(monkeypatch):
    monkeypatch.setattr(FakeAdmin, "made", [])
    monkeypatch.setattr(FakeAdmin, "failing", [])
    monkeypatch.setattr(soak_brokers, "KafkaAdminClient", FakeAdmin)
    return soak_brokers.Brokers(SimpleNamespace(kafka=SimpleNamespace(bootstrap_servers="a:1,b:2")))


def test_a_slow_request_of_one_thread_keeps_no_other_waiting(brokers):
    begun, go_on = threading.Event(), threading.Event()

    def wait(client):
        del client
        begun.set()
        assert go_on.wait(10)

    slow = threading.Thread(target=brokers._ask, args=(wait,))
    slow.start()
    assert begun.wait(10)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(brokers.count_partitions, "t").result(5) == 1
    go_on.set()
    slow.join(10)
    brokers.close()
    assert [client.is_closed for client in FakeAdmin.made] == [True, True]


def test_a_client_that_failed_is_closed_and_replaced(brokers):
    FakeAdmin.failing.append(OSError("gone"))
    assert brokers.count_partitions("t") == 1
    assert brokers.count_partitions("t") == 1
    assert [client.is_closed for client in FakeAdmin.made] == [True, False]
