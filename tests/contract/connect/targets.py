"""What the contract cases run against, and the few things every case needs."""

from __future__ import annotations

import http.client
import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from seamark.connect.caller import Timing
from seamark.connect.client import ConnectClient
from seamark.connect.model import ConnectorStatus, State
from seamark.errors import NotFoundError, SeamarkError
from tests.fakes.connect import FILE_SINK, FILE_SOURCE, FakeConnect, texts

T = TypeVar("T")
# A rebalance on a busy machine takes seconds; what is not there after this is not coming.
PATIENCE_SECONDS = 90.0
REBALANCES = (texts.STALE, texts.NO_LEADER, texts.REBALANCE_EXPECTED)
TEN_LINES = "".join(f"line {number}\n" for number in range(10))
# Where a source stands that has read them, and a sink that has read their records.
SOURCE_END, SINK_END = {"position": len(TEN_LINES)}, {"kafka_offset": 10}


@dataclass(frozen=True)
class TargetSpec:
    """Where a case runs. `cluster` names a Connect cluster of the stack; None is the fake."""

    id: str
    version: str
    cluster: str | None = None


FAKE = TargetSpec("fake", "4.3.1")
FAKE_OLD = TargetSpec("fake", "3.5.2")
REAL_NEW = TargetSpec("real-4.3.1", "4.3.1", "connect")
REAL_OLD = TargetSpec("real-3.5.2", "3.5.2", "connect-3-5-2")


@dataclass(frozen=True)
class RawAnswer:
    """An answer as it came, past the client."""

    status: int
    content_type: str
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def message(self) -> str:
        return str(self.json["message"])


