"""A stand-in for librdkafka's admin client, for answers that real brokers are hard to bring to."""

from concurrent.futures import Future
from types import SimpleNamespace

from confluent_kafka import KafkaException


class FakeError:
    """What confluent_kafka.KafkaError tells."""

    def __init__(self, name, text="the brokers said so"):
        self._name, self._text = name, text

    def name(self):
        return self._name

    def str(self):
        return self._text


def done(result):
    future = Future()
    future.set_result(result)
    return future


def failed(name, text="the brokers said so"):
    future = Future()
    future.set_exception(RuntimeError(FakeError(name, text)))
    return future


def operations(*names):
    return [SimpleNamespace(name=name) for name in names]


def node(number):
    return SimpleNamespace(id=number, host=f"broker-{number}", port=9092, rack=None)


def topic(name, *, partitions=1, leader=1, isr=(1, 2), may=("READ", "DESCRIBE")):
    return SimpleNamespace(
        name=name,
        topic_id=f"id/of+{name}",
        is_internal=False,
        partitions=[
            SimpleNamespace(
                id=number,
                leader=node(leader) if leader is not None else None,
                replicas=[node(1), node(2)],
                isr=[node(found) for found in isr],
            )
            for number in reversed(range(partitions))
        ],
        authorized_operations=operations(*may) if may else None,
    )


class FakeAdminClient:
    """Answers what it was given; `during_poll` is called whenever somebody polls."""

    def __init__(self, *, cluster=None, topics=None, configs=None, groups=None, offsets=None, during_poll=None):
        self.cluster, self.topics, self.configs = cluster, topics or {}, configs or {}
        self.groups, self.offsets, self.during_poll = groups or {}, offsets or {}, during_poll
        self.settings = {}
        self.asked = []

    def build(self, settings):
        self.settings = settings
        return self

    def poll(self, timeout):
        if self.during_poll is not None:
            self.during_poll(self)

    def describe_cluster(self, **options):
        self.asked.append(("cluster", options))
        return self.cluster

    def describe_topics(self, names, **options):
        self.asked.append(("topics", options))
        return {name: self.topics[name] for name in names.topic_names if name in self.topics}

    def describe_configs(self, resources, **options):
        self.asked.append(("configs", [resource.name for resource in resources]))
        return {resource: self.configs[resource.name] for resource in resources}

    def describe_consumer_groups(self, names, **options):
        self.asked.append(("groups", names))
        return {name: self.groups[name] for name in names}

    def list_offsets(self, request, **options):
        self.asked.append(("offsets", [(spot.topic, spot.partition) for spot in request]))
        specs = {spot: type(spec).__name__ for spot, spec in request.items()}
        by_edge = {
            (spot.topic, spot.partition, specs[spot]): self.offsets.get((spot.topic, spot.partition, specs[spot]))
            for spot in request
        }
        return {
            spot: by_edge[spot.topic, spot.partition, specs[spot]] or self.offsets[spot.topic, spot.partition]
            for spot in request
        }


class FakeBrokersClient(FakeAdminClient):
    """A `FakeAdminClient` that can also list and change. `answers` holds a future, or an error, by call."""

    def __init__(self, *, names=(), answers=None, committed=None, **rest):
        super().__init__(**rest)
        self.cluster = self.cluster or done(
            SimpleNamespace(cluster_id="abc", controller=node(1), nodes=[node(1), node(2)], authorized_operations=None)
        )
        self.names, self.answers, self.committed = names, answers or {}, committed or {}

    def list_topics(self, timeout):
        if isinstance(self.names, FakeError):
            raise KafkaException(self.names)
        return SimpleNamespace(topics=dict.fromkeys(self.names))

    def list_consumer_groups(self, **options):
        return self.answers["list"]

    def list_consumer_group_offsets(self, request, *, require_stable, **options):
        (one,) = request
        spots = one.topic_partitions and [(spot.topic, spot.partition) for spot in one.topic_partitions]
        self.asked.append(("committed", one.group_id, spots, require_stable))
        return {one.group_id: self.committed[one.group_id]}

    def create_topics(self, topics, **options):
        self.asked.append(("create", topics[0], options))
        return {topics[0].topic: self.answers["write"]}

    def delete_topics(self, names, **options):
        self.asked.append(("delete", names, options))
        return {names[0]: self.answers["write"]}

    def create_partitions(self, new, **options):
        self.asked.append(("grow", new[0].topic, new[0].new_total_count))
        return {new[0].topic: self.answers["write"]}

    def incremental_alter_configs(self, resources, **options):
        entries = [
            (entry.name, entry.value, entry.incremental_operation.name) for entry in resources[0].incremental_configs
        ]
        self.asked.append(("alter", resources[0].name, entries))
        return {resources[0]: self.answers["write"]}

    def alter_consumer_group_offsets(self, request, **options):
        (one,) = request
        self.asked.append(("move", one.group_id, one.topic_partitions))
        return {one.group_id: self.answers["write"]}

    def delete_consumer_groups(self, names, **options):
        self.asked.append(("delete-group", names))
        return {names[0]: self.answers["write"]}
