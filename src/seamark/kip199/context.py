"""A context made of nothing but a worker's properties file: what `connect-offsets` changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.errors import MissingSettingError, NotFoundError, UnreachableError
from seamark.kip199.listeners import build_urls

if TYPE_CHECKING:
    from seamark.context import Context, JournalSettings, KafkaSettings

# The name that changes of this tool carry in a journal. A context of that name can look at them.
CONTEXT = "connect-offsets"
_ENABLED = "enabled"
# A standalone worker may be changed while its brokers are away: nobody shall wait long to find that out.
_LOOK_SECONDS = 5.0


def build_worker_context(config: Path) -> Context:
    """The one cluster of a worker, named by its group, or by its properties file where it is a standalone one."""
    from seamark.context import ConnectSettings, Context, KafkaSettings  # noqa: PLC0415
    from seamark.context.search import Surroundings  # noqa: PLC0415
    from seamark.context.worker import read_worker_file  # noqa: PLC0415

    path = config.absolute()
    worker = read_worker_file(path, Surroundings.build())
    texts = {key: value.reveal().strip() for key, value in worker.find_cluster_values("worker").items()}
    # A distributed worker passes over the key of the other kind.
    file = None if texts.get("offsets_topic") else texts.get("offsets_file")
    if not texts.get("offsets_topic") and not file:
        raise MissingSettingError(
            f"{config} does not say where the offsets are",
            cause="it has neither offset.storage.topic nor offset.storage.file.filename",
            hint="give the properties file of a Connect worker, distributed or standalone",
        )
    if file is None and not texts.get("group_id"):
        raise MissingSettingError(
            f"{config} does not name the group of the workers",
            cause="group.id tells whether a worker is up",
            hint="give the properties file of a distributed Connect worker",
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
    # The worker itself connects so, with the same login; whoever names its file has accepted that.
    kafka = KafkaSettings(worker.find_kafka_values(()), is_insecure_allowed=True)
    return Context(CONTEXT, kafka, {settings.name: settings}, insecure=True)


def name_workers(context: Context) -> Context:
    """The context with the addresses of all workers that are up. Standalone ones are in no group."""
    (name, settings), *_ = context.connect.items()
    if settings.group_id is None:
        return context
    from seamark.kafka.worker_group import read_worker_urls  # noqa: PLC0415

    found = read_worker_urls(context.kafka.client_config(), settings.group_id, timeout_seconds=_LOOK_SECONDS)
    told = [url for url in found if url.startswith("http")]
    # What they tell each other may be reachable among them alone; the properties name the one at hand.
    urls = tuple(dict.fromkeys((*told, *settings.urls)))
    return replace(context, connect={name: replace(settings, urls=urls)})


def choose_journal(kafka: KafkaSettings | None, *, may_be_away: bool) -> tuple[JournalSettings, str]:
    """The journal in Kafka where it is set up, else that of files, and what is to be said of it.

    `may_be_away`: the offsets are not in Kafka, so brokers that can't be reached are no reason to give up.
    """
    from seamark.context import JournalKind, JournalSettings  # noqa: PLC0415

    in_kafka, in_files = JournalSettings(CONTEXT), JournalSettings(CONTEXT, kind=JournalKind.FILE)
    if kafka is None or not kafka.bootstrap_servers:
        return in_files, ""
    from seamark.kafka import KafkaAdmin  # noqa: PLC0415

    with KafkaAdmin(kafka.client_config(), timeout_seconds=_LOOK_SECONDS) as admin:
        reading = admin.read_topics([in_kafka.topic, in_kafka.heads_topic])
    for error in reading.failures.values():
        if isinstance(error, NotFoundError):
            return in_files, ""
        if may_be_away and isinstance(error, UnreachableError):
            return in_files, f"the brokers can't be reached: the change is recorded in {in_files.folder}"
        raise error
    return in_kafka, ""
