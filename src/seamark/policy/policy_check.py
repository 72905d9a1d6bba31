"""A config against a policy: which rules it breaks. Nothing is read, and nothing of a secret is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

from seamark.policy.policy import DEFAULT_POLICY, Policy
from seamark.policy.policy_jdbc import check_parameters, check_url, find_parameters, is_jdbc_url
from seamark.policy.policy_key import Concern, find_concerns
from seamark.policy.policy_login import check_jaas
from seamark.policy.policy_name import check_name, check_present_name
from seamark.policy.policy_pattern import decode, is_listed, is_listed_path
from seamark.policy.policy_reference import check_references, check_secret_reference, has_reference
from seamark.policy.policy_rules import Violation, build_violation

Check = Callable[[str, str, Policy], Iterator[Violation]]
"""What a key's value is held against: key, value and policy give the violations."""

_CLASS_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*")
# These evaluate a condition in a language of the caller's choice, Groovy by habit.
_SCRIPTING = re.compile(
    r"io\.debezium\.transforms\.filter|(?:io\.debezium\.transforms\.)?contentbasedrouter", re.IGNORECASE
)
_RUNNING = re.compile(r"camel(?:exec|ssh|docker|language|bean|groovy)", re.IGNORECASE)
_READING = re.compile(r"(?:^|\.)(?:filestream|camelfile|spooldir|filepulse)|\.spooldir\.|\.filepulse\.", re.IGNORECASE)
_SCRIPT_ADDRESS = re.compile(r"\s*(?:exec|ssh|docker|language|bean|class|groovy|script)\s*:", re.IGNORECASE)
_SCRIPT_LANGUAGE = re.compile(r"\s*(?:jsr223|groovy|graal|javascript|js\b)", re.IGNORECASE)
_FILE_URL = re.compile(r"^\s*(?:file|jar|netdoc)\s*:|(?:[\s,;=(\[:])(?:file|netdoc):(?=[/\\])", re.IGNORECASE)
_JNDI = re.compile(r"\bjndi\s*:|\b(?:ldaps?|rmi|iiop|iiopname|corbaname|corbaloc)\s*:(?://|[\w]*::)", re.IGNORECASE)
# Also as one number, which every resolver takes for an address.
_METADATA = re.compile(
    r"169\.254\.\d|metadata\.google\.internal|fd00:ec2::254|100\.100\.100\.200|2852039166|0xa9fea9fe|0xa9\.0xfe",
    re.IGNORECASE,
)
_LOOKS = re.compile("|".join(found.pattern for found in (_METADATA, _JNDI, _FILE_URL)), re.IGNORECASE)
# None of the rules for every value can be broken without one of these.
_SUSPECT = re.compile(r"[:=%$]|169\.254|metadata\.|100\.100|2852039166|0xa9", re.IGNORECASE)


def check_policy(
    config: Mapping[str, str], *, name: str, policy: Policy = DEFAULT_POLICY, is_new: bool = True
) -> tuple[Violation, ...]:
    """Every rule that a connector's name and config break.

    A connector that is there already keeps its name, unless Connect itself goes wrong under it.
    """
    named = check_name(name) if is_new else check_present_name(name)
    found = [*([named] if named else []), *_check_connector(config, policy)]
    for key, value in config.items():
        for check in _find_checks(key):
            found += check(key, value, policy)
        if _SUSPECT.search(value):
            found += _check_value(key, value, policy)
    return tuple(dict.fromkeys(found))


def _check_connector(config: Mapping[str, str], policy: Policy) -> Iterator[Violation]:
    """What the class alone says. A connector that reads files needs a policy that knows of files."""
    text = config.get("connector.class", "").strip()
    if _READING.search(text) and not policy.files:
        yield build_violation("P004", "connector.class", _show_class(text))
    if _RUNNING.search(text) and not policy.scripts:
        yield build_violation("P016", "connector.class", _show_class(text))


