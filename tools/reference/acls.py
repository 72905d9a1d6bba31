"""The Kafka permissions that seamark needs: to read, for the journal, and for each kind of change.

The first two come from the code. The rights of changes depend on what a plan contains: a test in
`tests/unit/docs/test_completeness.py` compares this list with the rights that the actions of all scenarios need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from seamark.changes.kafka_journal.clients import NeededAccess, build_needed_access, build_setup_access
from seamark.doctor.security_checks import CLUSTER_NEED, GROUP_NEED, TOPIC_NEEDS

# Any ID; the page shows the prefix with the place of the cluster's own.
_CLUSTER_ID = "CLUSTER"


@dataclass(frozen=True, slots=True)
class ChangeAccess:
    """What changes of some kinds need: `operations` on a resource, which is a topic or a group."""

    change: str
    kinds: tuple[str, ...]
    resource: str
    on: str
    operations: tuple[str, ...]
    # What applies to some of these operations only.
    note: str = ""


_OFFSET_KINDS = ("change-offsets", "delete-with-offsets")
CHANGES = (
    ChangeAccess(
        "change the offsets of a source",
        (*_OFFSET_KINDS, "import-offsets", "remove-connector", "rename-connector"),
        "topic",
        "its offsets topic",
        ("READ", "WRITE"),
        "WRITE only if seamark writes the records itself",
    ),
    ChangeAccess(
        "change the offsets of a sink",
        (*_OFFSET_KINDS, "skip-record"),
        "group",
        "its group",
        ("DESCRIBE", "READ", "DELETE"),
        "only DESCRIBE if Connect writes them (3.6 and later); DELETE to remove an offset",
    ),
    ChangeAccess(
        "",
        (*_OFFSET_KINDS, "skip-record"),
        "topic",
        "its topics",
        ("DESCRIBE", "READ"),
        "only DESCRIBE if Connect writes them",
    ),
    ChangeAccess(
        "skip a record",
        ("skip-record",),
        "topic",
        "the dead letter queue",
        ("READ", "WRITE", "CREATE"),
        "CREATE if it's new",
    ),
    ChangeAccess(
        "repair or purge offsets",
        ("repair-offsets", "purge-offsets", "write-offset-records"),
        "topic",
        "the offsets topic",
        ("READ", "WRITE"),
    ),
    ChangeAccess(
        "relocate offsets",
        ("relocate-offsets",),
        "topic",
        "both offsets topics",
        ("READ", "WRITE", "CREATE"),
        "WRITE on the new one; CREATE if it doesn't exist",
    ),
    ChangeAccess("move a group", ("move-group",), "group", "the group", ("READ",)),
    ChangeAccess("", ("move-group",), "topic", "its topics", ("READ",)),
    ChangeAccess("delete a group", ("delete-group",), "group", "the group", ("DELETE",)),
    ChangeAccess("cut over to a copy, and back", ("cutover", "cut-back"), "group", "its consumers", ("READ",)),
    ChangeAccess("", ("cutover", "cut-back"), "topic", "source and target", ("READ",)),
    ChangeAccess("create a topic", ("create-topic",), "topic", "the topic", ("CREATE",)),
    ChangeAccess("delete a topic", ("delete-topic", "delete-new-topic"), "topic", "the topic", ("DELETE",)),
    ChangeAccess("add partitions", ("grow-topic",), "topic", "the topic", ("ALTER",)),
    ChangeAccess("change configs of a topic", ("alter-topic-config",), "topic", "the topic", ("ALTER_CONFIGS",)),
)
# The brokers refuse these themselves: no action asks for them before it begins.
NOT_ASKED = frozenset({"CREATE", "DELETE", "ALTER", "ALTER_CONFIGS"})


def build_acls(part: str) -> str:
    """Return one of the tables: `read`, `journal` or `changes`."""
    return {"read": build_read, "journal": build_journal, "changes": build_changes}[part]()


def build_read() -> str:
    """Return what `seamark doctor` checks: what reading needs, and what changing offsets needs in addition."""
    rows = ["| resource | name | to read | in addition, to change offsets |", "|---|---|---|---|"]
    rows.append(f"| Cluster | the Kafka cluster | {_list(CLUSTER_NEED.to_look)} | {_list(CLUSTER_NEED.to_change)} |")
    rows += [
        f"| Topic | the {kind} topic | {_list(need.to_look)} | {_list(need.to_change)} |"
        for kind, need in TOPIC_NEEDS.items()
    ]
    rows.append(f"| Group | the groups of sinks | {_list(GROUP_NEED.to_look)} | {_list(GROUP_NEED.to_change)} |")
    return "\n".join(rows) + "\n"


def build_journal() -> str:
    """Return what every operator needs for a journal in Kafka, and what `seamark init` needs once."""
    rows = ["| resource | name | pattern | operations | who |", "|---|---|---|---|---|"]
    for who, needed in (
        ("every operator", build_needed_access(_CLUSTER_ID)),
        ("`seamark init`", build_setup_access()),
    ):
        for (resource, name, pattern), operations in _group(needed):
            kind = {"TOPIC": "Topic", "TRANSACTIONAL_ID": "TransactionalId"}[resource]
            rows.append(f"| {kind} | `{name}` | {pattern.lower()} | {_list(operations)} | {who} |")
    return "\n".join(rows) + "\n"


def build_changes() -> str:
    """Return what each kind of change needs beside the journal."""
    rows = ["| change | resource | name | operations |", "|---|---|---|---|"]
    for one in CHANGES:
        note = f"; {one.note}" if one.note else ""
        rows.append(f"| {one.change} | {one.resource.capitalize()} | {one.on} | {_list(one.operations)}{note} |")
    return "\n".join(rows) + "\n"


def _group(needed: Iterable[NeededAccess]) -> Iterator[tuple[tuple[str, str, str], list[str]]]:
    for key, found in groupby(needed, key=lambda one: (one.resource, one.name, one.pattern)):
        yield key, [one.operation for one in found]


def _list(operations: Iterable[str]) -> str:
    return ", ".join(operations)
