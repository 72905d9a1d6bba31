"""A driver of its own: writes numbers to a topic slowly, on a standalone cluster.

    python slow_job.py MASTER SERVERS CONTROL TOPIC ROWS TASKS MARKS

Each task leaves a file in MARKS when it is in the middle of its rows.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import functions as sf

from seamark.spark import open_session


def main(master, servers, control, topic, rows, tasks, marks):
    spark = open_session(
        master,
        app="slow-job",
        conf={
            "spark.ui.enabled": "false",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
            # A killed executor must be missed soon.
            "spark.network.timeout": "40s",
            "spark.executor.heartbeatInterval": "5s",
            **{f"spark.executorEnv.{name}": value for name, value in _paths().items()},
        },
    )
    spark.sparkContext.setLogLevel("ERROR")

    def slowly(batches):
        import os  # noqa: PLC0415

        from pyspark import TaskContext  # noqa: PLC0415

        context = TaskContext.get()
        for number, batch in enumerate(batches):
            if number == 2:
                (Path(marks) / f"{context.partitionId()}-{context.attemptNumber()}-{os.getppid()}").touch()
            time.sleep(0.3)
            yield batch

    frame = spark.range(int(rows), numPartitions=int(tasks)).select(sf.col("id").cast("string").alias("value"))
    slow = frame.mapInArrow(slowly, frame.schema)
    writer = slow.write.format("seamark.kafka").mode("append").option("kafka.bootstrap.servers", servers)
    writer.option("control.topic", control).option("topic", topic).option("job", "slow").save()
    spark.stop()


def _paths():
    root = Path(__file__).parents[2]
    return {"PYTHONPATH": f"{root}:{root / 'src'}"}


if __name__ == "__main__":
    main(*sys.argv[1:])
