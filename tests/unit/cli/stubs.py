"""A fleet without servers: what the commands see of `seamark.fleet`, filled by the tests."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Self

from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.connect.model import Connector, ConnectorStatus, State, Task, Worker
from seamark.connectors.model import build_health
from seamark.core.offsets import Offset
from seamark.core.readings import Finding, Reading
from seamark.core.refs import ConnectorType
from seamark.core.secrets import PLUGIN_KEYS
from seamark.errors import NotFoundError, SeamarkError
from seamark.offsets.model import OwnerOffsets
from seamark.overview.connector import ConnectorOverview
from seamark.overview.status import ClusterStatus, FleetStatus

NOON = datetime(2026, 11, 14, 12, 4, 31, tzinfo=UTC)

TRACE = (
    "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded\n"
    "\tat org.apache.kafka.connect.runtime.WorkerSourceTask.poll(WorkerSourceTask.java:42)\n"
    "Caused by: org.postgresql.util.PSQLException: FATAL: password=hunter2 is wrong\n"
    "\t... 12 more\n"
)


def connector(
    name: str, *, cluster: str = "game", state: State = State.RUNNING, tasks: Sequence[State] = ()
) -> Connector:
    return Connector(
        name=name,
        cluster=cluster,
        type=ConnectorType.SOURCE,
        config={
            "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector",
            "connection.password": "hunter2",
            "connection.url": "jdbc:postgresql://ops:hunter2@db/game",
            "connection.user": "${file:/etc/db.properties:user}",
        },
        status=ConnectorStatus(
            state=state,
            worker_id="w1:8083",
            tasks=tuple(
                Task(index, task, worker_id="w1:8083", trace=TRACE if task is State.FAILED else "")
                for index, task in enumerate(tasks or [State.RUNNING])
            ),
        ),
    )


@dataclass
class StubFleet:
    """Answers from lists. Every call is counted, so that tests can see the work done."""

    connectors_found: Sequence[Connector] = ()
    workers_found: Sequence[Worker] = ()
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)
    findings: Sequence[Finding] = ()
    offsets_found: Sequence[Offset] = ()
    clusters: Sequence[str] = ("game",)
    error: Exception | None = None
    before_read: Callable[[int], None] = lambda number: None
    reads: int = 0
    opened: list[str | None] = field(default_factory=list)
    closed: int = 0

    def open(self, name: str | None) -> StubFleet:
        self.opened.append(name)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed += 1

    def _read(self) -> None:
        self.reads += 1
        self.before_read(self.reads)
        if self.error is not None:
            raise self.error

    @property
    def context(self) -> Any:
        return SimpleNamespace(name="dev", connect=dict.fromkeys(self.clusters))

    @property
    def connectors(self) -> Any:
        return SimpleNamespace(
            list=self._all_connectors,
            get=self._one_connector,
            read_labels=lambda found: tuple(replace(one, labels={}) for one in found),
        )

    @property
    def workers(self) -> Any:
        return SimpleNamespace(list=self._all_workers)

    @property
    def offsets(self) -> Any:
        return SimpleNamespace(get=self._offsets_of)

    @property
    def doctor(self) -> Any:
        return SimpleNamespace(examine=self.check_connectivity)

    def overview(self, owner: str) -> ConnectorOverview:
        return ConnectorOverview(self._one_connector(owner))

    def waits(self) -> tuple[()]:
        return ()

    def check_connectivity(self) -> tuple[Finding, ...]:
        self._read()
        return tuple(self.findings)

    def status(self, *, labels: Sequence[str] = ()) -> FleetStatus:
        assert not labels
        self._read()
        by_cluster = {name: [c for c in self.connectors_found if c.cluster == name] for name in self.clusters}
        return FleetStatus(
            context="dev",
            clusters=tuple(
                self._build_cluster(name, found) for name, found in by_cluster.items() if name not in self.failures
            ),
            failures=self.failures,
        )

    def _build_cluster(self, name: str, found: list[Connector]) -> ClusterStatus:
        words = [build_health(one.status) for one in found]
        return ClusterStatus(
            name=name,
            version="4.3.1",
            workers_up=2,
            workers=2,
            connectors=len(found),
            tasks=sum(len(one.status.tasks) for one in found if one.status),
            health={word: words.count(word) for word in words},
            troubled=tuple(one for one, word in zip(found, words, strict=True) if word != "HEALTHY"),
        )

    def _all_connectors(self, *, cluster: str | None = None) -> Reading[Connector]:
        self._read()
        found = tuple(one for one in self.connectors_found if cluster in (None, one.cluster))
        return Reading(items=found, failures=self.failures)

    def _one_connector(self, owner: str) -> Connector:
        self._read()
        for one in self.connectors_found:
            if owner in (one.name, one.owner):
                # As the real fleet, which reads the types of its plugin.
                PLUGIN_KEYS.remember(one.cluster, one.plugin, frozenset({"connection.password"}))
                return one
        raise NotFoundError(f"connector {owner} does not exist", hint="list the connectors: seamark connectors list")

    def _all_workers(self) -> Reading[Worker]:
        self._read()
        return Reading(items=tuple(self.workers_found), failures=self.failures)

    def _offsets_of(self, owner: str, *, route: object = None) -> OwnerOffsets:
        one = self._one_connector(owner)
        return OwnerOffsets(owner=one.owner, connector=one, offsets=tuple(self.offsets_found), notes=("a note",))


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass
class Outcome:
    """How one command line ended."""

    code: int
    out: str
    err: str
    naps: list[float] = field(default_factory=list)


def run_seamark(*argv: str, fleet: StubFleet | None = None, terminal: bool = False, stdin: str = "") -> Outcome:
    """Run a command line in this process, with streams and a fleet of our own."""
    out: io.StringIO = Terminal() if terminal else io.StringIO()
    err: io.StringIO = Terminal() if terminal else io.StringIO()
    naps: list[float] = []
    session = Session(
        out=out,
        err=err,
        stdin=io.StringIO(stdin),
        now=lambda: NOON,
        sleep=naps.append,
        open_fleet=(fleet or StubFleet()).open,  # type: ignore[arg-type]
    )
    code = execute(argv, session=session)
    return Outcome(code, out.getvalue(), err.getvalue(), naps)
