"""One opened context."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from seamark.context.environment import CONTEXT_VARIABLE, build_variable
from seamark.context.files import expand_path
from seamark.context.java_client import build_client_config, check_kafka_transport
from seamark.context.journal import JournalSettings, Verify
from seamark.context.kafka_keys import PATH_KEYS, PROBE, WORKER_PIECES
from seamark.context.layer import KeyPath, Layer, Origin, OriginKind, Trust, show_key
from seamark.context.policy import Role
from seamark.context.properties import Property, read_properties
from seamark.context.reference import ConfigProviders, Secret, SecretReferences
from seamark.context.schema import PART_KEYS
from seamark.context.search import SearchedFile, Surroundings
from seamark.context.value import Setting, Value
from seamark.errors import ContextNotFoundError, MissingSettingError, RefusedError
from seamark.policy.check import is_allowed_reference
from seamark.policy.policy import DEFAULT_POLICY, Policy


def build_missing_setting(
    path: KeyPath,
    *,
    layers: Sequence[Layer],
    places: Sequence[SearchedFile],
    worker_places: Sequence[str] = (),
) -> MissingSettingError:
    """The error for a setting that is needed and stands nowhere."""
    key, variable = show_key(path), build_variable(path)
    tried = [f"{variable}: not set"]
    tried += [_describe(place, path, layers) for place in places]
    tried += [f"worker file {place}" for place in worker_places]
    tried.append("default: there is none")
    return MissingSettingError(
        f"{key} is not set in context {path[1]}",
        cause="searched: " + "; ".join(f"{number}. {place}" for number, place in enumerate(tried, start=1)),
        hint=f"set {key} under contexts.{path[1]} in {_best_place(places)}, or export {variable}=…",
        context={"setting": key, "context": path[1], "variable": variable},
    )


def build_context_not_found(
    name: str | None, *, asked_by: str, names: Sequence[str], places: Sequence[SearchedFile]
) -> ContextNotFoundError:
    """The error for a context that is not there, or for no choice among several."""
    looked = "; ".join(f"{place.what} {place.shown}: {'read' if place.exists else 'not found'}" for place in places)
    known = f"known contexts: {', '.join(names)}" if names else "no context is known"
    if name is None:
        message = "no context is chosen" if names else "there is no context yet"
    else:
        message = f"there is no context {name}"
    if asked_by:
        known = f"{asked_by} names it; {known}"
    if names:
        hint = f"choose one: seamark context use NAME, --context NAME or {CONTEXT_VARIABLE}=NAME"
    else:
        hint = "add one: seamark context add NAME --connect URL --bootstrap HOST:PORT"
    return ContextNotFoundError(
        message, cause=f"{known}; searched: {looked}", hint=hint, context={} if name is None else {"context": name}
    )


def _describe(place: SearchedFile, path: KeyPath, layers: Sequence[Layer]) -> str:
    shown = f"{place.what} {place.shown}"
    if not place.exists:
        return f"{shown}: not found"
    layer = next((layer for layer in layers if layer.place == place.shown), None)
    if layer is None or path[:2] not in layer.sections:
        return f"{shown}: read, has no context {path[1]}"
    return f"{shown}: read, {show_key(path)} {'found' if path in layer.values else 'not found'}"


def _best_place(places: Sequence[SearchedFile]) -> str:
    """Where a hint sends the user: the first file that is there, else the user's own."""
    if not places:
        return "its file"
    existing = [place for place in places if place.exists]
    chosen = existing[0] if existing else places[min(1, len(places) - 1)]
    return chosen.shown


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """How to reach the Kafka cluster. Nothing is resolved until it is asked for."""

    values: Mapping[str, Value] = field(default_factory=dict)
    is_insecure_allowed: bool = False
    home: Path | None = field(default=None, repr=False)
    build_missing: Callable[[], MissingSettingError] | None = field(default=None, repr=False, compare=False)

    @property
    def bootstrap_servers(self) -> str | None:
        """The addresses to start from, or None where none are known."""
        value = self.values.get("bootstrap.servers")
        return None if value is None else value.reveal()

    def client_config(self) -> dict[str, str]:
        """The settings for librdkafka with secrets revealed. Only for the client: never print or log it."""
        if not self.bootstrap_servers:
            if self.build_missing is not None:
                raise self.build_missing()
            raise MissingSettingError("kafka.bootstrap.servers is not set")
        revealed = {key: self._reveal(key, value) for key, value in self.values.items()}
        origins = {key: str(value.origin) for key, value in self.values.items()}
        # Once more, now that references are resolved: one of them may have named the protocol.
        check_kafka_transport(revealed, origins=origins, is_allowed=self.is_insecure_allowed)
        return build_client_config(revealed, origins=origins)

    def _reveal(self, key: str, value: Value) -> str:
        text = value.reveal()
        if key in PATH_KEYS and text and text != PROBE:
            return str(expand_path(text, folder=value.folder, home=self.home))
        return text


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """How seamark reaches a database that connectors reach by `jdbc_url`."""

    name: str
    jdbc_url: str
    dsn: Secret

    def serves(self, url: str) -> bool:
        """Whether a connector's `connection.url` leads to this database: the same up to its parameters."""
        return url.partition("?")[0].rstrip("/") == self.jdbc_url.rstrip("/")


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """Where a lake is. Without keys those of the machine are taken."""

    name: str
    url: str
    endpoint: str = ""
    region: str = ""
    access_key: Secret | None = None
    secret_key: Secret | None = None


