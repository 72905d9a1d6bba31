"""`seamark init`: create the journal's topics or its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.changes.journal import JournalPort
from seamark.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from seamark.changes.kafka_journal import JournalNames, NeededAccess
    from seamark.context import Context
    from seamark.kafka.topics import TopicSpec


def open_journal(context: Context) -> JournalPort:
    """Open the journal that the context names."""
    from seamark.context import JournalKind  # noqa: PLC0415

    settings = context.journal
    if settings.kind is JournalKind.FILE:
        from seamark.changes.file_journal import FileJournal  # noqa: PLC0415

        return FileJournal(settings.folder)
    # Imported here, because it loads the Kafka client.
    from seamark.changes.kafka_journal import JournalNames, KafkaJournal  # noqa: PLC0415

    names = JournalNames(journal=settings.topic, heads=settings.heads_topic)
    return KafkaJournal(context.kafka.client_config(), names=names)


@dataclass(frozen=True, slots=True)
class SetupItem:
    """One topic or folder of the journal. `words` describes it, `settings` are its topic configs."""

    name: str
    is_there: bool
    words: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JournalSetup:
    """The present state of a context's journal.

    `warnings` report existing items that aren't as they should be. `access` are commands that grant an operator access
    to the journal, for Kafka clusters with an authorizer.
    """

    context: str
    kind: str
    items: tuple[SetupItem, ...]
    warnings: tuple[str, ...] = ()
    access: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[SetupItem, ...]:
        """The items that have to be created."""
        return tuple(item for item in self.items if not item.is_there)


@dataclass(frozen=True, slots=True)
class KeyRotation:
    """The rotation of a journal's key. All keys are named by their fingerprints.

    `previous` is the journal's key now, or before the rotation; `fingerprint` is the new key, "" if it hasn't been
    created yet. `file` is where the keys are stored afterwards. With `is_recorded`, the journal has the new key
    already.
    """

    context: str
    previous: str
    fingerprint: str
    file: str
    is_recorded: bool = False


_FLAGS = {"TOPIC": "--topic", "TRANSACTIONAL_ID": "--transactional-id"}


def read_setup(context: Context) -> JournalSetup:
    """Read which items of the journal exist and which are missing. Changes nothing."""
    from seamark.context import JournalKind  # noqa: PLC0415

    if context.journal.kind is JournalKind.FILE:
        folder = context.journal.folder
        item = SetupItem(str(folder), is_there=folder.is_dir(), words="folder, accessible to its owner only")
        return JournalSetup(context.name, "file", (item,))
    return _read_kafka_setup(context)


def make_setup(context: Context) -> tuple[str, ...]:
    """Create the missing items and return their names. Existing items aren't changed."""
    from seamark.context import JournalKind  # noqa: PLC0415

    if context.journal.kind is JournalKind.FILE:
        return _make_folder(context.journal.folder)
    from seamark.changes.kafka_journal import create_topics  # noqa: PLC0415
    from seamark.kafka.topics import TopicAdmin  # noqa: PLC0415

    with TopicAdmin(context.kafka.client_config()) as admin:
        return create_topics(admin, names=_build_names(context))


def _read_kafka_setup(context: Context) -> JournalSetup:
    from seamark.changes.kafka_journal import build_needed_access, build_setup_access, build_topics  # noqa: PLC0415
    from seamark.changes.kafka_journal.clients import compare_topic  # noqa: PLC0415
    from seamark.kafka.topics import TopicAdmin  # noqa: PLC0415

    names = _build_names(context)
    with TopicAdmin(context.kafka.client_config()) as admin:
        cluster = admin.read_cluster()
        specs = build_topics(len(cluster.brokers), names=names)
        found = admin.read_found([spec.name for spec in specs])
    access = (*build_setup_access(names=names), *build_needed_access(cluster.cluster_id, names=names))
    return JournalSetup(
        context.name,
        "kafka",
        tuple(_build_item(spec, is_there=spec.name in found) for spec in specs),
        warnings=tuple(
            difference.describe()
            for spec in specs
            if spec.name in found
            for difference in compare_topic(spec, found[spec.name])
        ),
        access=tuple(_build_commands(access)),
    )


def _build_names(context: Context) -> JournalNames:
    from seamark.changes.kafka_journal import JournalNames  # noqa: PLC0415

    return JournalNames(journal=context.journal.topic, heads=context.journal.heads_topic)


def _build_item(spec: TopicSpec, *, is_there: bool) -> SetupItem:
    replicas = f"{spec.replication_factor} replica{'' if spec.replication_factor == 1 else 's'}"
    return SetupItem(
        spec.name, is_there=is_there, words=f"topic, {spec.partitions} partition, {replicas}", settings=spec.configs
    )


def _build_commands(access: Iterable[NeededAccess]) -> list[str]:
    """Build one command per resource, with all its operations."""
    operations: dict[tuple[str, str, str], list[str]] = {}
    for needed in access:
        operations.setdefault((needed.resource, needed.name, needed.pattern), []).append(needed.operation)
    commands = []
    for (resource, name, pattern), words in operations.items():
        allowed = " ".join(f"--operation {_spell(word)}" for word in words)
        prefixed = " --resource-pattern-type prefixed" if pattern == "PREFIXED" else ""
        commands.append(
            f"kafka-acls.sh --bootstrap-server HOST:PORT --add --allow-principal User:OPERATOR {allowed} "
            f"{_FLAGS[resource]} {name}{prefixed}"
        )
    return commands


def _spell(operation: str) -> str:
    # kafka-acls.sh writes DescribeConfigs where the Kafka protocol writes DESCRIBE_CONFIGS.
    return operation.title().replace("_", "")


def _make_folder(folder: Path) -> tuple[str, ...]:
    if folder.is_dir():
        return ()
    try:
        folder.mkdir(parents=True, mode=0o700)
    except OSError as error:
        if folder.is_dir():
            # Another process created it in the meantime.
            return ()
        raise JournalError(
            f"can't create the journal's folder: {folder}",
            cause=error.strerror or type(error).__name__,
            hint=f"create it, accessible to you only: mkdir -p -m 700 {folder}",
        ) from None
    return (str(folder),)
