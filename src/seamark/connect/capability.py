"""What a worker of some version can do.

Versions come from `GET /`. Apache's are taken as they are, with any suffix (`4.0.0-SNAPSHOT`, `3.6.0.redhat-1`).
Confluent's end in `-ccs` or `-ce` and stand for Apache's: 8.x for 4.x, 7.x for 3.x,
6.0 to 6.2 for 2.6 to 2.8, 5.x for 2.x.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from seamark.errors import UnsupportedError

Version = tuple[int, int]

_NUMBERS = re.compile(r"^(\d+)\.(\d+)(.*)$", re.DOTALL)
_CONFLUENT = re.compile(r"-(ccs|ce)\b")


class Capability(StrEnum):
    """Something that not every Connect can do."""

    RESTART_TASKS = "restart of a connector with its tasks"
    ALL_PLUGINS = "list of plugins that are not connectors"
    PLUGIN_CONFIG = "the config keys of a plugin"
    STOP = "the STOPPED state"
    READ_OFFSETS = "reading offsets"
    WRITE_OFFSETS = "changing offsets"
    INITIAL_STATE = "an initial state for a new connector"
    CLUSTER_LOGGERS = "log levels for the whole Connect cluster"
    PATCH_CONFIG = "changing single config keys"
    HEALTH = "the health of a worker"
    PLUGIN_VERSIONS = "several versions of a plugin"


SINCE: dict[Capability, Version] = {
    Capability.RESTART_TASKS: (3, 0),
    Capability.ALL_PLUGINS: (3, 2),
    Capability.PLUGIN_CONFIG: (3, 2),
    Capability.STOP: (3, 5),
    Capability.READ_OFFSETS: (3, 5),
    Capability.WRITE_OFFSETS: (3, 6),
    Capability.INITIAL_STATE: (3, 7),
    Capability.CLUSTER_LOGGERS: (3, 7),
    Capability.PATCH_CONFIG: (3, 8),
    Capability.HEALTH: (3, 9),
    Capability.PLUGIN_VERSIONS: (4, 1),
}


def parse_version(text: str) -> Version | None:
    """Apache Kafka's major and minor version, or None where the text does not tell."""
    match = _NUMBERS.match(text.strip())
    if match is None:
        return None
    major, minor, rest = int(match[1]), int(match[2]), match[3]
    return _apache_version(major, minor) if _CONFLUENT.search(rest) else (major, minor)


def _apache_version(major: int, minor: int) -> Version:
    if major >= 7:
        return major - 4, minor
    return (2, minor + 6) if major == 6 else (2, minor)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What every worker of a cluster can do.

    `version` is the lowest of the workers', because during a rolling upgrade any of them may answer. It is None
    where no worker reports a version that can be parsed; then every call is tried, and an old worker rejects it.
    """

    cluster: str
    version: Version | None = None
    words: str = ""

    def has(self, capability: Capability) -> bool:
        """Whether the cluster has it."""
        return self.version is None or self.version >= SINCE[capability]

    def require(self, capability: Capability, *, doing: str) -> None:
        """Refuse what the cluster is too old for, before anything is sent.

        Raises:
            UnsupportedError: some worker is too old.
        """
        if self.has(capability):
            return
        since = ".".join(map(str, SINCE[capability]))
        raise UnsupportedError(
            f"can't {doing} in Connect cluster {self.cluster}",
            cause=f"{capability.value} needs Connect {since}; a worker runs {self.words}",
            hint=f"upgrade every worker to {since} or later",
            context={"cluster": self.cluster, "version": self.words, "since": since},
        )


def build_capabilities(cluster: str, versions: Iterable[str]) -> Capabilities:
    """The capabilities that all of these versions share. Versions that can't be read do not count."""
    known = [(version, text) for text in versions if (version := parse_version(text)) is not None]
    if not known:
        return Capabilities(cluster)
    version, words = min(known)
    return Capabilities(cluster, version, words)
