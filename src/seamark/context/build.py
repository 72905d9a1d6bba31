"""Merged layers → an opened context."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from seamark.context.context import (
    ConnectSettings,
    Context,
    DatabaseSettings,
    KafkaSettings,
    LakeSettings,
    Lookup,
    PaceSettings,
    WorkerFile,
    read_worker_file,
)
from seamark.context.files import expand_path
from seamark.context.java_client import build_insecure, check_kafka_transport
from seamark.context.journal import build_journal, build_verify
from seamark.context.layer import COMMANDS, VALUES, KeyPath, Layer, Leaf, Origin, Trust, show_key
from seamark.context.policy import build_policies, build_roles
from seamark.context.reference import PREFIX, Command, Secret, SecretReferences
from seamark.context.schema import CONNECT_KEYS, DATABASE_KEYS, FLAG_KEYS, LAKE_KEYS, PACE, PACE_KEYS, SettingKind
from seamark.context.search import SearchedFile, Surroundings
from seamark.context.trust import (
    check_connect_trust,
    check_database_trust,
    check_insecure_trust,
    check_kafka_trust,
    check_lake_trust,
    choose_guarded,
)
from seamark.context.urls import WorkerUrls, parse_urls
from seamark.context.value import Value, build_invalid, read_bool, read_text, refuse_reference
from seamark.core.secrets import is_sensitive, mask_value
from seamark.errors import InvalidSettingError

# Kafka's words. "preparing" is a step of a rolling upgrade: the guarantee does not hold yet.
_EXACTLY_ONCE = {"enabled": "true", "preparing": "false", "disabled": "false"}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Connect cluster with the values it was made of and its worker's file."""

    settings: ConnectSettings
    values: tuple[Value, ...]
    worker: WorkerFile | None = None


def build_cluster(
    name: str,
    own: Mapping[KeyPath, Value],
    *,
    lookup: Lookup,
    surroundings: Surroundings,
    is_insecure_allowed: bool,
) -> Cluster:
    """The cluster of that name. `own` are the values of the context."""
    values = {path[2]: value for path, value in own.items() if path[:2] == ("connect", name) and len(path) == 3}
    if "urls" not in values:
        raise lookup.build_missing(f"connect.{name}.urls")
    for key, value in values.items():
        if CONNECT_KEYS[key] is not SettingKind.SECRET:
            refuse_reference(value)
    paths = {key: _read_path(value, surroundings.home) for key, value in values.items() if _is_path(key)}
    worker = None
    if "worker_config" in paths:
        trust = values["worker_config"].origin.trust
        worker = read_worker_file(paths["worker_config"], surroundings, trust=trust)
        for key, value in worker.find_cluster_values(name).items():
            if key not in values:
                values[key] = _settle(key, value)
                if _is_path(key):
                    paths[key] = _read_path(values[key], None)
    values.setdefault("tls_verify", Value(f"connect.{name}.tls_verify", "true"))
    if not read_bool(values["tls_verify"]) and not is_insecure_allowed:
        origin = values["tls_verify"].origin.exact
        raise build_insecure(
            f"connect.{name}.tls_verify", origin, "any server could impersonate a worker", fix="use ca_file"
        )
    shown = tuple(values[key] for key in CONNECT_KEYS if key in values)
    settings = _build_settings(name, values, paths)
    if not is_insecure_allowed:
        _check_basic_auth(settings, values["urls"])
    return Cluster(settings, shown, worker)


def _check_basic_auth(settings: ConnectSettings, urls: Value) -> None:
    """Refuse Basic auth over plain http: it sends the password in every request."""
    if settings.username is not None and any(url.startswith("http:") for url in settings.urls):
        raise build_insecure(
            urls.key, urls.origin.exact, "Basic auth over http sends the password in clear", fix="use https"
        )


def _settle(key: str, value: Value) -> Value:
    """A worker's value with its references resolved, in our own words."""
    text = read_text(value)
    if key == "exactly_once":
        found = _EXACTLY_ONCE.get(text.lower())
        if found is None:
            raise build_invalid(value, "is not a value that Connect supports", hint="enabled, preparing or disabled")
        text = found
    return Value(value.key, text, value.origin, folder=value.folder)


def _build_settings(name: str, values: Mapping[str, Value], paths: Mapping[str, Path]) -> ConnectSettings:
    urls = parse_urls(values["urls"].reveal().split("\n"), key=values["urls"].key, where=values["urls"].origin.exact)
    username, password = _build_credentials(values, urls)
    texts = {key: read_text(value) for key, value in values.items() if CONNECT_KEYS[key] is SettingKind.TEXT}
    return ConnectSettings(
        name,
        urls.urls,
        username=username,
        password=password,
        ca_file=paths.get("ca_file"),
        verify=read_bool(values["tls_verify"]),
        exactly_once=read_bool(values["exactly_once"]) if "exactly_once" in values else None,
        worker_config=paths.get("worker_config"),
        offsets_file=paths.get("offsets_file"),
        **texts,
    )