@dataclass(frozen=True, slots=True)
class ConnectSettings:
    """How to reach one Connect cluster, and what its REST API does not tell.

    None means that neither the context nor the worker's file says it. `offsets_file` is the file
    of a standalone worker. `consumer_group_id` is a group that all sinks of the cluster share.
    `known_as` is the context's name for the cluster, where `name` is the one that another user's plan uses.
    """

    name: str
    urls: tuple[str, ...]
    username: str | None = None
    password: Secret | None = None
    ca_file: Path | None = None
    verify: bool = True
    group_id: str | None = None
    offsets_topic: str | None = None
    config_topic: str | None = None
    status_topic: str | None = None
    exactly_once: bool | None = None
    consumer_group_id: str | None = None
    worker_config: Path | None = None
    offsets_file: Path | None = None
    known_as: str = ""


# Our key of a Connect cluster, and the worker's key that fills it.
WORKER_KEYS = MappingProxyType(
    {
        "group_id": "group.id",
        "offsets_topic": "offset.storage.topic",
        "config_topic": "config.storage.topic",
        "status_topic": "status.storage.topic",
        "exactly_once": "exactly.once.source.support",
        # Without it every sink has its own group; with it, all sinks of the worker share this one.
        "consumer_group_id": "consumer.group.id",
        # Only a standalone worker has it.
        "offsets_file": "offset.storage.file.filename",
    }
)
_ALGORITHM = "ssl.endpoint.identification.algorithm"


@dataclass(frozen=True, slots=True)
class WorkerFile:
    """A worker's properties file, its references still unresolved. `trust` is that of the place that names the file."""

    path: Path
    place: str
    properties: Mapping[str, Property] = field(repr=False)
    providers: ConfigProviders = field(repr=False)
    trust: Trust = Trust.USER

    def find(self, key: str, *, shown_as: str) -> Value | None:
        """The value of one of the worker's keys; `shown_as` is its name in the context."""
        found = self.properties.get(key)
        if found is None:
            return None
        return Value(shown_as, found.value, self._at(found), folder=self.path.parent, references=self.providers)

    def find_cluster_values(self, cluster: str) -> dict[str, Value]:
        """What it says of the Connect cluster, by our keys."""
        found = {ours: self.find(key, shown_as=f"connect.{cluster}.{ours}") for ours, key in WORKER_KEYS.items()}
        return {ours: value for ours, value in found.items() if value is not None and value.raw.strip()}

    def find_kafka_values(self, given: Iterable[str]) -> dict[str, Value]:
        """The Kafka settings that the context does not give itself, piece by piece."""
        taken = list(given)
        wanted = [piece for piece in WORKER_PIECES if not piece.is_given_by(taken)]
        found = {key: self.find(key, shown_as=f"kafka.{key}") for piece in wanted for key in sorted(piece.keys)}
        # An empty algorithm is Java's way to switch the check of host names off; else empty is nothing.
        return {key: value for key, value in found.items() if value is not None and (value.raw or key == _ALGORITHM)}

    def _at(self, found: Property) -> Origin:
        return Origin(OriginKind.WORKER, self.place, found.line, path=self.path, trust=self.trust)


