"""Reads the offsets of a worker that is known only from its properties file: the input of `connect-offsets`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.core.offsets import Offset
from seamark.errors import MissingSettingError, NotFoundError, UnreachableError
from seamark.kip199.standalone import build_urls
from seamark.offsets.model import OffsetFinding
from seamark.offsets.read.history import build_history
from seamark.offsets.stores.file import FileStore
from seamark.offsets.stores.stores import OpenScan, open_topic_scan
from seamark.offsets.stores.topic import TopicStore

if TYPE_CHECKING:
    from seamark.context import Context, JournalSettings, KafkaSettings
    from seamark.context.context import WorkerFile


# The name of this tool's changes in a journal. A context of that name can show them.
CONTEXT = "connect-offsets"
_ENABLED = "enabled"
# A standalone worker may be changed while its brokers are down: detecting that must not take long.
_LOOK_SECONDS = 5.0


def build_worker_context(config: Path) -> Context:
    """Build a context with the worker's Connect cluster, named by its group or, if standalone, its properties file."""
    from seamark.context import ConnectSettings, Context, KafkaSettings  # noqa: PLC0415
    from seamark.context.context import read_worker_file  # noqa: PLC0415
    from seamark.context.search import Surroundings  # noqa: PLC0415

    path = config.absolute()
    worker = read_worker_file(path, Surroundings.build())
    texts = {key: value.reveal().strip() for key, value in worker.find_cluster_values("worker").items()}
    # A distributed worker ignores the standalone key.
    file = None if texts.get("offsets_topic") else texts.get("offsets_file")
    if not texts.get("offsets_topic") and not file:
        raise MissingSettingError(
            f"{config} has no location of offsets",
            cause="it has neither offset.storage.topic nor offset.storage.file.filename",
            hint="pass the properties file of a Connect worker, distributed or standalone",
        )
    if file is None and not texts.get("group_id"):
        raise MissingSettingError(
            f"{config} has no group.id",
            cause="group.id is needed to check whether a worker is running",
            hint="pass the properties file of a distributed Connect worker",
        )
    settings = ConnectSettings(
        path.stem if file is not None else texts["group_id"],
        build_urls(worker),
        group_id=None if file is not None else texts["group_id"],
        offsets_topic=texts.get("offsets_topic") if file is None else None,
        exactly_once=texts.get("exactly_once", "").lower() == _ENABLED if file is None else None,
        consumer_group_id=texts.get("consumer_group_id"),
        worker_config=path,
        offsets_file=None if file is None else path.parent / file,
    )
    # The worker itself connects this way, with the same credentials; the user accepts that by naming its file.
    kafka = KafkaSettings(worker.find_kafka_values(()), is_insecure_allowed=True)
    return Context(CONTEXT, kafka, {settings.name: settings}, insecure=True)


def name_workers(context: Context) -> Context:
    """Return the context with the URLs of all running workers. Standalone workers have no group."""
    (name, settings), *_ = context.connect.items()
    if settings.group_id is None:
        return context
    from seamark.kafka.worker_group import read_worker_urls  # noqa: PLC0415

    found = read_worker_urls(context.kafka.client_config(), settings.group_id, timeout_seconds=_LOOK_SECONDS)
    told = [url for url in found if url.startswith("http")]
    # The advertised URLs may only be reachable among the workers; the properties give the URL of this worker.
    urls = tuple(dict.fromkeys((*told, *settings.urls)))
    return replace(context, connect={name: replace(settings, urls=urls)})


def choose_journal(kafka: KafkaSettings | None, *, may_be_away: bool) -> tuple[JournalSettings, str]:
    """Choose the journal in Kafka if it is set up, else the one in files, and return a note about it.

    With `may_be_away`, the offsets aren't stored in Kafka, so unreachable brokers are not an error.
    """
    from seamark.context import JournalKind, JournalSettings  # noqa: PLC0415

    in_kafka, in_files = JournalSettings(CONTEXT), JournalSettings(CONTEXT, kind=JournalKind.FILE)
    if kafka is None or not kafka.bootstrap_servers:
        return in_files, ""
    from seamark.kafka.admin import KafkaAdmin  # noqa: PLC0415

    with KafkaAdmin(kafka.client_config(), timeout_seconds=_LOOK_SECONDS) as admin:
        reading = admin.read_topics([in_kafka.topic, in_kafka.heads_topic])
    for error in reading.failures.values():
        if isinstance(error, NotFoundError):
            return in_files, ""
        if may_be_away and isinstance(error, UnreachableError):
            return in_files, f"the brokers are unreachable: the journal entry is in {in_files.folder}"
        raise error
    return in_kafka, ""


_TOPIC, _FILE, _EXACTLY_ONCE = "offset.storage.topic", "offset.storage.file.filename", "exactly.once.source.support"
_PARTITIONER = "partitioner.class"
_spell = json.JSONEncoder(separators=(",", ":")).encode


