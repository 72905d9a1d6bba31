"""The policy of a context, and of each of its Connect clusters.

Everywhere else the nearest file wins. Here the farthest does: what an administrator wrote can't be loosened by a file
that comes with a repository, nor by a variable. So policy is read from files only, the system's first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seamark.context.layer import POLICY, KeyPath, Layer, Leaf, show_key
from seamark.context.schema import POLICY_KEYS, Kind
from seamark.context.search import PROJECT_FILE
from seamark.context.typed import build_invalid, read_bool
from seamark.context.value import Value
from seamark.model.policy import DEFAULT_WORD, Policy, build_policy

_CONSENT = "python"
# An entry that begins otherwise fits nothing, and somebody would wonder why.
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


def build_policies(root: KeyPath, clusters: Sequence[str], *, layers: Sequence[Layer]) -> PolicyPart:
    """The policies below the context at `root`. `layers` come strongest first, as for all other values."""
    trusted = list(reversed(layers))
    own = _choose([(*root, POLICY)], trusted)
    values = dict(own)
    found: dict[str, Policy] = {}
    for cluster in clusters:
        # Of one file the cluster's word counts; a file of less trust can't take back what the context's word was.
        chosen = _choose([(*root, "connect", cluster, POLICY), (*root, POLICY)], trusted)
        values |= chosen
        found[cluster] = _build(chosen)
    return PolicyPart(_build(own), found, tuple(values.values()))


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
    """Whether a file says a key. A program's consent can't come along with the program."""
    leaf = layer.values.get(path)
    if leaf is None:
        return False
    return path[-1] != _CONSENT or leaf.origin.path is None or leaf.origin.path.name != PROJECT_FILE


def _build_value(path: KeyPath, leaf: Leaf) -> Value:
    return Value(show_key(path), "\n".join(leaf.texts), leaf.origin, folder=leaf.folder)


def _build(chosen: Mapping[KeyPath, Value]) -> Policy:
    return build_policy({path[-1]: _read(path[-1], value) for path, value in chosen.items()})


def _read(key: str, value: Value) -> tuple[str, ...] | bool:
    if POLICY_KEYS[key] is Kind.BOOL:
        return read_bool(value)
    items = tuple(item.strip() for item in value.raw.split("\n") if item.strip())
    start = _STARTS.get(key, ())
    if start and not all(item == DEFAULT_WORD or item.startswith(start) for item in items):
        raise build_invalid(value, "has an entry that can never fit", hint=f"begin each with {' or '.join(start)}")
    return items
