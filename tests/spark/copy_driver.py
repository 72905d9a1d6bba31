"""A driver of its own: runs the plan of a copy on a standalone cluster, or goes on with it.

    python -m tests.spark.copy_driver JOB.json

The job says where everything is (`tests.spark.copies.copy_stage`). After each slice the number done is written to a
file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from seamark.copies.plan.endpoints import CopyEnds
from seamark.copies.plan.plan import load_plan
from seamark.copies.run.spark_copy import run_copy
from seamark.spark import open_session

ROOT = Path(__file__).parents[2]
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "500ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "1s",
}


def main(path):
    job = json.loads(Path(path).read_text())
    spark = open_session(job["master"], app="copy", jars=job["jars"], conf={**build_conf(), **job["conf"]})
    spark.sparkContext.setLogLevel("ERROR")
    target = {"kafka.bootstrap.servers": job["target_servers"], **job["client"]}
    ends = CopyEnds(
        {"kafka.bootstrap.servers": job["source_servers"]}, target=target, control_topic=job["control_topic"]
    )
    done = Path(job["progress"])
    progress = run_copy(
        spark,
        load_plan(Path(job["plan"]).read_text()),
        ends,
        on_slice=lambda _, number, __: done.write_text(f"{number}"),
    )
    assert progress.is_complete
    spark.stop()


def build_conf():
    """Small executors, on two hosts: Spark starts no copy of a task on the host that runs it."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "640m",
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
        "spark.executorEnv.PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        **SPECULATION,
    }


if __name__ == "__main__":
    main(sys.argv[1])
