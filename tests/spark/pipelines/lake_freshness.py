"""How old the newest rows of many lake tables are, with and without a large backlog of one of them.

    python -m tools.soak freshness --tables 50 --rate 2000 --seconds 180 --backlog 10000000

One application lands a topic per table in Delta tables on S3. Records are produced at a steady rate over all topics.
The freshness of a row is the time from its record's timestamp to the commit that made it readable, as Delta's log has
it. Then a pipeline whose topic is far behind is applied to the running application, and the other tables are measured
again. Every record must be a row once at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

import seamark
from seamark.devstack.client import load_stack
from tests.spark.driver_stage import wait_for
from tests.spark.lake_stage import build_lake
from tests.spark.pipelines.lake_soak import measure_pss

ROOT = Path(__file__).parents[3]
PARTITIONS = 2
WARM_SECONDS = 60.0


class FreshnessStage:
    """The topics, the application that lands them, and the records that are produced meanwhile."""

    def __init__(self, stack, folder, *, tables, rate, every, limit):
        self.stack, self.folder, self.rate, self.every, self.limit = stack, Path(folder), rate, every, limit
        self.run = f"f{uuid4().hex[:5]}"
        self.names = [f"{self.run}-{number:02d}" for number in range(tables)]
        self.late = f"{self.run}-late"
        self.lake = build_lake(stack, "s3")
        self.stop = threading.Event()
        self.produced = 0
        self.process = None

    # --- as code

    def open(self):
        context = {
            "journal": "file",
            "journal_folder": str(self.folder / "journal"),
            "insecure": True,
            "kafka": {"bootstrap.servers": self.stack.kafka.bootstrap_servers},
            "lakes": {
                "lake": {
                    "url": self.lake.url,
                    "endpoint": self.lake.endpoint,
                    "access_key": "secret://env/LAKE_ACCESS",
                    "secret_key": "secret://env/LAKE_SECRET",
                }
            },
        }
        config = self.folder / "seamark.yaml"
        config.write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
        self.environ = {
            **{key: value for key, value in os.environ.items() if not key.startswith("SEAMARK_")},
            "LAKE_ACCESS": self.stack.s3.access_key,
            "LAKE_SECRET": self.stack.s3.secret_key,
            "SEAMARK_CONFIG": str(config),
            "SEAMARK_SPARK_JARS": self.stack.spark.jars,
            "SEAMARK_SPARK_MASTER": "local[2]",
            "XDG_STATE_HOME": str(self.folder / "state"),
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
        }
        os.environ.update(
            {key: value for key, value in self.environ.items() if key.startswith(("LAKE_", "SEAMARK_", "XDG_"))}
        )
        return seamark.open()

    def build_pipeline(self, name):
        return {
            "kind": "land",
            "from": {"topic": name},
            "to": {"lake": "lake", "table": f"raw/{name}"},
            "columns": {"id": "bigint", "words": "string", "amount": "double"},
            "every": f"{self.every}s",
            "limits": {"records": self.limit},
            "application": self.run,
        }

    def apply(self, fleet, names):
        pipelines = {name: self.build_pipeline(name) for name in names}
        file = self.folder / "lake.yaml"
        file.write_text(json.dumps({"pipelines": pipelines}))
        done = fleet.apply(fleet.plan(file))
        assert done.is_done, done.failures

    def create_topics(self):
        admin = AdminClient({"bootstrap.servers": self.stack.kafka.bootstrap_servers})
        topics = [NewTopic(name, num_partitions=PARTITIONS, replication_factor=1) for name in (*self.names, self.late)]
        for created in admin.create_topics(topics).values():
            created.result(60)

    def delete_topics(self):
        admin = AdminClient({"bootstrap.servers": self.stack.kafka.bootstrap_servers})
        for deleted in admin.delete_topics([*self.names, self.late]).values():
            deleted.result(60)

    def start(self):
        command = [sys.executable, "-m", "seamark.cli", "pipelines", "run", "--application", self.run, "--yes"]
        with (self.folder / "application.log").open("w") as log:
            self.process = subprocess.Popen(
                command, env=self.environ, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )

    # --- records

    def fill_late(self, records):
        producer = Producer({"bootstrap.servers": self.stack.kafka.bootstrap_servers, "linger.ms": 50})
        for number in range(records):
            value = b'{"id":%d,"words":"a record of the table that is far behind","amount":%d.5}' % (
                number,
                number % 97,
            )
            while True:
                try:
                    producer.produce(self.late, value, partition=number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % 1000 == 0:
                producer.poll(0)
        assert producer.flush(120) == 0

    def produce(self):
        """Produce at a steady rate, evenly over the topics."""
        producer = Producer({"bootstrap.servers": self.stack.kafka.bootstrap_servers, "linger.ms": 20})
        began = time.monotonic()
        while not self.stop.is_set():
            due = int((time.monotonic() - began) * self.rate)
            while self.produced < due:
                number = self.produced
                value = b'{"id":%d,"words":"w%d","amount":%d.25}' % (number, number, number % 1000)
                topic = self.names[number % len(self.names)]
                producer.produce(topic, value, partition=number // len(self.names) % PARTITIONS)
                self.produced += 1
            producer.poll(0)
            self.stop.wait(0.05)
        assert producer.flush(60) == 0

    # --- what is measured

    def read_freshness(self, names, *, begin, end):
        """Return the sorted freshness in seconds of the rows of records between two times (epoch seconds)."""
        files, found = self.lake.open_files(), []
        for name in names:
            place = f"{self.lake.path}/raw/{name}"
            for info in files.get_file_info(pafs.FileSelector(f"{place}/_delta_log")):
                if not info.path.endswith(".json"):
                    continue
                with files.open_input_stream(info.path) as source:
                    actions = [json.loads(line) for line in source.read().splitlines()]
                committed = next(one["commitInfo"]["timestamp"] for one in actions if "commitInfo" in one)
                for one in actions:
                    # A compacted file has rows of earlier commits.
                    if "add" in one and not any("remove" in other for other in actions):
                        found += self.read_ages(files, f"{place}/{one['add']['path']}", committed, begin, end)
        return sorted(found)

    def read_ages(self, files, path, committed, begin, end):
        times = pq.read_table(path, columns=["_timestamp"], filesystem=files).column(0)
        millis = pc.cast(pc.cast(times, pa.timestamp("ms", "UTC"), safe=False), "int64").to_pylist()
        return [(committed - one) / 1000 for one in millis if begin * 1000 <= one < end * 1000]

    def measure(self, seconds, end=None):
        begin = time.time()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not (end is not None and end()):
            assert self.process.poll() is None, (self.folder / "application.log").read_text()[-2000:]
            time.sleep(1)
        return begin, time.time()

    def has_commit(self, name):
        log = f"{self.lake.path}/raw/{name}/_delta_log"
        found = self.lake.open_files().get_file_info(pafs.FileSelector(log, allow_not_found=True))
        # The first commit creates the table.
        return len([one for one in found if one.path.endswith(".json")]) > 1

    def count_rows(self, name):
        place = self.lake.below(f"raw/{name}")
        found = DeltaTable(place.table_url, storage_options=place.build_options()).to_pyarrow_table(columns=["id"])
        ids = found.column("id").to_pylist()
        assert len(ids) == len(set(ids)), f"{name}: {len(ids) - len(set(ids))} duplicates"
        return len(ids)

    def has_all(self):
        return sum(map(self.count_rows, self.names)) == self.produced

    def remove(self):
        self.stop.set()
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)
        self.delete_topics()


def summarize(ages):
    """Return the median, the 99th percentile and the maximum of sorted ages."""
    assert ages
    return {
        "rows": len(ages),
        "p50": round(ages[len(ages) // 2], 2),
        "p99": round(ages[len(ages) * 99 // 100], 2),
        "max": round(ages[-1], 2),
    }


def run(stack, folder, *, seconds, backlog, say=print, **options):
    """Run it all, and return the figures."""
    stage, figures = FreshnessStage(stack, folder, **options), {}
    stage.create_topics()
    try:
        if backlog:
            stage.fill_late(backlog)
            say(f"{backlog:,} records wait in {stage.late}")
        with stage.open() as fleet:
            stage.apply(fleet, stage.names)
            stage.start()
            producing = threading.Thread(target=stage.produce)
            producing.start()
            # The start of Spark, and the first commits.
            stage.measure(WARM_SECONDS)
            spans = {"alone": stage.measure(seconds)}
            figures["memory in MB"] = measure_pss(stage.process.pid)
            if backlog:
                stage.apply(fleet, [*stage.names, stage.late])
                say("the late pipeline is applied")
                begun = time.monotonic()
                wait_for(lambda: stage.has_commit(stage.late), "the late pipeline had a commit", seconds=120)
                figures["seconds to reach the application"] = round(time.monotonic() - begun, 1)
                spans["beside a backlog"] = stage.measure(seconds)
                figures["rows of the backlog"] = stage.count_rows(stage.late)
                figures["memory in MB beside a backlog"] = measure_pss(stage.process.pid)
            stage.stop.set()
            producing.join()
            wait_for(
                lambda: sum(map(stage.count_rows, stage.names)) == stage.produced, "all were rows", seconds=120, every=5
            )
            for name, (begin, end) in spans.items():
                figures[name] = summarize(stage.read_freshness(stage.names, begin=begin, end=end - 2 * stage.every))
            return figures
    finally:
        stage.remove()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=50)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--limit", type=int, default=600_000, help="limits.records of each pipeline")
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--backlog", type=int, default=10_000_000)
    options = vars(parser.parse_args())
    folder = tempfile.mkdtemp(prefix="lake-freshness-")
    print(folder, flush=True)
    stack = load_stack(os.environ["SEAMARK_DEVSTACK"])
    print(json.dumps(run(stack, folder, say=lambda text: print(text, flush=True), **options)), flush=True)


if __name__ == "__main__":
    main()
