"""References in configs: Connect's own `${provider:path:key}` and seamark's `secret://…`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seamark.policy.policy import Policy
from seamark.policy.policy_pattern import is_listed, is_listed_path
from seamark.policy.policy_rules import Violation, build_violation

SECRET_SCHEME = "secret://"  # noqa: S105 - the scheme of references, no secret
_ENVIRONMENT = frozenset({"env", "environment"})
_FILES = frozenset({"file", "dir", "directory"})
# Beside the secrets of connectors lie those of the worker and of the machine. These need to be named in full.
_OWN_SECRETS = (
    "/**/kubernetes.io/**",
    "/**/connect-*.properties",
    "/**/*worker*.properties",
    "/**/server*.properties",
    "/**/*broker*.properties",
    "/**/controller*.properties",
    "/**/*jaas*",
    "/**/kafka.properties",
    "/**/kafka-connect.properties",
)
_LONGEST_SHOWN = 200
REFERENCE_RULE = "P018"
_WORD = re.compile(r"[\w.-]{1,40}")
_PATH = re.compile(r"[\w./ -]{1,200}")


def has_reference(value: str) -> bool:
    """Whether Connect would put something else in some place of the value."""
    return "${" in value and any(find_references(value))


def find_references(value: str) -> Iterator[tuple[str, str, str]]:
    """Provider, path and key of each reference, as Kafka's ConfigTransformer finds them.

    Its pattern takes cubic time for a hostile value; this takes linear time.
    """
    start = value.find("${")
    while start >= 0 and (end := value.find("}", start)) >= 0:
        provider, colon, rest = value[start + 2 : end].partition(":")
        if colon:
            path, second, key = rest.partition(":")
            yield (provider, path, key) if second else (provider, "", path)
        start = value.find("${", end)


def check_references(key: str, value: str, policy: Policy) -> Iterator[Violation]:
    """Whether every provider, path and variable that a value refers to is allowed."""
    for provider, path, name in find_references(value):
        if not is_listed(provider, policy.config_providers):
            yield build_violation("P010", key, provider if _WORD.fullmatch(provider) else "")
        elif provider.lower() in _ENVIRONMENT:
            if path or not is_listed(name, policy.environment):
                yield build_violation("P012", key, name if _WORD.fullmatch(name) else "")
        elif _is_file(provider, path) and not is_allowed_path(path, policy):
            yield build_violation("P011", key, path if _PATH.fullmatch(path) else "")


def _is_file(provider: str, path: str) -> bool:
    """Whether a file is read. A worker may call its providers as it likes, so the look of the path counts too."""
    return provider.lower() in _FILES or path.startswith("/") or ".." in path


def is_allowed_path(path: str, policy: Policy) -> bool:
    """Whether config providers may read a file of the worker."""
    if path in policy.provider_paths:
        return is_listed_path(path, (path,))
    return is_listed_path(path, policy.provider_paths) and not is_listed_path(path, _OWN_SECRETS)


def check_secret_reference(key: str, value: str, policy: Policy) -> Iterator[Violation]:
    """Check whether the policy allows a reference that seamark itself resolves."""
    if value.startswith(SECRET_SCHEME) and not is_allowed_reference(value, policy):
        # A reference names a secret and isn't one, so the refusal can show it.
        yield build_violation(
            REFERENCE_RULE, key, value if value.isprintable() and len(value) <= _LONGEST_SHOWN else ""
        )


def is_allowed_reference(reference: str, policy: Policy) -> bool:
    """Return whether a policy lists a reference.

    `..` matches no pattern, because it leads out of the folder that the pattern names.
    """
    if reference in policy.references:
        return True
    is_plain = ".." not in re.split(r"[/#]", reference) and "\0" not in reference
    return is_plain and is_listed(reference, policy.references)
