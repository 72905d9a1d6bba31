"""Taking a job over from a run that died: nobody writes for it any more, and nothing of it is left open."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from seamark.kafka_sink.control import Claim
from seamark.kafka_sink.lease import TRIES
from seamark.kafka_sink.task_failures import FailureAction, build_task_error, judge
from seamark.kafka_sink.task_producer import ProducerFailure, TaskProducer
from seamark.kafka_sink.task_settings import TaskSettings

# Each waits for a coordinator, and does nothing else.
_AT_ONCE = 8


def take_over(
    job: str, settings: TaskSettings, *, tasks: int, open_producer: Callable[[str], TaskProducer] | None = None
) -> None:
    """Take the transactional id of every task, and let go of it.

    What a dead attempt left open is ended at once, and not by its timeout: readers of committed records, such as this
    job's own next run, would wait for that.
    """
    control = settings.control_topic
    open_one = open_producer or (
        lambda name: TaskProducer(settings.client, transactional_id=name, control_topic=control)
    )
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(lambda task: _take(Claim(job, task), open_one), range(tasks)):
            pass


def _take(claim: Claim, open_producer: Callable[[str], TaskProducer]) -> None:
    for left in reversed(range(TRIES)):
        producer = open_producer(claim.transactional_id)
        try:
            producer.take()
        except ProducerFailure as failure:
            if judge(failure.error) is FailureAction.HOPELESS or not left:
                raise build_task_error(failure.error, claim=claim) from None
        else:
            return
        finally:
            producer.close()
