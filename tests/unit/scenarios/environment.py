"""Fakes, a virtual clock and a fixed actor around the commands of one scenario."""

from __future__ import annotations

import io
import itertools
import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import seamark.changes.actor
import seamark.changes.keys
import seamark.fleet.changes
import seamark.fleet.fleet
import seamark.kafka.worker_group
from seamark.changes.actor import Actor
from seamark.changes.file_journal import FileJournal
from seamark.changes.signing import KeyRing, SealKey
from seamark.changes.timing import Pace
from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.fleet.environment import SystemClock
from seamark.fleet.fleet import Fleet
from seamark.kafka.model import HeldRecord
from seamark.kafka.worker_group import WorkerGroup
from seamark.offsets.read.connector import ConnectorOffsets, OrphanedOffsets
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.cli.stubs import NOON, Outcome, Terminal
from tests.unit.fleet.living import LivingConnect, open_living_fleet
from tests.unit.offsets.moving import MovingConnect
from tests.unit.offsets.scans import FakeScan
from tests.unit.scenarios.recorder import Recorder

PASSWORD = "hunter2-canary"
OPERATOR = "operator@host:1"
W1, W2 = "http://w1:8083", "http://w2:8083"


class KilledError(BaseException):
    """The process ends here."""


class VirtualClock:
    """A clock that moves only while seamark sleeps."""

    def __init__(self) -> None:
        self.time = NOON.timestamp()

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class Environment:
    """One Connect cluster, brokers, an offsets topic and a journal in a folder, and commands that act on them.

    Each scenario is played twice: with tables as output, and with `-o json`.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, *, output: str) -> None:
        self.folder = folder
        self.patch = patch
        self.output = output
        self.recorder = Recorder(folder)
        self.clock = VirtualClock()
        self.session_now = NOON
        self.on_sleep = lambda: None
        self.context: dict[str, Any] = {}
        self.actor = OPERATOR
        self.brokers = FakeBrokers()
        self.scans = {"offsets": FakeScan("offsets")}
        self.game = self.build_connect()
        self.worker_group = WorkerGroup("workers", "Stable", (W1, W2), leader=W1)
        self._patch_surroundings()

    def build_connect(self) -> LivingConnect:
        """Return the fake of the Connect cluster."""
        return MovingConnect(self.scan, self.brokers)

    @property
    def scan(self) -> FakeScan:
        """The offsets topic of the workers."""
        return self.scans["offsets"]

    def _patch_surroundings(self) -> None:
        patch = self.patch
        for name in list(os.environ):
            if name.startswith(("SEAMARK_", "_SEAMARK_")) or name in ("NO_COLOR", "FORCE_COLOR"):
                patch.delenv(name)
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", "100")
        patch.setenv("XDG_CONFIG_HOME", str(self.folder / "xdg"))
        patch.setenv("XDG_STATE_HOME", str(self.folder / "xdg-state"))
        patch.chdir(self.folder)
        patch.setattr(socket, "gethostname", lambda: "host")
        patch.setattr(SystemClock, "now", lambda _: self.clock.now())
        patch.setattr(SystemClock, "sleep", lambda _, seconds: self.clock.sleep(seconds))
        patch.setitem(FileJournal.__init__.__kwdefaults__, "now", self.clock.now)
        numbers = itertools.count(1)
        patch.setattr(
            seamark.changes.actor,
            "this_actor",
            lambda _principal: Actor(
                self.actor, now=self.clock.now, randomness=lambda size: next(numbers).to_bytes(size, "big")
            ),
        )
        patch.setattr(seamark.changes.keys, "read_keys", lambda _: KeyRing(SealKey(b"the key of all scenarios")))
        patch.setattr(ConnectorOffsets, "write", lambda _, records, into="": self.put_records(records))
        patch.setattr(OrphanedOffsets, "write", lambda _, owners, records: self.put_records(records))
        # Nothing here has to survive a power failure, and a busy disk takes seconds for each journal entry.
        patch.setattr(os, "fsync", lambda _: None)
        # The stand-in of Connect knows which workers are alive.
        patch.setattr(seamark.kafka.worker_group, "read_worker_loads", lambda *_, **__: {})
        patch.setattr(seamark.kafka.worker_group, "read_members", lambda *_, **__: self.worker_group)
        # The steps of one resource after those of another, so that progress lines have one order.
        patch.setattr(seamark.fleet.changes, "FLEET_PACE", Pace())
        patch.setattr(seamark.fleet.fleet, "FLEET_PACE", Pace())

    def open_fleet(self, name: str | None = None) -> Fleet:
        """Open a new fleet over the fakes, as each run of the program does."""
        del name
        fleet = open_living_fleet(self.folder, self.game, brokers=self.brokers, scan=self.scan, **self.context)
        fleet._open_scan = lambda config, topic, committed: self.scans.setdefault(topic, FakeScan(topic))
        return fleet

    def put_records(self, records: Sequence[HeldRecord]) -> None:
        """Store offset records in the fakes of their topics, as a producer does."""
        for record in records:
            scan = self.scans.setdefault(record.topic, FakeScan(record.topic))
            scan.put(record.key, record.value, partition=record.partition)

    # --- commands

    def execute(self, argv: Sequence[str], *, typed: str | None = None) -> Outcome:
        """Run one command line of seamark without recording it."""
        out, err = io.StringIO(), io.StringIO()
        code = execute(argv, session=self._build_session(out, err, typed=typed))
        return Outcome(code, out.getvalue(), err.getvalue())

    def _build_session(self, out: io.StringIO, err: io.StringIO, *, typed: str | None = None) -> Session:
        return Session(
            out=out,
            err=err,
            stdin=io.StringIO() if typed is None else Terminal(typed),
            now=lambda: self.session_now,
            sleep=self._sleep,
            open_fleet=self.open_fleet,
        )

    def run(self, *argv: str, typed: str | None = None) -> Outcome:
        """Run one command line and record it, in the output format of this play."""
        line = [*argv, "-o", "json"] if self.output == "json" else list(argv)
        ended = self.execute(line, typed=typed)
        self.recorder.add_command(" ".join(["seamark", *line]), ended)
        return ended

    def run_killed(self, *argv: str) -> None:
        """Run one command line whose process is killed on the way, and record what it has printed."""
        line = [*argv, "-o", "json"] if self.output == "json" else list(argv)
        out, err = io.StringIO(), io.StringIO()
        with pytest.raises(KilledError):
            execute(line, session=self._build_session(out, err))
        self.recorder.add_command(" ".join(["seamark", *line]), Outcome(-9, out.getvalue(), err.getvalue()))

    def kill(self) -> None:
        """End the process; for the hooks of fakes."""
        raise KilledError

    def change(self, *argv: str, undo: bool = True) -> Outcome:
        """Record the plan, the result, the journal, and the plan and result of the undo."""
        self.run(*argv, "--dry-run")
        ended = self.run(*argv, "--yes")
        self.show_state("state after the change")
        self.show_journal()
        if undo and self.newest():
            self.undo()
        return ended

    def undo(self) -> Outcome:
        """Record the plan and the result of undoing the newest change."""
        change = self.newest()
        self.run("journal", "undo", change, "--dry-run")
        ended = self.run("journal", "undo", change, "--yes")
        self.show_state("state after the undo")
        return ended

    def show_journal(self) -> None:
        """Record the list of changes and the entries of the newest one."""
        self.run("journal", "list")
        if change := self.newest():
            self.run("journal", "show", change)

    def newest(self) -> str:
        """Return the ID of the newest change."""
        return self.execute(["journal", "list", "--limit", "1", "-o", "name"]).out.strip()

    def note(self, words: str) -> None:
        """Record what happens outside of seamark."""
        self.recorder.add_comment(words)

    def write(self, name: str, content: object) -> str:
        """Write a file into the folder, and return its relative path."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return name

    def show_state(self, title: str) -> None:
        """Record what the fakes hold, in the first play only."""
        if self.output == "text":
            self.recorder.add_document(title, json.dumps(self.read_state()).replace(PASSWORD, "<SECRET>"))

    def read_state(self) -> dict[str, Any]:
        """Return what the fakes hold, as JSON."""
        return {
            "connectors": {
                name: {"state": self.game.states[name], "config": config} for name, config in self.game.configs.items()
            },
            "topics": {
                name: {"partitions": len(topic.logs), "configs": topic.configs}
                for name, topic in self.brokers.topics.items()
            },
            "groups": {
                name: {f"{topic} {number}": found.offset for (topic, number), found in sorted(group.offsets.items())}
                for name, group in self.brokers.groups.items()
            },
            "offsets": {
                name: {
                    f"{record.partition} {record.key!r}": repr(record.value) for record in scan.read_newest().records
                }
                for name, scan in self.scans.items()
                if scan.log
            },
        }

    def close(self) -> None:
        """Release what the environment holds."""

    def _sleep(self, seconds: float) -> None:
        self.session_now += timedelta(seconds=seconds)
        self.on_sleep()


@contextmanager
def open_environment(kind: type[Environment], folder: Path, *, output: str) -> Iterator[Environment]:
    """Prepare an environment, and restore everything that was patched for it."""
    folder.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        made = kind(folder, patch, output=output)
        try:
            yield made
        finally:
            made.close()
