"""Landings of topics in tables: what a run would do, the run, and how far it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.errors import ConfigurationError, NotFoundError
from seamark.fleet.landings.declared import Declared, read_declared
from seamark.fleet.landings.status import LandPlan, build_standings
from seamark.fleet.spark_session import SparkWish, Work, open_spark, require_spark
from seamark.pipelines.land_table import build_statements

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.database.landing import LandingDatabase
    from seamark.database.ledger import Entry
    from seamark.fleet.ports import BrokersPort
    from seamark.model.topic import TopicStatus
    from seamark.spark.land_job import OnBatch


class Landings:
    """The landings of a context, as spec files declare them."""

    def __init__(self, context: Context, *, kafka: Callable[[], BrokersPort]) -> None:
        self._context = context
        self._kafka = kafka

    def declared(
        self, paths: Sequence[Path], *, names: Sequence[str] = (), allow_python: bool = False
    ) -> tuple[Declared, ...]:
        """The landings of these files, or those of them that are named."""
        return read_declared(self._context, paths, names=names, allow_python=allow_python)

    def plan(self, declared: Declared) -> LandPlan:
        """What a run would do, and how far the landing is. Nothing is changed."""
        landing, database = declared.landing, open_database(declared)
        topic = self._read_topic(declared)
        spots = [(topic.name, one.id) for one in topic.partitions]
        bounds = self._kafka().read_bounds(spots).require_complete(what=f"the topic {topic.name}")
        ledger = database.read_if_any()
        landed = {number: entry.next_offset for (id_, number), entry in ledger.items() if id_ == topic.topic_id}
        return LandPlan(
            declared,
            topic.topic_id,
            build_standings({number: held for (_, number), held in bounds.items()}, landed),
            build_statements(landing, database.read_columns()),
            former=sum(one.topic == topic.name and one.topic_id != topic.topic_id for one in ledger.values()),
        )

    def run(
        self,
        plan: LandPlan,
        *,
        spark: SparkWish | None = None,
        is_endless: bool = True,
        on_batch: OnBatch | None = None,
        stop: threading.Event | None = None,
    ) -> tuple[Entry, ...]:
        """Make the table fit, and land. A landing with `every` goes on until `stop`, unless it is not to be endless.

        Raises:
            FencedError: another run of it has begun meanwhile.
        """
        plan.require_whole()
        require_spark()
        declared, landing = plan.declared, plan.declared.landing
        if plan.statements:
            open_database(declared).change_table(plan.statements)
        work = Work("landing", landing.name, f"seamark land run {landing.name}")
        with open_spark(spark or SparkWish(), work) as session:
            from seamark.fleet.copies.spark_ends import build_client, build_source  # noqa: PLC0415
            from seamark.spark.land_job import DEFAULT_RECORDS, LandEnds, run_landing  # noqa: PLC0415

            ends = LandEnds(build_source(self._context), url=declared.url, source_client=build_client(self._context))
            return run_landing(
                session,
                landing,
                ends,
                every_seconds=declared.every_seconds if is_endless else None,
                records=declared.records or DEFAULT_RECORDS,
                start=declared.start,
                on_batch=on_batch,
                stop=stop,
            )

    def _read_topic(self, declared: Declared) -> TopicStatus:
        name = declared.landing.topic
        reading = self._kafka().read_topics([name])
        for error in reading.failures.values():
            if isinstance(error, NotFoundError):
                error.hint = f"check from.topic at {declared.place}, or make it: seamark topics create {name}"
            raise error
        return reading.items[0]


def open_database(declared: Declared) -> LandingDatabase:
    """The database of a landing."""
    try:
        from seamark.spark.land_database import open_landing_database  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            "PostgreSQL's driver is not installed", cause=str(error), hint="pip install 'seamark[postgres]'"
        ) from error
    return open_landing_database(declared.landing, declared.url)
