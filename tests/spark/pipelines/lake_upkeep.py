"""How many files lake tables have when an application compacts and vacuums them for an hour, and whether queries fail.

    python -m tools.soak upkeep --tables 4 --rate 400 --minutes 70

One application lands a topic per table in Delta tables on S3, partitioned by date, every ten seconds, with
`compact: 10m` and `vacuum: 1h`. Meanwhile the tables are queried again and again: every query must succeed, without a
duplicate, and with at least as many rows as the one before. Every record must be a row once at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections import Counter

import pyarrow.fs as pafs
from deltalake import DeltaTable

from seamark.devstack.client import load_stack
from tests.spark.driver_stage import wait_for
from tests.spark.pipelines.lake_freshness import FreshnessStage
from tests.spark.pipelines.lake_soak import measure_pss

QUERY_SECONDS = 1.0
PAUSE_SECONDS = 5.0


class UpkeepStage(FreshnessStage):
    """The stage of the freshness, with tables that are kept in order and queried."""

    def __init__(self, stack, folder, *, compact, vacuum, **more):
        super().__init__(stack, folder, **more)
        self.maintain = {"compact": compact, "vacuum": vacuum}
        self.queries = Counter()
        self.failures = []
        self.rows = Counter()

    def build_pipeline(self, name):
        built = super().build_pipeline(name)
        columns = {**built["columns"], "made_on": {"type": "timestamp", "from": "kafka.timestamp"}}
        to = {**built["to"], "date": "made_on"}
        return {**built, "to": to, "columns": columns, "maintain": self.maintain}

    def open_table(self, name):
        place = self.lake.below(f"raw/{name}")
        return DeltaTable(place.table_url, storage_options=place.build_options())

    def query(self):
        """Query the tables in turn until the records end. Each version is opened, and read a little later."""
        while not self.stop.is_set():
            for name in self.names:
                if not self.has_commit(name):
                    continue
                try:
                    table = self.open_table(name)
                    # A query that takes long: compaction and vacuum happen between its plan and its last file.
                    self.stop.wait(QUERY_SECONDS)
                    ids = table.to_pyarrow_table(columns=["id"]).column("id").to_pylist()
                    assert len(ids) == len(set(ids)), f"{len(ids) - len(set(ids))} duplicates"
                    assert len(ids) >= self.rows[name], f"{len(ids)} rows after {self.rows[name]}"
                except Exception as error:  # noqa: BLE001 - whatever fails is what is measured
                    self.failures.append(f"{name}: {error!r}"[:500])
                else:
                    self.rows[name] = len(ids)
                self.queries[name] += 1
            self.stop.wait(PAUSE_SECONDS)

    def count_files(self, name):
        """Return the most live files of a date."""
        return max(Counter(uri.rpartition("/")[0] for uri in self.open_table(name).file_uris()).values(), default=0)

    def count_deleted(self):
        """Return how many data files exist beside those of the current versions."""
        files, extra = self.lake.open_files(), 0
        for name in self.names:
            found = files.get_file_info(pafs.FileSelector(f"{self.lake.path}/raw/{name}", recursive=True))
            extra += sum(one.path.endswith(".parquet") and "_delta_log" not in one.path for one in found)
            extra -= len(self.open_table(name).file_uris())
        return extra


def read_compactions(stage, name):
    """Return the version and the number of live files after each compaction of a table."""
    files, live, found = stage.lake.open_files(), set(), []
    log = f"{stage.lake.path}/raw/{name}/_delta_log"
    commits = sorted(one.path for one in files.get_file_info(pafs.FileSelector(log)) if one.path.endswith(".json"))
    most = 0
    for path in commits:
        with files.open_input_stream(path) as source:
            actions = [json.loads(line) for line in source.read().splitlines()]
        added = {one["add"]["path"] for one in actions if "add" in one}
        removed = {one["remove"]["path"] for one in actions if "remove" in one}
        live = (live | added) - removed
        most = max(most, len(live))
        if removed:
            found.append(len(live))
    return {"commits": len(commits), "most live files": most, "live files after compactions": found}


def run(stack, folder, *, minutes, say=print, **options):
    """Run it all, and return the figures."""
    stage = UpkeepStage(stack, folder, **options)
    stage.create_topics()
    try:
        with stage.open() as fleet:
            stage.apply(fleet, stage.names)
            stage.start()
            threads = [threading.Thread(target=stage.produce), threading.Thread(target=stage.query)]
            for thread in threads:
                thread.start()
            began = time.monotonic()
            while time.monotonic() < began + minutes * 60:
                stage.measure(60)
                say(
                    f"{(time.monotonic() - began) / 60:.0f} min: {sum(stage.queries.values())} queries, "
                    f"{len(stage.failures)} failed, files {[stage.count_files(name) for name in stage.names]}, "
                    f"{stage.count_deleted()} files of older versions, {measure_pss(stage.process.pid)} MB"
                )
            stage.stop.set()
            for thread in threads:
                thread.join()
            wait_for(stage.has_all, "all were rows", seconds=120, every=5)
            assert not stage.failures, stage.failures[:5]
            assert sum(stage.queries.values()) > 0
            return {
                "records": stage.produced,
                "queries": sum(stage.queries.values()),
                "failed": len(stage.failures),
                "files of older versions": stage.count_deleted(),
                "tables": [read_compactions(stage, name) for name in stage.names],
            }
    finally:
        stage.remove()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--rate", type=int, default=400)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--limit", type=int, default=600_000, help="limits.records of each pipeline")
    parser.add_argument("--compact", default="10m")
    parser.add_argument("--vacuum", default="1h")
    parser.add_argument("--minutes", type=float, default=70.0)
    options = vars(parser.parse_args())
    folder = tempfile.mkdtemp(prefix="lake-upkeep-")
    print(folder, flush=True)
    stack = load_stack(os.environ["SEAMARK_DEVSTACK"])
    print(json.dumps(run(stack, folder, say=lambda text: print(text, flush=True), **options)), flush=True)


if __name__ == "__main__":
    main()
