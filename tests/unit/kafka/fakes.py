"""A stand-in for librdkafka's admin client, for answers that real brokers are hard to bring to."""

from concurrent.futures import Future
from types import SimpleNamespace


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
        return dict(self.topics)

    def describe_configs(self, resources, **options):
        self.asked.append(("configs", [resource.name for resource in resources]))
        return {resource: self.configs[resource.name] for resource in resources}

    def describe_consumer_groups(self, names, **options):
        self.asked.append(("groups", names))
        return {name: self.groups[name] for name in names}

    def list_offsets(self, request, **options):
        return {spot: self.offsets[spot.topic, spot.partition] for spot in request}
