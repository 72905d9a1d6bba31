"""What `context add` was given, as the content of a contexts file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seamark.cli.secrets import read_secret
from seamark.cli.session import Session
from seamark.core.sensitive import is_reference, is_sensitive, mask_text
from seamark.errors import UsageError

DEFAULT_CLUSTER = "connect"

_NAMED_URL = re.compile(r"(?:(?P<cluster>[^=:/]+)=)?(?P<url>https?://\S+)")


@dataclass(frozen=True, slots=True)
class NewContext:
    """The two sections of a context."""

    kafka: dict[str, str] = field(default_factory=dict)
    connect: dict[str, dict[str, Any]] = field(default_factory=dict)


def build_content(session: Session, given: Mapping[str, Any]) -> NewContext:
    """The sections from the options; secrets are looked at last, so that a typing error asks for none."""
    connect: dict[str, dict[str, Any]] = {
        cluster: {"urls": urls} for cluster, urls in build_clusters(given["connect"]).items()
    }
    for cluster, path in build_worker_configs(given["worker_config"], clusters=tuple(connect)).items():
        connect.setdefault(cluster, {})["worker_config"] = path
    kafka = build_kafka(given["bootstrap"], given["kafka"])
    if not connect and not kafka:
        raise UsageError(
            "a context needs a Connect worker or brokers", hint="give --connect URL or --bootstrap HOST:PORT"
        )
    login = _build_login(session, given)
    if login and not connect:
        raise UsageError("--username and --password are for Connect workers", hint="give --connect URL too")
    return NewContext(kafka, {cluster: {**part, **login} for cluster, part in connect.items()})


def build_clusters(given: Iterable[str]) -> dict[str, list[str]]:
    """Worker URLs by cluster, from `[CLUSTER=]URL`."""
    clusters: dict[str, list[str]] = {}
    for text in given:
        found = _NAMED_URL.fullmatch(text)
        if found is None:
            raise UsageError(
                f"{mask_text(text)!r} is not [CLUSTER=]URL",
                hint="such as http://worker:8083 or game=http://worker:8083",
            )
        if mask_text(found["url"]) != found["url"]:
            raise UsageError("a URL must not hold a user or password", hint="give --username and --password")
        clusters.setdefault(found["cluster"] or DEFAULT_CLUSTER, []).append(found["url"])
    return clusters


def build_worker_configs(given: Iterable[str], *, clusters: tuple[str, ...]) -> dict[str, str]:
    """Paths of worker files by cluster, from `[CLUSTER=]FILE`. The cluster may be left out where there is one."""
    files: dict[str, str] = {}
    for text in given:
        cluster, path = _split_cluster(text, clusters=clusters)
        whole = Path(path).expanduser().resolve()
        if not whole.is_file():
            raise UsageError(f"the worker config is not there: {path}", hint="give the path of a properties file")
        files[cluster] = str(whole)
    return files


def _split_cluster(text: str, *, clusters: tuple[str, ...]) -> tuple[str, str]:
    cluster, equals, path = text.partition("=")
    # A path may hold a = too: only a name that --connect gave counts as a cluster.
    if equals and cluster in (clusters or (DEFAULT_CLUSTER,)):
        return cluster, path
    if len(clusters) > 1:
        raise UsageError(
            f"which cluster has the worker config {text}?", hint=f"say it: --worker-config {clusters[0]}={text}"
        )
    return clusters[0] if clusters else DEFAULT_CLUSTER, text


def build_kafka(bootstrap: str | None, given: Iterable[str]) -> dict[str, str]:
    """Client settings from `--bootstrap` and `KEY=VALUE`. A secret must be a reference."""
    settings = {"bootstrap.servers": bootstrap} if bootstrap else {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{mask_text(text)!r} is not KEY=VALUE", hint="such as security.protocol=SSL")
        if is_sensitive(key) and not is_reference(value):
            raise UsageError(f"{key} does not take the secret itself", hint=f"give {key}=secret://env/NAME")
        settings[key] = value
    return settings


def _build_login(session: Session, given: Mapping[str, Any]) -> dict[str, str]:
    login: dict[str, str] = {}
    if given["username"]:
        login["username"] = given["username"]
    if given["password"]:
        login["password"] = read_secret(session, given["password"], option="--password")
        if not is_reference(login["password"]):
            _warn_of_literal(session, is_project=given["project"])
    return login


def _warn_of_literal(session: Session, *, is_project: bool) -> None:
    if is_project:
        raise UsageError(
            "a password can't be written into the file of a project", hint="give a reference: secret://env/NAME"
        )
    session.reporter.note("note: the password is written as it is into your contexts file; a reference is safer")