def _build_credentials(values: Mapping[str, Value], urls: WorkerUrls) -> tuple[str | None, Secret | None]:
    own = [values[key] for key in ("username", "password") if key in values]
    if urls.username or urls.password:
        if own:
            raise build_invalid(own[0], "is set twice: here and in the URLs", hint="remove user and password from urls")
        source = values["urls"]
        literal = Secret(urls.password or "", is_literal=source.is_literal, origin=source.origin)
        return urls.username, literal if urls.password else None
    if "password" not in values:
        return (read_text(values["username"]) if "username" in values else None), None
    if "username" not in values:
        raise build_invalid(values["password"], "is set without username", hint="set username too")
    return read_text(values["username"]), values["password"].as_secret()


def _is_path(key: str) -> bool:
    return CONNECT_KEYS[key] is SettingKind.PATH


def _read_path(value: Value, home: Path | None) -> Path:
    return expand_path(read_text(value), folder=value.folder, home=home)


DATABASES = "databases"


def build_databases(
    names: list[str], own: Mapping[KeyPath, Value], *, lookup: Lookup
) -> tuple[dict[str, DatabaseSettings], list[Value]]:
    """The databases of those names, and the values they were made of. `own` are the values of the context."""
    found: dict[str, DatabaseSettings] = {}
    shown: list[Value] = []
    for name in names:
        values = {key: own[DATABASES, name, key] for key in DATABASE_KEYS if (DATABASES, name, key) in own}
        for key in DATABASE_KEYS:
            if key not in values:
                raise lookup.build_missing(f"{DATABASES}.{name}.{key}")
        found[name] = DatabaseSettings(name, _read_jdbc_url(values["jdbc_url"]), values["dsn"].as_secret())
        shown += values.values()
    return found, shown


def _read_jdbc_url(value: Value) -> str:
    refuse_reference(value)
    url = read_text(value)
    if not url.startswith("jdbc:postgresql:"):
        raise build_invalid(value, "is not a JDBC URL of PostgreSQL", hint="write jdbc:postgresql://HOST:PORT/DATABASE")
    if "?" in url:
        raise build_invalid(value, "has parameters", hint="remove ? and what follows: parameters are not compared")
    return url


LAKES = "lakes"
# A region is part of the host name of AWS: any other character could name another host.
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_SCHEMES = ("s3://", "s3a://", "file:///", "/")


def build_lakes(
    names: list[str], own: Mapping[KeyPath, Value], *, lookup: Lookup
) -> tuple[dict[str, LakeSettings], list[Value]]:
    """The lakes of those names, and the values they were made of. `own` are the values of the context."""
    found: dict[str, LakeSettings] = {}
    shown: list[Value] = []
    for name in names:
        values = {key: own[LAKES, name, key] for key in LAKE_KEYS if (LAKES, name, key) in own}
        if "url" not in values:
            raise lookup.build_missing(f"{LAKES}.{name}.url")
        secrets = {key: values[key].as_secret() for key in ("access_key", "secret_key") if key in values}
        if len(secrets) == 1:
            (key,) = secrets
            raise build_invalid(values[key], "is set without the other key", hint="set both access_key and secret_key")
        found[name] = LakeSettings(
            name,
            _read_lake_url(values["url"], _SCHEMES, hint="write /FOLDER or s3://BUCKET/PREFIX"),
            endpoint=_read_lake_url(values["endpoint"], ("http://", "https://"), hint="write https://HOST:PORT")
            if "endpoint" in values
            else "",
            region=_read_region(values["region"]) if "region" in values else "",
            **secrets,
        )
        shown += values.values()
    return found, shown


def _read_region(value: Value) -> str:
    refuse_reference(value)
    region = read_text(value)
    if not _REGION.fullmatch(region):
        raise build_invalid(value, "is not the name of a region", hint="write a name such as eu-central-1")
    return region


def _read_lake_url(value: Value, schemes: tuple[str, ...], *, hint: str) -> str:
    refuse_reference(value)
    url = read_text(value)
    if not url.startswith(schemes) or "?" in url or "@" in url:
        raise build_invalid(value, "is not a valid location", hint=hint)
    return url.rstrip("/")


