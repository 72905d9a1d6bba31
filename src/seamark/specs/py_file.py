"""A spec program: what it gives becomes definitions like those of a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seamark.core.files import Place
from seamark.specs.build import build_connector, check_name, check_state
from seamark.specs.definition import Contents, Definition, Maker
from seamark.specs.fill import Filler, escape_marks
from seamark.specs.layers import ConfigLeaf, Layer, Shared, fill_layers
from seamark.specs.nodes import Document, Scalar, build_spec_error
from seamark.specs.sandbox import run_program
from seamark.topics.spec import DesiredTopic


def read_py_file(path: Path, *, shared: Shared, environ: Mapping[str, str]) -> Contents:
    """Run the program, and take what it gave. Defaults and bases of its folder count."""
    document = Document(str(path), "", folder=str(path.parent.resolve()))
    definitions: list[Definition] = []
    topics: list[DesiredTopic] = []
    for given in run_program(path, environ=environ):
        place = _check(given, path)
        if given["kind"] == "topic":
            config = {key: value for key, value in given["config"].items() if value is not None}
            topics.append(DesiredTopic(given["name"], place, given["partitions"], given["replication"], config))
        else:
            definitions.append(_build(given, place, document, shared=shared, filler=Filler(environ)))
    return Contents(tuple(definitions), tuple(topics))


def _build(given: dict[str, Any], place: Place, document: Document, *, shared: Shared, filler: Filler) -> Definition:
    # A program fills its values itself: what it gives is what Connect gets.
    own: Layer = {
        key: ConfigLeaf(Scalar(escape_marks(value or ""), 0, 0, is_null=value is None), document)
        for key, value in given["config"].items()
    }
    base, cluster = given["base"], given["cluster"]
    if base is not None and base not in shared.bases:
        known = ", ".join(shared.bases) or "there are none"
        raise build_spec_error(place, f"no base is named {base}", hint=f"known bases: {known}")
    if cluster is None and shared.cluster is not None:
        cluster = filler.fill(shared.cluster.scalar, shared.cluster.document)
    inherited = {**shared.defaults, **shared.bases.get(base or "", {})}
    connector = build_connector(
        check_name(given["name"], place),
        fill_layers(inherited, own, filler=filler),
        place=place,
        cluster=cluster,
        state=check_state(given["state"] or "", place),
    )
    return Definition(connector, Maker.PY, document)


def _check(given: Any, path: Path) -> Place:
    """The place of a resource. Its shape is checked once more: the pipe is open to the program."""
    texts = ("base", "cluster", "state")
    numbers = ("partitions", "replication")
    good = (
        isinstance(given, dict)
        and isinstance(given.get("name"), str)
        and isinstance(given.get("line"), int)
        and isinstance(given.get("config"), dict)
        and all(value is None or isinstance(value, str) for value in given["config"].values())
        and (
            (given.get("kind") == "connector" and all(isinstance(given.get(key, 0), str | None) for key in texts))
            or (given.get("kind") == "topic" and all(isinstance(given.get(key, ""), int | None) for key in numbers))
        )
    )
    if not good:
        raise build_spec_error(Place(str(path)), "the program gave something that is no resource")
    return Place(str(path), given["line"])
