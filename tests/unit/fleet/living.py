"""A Connect cluster that can be changed, without a server: what the verbs act on in unit tests."""

from __future__ import annotations

from collections import Counter
from threading import RLock

from seamark.changes.file_journal import FileJournal
from seamark.connect.capability import build_capabilities
from seamark.connect.model import ConfigKey, Connector, ConnectorStatus, Plugin, State, Task, Validation, Worker
from seamark.context import ConnectSettings, Context, JournalSettings, KafkaSettings
from seamark.context.journal import JournalKind
from seamark.context.value import Value
from seamark.core.refs import ConnectorType
from seamark.errors import AlreadyExistsError, NotFoundError
from seamark.fleet.fleet import Fleet
from seamark.policy.policy import Policy
from tests.unit.fleet.builders import KAFKA_ID, EmptyScan, StubKafka

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
FILE_KEYS = (
    ConfigKey("file", "STRING", importance="HIGH", documentation="The file.\n If not set, standard input."),
    ConfigKey("topic", "STRING", is_required=True, importance="HIGH", documentation="The topic to publish data to."),
    ConfigKey("batch.size", "INT", default="2000", importance="LOW", documentation="Records per poll.", group="Batch"),
    ConfigKey("vault.token", "PASSWORD", default="[hidden]", importance="MEDIUM"),
    ConfigKey("name", "STRING", is_required=True, group="Common"),
    ConfigKey("connector.class", "STRING", is_required=True, group="Common"),
)
SOURCE_CONFIG = {"connector.class": SOURCE, "file": "/in", "topic": "t", "tasks.max": "1"}
SINK_CONFIG = {"connector.class": SINK, "file": "/out", "topics": "t", "tasks.max": "1"}


class LivingConnect:
    """Connectors that come, change and go at once. `failing` holds errors by call and name."""

    def __init__(self, *, version="4.3.1", cluster="game"):
        self.cluster = cluster
        self.version = version
        self.configs = {}
        self.states = {}
        self.failed_tasks = {}
        # Which tasks of a running connector fail whenever they are started.
        self.find_broken = lambda name: ()
        self.restarted = []
        self.offsets = {}
        self.used_topics = {}
        self.failing = {}
        self.invalid = {}
        self.before = {}
        # The PASSWORD keys of plugins, or the error of the worker, by class.
        self.passwords = {}
        # What plugins define, by class.
        self.keys = {SOURCE: FILE_KEYS, SINK: FILE_KEYS[:1]}
        self.calls = Counter()
        # Lanes of one change delete connectors while another lists them.
        self._lock = RLock()

    def add(self, name, config, *, state="RUNNING", failed=()):
        with self._lock:
            self.configs[name] = {"name": name, **config}
            self.states[name] = state
            self.failed_tasks[name] = set(failed)

    # --- reads

    def read_connectors(self):
        self._called("read_connectors", "")
        with self._lock:
            return tuple(self._build(name) for name in sorted(self.configs))

    def read_names(self):
        self._called("read_names", "")
        with self._lock:
            return tuple(sorted(self.configs))

    def read_statuses(self):
        self._called("read_statuses", "")
        with self._lock:
            return {name: self._build(name).status for name in self.configs}

    def validate_config(self, plugin, config):
        self._called("validate_config", config["name"])
        errors = self.invalid.get(config["name"], {})
        return Validation(plugin, len(errors), errors)

    def read_connector(self, name):
        self._called("read_connector", name)
        with self._lock:
            self._require(name)
            return self._build(name)

    def read_config(self, name):
        self._called("read_config", name)
        with self._lock:
            self._require(name)
            return dict(self.configs[name])

    def read_status(self, name):
        self._called("read_status", name)
        with self._lock:
            self._require(name)
            return self._build(name).status

    def read_offsets(self, name, url=None):
        self._called("read_offsets", name)
        return self.offsets.get(name, ())

    def read_topics(self, name):
        self._called("read_topics", name)
        return self.used_topics.get(name, ())

    def read_password_keys(self, plugin):
        self._called("read_password_keys", plugin)
        found = self.passwords.get(plugin, frozenset())
        if isinstance(found, Exception):
            raise found
        return frozenset(found)

    def read_config_keys(self, plugin):
        self._called("read_config_keys", plugin)
        return self.keys[plugin]

    def read_plugins(self, url=None, *, connectors_only=True):
        return (Plugin(SOURCE, "source", self.version), Plugin(SINK, "sink", self.version))

    def read_workers(self):
        return (Worker(self.cluster, "http://w1:8083", self.version, kafka_cluster_id=KAFKA_ID),)

    def read_any_worker(self):
        return self.read_workers()[0]

    def read_capabilities(self):
        return build_capabilities(self.cluster, [self.version])

    # --- writes

    def create_connector(self, name, config, *, initial_state=None):
        self._called("create", name)
        if name in self.configs:
            raise AlreadyExistsError(f"{name} is there")
        self.add(name, config, state=initial_state or "RUNNING")

    def put_config(self, name, config):
        self._called("put_config", name)
        if name not in self.configs:
            self.add(name, {key: value for key, value in config.items() if key != "name"})
        self.configs[name] = {"name": name, **config}

    def delete_connector(self, name):
        self._called("delete", name)
        with self._lock:
            self._require(name)
            del self.configs[name], self.states[name]

    def pause(self, name):
        self._change_state("pause", name, "PAUSED")

    def resume(self, name):
        self._change_state("resume", name, "RUNNING")

    def stop(self, name):
        self._change_state("stop", name, "STOPPED")

    def restart(self, name, *, include_tasks=False, only_failed=False):
        self._called("restart", name)
        assert include_tasks
        self.failed_tasks[name] = set()
        self.restarted.append((name, "failed" if only_failed else "all"))

    def restart_task(self, name, task):
        self._called("restart", name)
        self.failed_tasks[name] = self.failed_tasks[name] - {task}
        self.restarted.append((name, task))

    def waits(self):
        return ()

    def close(self):
        self.calls["close"] += 1

    # --- how

    @property
    def writes(self):
        verbs = ("create", "put_config", "delete", "pause", "resume", "stop", "restart")
        return sum(self.calls[verb] for verb in verbs)

    def _change_state(self, verb, name, state):
        self._called(verb, name)
        self._require(name)
        self.states[name] = state

    def _called(self, call, name):
        self.calls[call] += 1
        if (call, name) in self.before:
            self.before.pop((call, name))()
        if (call, name) in self.failing:
            raise self.failing[call, name]

    def _require(self, name):
        if name not in self.configs:
            raise NotFoundError(f"no connector {name}")

    def _build(self, name):
        config, state = self.configs[name], State.of(self.states[name])
        count = 0 if state is State.STOPPED else int(config.get("tasks.max", "1"))
        broken = set(self.find_broken(name)) if state is State.RUNNING else set()
        failed = self.failed_tasks[name] | broken
        tasks = tuple(
            Task(
                number,
                State.FAILED if number in failed else state,
                "w1:8083",
                trace="Boom: first\n\tat x\nCaused by: no such file" if number in broken else "",
            )
            for number in range(count)
        )
        kind = ConnectorType.SINK if config["connector.class"] == SINK else ConnectorType.SOURCE
        return Connector(name, self.cluster, kind, dict(config), ConnectorStatus(state, "w1:8083", tasks=tasks))