def build_spec_values(root: KeyPath, chosen: Mapping[KeyPath, Leaf]) -> tuple[dict[str, str], list[Value]]:
    """Return what `${{ context.NAME }}` is replaced by, a list as its items with commas, and the settings.

    Raises:
        InvalidSettingError: a value is a secret, which every reader of a connector's config would see.
    """
    texts: dict[str, str] = {}
    shown: list[Value] = []
    for path, leaf in chosen.items():
        if path[:-1] != (*root, VALUES):
            continue
        name, value = path[-1], Value(show_key(path), "\n".join(leaf.texts), leaf.origin, folder=leaf.folder)
        if is_sensitive(name) or any(mask_value(name, text) != text or PREFIX in text for text in leaf.texts):
            raise build_invalid(
                value,
                "appears to be a secret, and would be written into configs in plain text",
                hint="remove it, and write secret://env/NAME as the whole value in the spec file",
            )
        if len(leaf.texts) > 1 and any("," in text for text in leaf.texts):
            raise build_invalid(value, "has an item with a comma", hint="write each item without commas")
        texts[name] = leaf.text
        shown.append(value)
    return texts, shown


def build_pace(own: Mapping[KeyPath, Value]) -> tuple[PaceSettings | None, list[Value]]:
    """The pace of the context, and the values it was made of; None if it sets none."""
    values = {key: own[PACE, key] for key in PACE_KEYS if (PACE, key) in own}
    if not values:
        return None, []
    for value in values.values():
        refuse_reference(value)
    pace = PaceSettings()
    if "parallel" in values:
        text = read_text(values["parallel"])
        # At most six digits: a longer text could be slow to convert, and no Connect cluster has more connectors.
        if not (text.isascii() and text.isdigit() and len(text) <= 6 and int(text)):
            raise build_invalid(values["parallel"], "is not a number of at least 1", hint="write a number such as 4")
        pace = replace(pace, parallel=int(text))
    if "wait_stable" in values:
        pace = replace(pace, wait_stable=read_bool(values["wait_stable"]))
        if "parallel" in values and values["parallel"].origin.trust < values["wait_stable"].origin.trust:
            # The more trusted place also set the default of the other key.
            pace = replace(pace, parallel=min(pace.parallel, PaceSettings().parallel))
    return pace, list(values.values())


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
    places: tuple[SearchedFile, ...],
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
    databases, database_values = build_databases(
        [path[3] for path in merged.sections if path[:3] == (*root, DATABASES)], own, lookup=lookup
    )
    lakes, lake_values = build_lakes(
        [path[3] for path in merged.sections if path[:3] == (*root, LAKES)], own, lookup=lookup
    )
    roles = build_roles(root, layers=layers)
    pace, pace_values = build_pace(own)
    spec_values, value_settings = build_spec_values(root, chosen)
    urls = {cluster.settings.name: own["connect", cluster.settings.name, "urls"].origin for cluster in clusters}
    policies = build_policies(root, urls, layers=layers)
    workers = {cluster.settings.name: cluster.worker for cluster in clusters if cluster.worker is not None}
    kafka = {path[1]: value for path, value in own.items() if path[0] == "kafka"}
    kafka |= _find_worker_kafka(list(workers.values()), kafka)
    credentials = check_kafka_trust(kafka)
    for cluster in clusters:
        credentials += check_connect_trust(cluster.values)
    check_insecure_trust(flags["insecure"], credentials)
    for part in databases:
        check_database_trust(_pick(database_values, part), environ=surroundings.environ, home=surroundings.home)
    for part in lakes:
        check_lake_trust(_pick(lake_values, part))
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
        databases=databases,
        lakes=lakes,
        spec_values=spec_values,
        pace=pace,
        values=(
            *_order_values(
                (Value("context", name, chosen_by), *flags.values(), *journal.values, verify_value), kafka, clusters
            ),
            *pace_values,
            *database_values,
            *lake_values,
            *policies.values,
            *roles.values,
            *value_settings,
        ),
        lookup=lookup,
    )


def _build_references(
    layers: Sequence[Layer], *, places: Sequence[SearchedFile], surroundings: Surroundings
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
                hint="use two contexts, or set kafka.bootstrap.servers in this one",
                context={"setting": "kafka.bootstrap.servers"},
            )


def _split_servers(value: Value) -> set[str]:
    return {part.strip().lower() for part in value.raw.split(",")}


def _check_transport(kafka: Mapping[str, Value], *, is_allowed: bool) -> None:
    """Refuse what is open already in the file. References are resolved, and checked, by the client's config."""
    plain = {key: value.raw for key, value in kafka.items() if not value.is_reference}
    origins = {key: value.origin.exact for key, value in kafka.items()}
    check_kafka_transport(plain, origins=origins, is_allowed=is_allowed)
