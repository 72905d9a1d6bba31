"""A properties file: one connector, as a standalone worker takes it."""

from __future__ import annotations

from seamark.context.java_properties import MalformedEscapeError, parse_properties
from seamark.core.files import Place
from seamark.errors import SpecError
from seamark.specs.build import build_connector
from seamark.specs.definition import Contents, Definition, Maker
from seamark.specs.layers import ConfigLeaf, Layer, settle_reference
from seamark.specs.nodes import Document, Scalar, build_spec_error


def read_properties_file(document: Document, *, cluster: str | None) -> Contents:
    """The connector of the file. As for Java, the last one counts of a key that stands twice."""
    malformed: SpecError | None = None
    try:
        found = {entry.key: entry for entry in parse_properties(document.text)}
    except MalformedEscapeError as error:
        malformed = build_spec_error(
            Place(document.file, error.line, 1),
            "\\u must be followed by four hexadecimal digits",
            hint="a backslash itself is written \\\\",
        )
    if malformed is not None:
        raise malformed
    if "name" not in found or not found["name"].value:
        raise build_spec_error(
            Place(document.file, 1, 1),
            "this is no connector: it has no name",
            hint="add name=…; to leave the file out, begin its name with _",
        )
    # Lines stand in place of offsets: such a file is changed by whole lines.
    own: Layer = {
        key: ConfigLeaf(Scalar(entry.value, entry.line, entry.last_line), document) for key, entry in found.items()
    }
    connector = build_connector(
        found["name"].value,
        {key: settle_reference(entry.value, document.folder) for key, entry in found.items()},
        place=Place(document.file, found["name"].line, 1),
        cluster=cluster,
        state="",
    )
    return Contents((Definition(connector, Maker.PROPERTIES, document, own=own),))
