"""The policy of a context, and of each of its Connect clusters.

For other settings the nearest file wins. For a policy the most trusted file does: what an administrator wrote can't be
loosened by a file that comes with a repository, nor by a variable. So policy is read from files only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from seamark.context.layer import POLICY, ROLES, KeyPath, Layer, Leaf, Origin, Trust, show_key
from seamark.context.schema import POLICY_KEYS, SettingKind
from seamark.context.value import Value, build_invalid, read_bool
from seamark.errors import UntrustedSettingError
from seamark.policy.policy import DEFAULT_POLICY, DEFAULT_WORD, Policy, build_policy
from seamark.policy.rules import is_listed

# Consents to run programs and to read secrets of this machine can't come with the specs that use them.
_CONSENTS = frozenset({"python", "references"})
# An entry that begins otherwise never matches, which would be hard to notice.
_STARTS = {
    "files": ("/", "**"),
    "provider_paths": ("/", "**"),
    "jdbc_urls": ("jdbc:",),
    "references": ("secret://", "*"),
    "client_overrides": ("producer.override.", "consumer.override.", "admin.override.", "*"),
}


@dataclass(frozen=True, slots=True)
class PolicyPart:
    """The policies with the values they were made of. `clusters` has those of the clusters that differ."""

    policy: Policy
    clusters: Mapping[str, Policy]
    values: tuple[Value, ...]


def build_policies(root: KeyPath, clusters: Mapping[str, Origin], *, layers: Sequence[Layer]) -> PolicyPart:
    """Return the policies below the context at `root`.

    `clusters` holds where each Connect cluster's `urls` come from. `layers` come strongest first.

    Raises:
        UntrustedSettingError: a project file loosens the policy of a context that a more trusted place defines.
    """
    trusted = list(reversed(layers))
    own = _choose([(*root, POLICY)], trusted)
    values = dict(own)
    found: dict[str, Policy] = {}
    for cluster, urls in clusters.items():
        # Within one file the cluster's policy counts; a less trusted file can't replace the context's.
        chosen = _choose([(*root, "connect", cluster, POLICY), (*root, POLICY)], trusted)
        values |= chosen
        found[cluster] = _build({path: value for path, value in chosen.items() if not _leads_astray(path, value, urls)})
    owner = max((layer.sections[root] for layer in layers if root in layer.sections), key=lambda origin: origin.trust)
    for path, value in values.items():
        if value.origin.trust is Trust.PROJECT and value.origin.trust < owner.trust:
            _check_tightens(path[-1], value, owner)
    return PolicyPart(_build(own), found, tuple(values.values()))


def _leads_astray(path: KeyPath, value: Value, urls: Origin) -> bool:
    """Return whether secrets that a trusted file allows would go to an address of a less trusted one."""
    return path[-1] == "references" and urls.trust < value.origin.trust


def _check_tightens(key: str, value: Value, owner: Origin) -> None:
    """Refuse a policy of a repository that allows more than the default, for a context of a more trusted place."""
    given = _read(key, value)
    default = getattr(DEFAULT_POLICY, key)
    if isinstance(given, bool):
        is_tight = default or not given
    else:
        # A pattern that is itself matched by a default pattern matches nothing that the default doesn't.
        is_tight = all(item == DEFAULT_WORD or item in default or _is_covered(item, default) for item in given)
    if not is_tight:
        raise UntrustedSettingError(
            f"{value.key} allows more than the default, and the context is defined in a more trusted place",
            cause=f"{value.origin} ({value.origin.trust.words}) sets {value.key}; "
            f"{owner} ({owner.trust.words}) defines the context",
            hint=f"move {value.key} to {owner.place if owner.is_file else 'your contexts file'}",
            context={"setting": value.key, "origin": str(value.origin)},
        )


def _is_covered(item: str, default: tuple[str, ...]) -> bool:
    if item.startswith("jdbc:"):
        # The default names drivers; what follows the driver narrows it to hosts.
        return item.startswith(default)
    # Paths have two kinds of star, so one pattern can match the text of another and still be wider.
    return not item.startswith("/") and is_listed(item, default)


def _choose(paths: Sequence[KeyPath], trusted: Sequence[Layer]) -> dict[KeyPath, Value]:
    chosen: dict[KeyPath, Value] = {}
    for key in POLICY_KEYS:
        spots = ((layer, (*path, key)) for layer in trusted for path in paths)
        spot = next(((layer, path) for layer, path in spots if _is_said(layer, path)), None)
        if spot is not None:
            layer, path = spot
            chosen[path] = _build_value(path, layer.values[path])
    return chosen


def _is_said(layer: Layer, path: KeyPath) -> bool:
    """Return whether a layer sets a key. A project file gives no consents."""
    leaf = layer.values.get(path)
    return leaf is not None and (path[-1] not in _CONSENTS or leaf.origin.trust > Trust.PROJECT)


def _build_value(path: KeyPath, leaf: Leaf) -> Value:
    return Value(show_key(path), "\n".join(leaf.texts), leaf.origin, folder=leaf.folder)


def _build(chosen: Mapping[KeyPath, Value]) -> Policy:
    return build_policy({path[-1]: _read(path[-1], value) for path, value in chosen.items()})


def _read(key: str, value: Value) -> tuple[str, ...] | bool:
    if POLICY_KEYS[key] is SettingKind.BOOL:
        return read_bool(value)
    items = tuple(item.strip() for item in value.raw.split("\n") if item.strip())
    start = _STARTS.get(key, ())
    if start and not all(item == DEFAULT_WORD or item.startswith(start) for item in items):
        raise build_invalid(value, "has an entry that can never match", hint=f"start each with {' or '.join(start)}")
    return items


# They come whole from the most trusted file that declares any, so a repository can't add a role of its own.

Role = Mapping[str, tuple[str, ...]]
"""The lists of one role by their key: principals, allow, clusters, connectors, and labels as KEY=VALUE."""


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
