"""Sinks with a planted fault, each under a name of its own. Attempts leave a file each, to be counted."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter

from seamark.spark.sink import KafkaSink


class Planted(DataSourceArrowWriter):
    """A writer around the real one."""

    def __init__(self, inner, folder, fault):
        self.inner, self.folder, self.fault = inner, folder, fault

    def write(self, iterator):
        context = TaskContext.get()
        name = f"{context.partitionId()}-{context.attemptNumber()}-{os.getpid()}"
        (Path(self.folder) / name).touch()
        return getattr(self, self.fault)(iterator, context.attemptNumber())

    def after_commit(self, iterator, attempt):
        """The rows are committed, and the task fails."""
        message = self.inner.write(iterator)
        if attempt < 2:
            raise RuntimeError("planted: after the commit")
        return message

    def midway(self, iterator, attempt):
        """The task fails when some of its rows have been sent."""

        def some():
            for number, batch in enumerate(iterator):
                if attempt < 2 and number == 3:
                    # librdkafka sends in the background.
                    time.sleep(0.5)
                    raise RuntimeError("planted: midway")
                yield batch

        return self.inner.write(some())

    def commit(self, messages):
        (Path(self.folder) / "committed").write_text(
            " ".join(f"{message.report.claim.task}:{message.report.is_repeat}" for message in messages)
        )
        self.inner.commit(messages)


class AfterCommit(KafkaSink):
    fault = "after_commit"

    @classmethod
    def name(cls):
        return "faulty.after_commit"

    def writer(self, schema, overwrite):
        folder = self.options.pop("folder")
        return Planted(super().writer(schema, overwrite), folder, self.fault)


class Midway(AfterCommit):
    fault = "midway"

    @classmethod
    def name(cls):
        return "faulty.midway"
