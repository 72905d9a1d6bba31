"""Sinks with a planted fault, each under a name of its own. Attempts leave a file each, to be counted."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter

from seamark.kafka_sink.spark import KafkaSink


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

    def one_fails(self, iterator, attempt):
        """Task 1 fails when task 0 is committed."""
        done = Path(self.folder) / "done"
        if TaskContext.get().partitionId() == 0:
            message = self.inner.write(iterator)
            done.touch()
            return message
        deadline = time.monotonic() + 120
        while not done.exists():
            assert time.monotonic() < deadline, "waited 120 s until task 0 was done"
            time.sleep(0.05)
        raise RuntimeError("planted: one fails")


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


class OneFails(AfterCommit):
    fault = "one_fails"

    @classmethod
    def name(cls):
        return "faulty.one_fails"


class SlowWriter(Planted):
    """Takes its time, and leaves a file when it is in the middle of its rows."""

    def write(self, iterator):
        return self.inner.write(self.slowly(iterator))

    def slowly(self, batches):
        context = TaskContext.get()
        is_slow = self.fault == "even" or (context.partitionId() == 0 and context.attemptNumber() == 0)
        seconds = {"even": 0.3, "straggler": 2.0}[self.fault] if is_slow else 0.05
        for number, batch in enumerate(batches):
            if number == 2:
                (Path(self.folder) / f"{context.partitionId()}-{context.attemptNumber()}-{os.getppid()}").touch()
            time.sleep(seconds)
            yield batch

    def commit(self, messages):
        self.inner.commit(messages)


class Slow(KafkaSink):
    @classmethod
    def name(cls):
        return "faulty.slow"

    def writer(self, schema, overwrite):
        folder, pace = self.options.pop("folder"), self.options.pop("pace")
        return SlowWriter(super().writer(schema, overwrite), folder, pace)