def read_worker_file(path: Path, surroundings: Surroundings, *, trust: Trust = Trust.USER) -> WorkerFile:
    """Read a worker's file. References in its values are resolved when a value is needed.

    `trust` is that of the place that names the file. References of a file that a project names are never resolved.
    """
    place = surroundings.show(path)
    properties = read_properties(path, origin=Origin(OriginKind.WORKER, place, path=path))
    providers = ConfigProviders.from_properties(properties, surroundings.environ, is_trusted=trust is not Trust.PROJECT)
    return WorkerFile(path, place, properties, providers, trust)


class Lookup:
    """Where the values of a context were looked for; what errors about missing ones are made of.

    `worker_places` are the worker files of the Connect clusters that name one; `references` resolves references to
    secrets. Not a dataclass, so that no `asdict` lays the layers or the environment open.
    """

    __slots__ = ("context", "layers", "places", "references", "worker_places")

    def __init__(
        self,
        context: str,
        layers: tuple[Layer, ...] = (),
        *,
        places: tuple[SearchedFile, ...] = (),
        worker_places: Mapping[str, str] | None = None,
        references: SecretReferences | None = None,
    ) -> None:
        self.context = context
        self.layers = layers
        self.places = places
        self.worker_places = dict(worker_places or {})
        self.references = references

    def __deepcopy__(self, memo: object) -> Lookup:
        """Itself: it is only read."""
        return self

    def build_missing(self, key: str) -> MissingSettingError:
        """The error for a setting below the context, such as `connect.game.offsets_topic`."""
        head, _, rest = key.partition(".")
        parts: tuple[str, ...] = (head, rest) if rest else (head,)
        if head in {"connect", *PART_KEYS}:
            cluster, _, last = rest.rpartition(".")
            parts = (head, cluster, last)
        return build_missing_setting(
            ("contexts", self.context, *parts),
            layers=self.layers,
            places=self.places,
            worker_places=self._describe_workers(parts),
        )

    def _describe_workers(self, parts: tuple[str, ...]) -> list[str]:
        """What the worker files were asked for. Only some settings can come from there."""
        if parts[0] == "connect":
            wanted = WORKER_KEYS.get(parts[-1])
            places = [self.worker_places[parts[1]]] if parts[1] in self.worker_places else []
        else:
            wanted = parts[-1] if any(parts[-1] in piece.keys for piece in WORKER_PIECES) else None
            places = list(self.worker_places.values())
        if wanted is None:
            return []
        return [f"{place}: {wanted} not found" for place in places] or ["(worker_config): not set"]


