"""Every key a contexts file may hold. What is not here is an error, with the nearest key named."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from types import MappingProxyType

from seamark.context.kafka_keys import KAFKA_KEYS, REFUSED_KEYS
from seamark.errors import ConfigurationError
from seamark.policy.policy import FLAG_KEYS as POLICY_FLAGS
from seamark.policy.policy import LIST_KEYS


class SettingKind(StrEnum):
    """What a value must be."""

    TEXT = "text"
    SECRET = "text or secret reference"  # noqa: S105
    URLS = "one or more URLs"
    PATH = "path"
    BOOL = "true or false"
    DURATION = "duration"
    NUMBER = "number of at least 1"
    PATTERNS = "one or more patterns"


ROOT_KEYS = ("current", "contexts", "commands")
FLAG_KEYS = MappingProxyType(
    {"protected": SettingKind.BOOL, "read_only": SettingKind.BOOL, "insecure": SettingKind.BOOL}
)
ROLE_KEYS = ("principals", "allow", "clusters", "connectors", "labels")
JOURNAL_KEYS = MappingProxyType(
    {
        "journal": SettingKind.TEXT,
        "journal_topic": SettingKind.TEXT,
        "journal_folder": SettingKind.PATH,
        "journal_key": SettingKind.SECRET,
        "in_flight_timeout": SettingKind.DURATION,
        "plan_ttl": SettingKind.DURATION,
    }
)
# How fast changes are applied: the keys below `pace`.
PACE = "pace"
PACE_KEYS = MappingProxyType({"parallel": SettingKind.NUMBER, "wait_stable": SettingKind.BOOL})
VERIFY = "offset_verification"
# The most trusted place that sets one of these decides; for every other key the nearest place does. A journal key from
# a repository would seal the user's secrets with a key that the author of the repository knows; and in another journal,
# a plan that was applied isn't known as such, and no lock is held.
GUARDED_KEYS = (*FLAG_KEYS, *JOURNAL_KEYS)
CONTEXT_KEYS = MappingProxyType({**FLAG_KEYS, **JOURNAL_KEYS, VERIFY: SettingKind.TEXT})
CONNECT_KEYS = MappingProxyType(
    {
        "urls": SettingKind.URLS,
        "worker_config": SettingKind.PATH,
        "username": SettingKind.SECRET,
        "password": SettingKind.SECRET,
        "ca_file": SettingKind.PATH,
        "tls_verify": SettingKind.BOOL,
        "group_id": SettingKind.TEXT,
        "offsets_topic": SettingKind.TEXT,
        "config_topic": SettingKind.TEXT,
        "status_topic": SettingKind.TEXT,
        "exactly_once": SettingKind.BOOL,
        "consumer_group_id": SettingKind.TEXT,
        "offsets_file": SettingKind.PATH,
    }
)
DATABASE_KEYS = MappingProxyType({"jdbc_url": SettingKind.TEXT, "dsn": SettingKind.SECRET})
LAKE_KEYS = MappingProxyType(
    {
        "url": SettingKind.TEXT,
        "endpoint": SettingKind.TEXT,
        "region": SettingKind.TEXT,
        "access_key": SettingKind.SECRET,
        "secret_key": SettingKind.SECRET,
    }
)
# Sections of named parts, without anything between a name and its keys: what a part is called, and its keys.
PART_KEYS = MappingProxyType({"databases": ("database", DATABASE_KEYS), "lakes": ("lake", LAKE_KEYS)})
SECTION_KEYS = ("kafka", "connect", *PART_KEYS, "policy", "roles", "values", PACE)

POLICY_KEYS = MappingProxyType(
    {**dict.fromkeys(LIST_KEYS, SettingKind.PATTERNS), **dict.fromkeys(POLICY_FLAGS, SettingKind.BOOL)}
)

# A name must fit an environment variable and stand before the slash of CLUSTER/NAME.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]|_(?!_))*")
# These words stand before the slash already: group/NAME and pipeline/NAME are owners too.
_RESERVED_CLUSTERS = frozenset({"group", "pipeline"})


def check_name(name: str, *, what: str, where: str) -> None:
    """Refuse a name of a context or a Connect cluster that could not be addressed later."""
    problem = ""
    if not _NAME.fullmatch(name):
        problem = "a name has letters, digits, '.', '-' and single '_', and starts with a letter or digit"
    elif what == "Connect cluster" and name.lower() in _RESERVED_CLUSTERS:
        problem = f"{name}/NAME already means something else in seamark"
    if problem:
        raise ConfigurationError(
            f"a {what} can't be called {name}",
            cause=f"{where}: {problem}",
            hint="choose another name",
            context={"origin": where},
        )


def check_key(key: str, known: Iterable[str], *, path: str, where: str) -> None:
    """Refuse a key that is not known, naming the nearest one."""
    choices = sorted(known)
    if key in choices:
        return
    raise ConfigurationError(
        f"unknown key {path}{key}",
        cause=f"{where}: {key} is not a key of {path.rstrip('.') or 'a contexts file'}",
        hint=_suggest(key, choices),
        context={"setting": f"{path}{key}", "origin": where},
    )


def check_kafka_key(key: str, *, path: str, where: str) -> None:
    """Refuse a key of a Kafka client that is unknown, or that a context must not hold."""
    if key in REFUSED_KEYS:
        raise ConfigurationError(
            f"{path}{key} can't be used",
            cause=f"{where}: {REFUSED_KEYS[key]}",
            hint="remove it",
            context={"setting": f"{path}{key}", "origin": where},
        )
    check_key(key, KAFKA_KEYS, path=path, where=where)


def _suggest(key: str, choices: list[str]) -> str:
    if key == "<<":
        return "merge keys are not supported; an alias for a whole part (kafka: *name) is"
    from difflib import get_close_matches  # noqa: PLC0415

    near = get_close_matches(key, choices, n=1)
    if near:
        return f"use {near[0]}, the most similar key"
    known = f"known keys: {', '.join(choices)}"
    return known if len(choices) <= 20 else "see docs/reference/contexts.md for the known keys"
