"""What must not be shown: secrets in configs and in free text, and the mask that stands for them.

A reference to a secret (`${provider:path:key}`, `secret://…`) is not a secret and is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from seamark.core.plugin_keys import find_secret_keys

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
    # Most values are none, and are told by their first letters.
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
        # A lone token before the @ is a user name or a token; nobody can tell which.
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
