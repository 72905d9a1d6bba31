"""A server can't outlive its supervisor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from seamark.devstack.process import FIRST, LAST, PortReservation, RunningServer, Server, state_of, wait_until
from seamark.devstack.supervisor import is_alive
from seamark.errors import DevstackError

SUPERVISOR = """
import sys, time
from pathlib import Path
from seamark.devstack.process import RunningServer, Server
folder = Path(sys.argv[1])
server = Server("s", kind="s", command=("sleep", "600"), log=folder / "log", data=folder, port=0, is_ready=bool)
print(RunningServer(server).pid, flush=True)
time.sleep(600)
"""


def test_killed_supervisor_takes_its_servers_with_it(tmp_path):
    supervisor = subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    server = int(supervisor.stdout.readline())
    assert state_of(server) == "running"
    supervisor.send_signal(signal.SIGKILL)
    supervisor.wait(10)
    supervisor.stdout.close()
    wait_until(lambda: state_of(server) == "gone", "the server was gone", seconds=10)


def test_stopped_process_is_told_from_a_running_one():
    process = subprocess.Popen(["sleep", "60"])
    try:
        assert state_of(process.pid) == "running"
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: state_of(process.pid) == "stopped", "it was stopped", seconds=5)
    finally:
        process.kill()
        process.wait(10)
    assert state_of(process.pid) == "gone"


def test_server_does_not_see_the_callers_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("GAME_DB_PASSWORD", "canary-8812")
    server = Server("s", kind="s", command=("env",), log=tmp_path / "log", data=tmp_path, port=0, is_ready=bool)
    running = RunningServer(server)
    running.process.wait(10)
    assert running.log_says("PATH=")
    assert not running.log_says("canary-8812")


def test_two_reservations_never_share_a_port():
    first, second = PortReservation(), PortReservation()
    ports = [reservation.take() for _ in range(20) for reservation in (first, second)]
    assert len(set(ports)) == 40
    assert all(FIRST <= port < LAST for port in ports)


def test_wait_ends_with_its_sentence():
    begin = time.monotonic()
    with pytest.raises(DevstackError, match="until the moon was full"):
        wait_until(lambda: False, "the moon was full", seconds=0.2, every_seconds=0.05)
    assert time.monotonic() - begin < 5


def test_process_id_of_a_stranger_is_not_taken_for_a_supervisor():
    assert state_of(os.getpid()) == "running"
    assert not is_alive(os.getpid())
