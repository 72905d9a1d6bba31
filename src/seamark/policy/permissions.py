"""Who may do what: permissions, and the roles of a context that grant them.

Roles guard against mistakes: seamark itself checks them, on the operator's machine. What a principal can do at all is
decided by the ACLs of the brokers and by the REST API's authorization.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from seamark.core.refs import CONNECTOR, Ref, parse_subject
from seamark.errors import InvalidSettingError
from seamark.policy.rules import find_label_fault

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a connection without a user, as Kafka names it."""
_ALL = ("*",)


class Permission(StrEnum):
    """What a role can allow."""

    READ = "read"
    # Pause, resume, stop and restart connectors; set log levels; run Spark jobs.
    OPERATE = "operate"
    CHANGE_OFFSETS = "change-offsets"
    CHANGE_CONFIG = "change-config"
    DELETE = "delete"
    # Create and alter topics, switch consumers and producers to another topic, set up the journal.
    ADMINISTER = "administer"


Labels = Mapping[str, str] | None
"""The labels of a connector, or None if they aren't known."""


@dataclass(frozen=True, slots=True)
class Role:
    """What some principals may do. `clusters` are Connect clusters and `connectors` their connectors, as globs.

    With `labels`, each a key and its value, the role covers only connectors that have all of them.
    """

    name: str
    principals: tuple[str, ...]
    allow: frozenset[Permission]
    clusters: tuple[str, ...] = _ALL
    connectors: tuple[str, ...] = _ALL
    labels: tuple[tuple[str, str], ...] = ()

    def allows(self, permission: Permission, principal: str, target: Ref | None, labels: Labels = None) -> bool:
        """Return whether a principal may do this to a resource with these labels; without a `target`, to any.

        Topics, groups and pipelines belong to no Connect cluster: only a role for all connectors covers them. A role
        with labels doesn't cover a connector whose labels are unknown (None), nor what isn't about connectors.
        """
        if principal not in self.principals or permission not in self.allow:
            return False
        if target is None:
            return permission is Permission.READ or not self.labels
        if target.kind != CONNECTOR:
            return "*" in self.clusters and "*" in self.connectors and not self.labels
        if self.labels and (labels is None or any(labels.get(key) != value for key, value in self.labels)):
            return False
        return _matches(target.cluster, self.clusters) and _matches(target.name, self.connectors)


@dataclass(frozen=True, slots=True)
class Access:
    """What the principal of this process may do: everything without roles, only reading where `read_only`."""

    principal: str
    roles: tuple[Role, ...] = ()
    read_only: bool = False

    @property
    def needs_labels(self) -> bool:
        """Return whether a role of the principal depends on labels."""
        return any(role.labels and self.principal in role.principals for role in self.roles)

    def find_denied(
        self,
        permissions: Iterable[Permission],
        targets: Collection[Ref | None],
        labels: Mapping[Ref | None, Sequence[Labels]] | None = None,
    ) -> tuple[str, ...]:
        """Return what is not allowed, in a few words each; nothing where all of it is.

        `labels` are those of the targets: the present ones and, if they change, the new ones. All must be allowed.
        """
        denied = []
        for permission in sorted(set(permissions)):
            if self.read_only and permission is not Permission.READ:
                denied.append(f"{permission}: the context is read-only")
                continue
            for target in targets if self.roles else ():
                for found in (labels or {}).get(target, (None,)):
                    if not self._allows(permission, target, found):
                        what = f" on {target}{self._describe_labels(found)}" if target else ""
                        denied.append(f"{permission}{what}: no role of {self.principal}")
                        break
        return tuple(denied)

    def find_gained(self, target: Ref, present: Labels, new: Labels) -> tuple[Permission, ...]:
        """Return what the principal may do to a connector with new labels, but not with the present ones."""
        return tuple(
            permission
            for permission in (Permission if self.roles else ())
            if self._allows(permission, target, new) and not self._allows(permission, target, present)
        )

    def _allows(self, permission: Permission, target: Ref | None, labels: Labels) -> bool:
        return any(role.allows(permission, self.principal, target, labels) for role in self.roles)

    def _describe_labels(self, labels: Labels) -> str:
        if not self.needs_labels:
            return ""
        if labels is None:
            return ", whose labels are unknown"
        return f" with labels {', '.join(f'{key}={labels[key]}' for key in sorted(labels))}" if labels else ""


def find_confirmation(subjects: Iterable[str], context: str) -> str:
    """Return the name that confirms a change: that of its one resource, else that of the context.

    With several resources the likeliest mistake is the wrong context.
    """
    found = set(subjects)
    return parse_subject(found.pop()).name if len(found) == 1 else context


def build_role(name: str, texts: Mapping[str, Sequence[str]]) -> Role:
    """Build a role from the lists of a context.

    Raises:
        InvalidSettingError: a permission isn't known, or a list is missing or empty.
    """
    known = {str(one) for one in Permission}
    if unknown := sorted(set(texts.get("allow", ())) - known):
        raise InvalidSettingError(
            f"unknown permission in role {name}: {', '.join(unknown)}",
            hint=f"use {', '.join(sorted(known))}",
            context={"setting": f"roles.{name}.allow"},
        )
    if missing := [key for key in ("principals", "allow") if not texts.get(key)]:
        raise InvalidSettingError(
            f"role {name} has no {' and no '.join(missing)}",
            hint=f"add {missing[0]} to roles.{name}",
            context={"setting": f"roles.{name}.{missing[0]}"},
        )
    # An empty list reads as "none" and would have meant "all".
    if empty := [key for key in ("clusters", "connectors") if key in texts and not any(texts[key])]:
        raise InvalidSettingError(
            f"role {name}: {empty[0]} is empty",
            hint=f"list {empty[0]}, or remove the key to allow all",
            context={"setting": f"roles.{name}.{empty[0]}"},
        )
    labels = tuple((key, value) for key, _, value in (text.partition("=") for text in texts.get("labels", ())))
    if fault := find_label_fault(dict(labels))[1]:
        raise InvalidSettingError(
            f"role {name}: {fault}",
            hint="write the labels as spec files have them",
            context={"setting": f"roles.{name}.labels"},
        )
    return Role(
        name,
        tuple(texts["principals"]),
        frozenset(Permission(one) for one in texts["allow"]),
        tuple(texts.get("clusters", _ALL)),
        tuple(texts.get("connectors", _ALL)),
        labels,
    )


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One operation on one thing: `WRITE` on the `topic` or the `group` of that name."""

    kind: str
    name: str
    operation: str

    @property
    def words(self) -> str:
        """As people say it: `WRITE on topic connect-offsets`."""
        return f"{self.operation} on {self.kind} {self.name}"
