"""The settings of one Connect cluster: the context's own, filled from the worker's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from seamark.context.context import Lookup
from seamark.context.files import expand_path
from seamark.context.layer import KeyPath
from seamark.context.safety import build_insecure
from seamark.context.schema import CONNECT_KEYS, SettingKind
from seamark.context.search import Surroundings
from seamark.context.secret import Secret
from seamark.context.settings import ConnectSettings
from seamark.context.typed import build_invalid, read_bool, read_text, refuse_reference
from seamark.context.urls import WorkerUrls, parse_urls
from seamark.context.value import Value
from seamark.context.worker import WorkerFile, read_worker_file

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
    values.setdefault("verify", Value(f"connect.{name}.verify", "true"))
    if not read_bool(values["verify"]) and not is_insecure_allowed:
        origin = values["verify"].origin.exact
        raise build_insecure(f"connect.{name}.verify", origin, "any server could pass for a worker", fix="use ca_file")
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
            raise build_invalid(value, "is not a word that Connect knows", hint="enabled, preparing or disabled")
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
        verify=read_bool(values["verify"]),
        exactly_once=read_bool(values["exactly_once"]) if "exactly_once" in values else None,
        worker_config=paths.get("worker_config"),
        offsets_file=paths.get("offsets_file"),
        **texts,
    )


def _build_credentials(values: Mapping[str, Value], urls: WorkerUrls) -> tuple[str | None, Secret | None]:
    own = [values[key] for key in ("username", "password") if key in values]
    if urls.username or urls.password:
        if own:
            raise build_invalid(
                own[0], "is given twice: here and in the URLs", hint="take user and password out of urls"
            )
        source = values["urls"]
        literal = Secret(urls.password or "", is_literal=source.is_literal, origin=source.origin)
        return urls.username, literal if urls.password else None
    if "password" not in values:
        return (read_text(values["username"]) if "username" in values else None), None
    if "username" not in values:
        raise build_invalid(values["password"], "is given without username", hint="give username too")
    return read_text(values["username"]), values["password"].as_secret()


def _is_path(key: str) -> bool:
    return CONNECT_KEYS[key] is SettingKind.PATH


def _read_path(value: Value, home: Path | None) -> Path:
    return expand_path(read_text(value), folder=value.folder, home=home)
