"""The roles of a context: which principals may do what.

They come whole from the most trusted file that declares any, so a repository can't add a role of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from seamark.context.layer import ROLES, KeyPath, Layer, show_key
from seamark.context.value import Value

Role = Mapping[str, tuple[str, ...]]
"""The lists of one role by their key: principals, allow, clusters, connectors."""


@dataclass(frozen=True, slots=True)
class RolesPart:
    """The roles with the values that they were built from."""

    roles: Mapping[str, Role] = field(default_factory=dict)
    values: tuple[Value, ...] = ()


def build_roles(root: KeyPath, *, layers: Sequence[Layer]) -> RolesPart:
    """Return the roles below the context at `root`. Variables and flags can't set them."""
    path = (*root, ROLES)
    declaring = [layer for layer in layers if path in layer.sections]
    if not declaring:
        return RolesPart()
    chosen = max(declaring, key=lambda layer: layer.sections[path].trust)
    roles: dict[str, dict[str, tuple[str, ...]]] = {
        found[3]: {} for found in chosen.sections if found[:3] == path and len(found) == 4
    }
    shown: list[Value] = []
    for found, leaf in chosen.values.items():
        if found[:3] == path:
            roles[found[3]][found[4]] = leaf.texts
            shown.append(Value(show_key(found), "\n".join(leaf.texts), leaf.origin, folder=leaf.folder))
    return RolesPart(roles, tuple(shown))
