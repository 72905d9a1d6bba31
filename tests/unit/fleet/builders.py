"""Small worlds for the fleet's tests: real settings and values, stand-ins for the two clients."""

from collections import Counter
from pathlib import Path

from seamark.connect.model import Connector, ConnectorStatus, Plugin, State, Task, Worker
from seamark.context import ConnectSettings, Context, KafkaSettings
from seamark.context.value import Value
from seamark.core.readings import Reading
from seamark.core.refs import ConnectorType
from seamark.errors import NotFoundError, SeamarkError
from seamark.fleet.fleet import Fleet
from seamark.kafka.model import (
    Broker,
    KafkaCluster,
    LogOffsets,
    PartitionReading,
    PartitionStatus,
    ScanResult,
    TopicConfig,
    TopicStatus,
)

KAFKA_ID = "kafka-1"
EVERYTHING = frozenset({"DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE", "DELETE", "ALTER", "CREATE"})
SOURCE_CLASS = "org.apache.kafka.connect.file.FileStreamSourceConnector"


def settings(name="game", **changes):
    values = {
        "urls": ("http://127.0.0.1:8083",),
        "offsets_topic": f"{name}-offsets",
        "config_topic": f"{name}-configs",
        "status_topic": f"{name}-status",
        "worker_config": Path("worker.properties"),
    }
    return ConnectSettings(name=name, **(values | changes))


def context(*clusters, kafka=None, values=()):
    kafka = {"bootstrap.servers": "127.0.0.1:9092"} if kafka is None else kafka
    kafka_values = {key: Value(f"kafka.{key}", text) for key, text in kafka.items()}
    return Context(
        name="dev",
        kafka=KafkaSettings(values=kafka_values, is_insecure_allowed=True),
        connect={found.name: found for found in clusters or (settings(),)},
        values=(*kafka_values.values(), *values),
    )


def worker(url="http://127.0.0.1:8083", *, cluster="game", version="4.3.1", **changes):
    values = {"kafka_cluster_id": KAFKA_ID, "clock_skew_seconds": 0.1}
    return Worker(cluster=cluster, url=url, version=version, **(values | changes))


def connector(name, *, cluster="game", kind=ConnectorType.SOURCE, state=State.RUNNING, tasks=(State.RUNNING,), **rest):
    config = {"connector.class": SOURCE_CLASS, **rest.get("config", {})}
    at, trace = rest.get("worker_id", "127.0.0.1:8083"), rest.get("trace", "")
    status = ConnectorStatus(
        state=state,
        worker_id=at,
        trace=trace,
        tasks=tuple(Task(number, found, worker_id=at, trace=trace) for number, found in enumerate(tasks)),
    )
    return Connector(name=name, cluster=cluster, type=kind, config=config, status=rest.get("status", status))


def sink(name, **rest):
    return connector(name, kind=ConnectorType.SINK, **rest)


def topic(name, *, partitions=1, replicas=(1, 2, 3), isr=None, leader=1, may=EVERYTHING, **configs):
    isr = replicas if isr is None else isr
    configs = {"cleanup.policy": "compact", "min.insync.replicas": "2"} | {
        key.replace("_", "."): value for key, value in configs.items()
    }
    return TopicStatus(
        name=name,
        topic_id="id",
        partitions=tuple(PartitionStatus(number, leader, replicas, isr) for number in range(partitions)),
        operations=may,
        configs={key: TopicConfig(value, "DYNAMIC_TOPIC_CONFIG") for key, value in configs.items()},
    )


def kafka_cluster(*, brokers=3, may=EVERYTHING, cluster_id=KAFKA_ID):
    return KafkaCluster(
        cluster_id=cluster_id,
        brokers=tuple(Broker(number, "127.0.0.1", 9090 + number) for number in range(1, brokers + 1)),
        controller=1,
        operations=may,
    )


class StubConnect:
    """One Connect cluster out of lists. A value that is an error is raised."""

    def __init__(self, *, connectors=(), workers=None, plugins=None, offsets=None):
        self.connectors, self.offsets = connectors, offsets or {}
        self.workers = (worker(),) if workers is None else workers
        self.plugins = plugins if plugins is not None else (Plugin(SOURCE_CLASS, "source", "4.3.1"),)
        self.calls = Counter()

    def read_connectors(self):
        return self._give("connectors", self.connectors)

    def read_names(self):
        return tuple(sorted(found.name for found in self._give("names", self.connectors)))

    def read_connector(self, name):
        for found in self._give("connector", self.connectors):
            if found.name == name:
                return found
        raise NotFoundError(f"no connector {name}")

    def read_workers(self):
        return self._give("workers", self.workers)

    def read_plugins(self, url=None, *, connectors_only=True):
        plugins = self.plugins[url] if isinstance(self.plugins, dict) else self.plugins
        return self._give("plugins", plugins)

    def read_password_keys(self, plugin):
        return frozenset()

    def read_offsets(self, name, url=None):
        return self._give("offsets", self.offsets[name])

    def waits(self):
        return ()

    def close(self):
        self.calls["close"] += 1

    def _give(self, what, value):
        self.calls[what] += 1
        if isinstance(value, SeamarkError):
            raise value
        return value


class StubKafka:
    """The brokers out of dictionaries."""

    def __init__(self, *, cluster=None, topics=(), groups=(), failures=None, ends=None):
        self.ends = ends or {}
        self.cluster = kafka_cluster() if cluster is None else cluster
        self.topics = {found.name: found for found in topics}
        self.groups = {found.name: found for found in groups}
        self.failures = failures or {}
        self.calls = Counter()

    def read_cluster(self):
        self.calls["cluster"] += 1
        if isinstance(self.cluster, SeamarkError):
            raise self.cluster
        return self.cluster

    def read_topics(self, names):
        self.calls["topics"] += 1
        return self._read(self.topics, names)

    def read_groups(self, names):
        self.calls["groups"] += 1
        return self._read(self.groups, names)

    def read_end_offsets(self, partitions):
        self.calls["ends"] += 1
        if isinstance(self.ends, SeamarkError):
            raise self.ends
        return {spot: self.ends[spot] for spot in partitions}

    def close(self):
        self.calls["close"] += 1

    def _read(self, known, names):
        missing = {name: NotFoundError(f"{name} does not exist") for name in names if name not in known}
        return Reading(tuple(known[name] for name in names if name in known), missing | self.failures)


def open_stub_fleet(clients, *, kafka=None, clusters=None, kafka_config=None):
    """A fleet over stand-ins: `clients` by cluster name."""
    given = context(*(clusters or [settings(name) for name in clients]), kafka=kafka_config)
    brokers = kafka if kafka is not None else StubKafka()
    return Fleet(
        given,
        build_connect=lambda found: clients[found.name],
        build_kafka=lambda found: brokers,
        build_brokers=lambda _: EmptyTopics(),
        open_scan=lambda _, name, __: EmptyScan(name),
    )


class EmptyTopics:
    """Brokers whose topics have no records."""

    def read_bounds(self, spots):
        return PartitionReading({spot: LogOffsets(0, 0) for spot in spots})

    def read_log_offsets(self, spots, *, at):
        del at
        return PartitionReading(dict.fromkeys(spots))

    def close(self):
        pass


class EmptyScan:
    """A topic without records."""

    def __init__(self, topic):
        self.topic = topic

    def read_newest(self, accept=None):
        del accept
        return ScanResult(self.topic, partitions=1, scanned=0, records=())
