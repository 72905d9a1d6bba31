"""Merged layers → an opened context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from seamark.context.cluster import Cluster, build_cluster
from seamark.context.context import Context, Lookup
from seamark.context.database import DATABASES, build_databases
from seamark.context.journal import build_journal
from seamark.context.lake import LAKES, build_lakes
from seamark.context.layer import COMMANDS, KeyPath, Layer, Leaf, show_key
from seamark.context.origin import Origin, Trust
from seamark.context.policy import build_policies
from seamark.context.reference import Command, SecretReferences
from seamark.context.roles import build_roles
from seamark.context.safety import check_kafka_transport
from seamark.context.schema import FLAG_KEYS
from seamark.context.search import Place, Surroundings
from seamark.context.settings import KafkaSettings
from seamark.context.trust import (
    check_connect_trust,
    check_database_trust,
    check_insecure_trust,
    check_kafka_trust,
    check_lake_trust,
    choose_guarded,
)
from seamark.context.typed import read_bool
from seamark.context.value import Value
from seamark.context.verify import build_verify
from seamark.context.worker import WorkerFile
from seamark.errors import InvalidSettingError


@dataclass(frozen=True, slots=True)
class Merged:
    """All layers in one: of each value the strongest, of each name every place."""

    values: Mapping[KeyPath, Leaf] = field(default_factory=dict)
    sections: Mapping[KeyPath, Origin] = field(default_factory=dict)


def merge_layers(layers: Sequence[Layer]) -> Merged:
    """Merge value by value. `layers` come strongest first."""
    values: dict[KeyPath, Leaf] = {}
    sections: dict[KeyPath, Origin] = {}
    for layer in layers:
        for path, leaf in layer.values.items():
            values.setdefault(path, leaf)
        for path, origin in layer.sections.items():
            sections.setdefault(path, origin)
    return Merged(values, sections)


def build_context(
    name: str,
    *,
    chosen_by: Origin,
    layers: tuple[Layer, ...],
    places: tuple[Place, ...],
    surroundings: Surroundings,
) -> Context:
    """Open the context of that name. Files it names are read; secrets are not."""
    merged = merge_layers(layers)
    root: KeyPath = ("contexts", name)
    references = _build_references(layers, places=places, surroundings=surroundings)
    chosen = {**merged.values, **choose_guarded(root, layers)}
    own = {path[2:]: _build_value(path, leaf, references) for path, leaf in chosen.items() if path[:2] == root}
    flags = {key: own.get((key,), Value(key, "false")) for key in FLAG_KEYS}
    insecure = read_bool(flags["insecure"])
    lookup = Lookup(name, layers, places=places, references=references)
    clusters = [
        build_cluster(path[3], own, lookup=lookup, surroundings=surroundings, is_insecure_allowed=insecure)
        for path in merged.sections
        if path[:3] == (*root, "connect")
    ]
    databases = build_databases(
        [path[3] for path in merged.sections if path[:3] == (*root, DATABASES)], own, lookup=lookup
    )
    lakes = build_lakes([path[3] for path in merged.sections if path[:3] == (*root, LAKES)], own, lookup=lookup)
    roles = build_roles(root, layers=layers)
    urls = {cluster.settings.name: own["connect", cluster.settings.name, "urls"].origin for cluster in clusters}
    policies = build_policies(root, urls, layers=layers)
    workers = {cluster.settings.name: cluster.worker for cluster in clusters if cluster.worker is not None}
    kafka = {path[1]: value for path, value in own.items() if path[0] == "kafka"}
    kafka |= _find_worker_kafka(list(workers.values()), kafka)
    credentials = check_kafka_trust(kafka)
    for cluster in clusters:
        credentials += check_connect_trust(cluster.values)
    check_insecure_trust(flags["insecure"], credentials)
    for part in databases.databases:
        check_database_trust(_pick(databases.values, part), environ=surroundings.environ, home=surroundings.home)
    for part in lakes.lakes:
        check_lake_trust(_pick(lakes.values, part))
    _check_transport(kafka, is_allowed=insecure)
    has_brokers = "bootstrap.servers" in kafka
    journal = build_journal(name, own, surroundings=surroundings, has_brokers=has_brokers)
    has_file = any(cluster.settings.offsets_file is not None for cluster in clusters)
    verify, verify_value = build_verify(own, has_stores=has_brokers or has_file)
    lookup.worker_places = {cluster: worker.place for cluster, worker in workers.items()}
    settings = KafkaSettings(
        kafka,
        is_insecure_allowed=insecure,
        home=surroundings.home,
        build_missing=lambda: lookup.build_missing("kafka.bootstrap.servers"),
    )
    return Context(
        name,
        settings,
        {cluster.settings.name: cluster.settings for cluster in clusters},
        protected=read_bool(flags["protected"]),
        read_only=read_bool(flags["read_only"]),
        roles=roles.roles,
        insecure=insecure,
        own_journal=journal.settings,
        verify=verify,
        policy=policies.policy,
        cluster_policies=policies.clusters,
        databases=databases.databases,
        lakes=lakes.lakes,
        values=(
            *_order_values(
                (Value("context", name, chosen_by), *flags.values(), *journal.values, verify_value), kafka, clusters
            ),
            *databases.values,
            *lakes.values,
            *policies.values,
            *roles.values,
        ),
        lookup=lookup,
    )


def _build_references(
    layers: Sequence[Layer], *, places: Sequence[Place], surroundings: Surroundings
) -> SecretReferences:
    commands: dict[str, Command] = {}
    # The most trusted file comes last, so that it decides.
    for layer in layers:
        for path, leaf in layer.values.items():
            if path[0] == COMMANDS:
                commands[path[1]] = Command(leaf.texts, leaf.folder, leaf.origin.exact)
    own_file = next((place.shown for place in places if place.trust is Trust.USER), "your contexts file")
    return SecretReferences(surroundings.environ, surroundings.home, commands, own_file)


def _pick(values: Sequence[Value], part: str) -> list[Value]:
    """Return the values of one database or lake: their keys are SECTION.NAME.KEY."""
    return [value for value in values if value.key.partition(".")[2].rpartition(".")[0] == part]


def _build_value(path: KeyPath, leaf: Leaf, references: SecretReferences) -> Value:
    # A line end stands between the items of a list: a URL may hold a comma, but never that.
    return Value(show_key(path), "\n".join(leaf.texts), leaf.origin, folder=leaf.folder, references=references)


def _order_values(own: tuple[Value, ...], kafka: Mapping[str, Value], clusters: Sequence[Cluster]) -> tuple[Value, ...]:
    connect = [value for cluster in clusters for value in cluster.values]
    return (*own, *(kafka[key] for key in sorted(kafka)), *connect)


def _find_worker_kafka(workers: Sequence[WorkerFile], given: Mapping[str, Value]) -> dict[str, Value]:
    """The Kafka settings of the first worker file that has any; never a mixture of two files."""
    found = [values for values in (worker.find_kafka_values(given) for worker in workers) if values]
    _check_same_cluster([values["bootstrap.servers"] for values in found if "bootstrap.servers" in values])
    return next((values for values in found if "bootstrap.servers" in values), found[0] if found else {})


def _check_same_cluster(servers: Sequence[Value]) -> None:
    """Refuse two worker files that share no broker: a context is one Kafka cluster."""
    for other in servers[1:]:
        if _split_servers(servers[0]).isdisjoint(_split_servers(other)):
            raise InvalidSettingError(
                "two worker files of one context name different Kafka clusters",
                cause=f"bootstrap.servers of {servers[0].origin} and {other.origin} have no address in common",
                hint="make two contexts of it, or give kafka.bootstrap.servers in this one",
                context={"setting": "kafka.bootstrap.servers"},
            )


def _split_servers(value: Value) -> set[str]:
    return {part.strip().lower() for part in value.raw.split(",")}


def _check_transport(kafka: Mapping[str, Value], *, is_allowed: bool) -> None:
    """Refuse what is open already in the file. References are resolved, and checked, by the client's config."""
    plain = {key: value.raw for key, value in kafka.items() if not value.is_reference}
    origins = {key: value.origin.exact for key, value in kafka.items()}
    check_kafka_transport(plain, origins=origins, is_allowed=is_allowed)