@dataclass(frozen=True, slots=True)
class PaceSettings:
    """How fast the connectors of a plan are changed.

    At most `parallel` change at once. With `wait_stable`, they change in groups of that size, and a group begins only
    while the workers are stable. The default is as many as send requests to one Connect cluster at once.
    """

    parallel: int = 16
    wait_stable: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """One named Kafka cluster and its named Connect clusters.

    `protected` requires a typed confirmation of every change; `read_only` allows no change; `insecure` states that the
    user accepts connections that others can read. `verify` says where held offsets are read. `roles` are the declared
    roles, by name. `spec_values` are the texts that `${{ context.NAME }}` in spec files is replaced by. `pace` limits
    how fast changes are applied, unless a command sets another pace.
    """

    name: str
    kafka: KafkaSettings
    connect: Mapping[str, ConnectSettings]
    protected: bool = False
    insecure: bool = False
    read_only: bool = False
    own_journal: JournalSettings | None = field(default=None, repr=False)
    verify: Verify = Verify.STORE
    policy: Policy = field(default=DEFAULT_POLICY, repr=False)
    cluster_policies: Mapping[str, Policy] = field(default_factory=dict, repr=False)
    databases: Mapping[str, DatabaseSettings] = field(default_factory=dict, repr=False)
    lakes: Mapping[str, LakeSettings] = field(default_factory=dict, repr=False)
    roles: Mapping[str, Role] = field(default_factory=dict, repr=False)
    spec_values: Mapping[str, str] = field(default_factory=dict, repr=False)
    pace: PaceSettings | None = None
    values: tuple[Value, ...] = field(default=(), repr=False)
    lookup: Lookup | None = field(default=None, repr=False, compare=False)

    @property
    def journal(self) -> JournalSettings:
        """Where changes of this context are recorded."""
        return self.own_journal or JournalSettings(self.name)

    @property
    def has_brokers(self) -> bool:
        """Whether it is known where the brokers are. Without them everything goes through REST."""
        return "bootstrap.servers" in self.kafka.values

    def policy_of(self, cluster: str | None) -> Policy:
        """What the connectors of a Connect cluster may do. None is the only cluster, where there is but one."""
        if cluster is None and len(self.connect) == 1:
            (cluster,) = self.connect
        return self.cluster_policies.get(cluster or "", self.policy)

    def find_database(self, url: str | None) -> DatabaseSettings | None:
        """The database that a connector's `connection.url` leads to, or None where the context names none."""
        return next((one for one in self.databases.values() if url and one.serves(url)), None)

    def settings(self) -> tuple[Setting, ...]:
        """Every value with its origin, masked where it is a secret."""
        return tuple(value.as_setting() for value in self.values)

    def missing(self, key: str) -> MissingSettingError:
        """The error to raise for a setting that an operation needs: it lists each place tried."""
        return (self.lookup or Lookup(self.name)).build_missing(key)

    def build_value_hint(self, name: str) -> str:
        """Return the setting to add so that spec files may use a value, and its file."""
        file = _best_place(self.lookup.places if self.lookup is not None else ())
        return f"add {name}: … under contexts.{self.name}.values in {file}"

    def build_reference_hint(self, references: Sequence[str], cluster: str | None = None) -> str:
        """Return the line to add so that connectors of a Connect cluster may use references, and its file."""
        shown = {value.key: value for value in self.values}
        if cluster is None and len(self.connect) == 1:
            (cluster,) = self.connect
        urls = shown.get(f"connect.{cluster}.urls")
        own = f"connect.{cluster}.policy.references"
        key = own if own in shown else "policy.references"
        setting = shown.get(key)
        if setting is not None and urls is not None and urls.origin.trust < setting.origin.trust:
            return f"set {urls.key} in the file that allows references, not in {urls.origin}"
        present = [item for item in (setting.raw.split("\n") if setting is not None else ()) if item]
        line = ", ".join(f"'{item}'" for item in dict.fromkeys([*present, *references]))
        places = self.lookup.places if self.lookup is not None else ()
        file = next((place.shown for place in places if place.trust is Trust.USER), "your contexts file")
        where = setting.origin.place if setting is not None else file
        return f"add references: [{line}] under contexts.{self.name}.{key.rpartition('.')[0]} in {where}"

    def reveal(self, reference: str) -> str:
        """Return the secret behind a `secret://` reference of a connector's config. A relative path starts here.

        Raises:
            RefusedError: no policy of the context allows the reference.
        """
        if not any(is_allowed_reference(reference, one) for one in (self.policy, *self.cluster_policies.values())):
            raise RefusedError(
                f"the policy of context {self.name} doesn't allow the reference {reference}",
                cause="policy.references doesn't list it",
                hint=self.build_reference_hint((reference,)),
            )
        references = (self.lookup and self.lookup.references) or SecretReferences(os.environ)
        origin = Origin(OriginKind.OVERRIDE, "the connector's config")
        return references.resolve(reference, key="a config value", origin=origin, folder=Path.cwd())
