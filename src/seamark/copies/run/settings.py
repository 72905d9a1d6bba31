"""The Spark options of both ends of a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.spark.ends import _KAFKA, build_client, build_source

if TYPE_CHECKING:
    from seamark.copies.plan.place import CopyRoute
    from seamark.copies.run.copy_job import CopyEnds


def build_ends(route: CopyRoute, *, control_topic: str) -> CopyEnds:
    """Both ends of a route. It holds secrets: Spark masks options of these names, see `session`."""
    from seamark.copies.run.copy_job import CopyEnds  # noqa: PLC0415

    return CopyEnds(
        source=build_source(route.source.context),
        target={f"{_KAFKA}{key}": value for key, value in build_client(route.target.context).items()},
        control_topic=control_topic,
        source_client=build_client(route.source.context),
    )
