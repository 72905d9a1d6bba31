"""The progress of a landing's query: what Spark knows of each batch, and what was seen of its records on the way."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQueryListener

from seamark.pipelines.land_progress import OBSERVED, LandProgress, build_progress

_LOGGER = logging.getLogger("seamark.spark")
# Spark tells of things some time after they were. The last batch is waited for, not for ever.
_LAST_SECONDS = 5.0

OnProgress = Callable[[LandProgress], None]


def observe_records(records: DataFrame) -> DataFrame:
    """The records of a topic, counted as they pass."""
    newest = sf.max(sf.unix_millis("timestamp"))
    return records.observe(OBSERVED, sf.count(sf.lit(1)).alias("records"), newest.alias("newest"))


@contextmanager
def listening(spark: SparkSession, name: str, tell: OnProgress | None) -> Iterator[None]:
    """Have the progress of the query of that name told, until its last batch."""
    if tell is None:
        yield
        return
    listener = _Listener(name, tell)
    spark.streams.addListener(listener)
    try:
        yield
    finally:
        listener.wait()
        spark.streams.removeListener(listener)


class _Listener(StreamingQueryListener):
    """Hears of all queries of the session, and passes one on. What it raises would end nothing, and be lost."""

    def __init__(self, name: str, tell: OnProgress) -> None:
        self._name = name
        self._tell = tell
        self._run: Any = None
        self._ended = threading.Event()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's word
        if event.name == self._name:
            self._run = event.runId

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        if event.progress.name != self._name:
            return
        try:
            self._tell(build_progress(json.loads(event.progress.json)))
        except Exception:
            _LOGGER.exception("the progress of %s can't be told", self._name)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        if event.runId == self._run:
            self._ended.set()

    def wait(self) -> None:
        """Wait until everything is told, where there is anything to be told."""
        if self._run is not None:
            self._ended.wait(_LAST_SECONDS)
