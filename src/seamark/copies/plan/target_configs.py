"""The configs of a target topic: those of the source, except the ones that would damage old records during the copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from seamark.core import strict_json as strict
from seamark.kafka.model import TopicConfig

# Java's largest long: no bound for a timestamp in the past or future.
_ANY = str(strict.LARGEST)
_TIERED = "remote.storage.enable"
_TOMBSTONES = "delete.retention.ms"

# They name replicas of the old topic, by broker and partition.
_NEVER = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})

# The brokers' defaults, as far as a copy needs them.
_KAFKA = {
    "cleanup.policy": "delete",
    _TOMBSTONES: "86400000",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
}

# The configs until the cutover, and their reasons. Brokers have the pair of bounds from 3.6 on, and the single bound up
# to 3.9.
_HELD = {
    "message.timestamp.type": ("CreateTime", "records keep their timestamps; LogAppendTime would overwrite them"),
    "message.timestamp.after.max.ms": (
        _ANY,
        "brokers reject timestamps of more than an hour ahead by default (4.0 and later)",
    ),
    "message.timestamp.before.max.ms": (_ANY, "brokers may reject old records"),
    "message.timestamp.difference.max.ms": (_ANY, "brokers may reject old records"),
    "retention.ms": ("-1", "old records would be deleted right after they are written"),
    "retention.bytes": ("-1", "records would be deleted before consumers read them"),
}
_NO_COMPACTION = ("delete", "compaction starts after the copy is verified; until then nothing is deleted")


@dataclass(frozen=True, slots=True)
class ConfigChoice:
    """One config of the target: its value during the copy, and its final value from the cutover on.

    `final` is None if the topic then has no value of its own. `why` is the reason why the two differ, or why it is set.
    """

    key: str
    value: str
    final: str | None
    why: str = ""

    def to_list(self) -> list[str | None]:
        """Return the choice as JSON has it."""
        return [self.key, self.value, self.final, self.why]

    @classmethod
    def from_list(cls, data: object) -> ConfigChoice:
        """Parse the result of `to_list`."""
        key, value, final, why = strict.read_list(data, what="a config", length=4)
        return cls(
            strict.read_text(key, what="the name of a config"),
            strict.read_text(value, what="the value of a config"),
            final=strict.read_optional_text(final, what="the final value of a config"),
            why=strict.read_text(why, what="the reason for a config"),
        )


@dataclass(frozen=True, slots=True)
class TargetBrokers:
    """What the brokers of the target report. `known` are the topic configs that they support.

    `defaults` are the configs that a new topic gets there. Within the Kafka cluster of the source they are the
    source's.
    """

    known: frozenset[str]
    defaults: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class TargetConfigs:
    """The configs of the target, the notes on them, and the reasons against the copy."""

    choices: tuple[ConfigChoice, ...]
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


def choose_configs(
    source: Mapping[str, TopicConfig], around: TargetBrokers, *, replication_factor: int
) -> TargetConfigs:
    """Choose the configs of the target for a source with these configs."""
    wanted, notes = _carry(source, around)
    held = {key: (value, why) for key, (value, why) in _HELD.items() if key in around.known}
    if "compact" in _read(source, "cleanup.policy"):
        held["cleanup.policy"] = _NO_COMPACTION
    choices = [
        ConfigChoice(key, held[key][0], final=wanted.get(key), why=held[key][1])
        if key in held
        else ConfigChoice(key, wanted[key], final=wanted[key])
        for key in sorted(held.keys() | wanted.keys())
    ]
    return TargetConfigs(
        tuple(choices),
        notes=(*notes, *_note(source)),
        refusals=tuple(_refuse(source, wanted, around, replication_factor)),
    )


def _carry(source: Mapping[str, TopicConfig], around: TargetBrokers) -> tuple[dict[str, str], list[str]]:
    """Return the source's own configs, and broker defaults of the source that differ at the target's brokers."""
    wanted: dict[str, str] = {}
    notes: list[str] = []
    for key, config in sorted(source.items()):
        elsewhere = None if around.defaults is None else around.defaults.get(key, _KAFKA.get(key))
        differs = around.defaults is not None and not config.is_default and elsewhere != config.value
        if key in _NEVER or not (config.is_own or differs):
            continue
        if config.is_sensitive:
            notes.append(f"{key} is not copied: the brokers do not return its value")
        elif key not in around.known:
            notes.append(f"{key}={config.value} is not copied: the brokers of the target do not support it")
        else:
            wanted[key] = config.value
    if around.defaults is not None:
        wanted |= _settle_defaults(source, around.defaults, wanted)
    return wanted, notes


def _settle_defaults(
    source: Mapping[str, TopicConfig], defaults: Mapping[str, str], wanted: Mapping[str, str]
) -> dict[str, str]:
    """Return the source's values where it has Kafka's default and the target's brokers have another one."""
    return {
        key: _read(source, key)
        for key in _KAFKA
        if key not in wanted and key in defaults and defaults[key] != _read(source, key)
    }


def _note(source: Mapping[str, TopicConfig]) -> Iterator[str]:
    if _read(source, "message.timestamp.type") == "LogAppendTime":
        yield "copied records keep their LogAppendTime; new records get theirs after the cutover"
    if _read(source, _TIERED) == "true":
        yield "the source uses tiered storage: reading it from the start fetches from remote storage"
    if "compact" in _read(source, "cleanup.policy"):
        yield "the source is compacted: if compaction runs during the copy, counts of reprocessed records are bounds"
        yield (
            f"the source removes tombstones after {_TOMBSTONES}={_read(source, _TOMBSTONES)}: if the copy takes "
            "longer, deleted keys may remain in the target"
        )


def _refuse(
    source: Mapping[str, TopicConfig], wanted: Mapping[str, str], around: TargetBrokers, replication_factor: int
) -> Iterator[str]:
    least = wanted.get("min.insync.replicas") or (around.defaults or {}).get(
        "min.insync.replicas", _read(source, "min.insync.replicas")
    )
    if least.isdecimal() and int(least) > replication_factor:
        yield f"min.insync.replicas={least} is more than the replication factor of the target, {replication_factor}"
    if not around.known & {"message.timestamp.before.max.ms", "message.timestamp.difference.max.ms"}:
        yield "the brokers of the target do not report which configs they support"


def _read(source: Mapping[str, TopicConfig], key: str) -> str:
    found = source.get(key)
    return found.value if found else _KAFKA.get(key, "")
