"""Connect 3.4 knows no stop: a connector is deleted for a while, its offsets are written, and it is created again.

Also with `kill -9` in the middle: its config is in the journal before it is deleted, so resume and undo bring it back.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.error import HTTPError

import pytest

from seamark.connect import ConnectClient
from seamark.devstack import StackSpec, load_stack, start_stack
from seamark.devstack.wait import wait_until
from tests.fault.older import KINDS, MATRIX, TEXT
from tests.fault.rig import SOURCE, build_counter, kill_quietly, wait_stopped

VERSION = "3.4.1"
# The connector is gone; its offsets are written; it is about to come back. With the variable set all 21, which takes
# minutes: the usual run tries those in memory (tests/unit/fleet/test_older_workers.py).
SOME = ("after-perform:0", "after-outcome:3", "after-intent:5")
POINTS = tuple(MATRIX) if os.environ.get("SEAMARK_WHOLE_MATRIX") else SOME
TABLE = [(kind, point) for kind in KINDS for point in POINTS]
# The connector is gone, its offsets are written, and nobody has looked at them yet.
WRITTEN = "after-outcome:3:stop"
# Each waits most of the time, and one worker shares its work anew for every delete and create.
AT_ONCE = 4
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def oldest():
    if file := os.environ.get("SEAMARK_OLDEST_DEVSTACK"):
        yield load_stack(file)
        return
    with start_stack(StackSpec(brokers=1, workers=1, connect_versions=(VERSION,)), name="oldest") as stack:
        yield stack


@pytest.fixture
def build_moved(oldest, tmp_path):
    """Connectors that have read their two lines."""
    with ExitStack() as cleaning:

        def build(kind, **options):
            (tmp_path / kind).mkdir()
            counter = build_counter(oldest)
            moved = KINDS[kind](oldest, tmp_path / kind, cluster="connect", count_records=counter, **options)
            cleaning.callback(moved.close)
            moved.create()
            return moved

        yield build


@pytest.fixture(scope="module")
def killed(oldest, tmp_path_factory):
    """Every point of every kind, several at once: what came of each."""

    def run(kind, point):
        folder = tmp_path_factory.mktemp(f"{kind}-{point.replace(':', '-')}")
        counter = build_counter(oldest)
        moved = KINDS[kind](oldest, folder, cluster="connect", count_records=counter)
        try:
            moved.create()
            moved.run_point(point)
        finally:
            moved.close()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {found: pool.submit(run, *found) for found in TABLE}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_deleted_moved_and_created_again(build_moved, oldest, kind):
    assert oldest.connect["connect"].version == VERSION
    moved = build_moved(kind)
    before = moved.rig.config()
    code, said, err = moved.move()
    assert code == 0, err
    assert "3.4.1 and can't stop it: it is deleted for a while" in said + err
    assert "is deleted, moves, is created again" in said + err
    assert "make sure that no worker runs" in said + err
    wait_until(moved.rig.runs, f"{moved.rig.name} ran again", seconds=90)
    assert moved.rig.config() == before
    moved.await_end(2)


def is_taken(rig, verb):
    """Whether Connect takes it: not while it rebalances."""
    try:
        rig.call("PUT", f"/connectors/{rig.name}/{verb}")
    except HTTPError as error:
        if error.code not in (409, 500):
            raise
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_a_paused_one_is_moved_put_back_and_paused(build_moved, kind):
    moved = build_moved(kind)
    rig = moved.rig

    def is_paused():
        status = rig.read(f"/connectors/{rig.name}/status")
        return {status["connector"]["state"], *(task["state"] for task in status["tasks"])} == {"PAUSED"}

    end, before = moved.read(), rig.config()
    wait_until(lambda: is_taken(rig, "pause"), f"Connect took the pause of {rig.name}", seconds=90)
    wait_until(is_paused, f"{rig.name} was paused", seconds=90)
    if kind == "source":
        # What it would read in the moment before it is paused again is not there.
        rig.input.rename(rig.folder / "away.txt")
    code, said, err = moved.move("5" if kind == "source" else "1")
    assert code == 0, err
    assert "runs for a moment when it is created again, then it is paused" in said + err
    wait_until(is_paused, f"{rig.name} was paused again", seconds=90)
    assert rig.config() == before
    (change,) = rig.changes()
    # A sink may have read on in that moment, and stands where it stood.
    assert kind == "sink" or moved.read() == [5]
    if moved.read() != end:
        code, _, err = rig.seamark("journal", "undo", change["change"], "--yes")
        assert code == 0, err
        wait_until(is_paused, f"{rig.name} was paused after the undo", seconds=90)
        assert moved.read() == end
    assert rig.config() == before


def test_secrets_in_the_config_are_a_refusal_before_anything_is_deleted(build_moved):
    moved = build_moved("source")
    rig = moved.rig
    rig.put(rig.name, {**rig.config(), "some.password": "hunter2"})
    wait_until(rig.runs, f"{rig.name} ran", seconds=90)
    code, said, err = moved.move()
    assert code == 5
    assert "some.password" in err
    assert "hunter2" not in said + err
    assert rig.config()["some.password"] == "hunter2"
    assert rig.changes() == []


def test_the_plugins_say_which_keys_are_passwords(oldest):
    key = "producer.override.ssl.key.password"
    config = {"name": "asked", "connector.class": SOURCE, "tasks.max": "1", "topic": "t", key: "canary"}
    with ConnectClient(oldest.connect["connect"].urls) as client:
        found = client.validate_config(SOURCE, config)
    assert found.is_valid, found.errors
    assert key in found.secret
    assert "topic" not in found.secret


def test_what_was_given_as_a_reference_is_a_refusal_before_anything_is_deleted(build_moved):
    moved = build_moved("source")
    rig = moved.rig
    rig.env["GREETING"] = "canary-4711"
    code, _, err = rig.seamark("connectors", "change", moved.owner, "--set", "greeting=secret://env/GREETING", "--yes")
    assert code == 0, err
    wait_until(rig.runs, f"{rig.name} ran", seconds=90)
    assert rig.config()["greeting"] == "canary-4711"
    code, said, err = moved.move()
    assert code == 5
    assert "greeting: literal secrets" in err
    assert "canary-4711" not in said + err
    assert len(rig.changes()) == 1


def test_one_that_somebody_creates_while_its_offsets_are_written_is_told_and_can_be_put_back(build_moved):
    moved = build_moved("source")
    rig = moved.rig
    before = rig.config()
    mover = rig.start(
        "seamark.cli", "offsets", "move", moved.owner, "--to", "0", "--wait", "0s", "--yes", failpoint=WRITTEN
    )
    try:
        wait_stopped(mover)
        rig.put(rig.name, before)
        wait_until(rig.runs, f"{rig.name} ran again", seconds=90)
        mover.send_signal(signal.SIGCONT)
        said = "".join(mover.communicate(timeout=300))
    finally:
        kill_quietly(mover)
    assert mover.returncode == 3, said
    assert "was created by somebody else while its offsets were written" in said
    (change,) = rig.changes()
    assert change["state"] == "partly"
    assert rig.config() == before
    moved.await_end(2)
    # One more line, so that the way back has something to do.
    rig.input.write_text(TEXT + "line\n")
    moved.await_end(1)
    code, said, err = rig.seamark("journal", "undo", change["change"], "--yes", timeout=300)
    assert code == 0, err
    assert "for a while: its config is in the journal" in said + err
    wait_until(rig.runs, f"{rig.name} ran after the undo", seconds=90)
    moved.await_end(1)
    assert rig.config() == before


@pytest.mark.parametrize(("kind", "point"), TABLE)
def test_killed_move_is_finished_by_resume(killed, kind, point):
    killed[kind, point].result(timeout=900)


def test_every_point_was_tried(killed):
    assert set(killed) == set(TABLE)
    assert len(TABLE) >= 6
