"""Names of connectors: which ones Connect gets wrong, and which ones people and programs would."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import unquote

# A policy has some ten lists, a context some hundred clusters.
_COMPILED = 4096
# Drivers decode once, some twice; a third round is for those who hope that we don't.
_DECODINGS = 3
# Linux takes no longer one.
_LONGEST_PATH = 4096


@lru_cache(maxsize=_COMPILED)
def _compile(patterns: tuple[str, ...], *, star: str, flags: int) -> re.Pattern[str]:
    spelled = "|".join(f"(?:{_translate(pattern, star)})" for pattern in patterns)
    return re.compile(spelled or r"(?!)", re.DOTALL | flags)


def _translate(pattern: str, star: str) -> str:
    marks = {"**": ".*", "*": star, "?": star.rstrip("*") or "."}
    parts = re.split(r"(\*\*|\*|\?)", pattern)
    return "".join(marks.get(part, re.escape(part)) for part in parts)


def is_listed(text: str, patterns: tuple[str, ...]) -> bool:
    """Whether a text fits one of the patterns; `*` stands for anything. Capitals count, as they do in Java."""
    return _compile(patterns, star=".*", flags=0).fullmatch(text) is not None


def is_listed_path(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether an absolute path fits one of the patterns; `*` stops at a slash, `**` does not.

    A path with `..` in it fits none: it leads somewhere else than it says. Nor does one that no system takes.
    """
    parts = path.split("/")
    if parts[0] or ".." in parts or "\\" in path or "\0" in path or len(path) > _LONGEST_PATH:
        return False
    clean = "/" + "/".join(part for part in parts if part not in {"", "."})
    return _compile(patterns, star="[^/]*", flags=0).fullmatch(clean) is not None


def is_listed_host(host: str, patterns: tuple[str, ...]) -> bool:
    """Whether a host fits one of the patterns, whatever its capitals."""
    return _compile(patterns, star=".*", flags=re.IGNORECASE).fullmatch(host) is not None


def decode(text: str) -> tuple[str, ...]:
    """The text, and what becomes of it when percent signs are decoded, as drivers and servers on the way do."""
    found = [text]
    while "%" in found[-1] and len(found) <= _DECODINGS:
        plain = unquote(found[-1])
        if plain == found[-1]:
            break
        found.append(plain)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `words` says what is refused, `allow` which key of the context's `policy` lets it through."""

    id: str
    words: str
    allow: str = ""

    @property
    def hint(self) -> str:
        """Return the next step for a user who needs the setting."""
        if not self.allow:
            return "choose another value: no policy can allow this one"
        return f"allow it: {self.allow} in `policy` of the context (docs/reference/policy.md)"


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
    Rule("P007", "an address or file from which a login gets its token", "oauth_urls: [URL]"),
    Rule("P008", "a class that a Kafka client would load", "client_classes: [default, CLASS]"),
    Rule("P009", "a config provider of the connector's own, which could read any file of the worker"),
    Rule("P010", "a config provider that is not allowed", "config_providers: [default, NAME]"),
    Rule("P011", "a file that config providers may not read", "provider_paths: [default, PATH]"),
    Rule("P012", "a variable of the worker's environment", "environment: [NAME]"),
    Rule("P013", "a JDBC URL that is not allowed", "jdbc_urls: [default, 'jdbc:NAME:']"),
    Rule("P014", "a driver's parameter that runs code or reads files", "jdbc_parameters: [NAME]"),
    Rule("P015", "a lookup by JNDI, which can load code from anywhere", "jndi: true"),
    Rule("P016", "a script or command that the worker would run", "scripts: true"),
    Rule("P017", "the address of a cloud metadata service, which returns credentials"),
    Rule("P018", "a secret reference that is not allowed", "references: [REFERENCE]"),
    Rule("P019", "a key with invisible characters"),
)
RULES = MappingProxyType({rule.id: rule for rule in _ALL})


def build_violation(rule: str, key: str, detail: str = "") -> Violation:
    """The violation of a rule. `detail` must hold nothing that may be a secret."""
    found = RULES[rule]
    shown = key if key.isprintable() else ascii(key)
    words = f"{found.words}: {detail}" if detail else found.words
    return Violation(rule, key, f"{shown} names {words}", found.hint)


# A follower hands a request on to the leader without quoting these, and the leader acts on another connector: `a;b`
# becomes `a`, `%41` becomes `A`, and DELETE of `a/offsets` would forget the offsets of `a`.
MANGLED_BY_FOLLOWERS = frozenset(";%{}/")
# From 4.0 on Jetty takes no path with one of these, however it is quoted: such a connector could never be deleted.
_REFUSED_BY_JETTY = re.compile(r"[/%\\\x00-\x1f\x7f]")
# Kafka's own limit for a topic. Quoted, such a name has at most 2.3 KB; Jetty takes a request line of 8 KB.
LONGEST_NAME = 249

