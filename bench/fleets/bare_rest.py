"""Connect's REST API by hand, as a careful script would use it: many at once, and again on a 409."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2

from bench.fleets.rounds import PLUGIN, RUNNING, Round, Wanted
from bench.harness.definition import BenchError

T = TypeVar("T")
# A rebalance of two workers is over within a second or two, and nobody should ask more often than this.
_AGAIN_SECONDS = 0.2
_LOOK_SECONDS = 0.5
_DEADLINE_SECONDS = 180.0
_FLEET = "/connectors?expand=info&expand=status"

State = dict[str, tuple[dict[str, str], str, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class BareRest:
    """One worker, and as many writers as ours has."""

    client: httpx2.Client
    writers: int

    def go(self, one: Round) -> None:
        """Do what a round asks for."""
        self._write_all(self._create, one.created)
        self._write_all(self._change, one.changed)
        self._write_all(self.delete, one.deleted)
        if running := [found.name for found in one.created if found.state == RUNNING]:
            self.wait_until(lambda seen: all(is_running(seen, name) for name in running), "all connectors run")

    def read(self) -> State:
        """By name: the config without the name, the connector's state, the states of its tasks."""
        seen: dict[str, dict[str, Any]] = self.client.get(_FLEET).raise_for_status().json()
        return {name: _read_entry(entry) for name, entry in seen.items()}

    def wait_until(self, is_so: Callable[[State], bool], what: str) -> State:
        """Look until it is so; gives what was seen then."""
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while True:
            seen = self.read()
            if is_so(seen):
                return seen
            if time.monotonic() > deadline:
                raise BenchError(f"waited {_DEADLINE_SECONDS:g} s until {what}")
            time.sleep(_LOOK_SECONDS)

    def clear(self, prefix: str) -> None:
        """Delete every connector whose name begins so, and wait until nothing of them shows."""
        names: list[str] = self.client.get("/connectors").raise_for_status().json()
        self._write_all(self.delete, [name for name in names if name.startswith(prefix)])
        self.wait_until(lambda seen: not any(name.startswith(prefix) for name in seen), "the former fleet is gone")

    def delete(self, name: str) -> None:
        """Delete one connector; one that is gone already is fine, as an earlier answer may have been lost."""
        self._send("DELETE", f"/connectors/{name}", None, done=(204, 404))

    def _write_all(self, write: Callable[[T], None], items: Iterable[T]) -> None:
        with ThreadPoolExecutor(self.writers) as pool:
            for _ in pool.map(write, items):
                pass

    def _create(self, wanted: Wanted) -> None:
        self._validate(wanted)
        body = {"name": wanted.name, "config": wanted.config, "initial_state": wanted.state}
        self._send("POST", "/connectors", body, done=(201,))

    def _change(self, wanted: Wanted) -> None:
        self._validate(wanted)
        self._send("PUT", f"/connectors/{wanted.name}/config", wanted.config, done=(200,))

    def _validate(self, wanted: Wanted) -> None:
        path = f"/connector-plugins/{PLUGIN}/config/validate"
        answer = self._send("PUT", path, wanted.config | {"name": wanted.name}, done=(200,))
        if answer.json()["error_count"]:
            raise BenchError(f"Connect would not take {wanted.name}")

    def _send(self, method: str, path: str, body: Any, *, done: tuple[int, ...]) -> httpx2.Response:
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while True:
            response = self.client.request(method, path, json=body)
            if response.status_code in done or (response.status_code == 409 and "already exists" in response.text):
                return response
            if response.status_code != 409 or time.monotonic() > deadline:
                raise BenchError(f"{method} {path} answered {response.status_code}: {response.text[:200]}")
            time.sleep(_AGAIN_SECONDS)


def is_running(seen: State, name: str) -> bool:
    """Whether a connector and its one task run."""
    return name in seen and seen[name][1:] == (RUNNING, (RUNNING,))


def _read_entry(entry: dict[str, Any]) -> tuple[dict[str, str], str, tuple[str, ...]]:
    config = {key: value for key, value in entry["info"]["config"].items() if key != "name"}
    status = entry["status"]
    return config, status["connector"]["state"], tuple(task["state"] for task in status["tasks"])
