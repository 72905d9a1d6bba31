"""seamark, killed right before the n-th record that it writes to an offsets topic: `SEAMARK_KILL_AT_RECORD`, from 0.

For a journal in a folder: one in Kafka would be written by the same hand.
"""

from __future__ import annotations

import os
import signal

from seamark.cli.main import run
from seamark.kafka.produce import Delivery


def kill_at(number: int) -> None:
    """Have this process end before that record."""
    written = []
    deliver = Delivery.deliver

    def count(self, record):
        if len(written) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        written.append(record)
        return deliver(self, record)

    Delivery.deliver = count


if __name__ == "__main__":
    kill_at(int(os.environ["SEAMARK_KILL_AT_RECORD"]))
    run()
