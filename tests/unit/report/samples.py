"""Values to show, and text that means harm."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st

from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.changes.journal import Entry, EntryKind, Head
from seamark.changes.journal_views import build_changes_view, build_entries_view, build_setup_view
from seamark.changes.outcome import ChangeResult, Outcome, StepResult
from seamark.changes.plan import Plan
from seamark.changes.setup import JournalSetup, SetupItem
from seamark.changes.step import StepData
from seamark.changes.views import build_change_view, build_plan_view
from seamark.cli.context import ContextRow, build_contexts_view, build_settings_view
from seamark.connect.model import Connector, ConnectorStatus, State, Task, Worker
from seamark.connectors.model import Health
from seamark.connectors.views import build_connectors_view
from seamark.connectors.worker_views import build_workers_view
from seamark.core.offsets import Offset
from seamark.core.readings import Finding, Reading, Severity
from seamark.core.refs import ConnectorType
from seamark.doctor.views import build_findings_view
from seamark.errors import UnreachableError
from seamark.offsets.model import OwnerOffsets
from seamark.offsets.views import build_offsets_view
from seamark.overview.connector import ConnectorOverview, build_overview_view
from seamark.overview.status import ClusterStatus, FleetStatus, build_status_view
from seamark.report.listing import View

# What no output may hold: S12 of the security facts, word for word.
FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
OUR_STYLES = re.compile("\x1b\\[(?:0|1|2|31|32|33)m")

HARM = (
    "\x1b[31m",
    "\x1b]0;owned\x07",
    "\r",
    "\n",
    "\t",
    "\x7f",
    "\x9b2J",
    "\u202e",
    "\u2066",
    "\ud800",
    "=1+1",
    "日本",
)

hostile_text = st.lists(
    st.one_of(st.sampled_from(HARM), st.text(st.characters(codec=None, categories=None), max_size=6)), max_size=5
).map("".join)


class Origin:
    def __init__(self, place: str) -> None:
        self.place = place

    def __str__(self) -> str:
        return self.place


class SomeSetting:
    def __init__(self, key: str, value: str, origin: str) -> None:
        self.key = key
        self.value = value
        self.origin = Origin(origin)


def build_connector(text: str = "log-purchase", *, state: State = State.RUNNING) -> Connector:
    return Connector(
        name=text,
        cluster="game",
        type=ConnectorType.SOURCE,
        config={"connector.class": f"org.{text}", "connection.password": "hunter2", text: text},
        status=ConnectorStatus(
            state=state,
            worker_id=text,
            version="6.10.0",
            trace=text if state is State.FAILED else "",
            tasks=(
                Task(0, State.RUNNING, "w1:8083"),
                Task(1, State.FAILED, text, trace=f"E: {text}\nCaused by: {text}"),
            ),
        ),
    )


def build_views(text: str) -> list[View[Any]]:
    """Every kind of view, with the text wherever a text from outside can stand."""
    connector = build_connector(text)
    failures = {text: UnreachableError(text, cause=text, hint=text, context={"cluster": text})}
    offset = Offset(partition={"table": text, text: 5}, offset={"at": text, "n": -1.5, "nothing": None})
    sink = Offset(partition={"kafka_topic": text, "kafka_partition": 0}, offset=None)
    cluster = ClusterStatus(text, text, 1, 2, 3, 4, {Health.DEGRADED: 1, Health.HEALTHY: 2}, (connector,))
    worker = Worker(text, text, version=text, commit=text, kafka_cluster_id=text, error=text)
    finding = Finding(text, Severity.ERROR, text, text, fix=text)
    return [
        build_connectors_view([connector], failures),
        build_overview_view(ConnectorOverview(connector)),
        build_workers_view(Reading((worker,), failures)),
        build_offsets_view(OwnerOffsets(text, connector, (offset, sink), route=text, notes=(text,))),
        build_status_view(FleetStatus(text, (cluster,), failures)),
        build_findings_view([finding]),
        build_contexts_view([ContextRow(text, bootstrap_servers=text, clusters=(text,), error=text)]),
        build_settings_view(text, [SomeSetting(text, text, text)], origins=True),
        *build_change_views(text),
    ]


def build_change_views(text: str) -> list[View[Any]]:
    """The views of plans and of the journal."""
    step = StepData("put-config", text, {"config": {text: text}}, lane=text)
    plan = Plan(text, context=text, made_at=text, made_by=text, steps=(step,), notes=(text,), undoes=text)
    effect = Effect(
        ChangeKind.CHANGE, text, text, (FieldChange(text, text, None), FieldChange(text, None, text)), tasks=2
    )
    error = UnreachableError(text, cause=text, hint=text)
    result = StepResult(0, text, text, text, Outcome.DID_NOT_HAPPEN, error)
    # An entry is stored as UTF-8, so what can't be encoded never stands in one.
    stored = text.encode("utf-8", "replace").decode()
    opened = Entry(stored, 0, EntryKind.OPEN, stored, stored, {"title": stored, "locks": [stored], "nonce": stored})
    intent = Entry(stored, 1, EntryKind.INTENT, stored, stored, {"step": 0, "before": {stored: stored}, "after": None})
    head = Head(text, text, text, text, text, EntryKind.INTENT, 1, text, (text,), text, step=text)
    item = SetupItem(text, is_there=False, words=text, settings={text: text})
    return [
        build_plan_view(plan, [effect]),
        build_change_view(ChangeResult(text, text, None, (result,), left=(text,)), seconds=1.5),
        build_changes_view([head]),
        build_entries_view([opened, intent]),
        build_setup_view(JournalSetup(text, "kafka", (item,), warnings=(text,), access=(text,))),
    ]
