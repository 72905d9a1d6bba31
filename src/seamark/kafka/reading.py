"""What all readers of logs have in common: how their consumers are set, and what does not concern them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from seamark.errors import NotFoundError, SeamarkError
from seamark.kafka.failures import is_passing

_Found = TypeVar("_Found")

# A new leader for a partition of a broker that died is found within its session (9 s) and an election.
ANSWER_SECONDS = 15.0
POLL_SECONDS = 0.1
# By default librdkafka asks for nothing more of a partition whose queue is full for a whole second, though Python
# empties it in milliseconds: with 5 ms a topic of 2 million records is read in a third of the time.
QUEUE_BACKOFF = {"fetch.queue.backoff.ms": 5}
# Nobody joins the group of a reader; librdkafka wants a name for it, and looks for its coordinator. Being denied that
# is no loss.
OF_NO_CONCERN = frozenset({"GROUP_AUTHORIZATION_FAILED", "_MAX_POLL_EXCEEDED"})


def build_reader_config(group: str, *, fetch_wait_ms: int, isolation: str) -> dict[str, Any]:
    """The settings of a consumer that reads partitions from one offset to another, and commits nothing."""
    return {
        "group.id": group,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "check.crcs": True,
        "fetch.wait.max.ms": fetch_wait_ms,
        # 8 MiB are a few fetches ahead, whatever the size of the log.
        "queued.max.messages.kbytes": 8192,
        "isolation.level": isolation,
        **QUEUE_BACKOFF,
    }


def ask_until_known(ask: Callable[[], _Found]) -> _Found:
    """Ask about a topic that is there: one that was just made is not known to every broker in the same moment."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return ask()
        except SeamarkError as error:
            if not (is_passing(error) or isinstance(error, NotFoundError)) or time.monotonic() > deadline:
                raise
        time.sleep(POLL_SECONDS)
