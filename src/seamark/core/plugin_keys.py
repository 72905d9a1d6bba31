"""The keys that plugins type as PASSWORD, remembered per plugin class while the process runs.

Only names of keys are remembered, never values. If the types of a class can't be read, every key of that plugin counts
as a secret: a value that is hidden by mistake can be entered again, a secret in a journal can't be removed from it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping

# Connect's own keys: their types are known without asking a plugin, and none of them is a PASSWORD.
_OWN_KEYS = frozenset(
    {
        "name",
        "connector.class",
        "connector.plugin.version",
        "tasks.max",
        "tasks.max.enforce",
        "topics",
        "topics.regex",
        "key.converter",
        "key.converter.plugin.version",
        "value.converter",
        "value.converter.plugin.version",
        "header.converter",
        "header.converter.plugin.version",
        "transforms",
        "predicates",
        "config.action.reload",
        "errors.retry.timeout",
        "errors.retry.delay.max.ms",
        "errors.tolerance",
        "errors.log.enable",
        "errors.log.include.messages",
        "errors.deadletterqueue.topic.name",
        "errors.deadletterqueue.topic.replication.factor",
        "errors.deadletterqueue.context.headers.enable",
        "exactly.once.support",
        "transaction.boundary",
        "transaction.boundary.interval.ms",
        "offsets.storage.topic",
    }
)
_OWN_PREFIXES = ("topic.creation.",)
_OWN_OF_TRANSFORMS = frozenset({"type", "predicate", "negate", "plugin.version"})
_CONVERTERS = ("key.converter", "value.converter", "header.converter")

# The clients' overrides are Kafka's own keys. `ConfigDef` of the clients types these as PASSWORD, besides those with
# names such as ssl.key.password, which are secret by their names.
_OVERRIDE = re.compile(r"(?:producer|consumer|admin)\.override\.")
_CLIENT_PASSWORDS = frozenset({"ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates"})

# Kafka ships these classes, and none of them has a PASSWORD key.
_KAFKA_CLASS = re.compile(r"org\.apache\.kafka\.connect\.(?:transforms|converters|storage|json)\.[\w.$]+")


_REFERENCES = ("secret://", "${")


class PluginKeys:
    """The PASSWORD keys of plugin classes by Connect cluster; None where a cluster can't report them."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, frozenset[str] | None]] = {}
        self._causes: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()

    def remember(self, cluster: str, plugin: str, passwords: frozenset[str]) -> None:
        """Remember the PASSWORD keys of a plugin."""
        with self._lock:
            self._found[plugin] = {**self._found.get(plugin, {}), cluster: passwords}
            self._causes.pop((cluster, plugin), None)

    def remember_unknown(self, cluster: str, plugin: str, cause: str) -> None:
        """Remember that a cluster can't report the types of a plugin, and why."""
        with self._lock:
            self._found[plugin] = {**self._found.get(plugin, {}), cluster: None}
            self._causes[cluster, plugin] = cause

    def forget(self) -> None:
        """Forget everything."""
        with self._lock:
            self._found.clear()
            self._causes.clear()

    def is_read(self, cluster: str, plugin: str) -> bool:
        """Return whether the cluster was asked for the types of the plugin."""
        return cluster in self._found.get(plugin, {}) or _KAFKA_CLASS.fullmatch(plugin) is not None

    def find_causes(self, cluster: str) -> dict[str, str]:
        """Return the plugins whose types the cluster couldn't report, with the reason."""
        with self._lock:
            return {plugin: cause for (asked, plugin), cause in sorted(self._causes.items()) if asked == cluster}

    def find_passwords(self, plugin: str, cluster: str | None = None, *, unread: bool) -> frozenset[str] | None:
        """Return the PASSWORD keys of a plugin, in one cluster or in any; None where all its keys count as secret.

        Without a cluster, one that can't report the types is enough for None. `unread` says whether a plugin counts as
        unknown that no cluster was asked about.
        """
        if plugin.startswith(_REFERENCES):
            # What a reference leads to isn't known here.
            return None
        found = self._found.get(plugin)
        if found is None:
            return None if unread and not _KAFKA_CLASS.fullmatch(plugin) else frozenset()
        if cluster is not None:
            return found.get(cluster, None if unread else frozenset())
        known = [keys for keys in found.values() if keys is not None]
        return frozenset().union(*known) if len(known) == len(found) else None


PLUGIN_KEYS = PluginKeys()
"""What the Connect clusters of this process have reported."""


def find_plugins(config: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the plugins of a config: the prefix of each plugin's keys, and its class. The connector is the first."""
    found = [("", config.get("connector.class", ""))]
    for kind in ("transforms", "predicates"):
        for alias in config.get(kind, "").split(",") if kind in config else ():
            prefix = f"{kind}.{alias.strip()}."
            found.append((prefix, config.get(f"{prefix}type", "")))
    found += [(f"{key}.", config[key]) for key in _CONVERTERS if key in config]
    return tuple(found)


def find_secret_keys(config: Mapping[str, str], cluster: str | None = None, *, unread: bool = True) -> frozenset[str]:
    """Return the keys of a config that are secret by their types.

    With `unread`, a plugin that no cluster was asked about counts as one whose types are unknown.
    """
    plugins = find_plugins(config)
    passwords = {prefix: PLUGIN_KEYS.find_passwords(plugin, cluster, unread=unread) for prefix, plugin in plugins}
    # Most configs have no PASSWORD key that a name or a value doesn't reveal, and ten thousand may be examined.
    prefixes = tuple(prefix for prefix in passwords if prefix)
    return frozenset(key for key in config if _is_secret(key, passwords, prefixes))


def _is_secret(key: str, passwords: Mapping[str, frozenset[str] | None], prefixes: tuple[str, ...]) -> bool:
    if override := _OVERRIDE.match(key):
        return key[override.end() :] in _CLIENT_PASSWORDS
    if key in _OWN_KEYS or key.startswith(_OWN_PREFIXES):
        return False
    # validate reports a key of a transformation with its prefix, as a key of the connector.
    typed = passwords[""]
    if typed and key in typed:
        return True
    for prefix in prefixes if prefixes and key.startswith(prefixes) else ():
        if key.startswith(prefix):
            own = key[len(prefix) :]
            found = passwords[prefix]
            return own not in _OWN_OF_TRANSFORMS if found is None else own in found
    return typed is None
