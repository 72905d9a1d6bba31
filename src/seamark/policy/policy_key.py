"""What a config key is about."""

from __future__ import annotations

import re
import unicodedata
from enum import Enum, auto

from seamark.policy.policy_jdbc import is_dangerous_parameter


class Concern(Enum):
    """The rules that a key's value must be held against, beside those for every value."""

    CONNECTOR = auto()
    PLUGIN = auto()
    OVERRIDE = auto()
    LOGIN = auto()
    OAUTH = auto()
    CLIENT_CLASS = auto()
    PROVIDERS = auto()
    FILE = auto()
    PARAMETER = auto()
    JNDI = auto()
    COMMAND = auto()
    LANGUAGE = auto()
    ADDRESS = auto()
    UNSEEN = auto()


# Connectors hand these on to clients of their own under many prefixes, so only the end of a key counts.
_BY_END: tuple[tuple[Concern, str], ...] = (
    (Concern.CONNECTOR, r"^\s*connector\.class\s*$"),
    (Concern.PLUGIN, r"^(?:key|value|header)\.converter$|^(?:transforms|predicates)\.[^.]+\.type$"),
    (Concern.OVERRIDE, r"^(?:producer|consumer|admin)\.override\."),
    (Concern.LOGIN, r"(?:^|\.)sasl\.jaas\.config$"),
    (
        Concern.OAUTH,
        r"(?:^|\.)sasl\.oauthbearer\.(?:[^.]+\.)*(?:url|file)$|(?:^|\.)bearer\.auth\.issuer\.endpoint\.url$",
    ),
    (
        Concern.CLIENT_CLASS,
        (
            r"(?:^|\.)(?:interceptor\.classes|metric\.reporters|sasl\.login\.class|security\.providers"
            r"|sasl\.(?:client|login|server)\.callback\.handler\.class|ssl\.engine\.factory\.class"
            r"|sasl\.oauthbearer\.[\w.]+\.class|partition\.assignment\.strategy)$|\.override\.partitioner\.class$"
            r"|\.override\.(?:key|value)\.(?:de)?serializer$|^hibernate\..*class$"
        ),
    ),
    (Concern.PROVIDERS, r"(?:^|\.)config\.providers(?:$|\.)"),
    (Concern.FILE, r"(?:^|\.)file\.filename$|^signal\.file$|^fs\.listing\.directory\.path$|^file$"),
    (Concern.FILE, r"^(?:input|finished|error)\.path$"),
    (Concern.JNDI, r"(?:^|\.)(?:java\.naming|jndi)\."),
    (Concern.COMMAND, r"(?:^|\.)sasl\.kerberos\.kinit\.cmd$"),
    (Concern.LANGUAGE, r"\.language$"),
    (Concern.ADDRESS, r"^camel\.(?:sink|source)\.(?:url|endpoint)"),
)
_PATTERNS = tuple((concern, re.compile(pattern, re.IGNORECASE)) for concern, pattern in _BY_END)


def find_concerns(key: str) -> frozenset[Concern]:
    """What the key is about; nothing, for most of them."""
    found = {concern for concern, pattern in _PATTERNS if pattern.search(key)}
    if is_dangerous_parameter(key):
        found.add(Concern.PARAMETER)
    if _has_unseen(key):
        found.add(Concern.UNSEEN)
    return frozenset(found)


def _has_unseen(key: str) -> bool:
    return key != key.strip() or not key or any(unicodedata.category(char)[0] in "CZ" and char != " " for char in key)
