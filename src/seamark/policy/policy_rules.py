"""The rules of a policy: each has a number that stays, what it is about, and how a context can allow it."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `words` says what is refused, `allow` which key of the context's `policy` lets it through."""

    id: str
    words: str
    allow: str = ""

    @property
    def hint(self) -> str:
        """The next step for somebody who means it."""
        if not self.allow:
            return "choose another one; no policy allows it"
        return f"if you mean it: {self.allow} in `policy` of the context, see docs/policy.md"


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a config or a name breaks. `key` is the config's key, or `name`. It never holds a secret."""

    rule: str
    key: str
    message: str
    hint: str


_ALL = (
    Rule("P001", "a name that is not safe to use"),
    Rule("P002", "a connector class that is not allowed", "connector_classes: [CLASS]"),
    Rule("P003", "a transform, predicate or converter that is not allowed", "plugin_classes: [CLASS]"),
    Rule("P004", "a file of the worker's machine", "files: [PATH]"),
    Rule("P005", "a client override that is not allowed", "client_overrides: [default, KEY]"),
    Rule("P006", "a login module that is not allowed", "login_modules: [default, CLASS]"),
    Rule("P007", "an address or file that a login asks for its token", "oauth_urls: [URL]"),
    Rule("P008", "a class that a Kafka client would load", "client_classes: [default, CLASS]"),
    Rule("P009", "a config provider of the connector's own, which could read any file of the worker"),
    Rule("P010", "a config provider that is not allowed", "config_providers: [default, NAME]"),
    Rule("P011", "a file that config providers may not read", "provider_paths: [default, PATH]"),
    Rule("P012", "a variable of the worker's environment", "environment: [NAME]"),
    Rule("P013", "a JDBC URL that is not allowed", "jdbc_urls: [default, 'jdbc:NAME:']"),
    Rule("P014", "a driver's parameter that runs code or reads files", "jdbc_parameters: [NAME]"),
    Rule("P015", "a lookup by JNDI, which can load code from anywhere", "jndi: true"),
    Rule("P016", "a script or command that the worker would run", "scripts: true"),
    Rule("P017", "the address where a cloud hands out its credentials"),
    Rule("P018", "a secret reference that is not allowed", "references: [REFERENCE]"),
    Rule("P019", "a key with characters that can't be seen"),
)
RULES = MappingProxyType({rule.id: rule for rule in _ALL})


def build_violation(rule: str, key: str, detail: str = "") -> Violation:
    """The violation of a rule. `detail` must hold nothing that may be a secret."""
    found = RULES[rule]
    shown = key if key.isprintable() else ascii(key)
    words = f"{found.words}: {detail}" if detail else found.words
    return Violation(rule, key, f"{shown} names {words}", found.hint)
