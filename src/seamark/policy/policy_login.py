"""`sasl.jaas.config`: which login modules a text would load."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seamark.core.sensitive import is_reference
from seamark.policy.policy import Policy
from seamark.policy.policy_pattern import is_listed
from seamark.policy.policy_rules import Violation, build_violation

_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"|' r"'(?:[^'\\\n]|\\.)*'")
# A text that people write; anything else in that place may be the secret itself and is not shown.
_MODULE = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)+Module")


def check_jaas(key: str, value: str, policy: Policy) -> Iterator[Violation]:
    """Whether every login module is allowed. A whole reference is left to the rules on config providers."""
    if is_reference(value):
        return
    for module in find_modules(value):
        if not is_listed(module, policy.login_modules):
            yield build_violation("P006", key, module if _MODULE.fullmatch(module) else "")


def find_modules(text: str) -> tuple[str, ...]:
    """The first word of every entry; a single empty word where Java might read the text in another way than we do."""
    bare = _QUOTED.sub(" x ", text)
    # Java takes a slash for the beginning of a comment, and a lone quotation mark for that of a text.
    if any(mark in bare for mark in "/\"'"):
        return ("",)
    entries = [entry.split() for entry in bare.split(";")]
    return tuple(entry[0] for entry in entries if entry) or ("",)
