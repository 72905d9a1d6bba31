"""Connect 3.4 can't stop a connector: its offsets are read, and changed only while all workers are down."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from seamark.devstack import StackSpec, load_stack, start_stack
from seamark.devstack.client import ask
from seamark.devstack.process import wait_until
from tests.fault.offsets.older import KINDS, PATIENCE_SECONDS
from tests.fault.rig import build_counter
from tests.integration.offset_tools import run_connect_offsets

VERSION = "3.4.1"
HINTS = {"source": "connect-offsets --import", "sink": "seamark groups move connect-"}
pytestmark = [pytest.mark.recovery, pytest.mark.timeout(1200)]


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

        def build(kind):
            (tmp_path / kind).mkdir()
            moved = KINDS[kind](oldest, tmp_path / kind, cluster="connect", count_records=build_counter(oldest))
            cleaning.callback(moved.close)
            moved.create()
            return moved

        yield build


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_are_read_and_a_move_is_refused_before_anything_is_changed(build_moved, oldest, kind):
    assert oldest.connect["connect"].version == VERSION
    moved = build_moved(kind)
    rig = moved.rig
    before, end = rig.config(), moved.read()
    code, _, err = moved.move()
    assert code == 5, err
    assert f"can't change the offsets of {moved.owner}; no changes were made" in err
    assert "Connect 3.4.1, which can't stop a connector (since 3.5)" in err
    assert HINTS[kind] in err
    assert rig.changes() == []
    assert (rig.config(), moved.read()) == (before, end)
    assert rig.runs()


def test_a_source_goes_on_from_what_was_imported_while_all_workers_were_down(build_moved, oldest, monkeypatch):
    moved = build_moved("source")
    rig = moved.rig
    monkeypatch.setenv("XDG_STATE_HOME", str(rig.folder / "state"))
    wanted = rig.folder / "wanted.json"
    pair = {"partition": {"filename": str(rig.input)}, "offset": {"position": 0}}
    wanted.write_text(json.dumps({rig.name: [pair]}))
    config = oldest.connect["connect"].worker_config
    (worker,) = [server.name for server in oldest.servers if server.name.startswith("worker-")]
    ended = []

    def is_imported():
        ended.append(run_connect_offsets("--import", f"--config={config}", str(wanted)))
        return ended[-1][0] == 0

    ask(Path(oldest.folder), "kill", worker)
    try:
        # A worker that was killed is in its group until its session is over.
        wait_until(is_imported, f"the offsets of {rig.name} were imported", seconds=PATIENCE_SECONDS)
    finally:
        ask(Path(oldest.folder), "restart", worker)
    wait_until(rig.runs, f"{rig.name} ran again", seconds=PATIENCE_SECONDS)
    moved.await_end(2)
    assert moved.count_rewinds() == 1
