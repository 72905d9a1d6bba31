"""A driver of its own: writes numbers to a topic slowly, on a standalone cluster.

    python slow_job.py MASTER SERVERS CONTROL TOPIC ROWS TASKS MARKS PACE

Each task leaves a file in MARKS when it is in the middle of its rows. With PACE `even` all tasks are slow; with
`straggler` the first attempt at task 0 alone, and Spark starts a copy of it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import functions as sf

from seamark.spark import open_session
from tests.spark.kafka_sink.faulty import Slow

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "500ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "1s",
}


def main(master, servers, control, topic, rows, tasks, marks, pace):
    spark = open_session(master, app="slow-job", conf=build_conf(pace))
    spark.sparkContext.setLogLevel("ERROR")

    spark.dataSource.register(Slow)
    frame = spark.range(int(rows), numPartitions=int(tasks)).select(sf.col("id").cast("string").alias("value"))
    writer = frame.write.format(Slow.name()).mode("append").option("kafka.bootstrap.servers", servers)
    writer = writer.option("control.topic", control).option("topic", topic).option("job", "slow")
    writer.option("folder", marks).option("pace", pace).save()
    spark.stop()


def build_conf(pace):
    """Small executors and small batches."""
    root = Path(__file__).parents[3]
    return {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
        "spark.executorEnv.PYTHONPATH": f"{root}:{root / 'src'}",
        **(SPECULATION if pace == "straggler" else {}),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