def living_context(
    folder, *, protected=False, clusters=("game",), groups=None, policy=None, spec_values=None, **changes
):
    """A context whose journal is a folder. Facts of the workers are known unless a test says otherwise."""
    facts = {"urls": ("http://w1:8083",), "group_id": "workers", "offsets_topic": "offsets"} | changes
    return Context(
        name="dev",
        kafka=KafkaSettings({"bootstrap.servers": Value("kafka.bootstrap.servers", "b:1")}, is_insecure_allowed=True),
        connect={
            name: ConnectSettings(name=name, **facts | ({"group_id": groups[name]} if groups else {}))
            for name in clusters
        },
        protected=protected,
        spec_values=spec_values or {},
        policy=policy or Policy(files=("/**",), jdbc_urls=("jdbc:",), references=("secret://*",)),
        own_journal=JournalSettings(
            "dev",
            kind=JournalKind.FILE,
            own_folder=folder / "journal",
            in_flight_seconds=0.1,
            find_state_dir=lambda: folder / "state",
        ),
    )


def open_living_fleet(folder, *clusters, kafka=None, brokers=None, actor=None, scan=None, **changes):
    """A fleet over living clusters, with a real journal in a folder."""
    context = living_context(folder, clusters=[found.cluster for found in clusters], **changes)
    known = {found.cluster: found for found in clusters}
    return Fleet(
        context,
        build_connect=lambda settings: known[settings.name],
        build_kafka=lambda settings: kafka or StubKafka(),
        build_brokers=None if brokers is None else lambda opened: brokers,
        open_journal=lambda opened: FileJournal(opened.journal.folder),
        open_scan=lambda config, topic, committed: scan or EmptyScan(topic),
        actor=actor,
    )


def register(fleet, plan):
    """Record a plan in the journal, as saving it does: also one that no seamark would save."""
    return fleet._changes._registrations.register(plan)
