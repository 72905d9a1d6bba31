"""Refusals and notes for deleting topics or adding partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from seamark.connect.clusters import Clusters
from seamark.core.refs import CONNECTOR, GROUP, parse_subject
from seamark.errors import RefusedError, SeamarkError, UnreachableError
from seamark.kafka.model import TopicStatus
from seamark.topics.users import TopicUser, TopicUsers, Use, read_users

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.kafka.api import BrokersPort

_STORES = ("config_topic", "offsets_topic", "status_topic")


def refuse_own(topic: TopicStatus, context: Context, *, only_internal: bool = False) -> None:
    """Raise for topics that Kafka, Connect or seamark itself depends on."""
    whose = "Kafka" if topic.is_internal else "" if only_internal else _find_keeper(topic.name, context)
    if whose:
        raise RefusedError(
            f"refusing to modify internal topic {topic.name} (used by {whose})",
            hint="use kafka-topics.sh if you really need to",
            context={"topic": topic.name},
        )


def _find_keeper(name: str, context: Context) -> str:
    for settings in context.connect.values():
        if name in [getattr(settings, key) for key in _STORES]:
            return f"Connect cluster {settings.name}"
    return "seamark's journal" if name in (context.journal.topic, context.journal.heads_topic) else ""


class FleetTopicGuard:
    """Determines whether topics of a context may be deleted, and the effects of more partitions."""

    def __init__(self, context: Context, *, clusters: Clusters, kafka: Callable[[], BrokersPort]) -> None:
        self._context = context
        self._clusters = clusters
        self._kafka = kafka

    def check_delete(self, name: str) -> None:
        """Raise for a topic that is internal or in use.

        Raises:
            RefusedError: The topic must not be deleted.
        """
        found = self._kafka().read_topics([name]).items
        for topic in found:
            refuse_own(topic, self._context)
            refuse_used(topic, read_users(topic, clusters=self._clusters, kafka=self._kafka()))

    def read_grow_notes(self, topic: TopicStatus) -> tuple[str, ...]:
        """Return which users of a topic are affected if it gets more partitions."""
        return build_grow_notes(topic, read_users(topic, clusters=self._clusters, kafka=self._kafka()))


def refuse_used(topic: TopicStatus, users: TopicUsers) -> None:
    """Raise for a topic that is in use, or whose use can't be determined."""
    if users.active:
        raise RefusedError(
            f"topic {topic.name} is in use; no changes were made",
            cause="; ".join(_say(user) for user in users.active),
            hint=_build_hint(users),
            context={"topic": topic.name},
        )
    if users.failures:
        kind = UnreachableError if all(error.retryable for error in users.failures.values()) else SeamarkError
        raise kind(
            f"can't determine who uses topic {topic.name}; no changes were made",
            cause="; ".join(f"{where}: {error.message}" for where, error in users.failures.items()),
            hint="run seamark doctor",
        )


def refuse_shrink(topic: TopicStatus, *, to: int) -> None:
    """Raise for fewer partitions: Kafka can't remove any."""
    have = len(topic.partitions)
    if to < have:
        raise RefusedError(
            f"can't reduce topic {topic.name} from {have} to {to} partitions; no changes were made",
            cause="Kafka can't remove partitions of a topic",
            hint=build_copy_hint(topic, to=to),
            context={"topic": topic.name},
        )


def build_copy_hint(topic: TopicStatus, *, to: int) -> str:
    """Return the hint to create a topic copy with fewer partitions."""
    have = len(topic.partitions)
    return f"copy the topic: seamark copies plan {topic.name} --partitions {have}:{to}"


def build_delete_notes(users: TopicUsers) -> tuple[str, ...]:
    """Return notes on inactive or guessed users of the topic, and on what is kept of it."""
    notes = [_say(user) for user in users.found]
    committed = [user.subject for user in users.found if user.use is Use.COMMITTED]
    if committed:
        kept = f"the journal keeps the committed offsets of {', '.join(committed)}"
        notes.append(f"{kept}: seamark journal export CHANGE shows them")
    return (*notes, *users.notes)


def build_grow_notes(topic: TopicStatus, users: TopicUsers) -> tuple[str, ...]:
    """Return notes on the consumers that are affected if keys move to other partitions."""
    notes = [
        f"other consumers of the topic are unknown: {where}: {error.message}" for where, error in users.failures.items()
    ]
    readers = [user.subject for user in users.found if user.is_reader]
    if readers:
        notes.append(
            f"new records of a key may go to another partition than the old ones: {', '.join(readers)} may read them "
            "out of order" + ("" if _is_compacted(topic) else " if records have keys")
        )
    if _is_compacted(topic):
        # The brokers reject records without a key for such a topic.
        who = ", ".join(readers) or "a consumer of the whole topic"
        notes.append(
            f"topic/{topic.name} is compacted, so every record has a key: the old value of a key stays in its old "
            "partition "
            f"permanently, and {who} may read it after the new one"
        )
    groups = [user.subject for user in users.found if user.is_reader and parse_subject(user.subject).kind == GROUP]
    if groups:
        notes.append(
            f"{', '.join(groups)}: the new partitions have no committed offsets; with auto.offset.reset=latest, the "
            "group skips records that are written before it detects the new partitions"
        )
    writers = [user.subject for user in users.found if user.use is Use.WRITES]
    if writers and not readers:
        notes.append(f"{', '.join(writers)} write to it: a key may go to another partition than before")
    return (*notes, *users.notes)


def _is_compacted(topic: TopicStatus) -> bool:
    return "compact" in topic.config("cleanup.policy")


def _say(user: TopicUser) -> str:
    return (
        f"{user.subject} {user.use} it ({user.state})"
        if user.use is not Use.COMMITTED
        else (f"{user.subject} has committed offsets on it ({user.state})")
    )


def _build_hint(users: TopicUsers) -> str:
    # A paused sink is still a member of its group.
    known = [*users.active, *(user for user in users.found if user.use is Use.READS)]
    refs = dict.fromkeys(parse_subject(user.subject) for user in known)
    names = " ".join(ref.owner for ref in refs if ref.kind == CONNECTOR)
    if names:
        return f"stop its connectors first: seamark connectors stop {names}"
    return "stop the members of these groups first; seamark groups show lists them"
