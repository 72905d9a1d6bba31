"""Names of connectors: which ones Connect gets wrong, and which ones people and programs would."""

from __future__ import annotations

import re
import unicodedata

from seamark.policy.policy_rules import RULES, Violation

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


_CONNECT = "Connect takes it for another name, or can't be asked for it"


def _find_problem(name: str) -> str:
    problems = (
        (not name.strip(), "it is empty"),
        (len(name) > LONGEST_NAME, f"it has more than {LONGEST_NAME} characters"),
        (name != name.strip(), "it begins or ends with a blank, which Connect would cut off"),
        (is_misread_by_connect(name), _CONNECT),
        (name[:1] in _BAD_FIRST, "it begins like an option, a hidden file or a formula"),
        (name.endswith("."), "it ends with a dot"),
        (_WINDOWS.fullmatch(name), "Windows takes it for a device, so no file of that name could be checked out"),
    )
    return next((words for is_so, words in problems if is_so), "") or _find_spelling_problem(name)


def _find_spelling_problem(name: str) -> str:
    """Characters that can't be seen, that mean something elsewhere, or that pass for others."""
    kinds = {char: unicodedata.category(char) for char in set(name)}
    if any(kind[0] == "C" or kind in {"Zl", "Zp"} for kind in kinds.values()):
        return "it holds characters that can't be seen"
    if any(kind[0] not in "LNM" and char not in _MARKS for char, kind in kinds.items()):
        return "it holds a character that means something to a shell, a pattern, a URL or a page"
    if unicodedata.normalize("NFKC", name) != name:
        return "it holds characters that look like others"
    return "it mixes alphabets whose letters look alike" if len(_find_scripts(name)) > 1 else ""


def _find_scripts(name: str) -> set[str]:
    words = {unicodedata.name(char, "").partition(" ")[0] for char in name if char.isalpha()}
    return words.intersection(_SCRIPTS)