def _build_class_check(rule: str, pick: Callable[[Policy], tuple[str, ...]]) -> Check:
    """A check of every class that a value names. One that Connect would put in later can't be known, so it is not."""

    def check(key: str, value: str, policy: Policy) -> Iterator[Violation]:
        patterns = pick(policy)
        for text in filter(None, map(str.strip, value.split(","))):
            if has_reference(text) or not is_listed(text, patterns):
                yield build_violation(rule, key, _show_class(text))
            elif not policy.scripts and _SCRIPTING.fullmatch(text):
                yield build_violation("P016", key, _show_class(text))

    return check


def _build_check(rule: str, is_broken: Callable[[str, str, Policy], object]) -> Check:
    def check(key: str, value: str, policy: Policy) -> Iterator[Violation]:
        if is_broken(key, value, policy):
            yield build_violation(rule, key)

    return check


def _check_parameter(key: str, value: str, policy: Policy) -> Iterator[Violation]:
    del value
    return check_parameters(key, frozenset({key.rpartition(".")[2].lower()}), policy)


_CHECKS: Mapping[Concern, Check] = MappingProxyType(
    {
        Concern.CONNECTOR: _build_class_check("P002", lambda policy: policy.connector_classes),
        Concern.PLUGIN: _build_class_check("P003", lambda policy: policy.plugin_classes),
        Concern.CLIENT_CLASS: _build_class_check("P008", lambda policy: policy.client_classes),
        Concern.FILE: _build_check("P004", lambda _, value, policy: not is_listed_path(value, policy.files)),
        Concern.OVERRIDE: _build_check("P005", lambda key, _, policy: not is_listed(key, policy.client_overrides)),
        Concern.LOGIN: check_jaas,
        Concern.OAUTH: _build_check("P007", lambda _, value, policy: value and not is_listed(value, policy.oauth_urls)),
        Concern.PROVIDERS: _build_check("P009", lambda *_: True),
        Concern.PARAMETER: _check_parameter,
        Concern.JNDI: _build_check("P015", lambda _, __, policy: not policy.jndi),
        Concern.COMMAND: _build_check("P016", lambda _, __, policy: not policy.scripts),
        Concern.LANGUAGE: _build_check(
            "P016", lambda _, value, policy: not policy.scripts and bool(_SCRIPT_LANGUAGE.match(value))
        ),
        Concern.ADDRESS: _build_check(
            "P016", lambda _, value, policy: not policy.scripts and any(map(_SCRIPT_ADDRESS.match, decode(value)))
        ),
        Concern.UNSEEN: _build_check("P019", lambda *_: True),
    }
)
# Fleets repeat their keys; a large one has some thousand different ones.
_REMEMBERED = 65_536


@lru_cache(maxsize=_REMEMBERED)
def _find_checks(key: str) -> tuple[Check, ...]:
    concerns = find_concerns(key)
    return tuple(check for concern, check in _CHECKS.items() if concern in concerns)


def _check_value(key: str, value: str, policy: Policy) -> Iterator[Violation]:
    """The rules for every value."""
    if "${" in value:
        yield from check_references(key, value, policy)
    yield from check_secret_reference(key, value, policy)
    texts = decode(value)
    if any(_LOOKS.search(text) for text in texts):
        yield from _check_looks(key, texts, policy)
    if is_jdbc_url(value):
        yield from check_url(key, value, policy)
    if any("=" in text for text in texts):
        yield from check_parameters(key, find_parameters(value), policy)


def _check_looks(key: str, texts: tuple[str, ...], policy: Policy) -> Iterator[Violation]:
    """The rules for what can be told by its look alone."""
    if any(map(_METADATA.search, texts)):
        yield build_violation("P017", key)
    if not policy.jndi and any(map(_JNDI.search, texts)):
        yield build_violation("P015", key)
    if any(map(_FILE_URL.search, texts)) and not is_listed_path(_strip_scheme(texts[-1]), policy.files):
        yield build_violation("P004", key)


def _strip_scheme(text: str) -> str:
    return re.sub(r"^\s*file:(?://(?=/))?", "", text, flags=re.IGNORECASE).strip()


def _show_class(text: str) -> str:
    """A class as it may be shown; what is no name of a class may be anything."""
    return text if _CLASS_NAME.fullmatch(text) and len(text) <= 200 else ""