Lines = dict[str, list[str]]
"""Pairs by connector, all in JSON: `"name"`, and `{"partition": …, "offset": …}`."""


@dataclass(frozen=True, slots=True)
class WorkerExport:
    """The content of a worker's store in the format of KIP-199, with findings and notes."""

    text: str
    findings: tuple[OffsetFinding, ...] = ()
    notes: tuple[str, ...] = ()


def export_worker_offsets(
    config: Path,
    *,
    connectors: Sequence[str] = (),
    from_beginning: bool = False,
    open_scan: OpenScan = open_topic_scan,
) -> WorkerExport:
    """Export the offsets of a worker's store, of all or of the named connectors. No worker has to run.

    With `from_beginning`, also export the pairs that were overwritten since, the oldest first, as far as the topic has
    them.
    """
    store = open_worker_store(config, open_scan=open_scan)
    wanted = list(dict.fromkeys(connectors)) or None
    findings: tuple[OffsetFinding, ...] = ()
    if from_beginning and isinstance(store, TopicStore):
        lines = _read_everything(store, wanted)
    else:
        lines, findings = _read_newest(store, wanted)
    is_file = from_beginning and not isinstance(store, TopicStore)
    notes = ["a standalone worker's file has only the newest offsets"] if is_file else []
    notes += [f"{name} has no offsets in {store.name}" for name in wanted or () if json.dumps(name) not in lines]
    return WorkerExport(_render(lines), findings, tuple(notes))


def open_worker_store(config: Path, *, open_scan: OpenScan = open_topic_scan) -> TopicStore | FileStore:
    """Open the store that a worker's properties name: the topic of a distributed or the file of a standalone worker."""
    from seamark.context.context import read_worker_file  # noqa: PLC0415
    from seamark.context.search import Surroundings  # noqa: PLC0415

    worker = read_worker_file(config.absolute(), Surroundings.build())
    topic, file = _find(worker, _TOPIC), _find(worker, _FILE)
    if topic:
        is_committed = _find(worker, _EXACTLY_ONCE).lower() == "enabled"
        scan = open_scan(_build_client_config(worker), topic, is_committed)
        return TopicStore(scan, knows_partitioner=not _find(worker, _PARTITIONER))
    if file:
        return FileStore(config.absolute().parent / file)
    raise MissingSettingError(
        f"{config} has no location of offsets",
        cause=f"it has neither {_TOPIC} nor {_FILE}",
        hint="pass the properties file of a Connect worker, distributed or standalone",
    )


def _read_newest(
    store: TopicStore | FileStore, wanted: Sequence[str] | None
) -> tuple[Lines, tuple[OffsetFinding, ...]]:
    lines: Lines = {}
    if isinstance(store, TopicStore):
        pairs, reading = store.read_pairs(wanted)
        # There may be a hundred thousand pairs, so they aren't parsed: what Connect wrote is already JSON.
        for connector, partition, offset in pairs:
            line = (b'{"partition": %s, "offset": %s}' % (partition, offset)).decode()
            lines.setdefault(connector.decode(), []).append(line)
    else:
        reading = store.read(wanted)
    for stored in reading.offsets:
        if stored.offset is not None:
            _add(lines, stored.key.connector, stored.as_offset())
    for listed in lines.values():
        listed.sort()
    return lines, reading.findings


def _read_everything(store: TopicStore, wanted: Sequence[str] | None) -> Lines:
    lines: Lines = {}
    for entry in build_history(store.read_history(wanted)):
        # An unreadable value says nothing about an offset; a tombstone says that there is none.
        if entry.partition is not None and (entry.offset is not None or entry.evidence.is_tombstone):
            _add(lines, entry.connector, Offset(entry.partition, entry.offset))
    return lines


def _add(lines: Lines, connector: str, found: Offset) -> None:
    offset = None if found.offset is None else dict(found.offset)
    line = f'{{"partition": {_spell(dict(found.partition))}, "offset": {_spell(offset)}}}'
    lines.setdefault(json.dumps(connector), []).append(line)


def _render(lines: Lines) -> str:
    if not lines:
        return "{}\n"
    blocks = []
    for connector in sorted(lines):
        listed = ",\n  ".join(lines[connector])
        blocks.append(f"{connector}: [\n  {listed}\n]")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _find(worker: WorkerFile, key: str) -> str:
    value = worker.find(key, shown_as=key)
    return "" if value is None else value.reveal().strip()


def _build_client_config(worker: WorkerFile) -> dict[str, str]:
    from seamark.context.context import KafkaSettings  # noqa: PLC0415

    # The worker itself connects this way, with the same credentials; the user accepts that by naming its file.
    return KafkaSettings(worker.find_kafka_values(()), is_insecure_allowed=True).client_config()
