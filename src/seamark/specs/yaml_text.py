"""YAML files. What almost every file is made of is read by code of our own, the rest by ruamel.

ruamel's parser takes 50 to 150 µs for each key: half a minute for a fleet of ten thousand connectors. The plain part of
the grammar takes a fiftieth of that. Both give the same tree, which a test tries with texts of every kind.
"""

from __future__ import annotations

from seamark.specs.nodes import Document, Node
from seamark.specs.yaml_simple import parse_simple


def parse_yaml(document: Document) -> Node | None:
    """The only document of the text, or None where there is none."""
    simple = parse_simple(document.text)
    if simple is not None:
        return simple
    from seamark.specs.yaml_events import parse_events  # noqa: PLC0415

    return parse_events(document)
