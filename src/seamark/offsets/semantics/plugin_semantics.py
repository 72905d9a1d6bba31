"""The meaning of a connector's offsets, by the class that its workers know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.connect.connector import Connector
from seamark.connect.plugin_type import find_class
from seamark.offsets.semantics import Meaning, find_meaning

if TYPE_CHECKING:
    from seamark.connect.api import ConnectPort


def read_meaning(connector: Connector, client: ConnectPort) -> Meaning:
    """Connect takes a class by a part of its name too: `FileStreamSource`. Then the workers are asked what it is."""
    name = connector.plugin
    if "." not in name:
        name = find_class(client.read_plugins(), name)
    return find_meaning(name, connector.config)
