"""The topic of control records: made where it is missing, refused where it would forget."""

from __future__ import annotations

import time

from seamark.errors import RefusedError, RejectedError, UnreachableError
from seamark.kafka.failures import is_passing
from seamark.kafka.reading import ANSWER_SECONDS, POLL_SECONDS
from seamark.kafka.topics import TopicAdmin, TopicSpec
from seamark.kafka_sink.control import CONTROL_PARTITIONS

_COPIES = 3
_NO_LIMIT = "-1"


def ensure_control_topic(admin: TopicAdmin, topic: str) -> str:
    """Make the control topic where it is missing; refuse one that can't serve. Gives its id."""
    found = admin.read_found([topic]).get(topic)
    if found is None:
        admin.create_topics([_build_spec(topic, copies=min(_COPIES, len(admin.read_cluster().brokers)))])
        found = admin.read_found([topic])[topic]
    if found.partitions < CONTROL_PARTITIONS:
        raise RejectedError(
            f"the control topic {topic} has {found.partitions} partitions and needs {CONTROL_PARTITIONS}",
            hint="name another one in the option control.topic, or add partitions",
        )
    policy = found.configs.get("cleanup.policy", "")
    limits = {name: found.configs.get(name) for name in ("retention.ms", "retention.bytes")}
    forgetting = [f"{name}={value}" for name, value in limits.items() if value != _NO_LIMIT]
    if "delete" in policy and forgetting:
        raise RejectedError(
            f"the control topic {topic} forgets its records: cleanup.policy={policy}",
            cause=", ".join(forgetting),
            hint="set cleanup.policy=compact, or retention.ms=-1 and retention.bytes=-1",
        )
    return found.topic_id


def read_control_id(admin: TopicAdmin, topic: str, *, expected: str = "") -> str:
    """The id of the control topic. Another one than expected is refused: what it has forgotten would be done again."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while not (reading := admin.read_topics([topic])).items:
        error = next(iter(reading.failures.values()))
        may_pass = is_passing(error) or isinstance(error, UnreachableError)
        if not may_pass or time.monotonic() > deadline:
            raise error
        time.sleep(POLL_SECONDS)
    found = reading.items[0].topic_id
    if expected and found != expected:
        raise RefusedError(
            f"the control topic {topic} was deleted and made anew while the job ran",
            cause=f"its id is {found}, and it was {expected}; what was written before is no longer known",
            hint="see what is in the target before you run the job again: it would write everything once more",
        )
    return found


def _build_spec(topic: str, *, copies: int) -> TopicSpec:
    configs = {
        # The newest record of a task is all that is ever asked for.
        "cleanup.policy": "compact",
        "segment.ms": str(24 * 3600 * 1000),
        # Rows that outlive their control record would be written twice: so it is on two brokers before it counts, where
        # the loss of one then still leaves two, and no broker that lacks it may come to lead.
        "min.insync.replicas": str(max(1, copies - 1)),
        "unclean.leader.election.enable": "false",
    }
    return TopicSpec(topic, CONTROL_PARTITIONS, copies, configs)
