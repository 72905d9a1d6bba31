"""A holder that is stopped, taken over, and goes on again: it fails before its next act."""

from __future__ import annotations

import signal
from datetime import datetime

import pytest

from tests.fault.changes.midway import VALUE, start_held
from tests.fault.rig import Rig, kill_quietly


def take_over_a_stopped_holder(rig, *, resume_timeout):
    holder = start_held(rig, "after-outcome:0")
    try:
        change = rig.changes()[0]
        assert change["state"] == "open"

        # Somebody else is refused first, not pre-empted.
        code, _, err = rig.repeat("connectors", "pause", f"connect/{rig.name}", "--yes")
        assert code == 5, err
        assert change["change"] in err

        code, _, err = rig.seamark("journal", "resume", change["change"], "--yes", timeout=resume_timeout)
        assert code == 0, err
        config = rig.config()
        assert config["mark"] == VALUE
        code, _, err = rig.repeat("connectors", "pause", f"connect/{rig.name}", "--yes")
        assert code == 0, err

        holder.send_signal(signal.SIGCONT)
        _, said = holder.communicate(timeout=120)
        assert holder.returncode == 1, said
        assert "FencedError" in said
        # It wanted to change the config and to start the connector; neither happened.
        assert rig.state() == "PAUSED"
        assert rig.config() == config
        kinds = [entry["kind"] for entry in rig.entries(change["change"])["entries"]]
        assert kinds.count("taken") == 1
        assert kinds[-1] == "close"
    finally:
        kill_quietly(holder)


def test_stopped_holder_is_fenced_before_its_next_act(rig):
    take_over_a_stopped_holder(rig, resume_timeout=120)


@pytest.mark.timeout(600)
def test_lost_answer_is_waited_for_with_the_real_ninety_seconds(stack, tmp_path, journal_topics):
    rig = Rig(stack, tmp_path, in_flight="90s")
    rig.create()
    try:
        code, _, _ = rig.guarded("5", failpoint="after-intent:1:kill")
        assert code == -9
        change = rig.changes()[0]["change"]
        code, _, err = rig.seamark("journal", "resume", change, "--yes", timeout=300)
        assert code == 0, err
        times = {entry["kind"]: entry["at"] for entry in rig.entries(change)["entries"]}
        assert times["close"] > times["taken"]
        assert rig.config()["mark"] == "5"
        assert rig.state() == "RUNNING"
        entries = rig.entries(change)["entries"]
        waited = seconds_between(next(e for e in entries if e["kind"] == "intent" and e["number"] > 2), entries)
        assert waited >= 90
    finally:
        rig.delete()


def seconds_between(intent, entries):
    """From an intent to the next outcome."""
    outcome = next(e for e in entries if e["kind"] == "outcome" and e["number"] > intent["number"])
    return (datetime.fromisoformat(outcome["at"]) - datetime.fromisoformat(intent["at"])).total_seconds()
