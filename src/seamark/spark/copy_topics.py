"""The topics of a copy, looked at before a run: they must be the ones that the plan was made for."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.context.java_client import build_client_config
from seamark.context.kafka_keys import JAVA_KEYS, LIBRDKAFKA_KEYS
from seamark.errors import ConfigurationError, NotFoundError, RefusedError
from seamark.kafka.topics import TopicAdmin
from seamark.pipelines.copy_plan import TopicEnd

_KAFKA = "kafka."


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


def build_source_client(given: Mapping[str, str]) -> dict[str, str]:
    """The settings of librdkafka that reach the source, from those of Spark's Kafka source, which are Java's."""
    named = {key.lower().removeprefix(_KAFKA): value for key, value in given.items() if key.lower().startswith(_KAFKA)}
    chosen = {key: value for key, value in named.items() if key in LIBRDKAFKA_KEYS | JAVA_KEYS}
    try:
        return build_client_config(chosen, origins={key: f"the source option kafka.{key}" for key in chosen})
    except ConfigurationError as error:
        raise ConfigurationError(
            "the source of the copy can't be looked at with the settings of Spark's source",
            cause=error.message,
            hint="give librdkafka's settings for it as source_client",
        ) from None