_PLAIN = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?")
# What may stand in a name besides letters and digits. The rest means something to a shell, a glob, a URL or a sheet.
_MARKS = frozenset(" ._-:@+=,()#~")
_BAD_FIRST = frozenset("-.=+@~#(")
_WINDOWS = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")


def is_mangled(name: str) -> bool:
    """Whether a follower would hand a request for this name on under another one."""
    return not MANGLED_BY_FOLLOWERS.isdisjoint(name)


def is_misread_by_connect(name: str) -> bool:
    """Whether Connect itself goes wrong under this name.

    The worker that starts a connector sends the tasks' configs to the leader over an unquoted path: a connector `a;b`
    overwrites the tasks of `a`, which then reads what `a;b` should have read. Seen on 4.3.1.
    """
    return is_mangled(name) or _REFUSED_BY_JETTY.search(name) is not None


def check_name(name: str) -> Violation | None:
    """What is wrong with the name of a new connector, or None."""
    if _PLAIN.fullmatch(name) and len(name) <= LONGEST_NAME and not _WINDOWS.fullmatch(name):
        return None
    return build_name_violation(problem) if (problem := _find_problem(name)) else None


def check_present_name(name: str) -> Violation | None:
    """What is wrong with the name of a connector that is there: only what Connect itself gets wrong."""
    return build_name_violation(_CONNECT) if is_misread_by_connect(name) else None


def build_name_violation(problem: str) -> Violation:
    """The violation of the rule on names."""
    rule = RULES["P001"]
    hint = "choose a name of letters, digits, dots, dashes and underscores"
    return Violation(rule.id, "name", f"the name is not safe to use: {problem}", hint)


_CONNECT = "Connect misreads it, or rejects requests for it"


def _find_problem(name: str) -> str:
    problems = (
        (not name.strip(), "it is empty"),
        (len(name) > LONGEST_NAME, f"it has more than {LONGEST_NAME} characters"),
        (name != name.strip(), "it starts or ends with a space, which Connect would remove"),
        (is_misread_by_connect(name), _CONNECT),
        (name[:1] in _BAD_FIRST, "it starts like an option, a hidden file or a formula"),
        (name.endswith("."), "it ends with a dot"),
        (_WINDOWS.fullmatch(name), "Windows reserves it for a device, so no file of that name could be checked out"),
    )
    return next((words for is_so, words in problems if is_so), "") or _find_spelling_problem(name)


def _find_spelling_problem(name: str) -> str:
    """Characters that can't be seen, that mean something elsewhere, or that pass for others."""
    kinds = {char: unicodedata.category(char) for char in set(name)}
    if any(kind[0] == "C" or kind in {"Zl", "Zp"} for kind in kinds.values()):
        return "it contains invisible characters"
    if any(kind[0] not in "LNM" and char not in _MARKS for char, kind in kinds.items()):
        return "it contains a character with a meaning in a shell, a pattern, a URL or a page"
    if unicodedata.normalize("NFKC", name) != name:
        return "it contains characters that look like others"
    return "it mixes alphabets whose letters look alike" if len(_find_scripts(name)) > 1 else ""


def _find_scripts(name: str) -> set[str]:
    words = {unicodedata.name(char, "").partition(" ")[0] for char in name if char.isalpha()}
    return words.intersection(_SCRIPTS)


# As in Kubernetes, so that the same keys and values can be used in both: no `=`, `,` or `!`, which selections use, no
# blank, and nothing that a shell or a terminal interprets.
LABEL_KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")
LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
# The journal has the labels of ten thousand connectors in one change, and a listing shows all labels of a connector.
MOST_LABELS = 20


def find_label_fault(labels: Mapping[str, str]) -> tuple[str, str]:
    """Return the key of the first invalid label and what is wrong with it; twice "" if all are valid.

    The text doesn't contain a value, which may be a secret that was written to the wrong place.
    """
    if len(labels) > MOST_LABELS:
        return next(iter(labels)), f"more than {MOST_LABELS} labels"
    for key, value in labels.items():
        if not LABEL_KEY.fullmatch(key):
            return key, "invalid key of a label: use 1 to 63 letters, digits, '.', '_', '/' and '-'"
        if not LABEL_VALUE.fullmatch(value):
            return key, f"invalid value of label {key}: use up to 63 letters, digits, '.', '_' and '-'"
    return "", ""
