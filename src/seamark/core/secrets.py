"""The keys that plugins type as PASSWORD, remembered per plugin class while the process runs.

Only names of keys are remembered, never values. If the types of a class can't be read, every key of that plugin counts
as a secret: a value that is hidden by mistake can be entered again, a secret in a journal can't be removed from it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

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


# A reference to a secret (`${provider:path:key}`, `secret://…`) is not a secret and is shown as it is.

MASK = "(sensitive)"
"""What is shown in place of a secret. It can never be written back as a value."""

# Dots, dashes and underscores are one separator, and "apiKey" is read as "api.key".
_SECRET_NAME = re.compile(
    r"password|passwd|passphrase|secret|credential|jaas|(?:^|\.)(?:pwd|pw|pass|token|tokens|sas|authorization)(?:$|\.)"
    r"|(?:api|private|access|account|encryption|shared|license|journal)\.?key|(?:keystore|signing|session|hmac)\.key$"
    r"|(?:app|consumer|insert)\.key$|key\.pem$|passcode|userpw|(?:^|\.)(?:pat|jwt|bearer|community|ticket)$|account\.json"
    r"|user\.info|oauthbearer\.config|connection\.string|auth(?:entication)?\.header|token$",
)
# These say where or how a secret is found, which people need to see.
_HARMLESS_NAME = re.compile(
    r"\.(?:source|location|path|file|class|type|provider|algorithm|alias|url|uri|endpoint|ttl|enabled?|mode|ms|name)$"
)

_REFERENCE = re.compile(r"(?:\$\{[^{}:]*:[^{}]*\})+|secret://[a-z][a-z0-9+-]*/\S+")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
# The look-behinds let each run of word characters be tried once: a hostile trace costs linear time.
_USERINFO = re.compile(
    r"(?<![\w+.-])(?P<scheme>[A-Za-z][\w+.-]*://)(?P<info>[^\s/@\"'<>?#]*(?:@[^\s/@\"'<>?#]*)*)@(?=[^\s@])"
)
_ASSIGNED = (
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "token",
    "accountkey",
    "accesskey",
    "access_key",
    "apikey",
    "api_key",
    "signature",
)
_ASSIGNMENT = re.compile(
    rf"(?<![\w.-])(?P<name>[\w.-]*(?:{'|'.join(_ASSIGNED)}))"
    r"(?P<equals>[\"']?\s*[=:]\s*)"
    r"(?P<value>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|\$\{[^{}]*\}|[^\s\"';&]+)",
    re.IGNORECASE,
)

_AUTHORIZATION = re.compile(
    r"(?P<name>authorization[\"']?\s*[:=]\s*[\"']?(?:basic|bearer|digest|token|apikey)\s+)(?P<value>[^\s\"',;|&]+)",
    re.IGNORECASE,
)


def is_reference(value: str) -> bool:
    """Whether the whole value only points to a secret."""
    # Most values are not references, which their first characters show.
    return value.startswith(("${", "secret://")) and _REFERENCE.fullmatch(value) is not None


# A fleet has ten thousand configs of the same few keys. Keys are no secrets, so that they may be kept.
@lru_cache(maxsize=4096)
def is_sensitive(key: str) -> bool:
    """Whether a config key is one whose value people keep secret, by its name."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", ".", key)
    name = re.sub(r"[_\-]+", ".", name).lower()
    return _SECRET_NAME.search(name) is not None and _HARMLESS_NAME.search(name) is None


def mask_value(key: str, value: str, secret: Collection[str] = ()) -> str:
    """Return one config value as it may be shown. `secret` are keys that are secret by their types."""
    if not value or is_reference(value):
        return value
    return MASK if key in secret or is_sensitive(key) else mask_text(value)


def mask_config(config: Mapping[str, str], *, unread: bool = True) -> dict[str, str]:
    """Return a connector config as it may be shown. Keys and their order stay.

    The types of its plugins decide together with names and values; see `find_secret_keys` for `unread`.
    """
    secret = find_secret_keys(config, unread=unread)
    return {key: mask_value(key, value, secret) for key, value in config.items()}


def find_secret_values(config: Mapping[str, str], *, more: Collection[str] = ()) -> tuple[str, ...]:
    """Return the secret values of a connector config, which must be cut out of any text. `more` are further keys.

    Values of one or two characters are left out: without them the text would be unreadable, and they protect nothing.
    """
    secret = find_secret_keys(config, unread=False).union(more)
    found = {value for key, value in config.items() if len(value) >= 3 and mask_value(key, value, secret) != value}
    return tuple(sorted(found, key=len, reverse=True))


def hide_values(text: str, values: Iterable[str]) -> str:
    """Return the text without these values, and without what looks like another secret."""
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, MASK)
    return mask_text(text)


def mask_text(text: str) -> str:
    """Free text, such as a URL or a stack trace, without the secrets that can be told by their look.

    These are: user and password in a URL, `password=…` in a JDBC URL or a JAAS line, the token of an `Authorization`
    header, private keys.
    """
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(MASK, text)
    if "://" in text and "@" in text:
        text = _USERINFO.sub(_mask_userinfo, text)
    # Nothing is assigned without one of these, and most values have neither.
    if "=" not in text and ":" not in text:
        return text
    lowered = text.lower()
    if "uthorization" in lowered:
        text = _AUTHORIZATION.sub(_mask_authorization, text)
    # A URL is searched for the words much faster than by the pattern, which also knows other letters for some of ours.
    if text.isascii() and not any(word in lowered for word in _ASSIGNED):
        return text
    return _ASSIGNMENT.sub(_mask_assignment, text)


def _mask_userinfo(found: re.Match[str]) -> str:
    user, colon, password = found["info"].partition(":")
    if not colon:
        # A lone word before the @ can be a user name or a token, so that it is masked.
        return f"{found['scheme']}{MASK}@" if user else found[0]
    shown = password if not password or is_reference(password) else MASK
    return f"{found['scheme']}{user}:{shown}@"


def _mask_assignment(found: re.Match[str]) -> str:
    value = found["value"]
    if value == MASK or is_reference(value.strip("\"'")):
        return found[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{found['name']}{found['equals']}{quote}{MASK}{quote}"


def _mask_authorization(found: re.Match[str]) -> str:
    return found[0] if is_reference(found["value"]) else f"{found['name']}{MASK}"