@dataclass
class Target:
    """One Connect cluster, fake or real, and the connectors a case left there."""

    spec: TargetSpec
    urls: tuple[str, ...]
    folder: Path
    fake: FakeConnect | None = None
    # One running source for each real cluster, for cases that only look. The folder of its file outlives the case.
    shared: dict[str, str] = field(default_factory=dict)
    shared_folder: Path | None = None
    client: ConnectClient = field(init=False)
    _names: list[str] = field(default_factory=list)
    _clients: list[ConnectClient] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client = self.open()

    def open(self, *, urls: Sequence[str] | None = None, timing: Timing | None = None) -> ConnectClient:
        """A client; closed at the end of the case."""
        client = ConnectClient(urls or self.urls, cluster=self.spec.id, timing=timing)
        self._clients.append(client)
        return client

    def name(self, *, prefix: str = "case-") -> str:
        """A name of its own; whatever is created under it is deleted at the end of the case."""
        name = prefix + uuid.uuid4().hex[:10]
        self._names.append(name)
        return name

    def close(self) -> None:
        """Delete what the case created."""
        for name in self._names:
            try:
                self.client.delete_connector(name)
            except NotFoundError:
                continue
            except SeamarkError:
                if self.fake is None:
                    raise
        for client in self._clients:
            client.close()

    # --- past the client -----------------------------------------------------------------------------------------

    def raw(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        worker: int = 0,
        content_type: str | None = "application/json",
    ) -> RawAnswer:
        """One request by http.client. A body of bytes goes as it is, anything else as JSON.

        A rebalance that the case before left behind is waited out. Its texts say that nothing was done.
        """
        request = (method, path, body, worker, content_type)

        def probe() -> RawAnswer | None:
            answer = self._send(*request)
            return None if any(text in answer.text for text in REBALANCES) else answer

        return self.wait_for(f"{method} {path} is answered without a rebalance", probe)

    def _send(self, method: str, path: str, body: Any, worker: int, content_type: str | None) -> RawAnswer:
        connection = http.client.HTTPConnection(self.urls[worker].removeprefix("http://"), timeout=100)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": content_type} if data is not None and content_type else {}
        try:
            connection.request(method, path, data, {"Accept": "application/json", **headers})
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
            return RawAnswer(answer.status, answer.getheader("Content-Type") or "", text)
        finally:
            connection.close()

    # --- connectors to work with ----------------------------------------------------------------------------------

    def source_config(self, *, lines: str = TEN_LINES, topic: str | None = None, **more: str) -> dict[str, str]:
        """A file source over a file of its own."""
        stem = uuid.uuid4().hex[:10]
        file = self.folder / f"in-{stem}.txt"
        file.write_text(lines)
        return {"connector.class": FILE_SOURCE, "file": str(file), "topic": topic or f"contract-{stem}", **more}

    def sink_config(self, topic: str, **more: str) -> dict[str, str]:
        """A file sink over a topic."""
        file = self.folder / f"out-{uuid.uuid4().hex[:10]}.txt"
        return {"connector.class": FILE_SINK, "file": str(file), "topics": topic, **more}

    def create_source(self, *, prefix: str = "case-", **more: str) -> str:
        """A file source that runs."""
        name = self.name(prefix=prefix)
        self.client.create_connector(name, self.source_config(**more))
        self.wait_until_running(name)
        return name

    def shared_source(self) -> str:
        """A file source that runs and has read its file. The case must leave it as it is."""
        if self.spec.id in self.shared:
            return self.shared[self.spec.id]
        name = "shared-" + uuid.uuid4().hex[:10]
        config = self.source_config()
        if self.shared_folder is not None:
            file = self.shared_folder / f"{name}.txt"
            file.write_text(TEN_LINES)
            config["file"] = str(file)
        self.client.create_connector(name, config)
        self.shared[self.spec.id] = name
        self.wait_until_running(name)
        self.wait_for_offset(name, SOURCE_END)
        return name

    def create_stopped_source(self) -> str:
        """A file source that has read its file and was stopped."""
        name = self.create_source()
        self.wait_for_offset(name, SOURCE_END)
        self.stop(name)
        return name

    def create_stopped_sink(self) -> tuple[str, str]:
        """A file sink that has read a topic of ten records and was stopped, and the topic."""
        source = self.create_source()
        topic = self.client.read_config(source)["topic"]
        self.wait_for_offset(source, SOURCE_END)
        sink = self.name(prefix="case-sink-")
        self.client.create_connector(sink, self.sink_config(topic))
        self.wait_until_running(sink)
        self.wait_for_offset(sink, SINK_END)
        self.stop(sink)
        return sink, topic

    def stop(self, name: str) -> None:
        """Stop a connector and wait until no task is left."""
        self.client.stop(name)
        self.wait_for_state(name, State.STOPPED)

    # --- waiting --------------------------------------------------------------------------------------------------

    def wait_for(self, sentence: str, probe: Callable[[], T | None], *, seconds: float = PATIENCE_SECONDS) -> T:
        """What `probe` gives once it gives something, or a failure that says what did not come."""
        ends_at = time.monotonic() + seconds
        while True:
            found = probe()
            if found:
                return found
            if time.monotonic() > ends_at:
                raise AssertionError(f"{self.spec.id}: after {seconds:g} s still not: {sentence}")
            time.sleep(0.05)

    def wait_for_state(self, name: str, state: State, *, with_tasks: bool = True) -> ConnectorStatus:
        """Until the connector, and all of its tasks, are in the state."""

        def probe() -> ConnectorStatus | None:
            try:
                status = self.client.read_status(name)
            except NotFoundError:
                return None
            tasks = {task.state for task in status.tasks}
            wanted = set() if state is State.STOPPED else {state}
            return status if status.state is state and (not with_tasks or tasks == wanted) else None

        return self.wait_for(f"{name} and its tasks are {state}", probe)

    def wait_until_running(self, name: str) -> ConnectorStatus:
        return self.wait_for_state(name, State.RUNNING)

    def wait_for_offset(self, name: str, wanted: dict[str, int]) -> None:
        """Until REST tells this one offset of the connector: the first that it stores may lie before its end."""
        path = f"/connectors/{quote(name, safe='')}/offsets"

        def probe() -> bool:
            found = self.raw("GET", path).json.get("offsets") or []
            return [entry["offset"] for entry in found] == [wanted]

        self.wait_for(f"{name} stands at {wanted}", probe)

    def wait_for_config(self, client: ConnectClient, name: str) -> dict[str, str]:
        """The config as this client tells it, once it does: a worker may not have heard of the connector yet."""

        def probe() -> dict[str, str] | None:
            try:
                return client.read_config(name)
            except NotFoundError:
                return None

        return self.wait_for(f"{name} has a config", probe)
