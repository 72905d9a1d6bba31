"""Outages of database, lake and brokers: the same process continues, and nothing is lost or landed twice.

SEAMARK_OUTAGE_SECONDS says how long they last, by default 15.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from seamark.devstack.client import ask
from seamark.errors import UnreachableError
from seamark.pipelines.spark_job import LandEnds
from tests.spark.driver_stage import wait_for
from tests.spark.lake_stage import open_lake_stage
from tests.spark.land_stage import open_land_stage

# kafka-python drops sockets without closing them if brokers are down.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SECONDS = float(os.environ.get("SEAMARK_OUTAGE_SECONDS", "15"))
BEFORE, AFTER = 600, 900
WAIT_SECONDS = 300


class Running:
    """A landing that goes on in a thread."""

    def __init__(self, pool, spark, stage):
        self.stop, self.waits, self.batches = threading.Event(), [], []
        self.thread = pool.submit(
            stage.run,
            spark,
            every_seconds=0.5,
            stop=self.stop,
            on_wait=self.waits.append,
            on_batch=self.batches.append,
        )

    def await_rows(self, count, stage):
        def is_there():
            if self.thread.done():
                self.thread.result()
            return count_rows(stage) >= count

        wait_for(is_there, f"{count} rows were there", WAIT_SECONDS, 0.3)


def count_rows(stage):
    try:
        return len(read_numbers(stage))
    except Exception:  # noqa: BLE001 - it is away
        return -1


@pytest.fixture(params=["postgres", "s3"])
def stage(request, stack, kafka):
    """A landing in a table of the server that the parameter names."""
    if request.param == "postgres":
        with open_land_stage(stack, kafka, partitions=3) as made:
            made.server, made.query = request.param, "SELECT number FROM {table}"
            yield made
    else:
        with open_lake_stage(stack, kafka, partitions=3, kind="s3") as made:
            made.server, made.query = request.param, "number"
            yield made


def read_numbers(stage):
    return [number for (number,) in stage.read(stage.query)]


@pytest.mark.parametrize("what", ["store", "broker-1"])
def test_outage_is_waited_out_in_the_same_process(spark, stack, stage, what):
    server = stage.server if what == "store" else what
    stage.produce([{"number": number, "words": "a"} for number in range(BEFORE)])
    with ThreadPoolExecutor(1) as pool:
        running = Running(pool, spark, stage)
        try:
            running.await_rows(BEFORE, stage)
            more = [{"number": number, "words": "a"} for number in range(BEFORE, AFTER)]
            ask(Path(stack.folder), "kill", server)
            try:
                if what == "store":
                    # There is work that fails: an idle run would not notice.
                    stage.produce(more)
                time.sleep(SECONDS)
            finally:
                ask(Path(stack.folder), "restart", server)
            if what != "store":
                stage.produce(more)
            running.await_rows(AFTER, stage)
        finally:
            running.stop.set()
        running.thread.result(WAIT_SECONDS)
    assert Counter(read_numbers(stage)) == Counter(range(AFTER))
    if what == "store":
        assert running.waits, "nothing had to be waited for"
        assert running.waits[0].seconds == 1


def test_database_that_is_not_there_when_a_run_begins_ends_it(spark, stack, kafka):
    with open_land_stage(stack, kafka, partitions=1) as stage:
        stage.produce([{"number": 1, "words": "a"}])
        stage.ends = LandEnds(stage.ends.source, target="host=127.0.0.1 port=1 user=x dbname=x")
        waits = []
        with pytest.raises(UnreachableError):
            stage.run(spark, every_seconds=0.5, on_wait=waits.append)
        assert waits == []
