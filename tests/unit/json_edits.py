"""Edits of a JSON value at every place in it, and random ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from hypothesis import strategies as st

STATES = ("RUNNING", "PAUSED", "STOPPED")


class Edit(NamedTuple):
    """A whole value with one place edited: where, how, and what it is then."""

    path: str
    what: str
    value: Any


def edit_everywhere(value: Any, path: str = "") -> Iterator[Edit]:
    """Yield the value with each place changed, of another type, deleted, duplicated and reordered."""
    if isinstance(value, dict):
        yield from _edit_object(value, path)
    elif isinstance(value, list):
        yield from _edit_array(value, path)
    else:
        yield from (Edit(path, what, other) for what, other in _edit_scalar(value))


def _edit_object(value: dict[str, Any], path: str) -> Iterator[Edit]:
    yield Edit(path, "another type", list(value.items()))
    yield Edit(path, "added", value | {"extra": "1"})
    for key, inner in value.items():
        yield Edit(f"{path}.{key}", "deleted", {name: found for name, found in value.items() if name != key})
        for edit in edit_everywhere(inner, f"{path}.{key}"):
            yield edit._replace(value=value | {key: edit.value})


def _edit_array(value: list[Any], path: str) -> Iterator[Edit]:
    yield Edit(path, "another type", {str(place): one for place, one in enumerate(value)})
    if value:
        yield Edit(path, "emptied", [])
    if value != value[::-1]:
        yield Edit(path, "reordered", value[::-1])
    for place, inner in enumerate(value):
        where = f"{path}[{place}]"
        yield Edit(where, "deleted", value[:place] + value[place + 1 :])
        yield Edit(where, "duplicated", [*value[: place + 1], inner, *value[place + 1 :]])
        for edit in edit_everywhere(inner, where):
            yield edit._replace(value=[*value[:place], edit.value, *value[place + 1 :]])


def _edit_scalar(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool):
        yield "changed", not value
    elif isinstance(value, str):
        yield "changed", f"{value}x"
        yield from [("emptied", "")] if value else []
        yield from [("another state", one) for one in STATES if value in ("", *STATES) and one != value]
    elif isinstance(value, int | float):
        yield "changed", value + 1
        yield "negated", -value - 1
    for kind, other in ((str, "7"), (int, 7), (float, 0.5), (bool, True), (type(None), None), (list, []), (dict, {})):
        if type(value) is not kind:
            yield "another type", other


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["", *STATES, "rest", "topic", "group", "offsets", "connect-configs", "secret://env/HOME"]),
)
VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)


def list_places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a value, its own first."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from list_places(inner, (*path, key))


def read_place(value: Any, path: tuple[Any, ...]) -> Any:
    """Return the value at a path."""
    for key in path:
        value = value[key]
    return value


def put_place(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return a copy with another value at a path."""
    if not path:
        return new
    if isinstance(value, dict):
        return value | {path[0]: put_place(value[path[0]], path[1:], new)}
    return [put_place(inner, path[1:], new) if place == path[0] else inner for place, inner in enumerate(value)]


@st.composite
def random_edits(draw: st.DrawFn, value: Any) -> Any:
    """Draw a value with one to three random edits: another value, one from another place, deleted, two swapped."""
    for _ in range(draw(st.integers(1, 3))):
        places = list(list_places(value))
        path = draw(st.sampled_from(places))
        how = draw(st.sampled_from(["value", "copied", "deleted", "added", "shuffled"]))
        found = read_place(value, path)
        if how == "value":
            value = put_place(value, path, draw(VALUES))
        elif how == "copied":
            value = put_place(value, path, read_place(value, draw(st.sampled_from(places))))
        elif how == "shuffled" and isinstance(found, list):
            value = put_place(value, path, draw(st.permutations(found)))
        elif how == "added" and isinstance(found, dict):
            value = put_place(value, path, found | {draw(st.text(max_size=6)): draw(VALUES)})
        elif how == "added" and isinstance(found, list):
            value = put_place(value, path, [*found, draw(st.sampled_from(found) if found else VALUES)])
        elif isinstance(found, dict) and found:
            key = draw(st.sampled_from(sorted(found)))
            value = put_place(value, path, {name: one for name, one in found.items() if name != key})
        elif isinstance(found, list) and found:
            at = draw(st.integers(0, len(found) - 1))
            value = put_place(value, path, found[:at] + found[at + 1 :])
    return value
