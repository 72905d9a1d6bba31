"""Which place may set what: credentials go only to addresses of the same or a more trusted place.

A project file comes with a repository, so a merge request can change it. Whatever it sets must neither redirect the
user's credentials nor weaken the connection that carries them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seamark.context.layer import VALUES, KeyPath, Layer, Leaf, OriginKind, Trust
from seamark.context.reference import PREFIX
from seamark.context.schema import GUARDED_KEYS, PACE, PACE_KEYS
from seamark.context.value import Value, read_bool
from seamark.errors import UntrustedSettingError

# What proves an identity to a broker, or is sent to get a token.
_KAFKA_CREDENTIALS = frozenset(
    {
        "sasl.jaas.config",
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.jwt.template.file",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.password",
        "sasl.username",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
    }
)
# librdkafka then takes a token from the metadata service of the machine's cloud and sends it to the brokers.
_MACHINE_IDENTITY = "sasl.oauthbearer.metadata.authentication.type"
_COMMAND = f"{PREFIX}command/"
_FILE = f"{PREFIX}file/"
_CONNECT_CREDENTIALS = frozenset({"username", "password"})
# Settings of a Connect cluster that decide where a request goes and whether others can read it.
_CONNECT_ROUTE = frozenset({"urls", "ca_file", "tls_verify"})
_LAKE_CREDENTIALS = frozenset({"access_key", "secret_key"})
# libpq reads a password from these when the DSN has none, and from files that the DSN names.
_LIBPQ_VARIABLES = ("PGPASSWORD", "PGPASSFILE", "PGSERVICE", "PGSERVICEFILE", "PGSSLKEY")
_LIBPQ_FILES = re.compile(r"\b(?:passfile|service|sslkey)\b")


@dataclass(frozen=True, slots=True)
class Credential:
    """Something secret that a group of settings sends, and how far the place that it comes from is trusted."""

    words: str
    what: str
    trust: Trust


def choose_guarded(root: KeyPath, layers: Iterable[Layer]) -> dict[KeyPath, Leaf]:
    """Return the guarded settings of the context at `root`, each from the most trusted place that sets it."""
    found: dict[KeyPath, Leaf] = {}
    ordered = tuple(layers)
    # A value becomes part of the configs that are written with the credentials of the context.
    below = {path for layer in ordered for path in layer.values if path[:-1] == (*root, VALUES)}
    # A repository must not make changes faster than the user or an administrator allows.
    pace = ((*root, PACE, key) for key in PACE_KEYS)
    for path in (*((*root, key) for key in GUARDED_KEYS), *pace, *sorted(below)):
        leaves = [layer.values[path] for layer in ordered if path in layer.values]
        if leaves:
            # Of equal trust, the file decides: a flag can't loosen what the user wrote.
            found[path] = max(leaves, key=lambda leaf: (leaf.origin.trust, leaf.origin.is_file))
    return found


def check_kafka_trust(kafka: Mapping[str, Value]) -> list[Credential]:
    """Refuse Kafka settings of a place that is less trusted than the credentials, which are returned.

    Every key counts, not only addresses: a certificate authority, a token URL or `debug` leaks a password too.

    Raises:
        UntrustedSettingError: a less trusted place sets one of them.
    """
    credentials = [
        _build_credential(value)
        for key, value in kafka.items()
        if key in _KAFKA_CREDENTIALS or key == _MACHINE_IDENTITY or value.is_reference
    ]
    members = [value for key, value in sorted(kafka.items()) if key not in _KAFKA_CREDENTIALS]
    _check(_order(members, "bootstrap.servers"), credentials)
    return credentials


def check_connect_trust(values: Sequence[Value]) -> list[Credential]:
    """Refuse an address or a transport of a Connect cluster that is less trusted than its credentials.

    The credentials are returned.

    Raises:
        UntrustedSettingError: a less trusted place sets one of them.
    """
    named = {value.key.rpartition(".")[2]: value for value in values}
    credentials = [
        _build_credential(value)
        for key, value in named.items()
        if key in _CONNECT_CREDENTIALS or value.is_reference or (key == "urls" and value.is_secret)
    ]
    _check((value for key, value in named.items() if key in _CONNECT_ROUTE), credentials)
    return credentials


def check_insecure_trust(insecure: Value, credentials: Sequence[Credential]) -> None:
    """Refuse a consent to insecure connections from a place that is less trusted than the credentials they carry.

    Raises:
        UntrustedSettingError: a less trusted place gives the consent.
    """
    if read_bool(insecure):
        _check([insecure], credentials)


def check_database_trust(values: Sequence[Value], *, environ: Mapping[str, str], home: Path | None) -> None:
    """Refuse a DSN of a project file that libpq would complete with a password of this machine.

    Raises:
        UntrustedSettingError: a project file writes a DSN where the machine has passwords for libpq.
    """
    for value in values:
        is_of_user = value.is_reference and not value.raw.startswith(_FILE)
        if not value.key.endswith(".dsn") or is_of_user:
            continue
        sources = [name for name in _LIBPQ_VARIABLES if environ.get(name)]
        if home is not None and (home / ".pgpass").exists():
            sources.append("~/.pgpass")
        # A file may come with the repository, and what it says is not known yet.
        if _LIBPQ_FILES.search(value.raw) or value.is_reference:
            sources.append("a file that the DSN names")
        if sources:
            _check([value], [Credential(f"libpq reads {sources[0]}", "the password of libpq", Trust.ENVIRONMENT)])


def check_lake_trust(values: Sequence[Value]) -> None:
    """Refuse the address of a lake that is less trusted than its credentials, or than those of the machine.

    Raises:
        UntrustedSettingError: a less trusted place sets one of them.
    """
    named = {value.key.rpartition(".")[2]: value for value in values}
    credentials = [_build_credential(value) for key, value in named.items() if key in _LAKE_CREDENTIALS]
    members = [value for key, value in named.items() if key not in _LAKE_CREDENTIALS]
    if not credentials and named["url"].raw.startswith("s3"):
        # Without an endpoint, requests go to AWS, whichever bucket is named.
        members = [named["endpoint"]] if "endpoint" in named else []
        what = "the AWS credentials of this machine"
        credentials = [Credential(f"without access_key, requests use {what}", what, Trust.ENVIRONMENT)]
    _check(members, credentials)


def _order(members: Iterable[Value], first: str) -> Iterator[Value]:
    return iter(sorted(members, key=lambda value: not value.key.endswith(first)))


def _build_credential(value: Value) -> Credential:
    """Return the credential behind a value.

    A reference, a file and a worker's file hold secrets of this machine, even if a project file names them.
    """
    trust, place = value.origin.trust, str(value.origin)
    if value.raw.startswith(_COMMAND) and value.is_reference:
        return Credential(
            f"{place} sets {value.key}, which runs a command of your own", value.key, max(trust, Trust.USER)
        )
    is_of_machine = value.is_reference or value.origin.kind is OriginKind.WORKER or _is_file_or_identity(value.key)
    if trust < Trust.ENVIRONMENT and is_of_machine:
        return Credential(
            f"{place} sets {value.key}, which reads a secret of this machine", value.key, Trust.ENVIRONMENT
        )
    return Credential(f"{place} ({trust.words}) sets {value.key}", value.key, trust)


def _is_file_or_identity(key: str) -> bool:
    return key.endswith((".file", ".location", _MACHINE_IDENTITY))


def _check(members: Iterable[Value], credentials: Sequence[Credential]) -> None:
    if not credentials:
        return
    strictest = max(credentials, key=lambda one: one.trust)
    for value in members:
        if value.origin.trust < strictest.trust:
            raise _build_untrusted(value, strictest)


def _build_untrusted(value: Value, credential: Credential) -> UntrustedSettingError:
    origin = value.origin
    if origin.kind is OriginKind.WORKER:
        hint = "remove worker_config from the project file"
    elif origin.kind is OriginKind.ENVIRONMENT:
        hint = f"unset {origin.place}, and set {value.key} where {credential.what} is set"
    else:
        hint = (
            f"remove {value.key} from {origin.place}; if you trust that whole file as your own, "
            f"set SEAMARK_CONFIG={origin.place}"
        )
    return UntrustedSettingError(
        f"{value.key} is set in a less trusted place than {credential.what}; no connection was made",
        # Not as KEY: PLACE, which the masking of output takes for a password.
        cause=f"{origin} ({origin.trust.words}) sets {value.key}; {credential.words}",
        hint=hint,
        context={"setting": value.key, "origin": str(origin)},
    )
