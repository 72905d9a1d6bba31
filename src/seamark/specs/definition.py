"""One connector of a spec with all that is needed to change it in its file."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from seamark.connectors.spec import DesiredConnector
from seamark.pipelines.spec import DesiredLanding
from seamark.specs.layers import Layer
from seamark.specs.nodes import Document, Table
from seamark.topics.spec import DesiredTopic


class Maker(StrEnum):
    """How a connector was written."""

    YAML = "yaml"
    EACH = "each"
    JSON = "json"
    PROPERTIES = "properties"
    PY = "py"


@dataclass(frozen=True, slots=True)
class Definition:
    """A connector, and where its parts stand.

    `entry` is the table that has its name and config; `own` are the config keys that stand there, `inherited` those it
    gets from elsewhere. Both are empty where the file can't be changed.
    """

    connector: DesiredConnector
    maker: Maker
    document: Document = field(repr=False)
    entry: Table | None = field(default=None, repr=False)
    own: Layer = field(default_factory=dict, repr=False)
    inherited: Layer = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Contents:
    """What one file defines."""

    definitions: tuple[Definition, ...] = ()
    topics: tuple[DesiredTopic, ...] = ()
    landings: tuple[DesiredLanding, ...] = ()
