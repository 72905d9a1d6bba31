"""A driver of its own: runs a landing on a standalone cluster, or goes on with it.

    python -m tests.spark.land_driver JOB.json

The job says where everything is (`tests.spark.land_soak`), and has the database's password: its file is for its owner.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from seamark.pipelines.landing import Landing
from seamark.spark import open_session
from seamark.spark.land_job import LandEnds, run_landing
from tests.spark.copy_driver import build_conf


def main(path):
    job = json.loads(Path(path).read_text())
    spark = open_session(job["master"], app="land", jars=job["jars"], conf={**build_conf(), **job["conf"]})
    spark.sparkContext.setLogLevel("ERROR")
    ends = LandEnds({"kafka.bootstrap.servers": job["servers"]}, url=job["url"])
    run_landing(spark, Landing.from_dict(job["landing"]), ends, records=job["records"])
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
