"""What should run, as files say it: connectors, topics and landings, each with the place it came from."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.connectors.spec import DesiredConnector
from seamark.pipelines.spec import DesiredLanding
from seamark.topics.spec import DesiredTopic


@dataclass(frozen=True, slots=True)
class Spec:
    """Everything that some files say should be.

    `id` tells this spec from all others, on every machine that has a copy of it: what a former apply of it made is
    known by that.
    """

    id: str
    connectors: tuple[DesiredConnector, ...] = ()
    topics: tuple[DesiredTopic, ...] = ()
    files: tuple[str, ...] = ()
    landings: tuple[DesiredLanding, ...] = ()
