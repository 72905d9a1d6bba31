"""A driver of its own: runs a landing on a standalone cluster, or goes on with it.

    python -m tests.spark.pipelines.land_driver JOB.json

The job says where everything is (`tests.spark.pipelines.soak_stages`), and has passwords: its file is for its owner.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from seamark.pipelines.spark_job import LandEnds, run_landing
from seamark.spark import open_session
from seamark.tables.definition import Landing
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.table import LakeTable
from tests.spark.copy_driver import build_conf


def main(path):
    job = json.loads(Path(path).read_text())
    spark = open_session(job["master"], app="land", jars=job["jars"], conf={**build_conf(), **job["conf"]})
    spark.sparkContext.setLogLevel("ERROR")
    ends = LandEnds({"kafka.bootstrap.servers": job["servers"]}, target=open_lake(job) or job["url"])
    run_landing(spark, Landing.from_dict(job["landing"]), ends, records=job["records"])
    spark.stop()


def open_lake(job):
    """The lake, with time for a fault before each commit, while a file says so."""
    if "lake" not in job:
        return None
    commit, flag = LakeTable._try, Path(job["committing"])

    def wait(self, *given):
        flag.touch()
        time.sleep(job["wait"])
        try:
            return commit(self, *given)
        finally:
            flag.unlink(missing_ok=True)

    LakeTable._try = wait
    return TableLocation.from_json(job["lake"])


if __name__ == "__main__":
    main(sys.argv[1])
