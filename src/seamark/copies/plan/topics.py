"""The topics of a copy, looked at before a run: they must be the ones that the plan was made for."""

from __future__ import annotations

from seamark.copies.plan.copy_plan import TopicEnd
from seamark.errors import NotFoundError, RefusedError
from seamark.kafka.topics import TopicAdmin


def check_topic(admin: TopicAdmin, end: TopicEnd, *, role: str) -> None:
    """Refuse a topic that is gone, was made anew or has other partitions. `role` is "source" or "target".

    The id of a topic that was yet to be made is not in the plan, and is not compared.
    """
    reading = admin.read_topics([end.topic])
    for error in reading.failures.values():
        if not isinstance(error, NotFoundError):
            raise error
    if not reading.items:
        raise NotFoundError(
            f"the {role} of the copy, the topic {end.topic}, is not there",
            hint="make it with the configs of the plan" if role == "target" else "check the brokers and the name",
        )
    found = reading.items[0]
    if end.topic_id and found.topic_id != end.topic_id:
        raise RefusedError(
            f"the {role} of the copy, the topic {end.topic}, was deleted and made anew since the plan was made",
            cause=f"its id is {found.topic_id}, and the plan is for {end.topic_id}",
            hint="its offsets are other records now: make a new plan, with a new target",
        )
    if len(found.partitions) != end.partitions:
        raise RefusedError(
            f"the topic {end.topic} has {len(found.partitions)} partitions, and the plan is for {end.partitions}",
            cause=f"partitions were added to the {role} since the plan was made: keys lie elsewhere from then on",
            hint="make the plan anew, with a new target",
        )
