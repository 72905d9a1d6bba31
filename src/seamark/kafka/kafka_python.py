"""The calls that librdkafka has not, made by kafka-python: sizes of logs, share groups, single offsets, metadata.

For a write the client is opened and closed after it: a connection that is not kept can't be a broken one, and what
could not be opened has sent nothing. For reads it is kept, as opening it takes longer than they do. Loading the library
takes a third of a second, so it is not loaded before.
"""

from __future__ import annotations

import logging
import os
import ssl
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, TypeVar

from seamark.core.readings import Reading
from seamark.core.secrets import MASK
from seamark.core.time import check_deadline
from seamark.errors import DeadlineError, InvalidSettingError, SeamarkError, UnsupportedError
from seamark.kafka.failures import build_error, build_write_failure
from seamark.kafka.groups import Committed, GroupListing, GroupType
from seamark.kafka.model import TopicPartition, TopicSize

_LOGINS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
_PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_SASL = frozenset({"sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password"})
# They only matter to a mechanism that is refused.
_SASL_UNUSED = "sasl.oauthbearer."


class Hidden(str):
    """A text that is used as it is, and never spelled out: kafka-python writes its settings into its log."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(MASK)


def build_second_settings(config: Mapping[str, str], *, timeout_seconds: float) -> dict[str, Any]:
    """What `KafkaAdminClient` takes, from settings for librdkafka.

    Raises:
        UnsupportedError: a security setting of the connection can't be translated. Nothing was sent.
    """
    protocol = (config.get("security.protocol") or "PLAINTEXT").strip().upper()
    if protocol not in _PROTOCOLS:
        raise build_untranslatable("security.protocol")
    milliseconds = int(timeout_seconds * 1000)
    settings: dict[str, Any] = {
        "bootstrap_servers": [address.strip() for address in config["bootstrap.servers"].split(",") if address.strip()],
        "client_id": config.get("client.id", "seamark"),
        "security_protocol": protocol,
        "request_timeout_ms": milliseconds,
        "bootstrap_timeout_ms": milliseconds,
    }
    if protocol.startswith("SASL_"):
        settings |= _build_login(config)
    if protocol.endswith("SSL"):
        settings["ssl_context"] = build_tls(config)
    return settings


def build_untranslatable(key: str, *, hint: str = "") -> UnsupportedError:
    """The refusal for a setting that only librdkafka understands."""
    return UnsupportedError(
        f"kafka.{key} of the context can't be used for this call",
        cause="topic sizes, deletes of single offsets and share groups need a second Kafka client, "
        "which doesn't support this setting",
        hint=hint or "remove the setting to use these calls; all others work",
        context={"setting": f"kafka.{key}"},
    )


def _build_login(config: Mapping[str, str]) -> dict[str, Any]:
    for key in config:
        if key.startswith("sasl.") and key not in _SASL and not key.startswith(_SASL_UNUSED):
            raise build_untranslatable(key)
    mechanism = (config.get("sasl.mechanism") or config.get("sasl.mechanisms") or "").strip().upper()
    if mechanism not in _LOGINS:
        raise build_untranslatable("sasl.mechanism", hint=f"it supports {', '.join(sorted(_LOGINS))}")
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": config.get("sasl.username", ""),
        "sasl_plain_password": Hidden(config.get("sasl.password", "")),
    }


T = TypeVar("T")

# Where there is no answer, the two libraries have different names for it.
_LATE = frozenset({"KafkaTimeoutError"})
_CONNECTION = frozenset({"KafkaConnectionError", "NodeNotReadyError", "UnknownBrokerIdError", "Cancelled"})


def load(module: str) -> ModuleType:
    """A module of kafka-python. It reads its own files in a way that Python 3.11 and 3.12 warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return import_module(module)


class KafkaPythonError:
    """An error of kafka-python, or a kind of them, as librdkafka would tell it."""

    def __init__(self, failure: BaseException | type[BaseException]) -> None:
        kind = failure if isinstance(failure, type) else type(failure)
        self._text = str(getattr(kind, "description", "") or kind.__name__)
        if not isinstance(failure, type):
            self._text = str(failure)
        self._name = _find_name(kind, self._text)

    def name(self) -> str:
        """Kafka's name of it, or librdkafka's for trouble with a connection."""
        return self._name

    def str(self) -> str:
        """What it says."""
        return self._text


def _build_offsets(offsets: Mapping[TopicPartition, Committed]) -> dict[Any, Any]:
    structs = load("kafka.structs")
    return {
        structs.TopicPartition(*spot): structs.OffsetAndMetadata(
            found.offset, found.metadata, -1 if found.leader_epoch is None else found.leader_epoch
        )
        for spot, found in offsets.items()
    }


class KafkaPythonClient:
    """kafka-python behind our own values and errors.

    `find_addresses` gives the brokers that are up. An address of the context may be that of one that hangs, and this
    library waits for it, or drops a socket without closing it (seen with 3.0).
    """

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        timeout_seconds: float,
        build_client: Callable[..., Any] | None = None,
        find_addresses: Callable[[], Sequence[str]] | None = None,
    ) -> None:
        self._config = dict(config)
        self._timeout_seconds = timeout_seconds
        self._build_client = build_client
        self._find_addresses = find_addresses
        self._address = config["bootstrap.servers"]
        self._kept: Any = None
        self._lock = Lock()

    @property
    def is_open(self) -> bool:
        """Whether a client is kept from an earlier read."""
        return self._kept is not None

    def close(self) -> None:
        """Let go of the client that is kept for reads. The next read opens another one."""
        with self._lock:
            self._drop()

    def __repr__(self) -> str:
        return f"KafkaPythonClient({self._address!r})"

    def read_share_groups(self) -> tuple[GroupListing, ...]:
        """Every share group. Brokers that are too old for them have none."""
        try:
            found = self._read(lambda client: client.list_groups(types_filter=["share"]), "list the share groups")
        except UnsupportedError:
            return ()
        return tuple(
            GroupListing(
                name=group["group_id"],
                state=str(group.get("group_state") or "UNKNOWN").upper(),
                type=GroupType.of(str(group.get("group_type") or "share")),
                protocol=str(group.get("protocol_type") or "share"),
            )
            for group in found
        )

    def read_connect_groups(self) -> tuple[str, ...]:
        """Return the worker groups of Connect. librdkafka lists groups of consumers only."""
        found = self._read(lambda client: client.list_groups(), "list the worker groups")
        return tuple(sorted(group["group_id"] for group in found if group.get("protocol_type") == "connect"))

    def read_sizes(self, topics: Mapping[str, Sequence[int]], *, brokers: Sequence[int]) -> Reading[TopicSize]:
        """The bytes of every copy of the topics, asked of each broker. A broker that did not answer is a failure."""
        if not topics:
            return Reading()
        sizes: dict[str, dict[tuple[int, int], int]] = {name: {} for name in topics}
        failures: dict[str, SeamarkError] = {}
        with self._open("read the sizes of topics") as client:
            for broker in brokers:
                action = f"read the sizes of topics on broker {broker}"
                try:
                    answer = client.describe_log_dirs(topic_partitions=dict(topics), brokers=[broker])
                except _find_kinds() as failure:
                    failures[f"broker {broker}"] = self._translate(failure, action=action)
                    continue
                for folder in answer[0]["log_dirs"]:
                    if folder["error_code"]:
                        failures[f"broker {broker}"] = self._translate_code(folder["error_code"], action=action)
                        continue
                    _take_sizes(sizes, folder, broker=broker)
        return Reading(tuple(TopicSize(name, found) for name, found in sizes.items()), failures=failures)

    def read_moving(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Partitions that are being reassigned, each with the brokers whose copies are on their way."""
        found = self._read(lambda client: client.list_partition_reassignments(), "list the reassignments of partitions")
        return {(spot.topic, spot.partition): tuple(moving["adding_replicas"]) for spot, moving in found.items()}

    def read_committed(self, groups: Sequence[str]) -> dict[str, dict[TopicPartition, Committed]]:
        """All that groups have committed, with metadata as it is stored. One request a coordinator."""
        found = self._read(lambda client: client.list_group_offsets(list(groups)), "read the offsets of groups")
        return {
            group: {
                (spot.topic, spot.partition): Committed(
                    held.offset, held.metadata or "", held.leader_epoch if held.leader_epoch >= 0 else None
                )
                for spot, held in offsets.items()
                if held.offset >= 0
            }
            for group, offsets in found.items()
        }

    def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, Committed]
    ) -> dict[TopicPartition, KafkaPythonError]:
        """Commit for a group. Gives the errors of single partitions; what the whole met is raised."""
        wanted = _build_offsets(offsets)
        action = f"commit offsets for the group {group}"
        with self._open(action) as client:
            return self._write(
                lambda: client.alter_group_offsets(group, wanted), action=action, subject=group, operation="READ"
            )

    def mirror_group_offsets(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Commit for a group with the kept client. For copies of offsets, where a repeated commit changes nothing."""
        wanted, action = _build_offsets(offsets), f"commit offsets for the group {group}"
        self._read(lambda client: client.alter_group_offsets(group, wanted), action)

    def delete_group_offsets(
        self, group: str, spots: Collection[TopicPartition]
    ) -> dict[TopicPartition, KafkaPythonError]:
        """Forget commits of a group. Gives the errors of single partitions; what the whole met is raised."""
        action = f"delete offsets of the group {group}"
        with self._open(action) as client:
            wanted = [load("kafka.structs").TopicPartition(*spot) for spot in spots]
            return self._write(
                lambda: client.delete_group_offsets(group, wanted), action=action, subject=group, operation="DELETE"
            )

    def _write(
        self, write: Callable[[], Mapping[Any, Any]], *, action: str, subject: str, operation: str
    ) -> dict[TopicPartition, KafkaPythonError]:
        check_deadline(action)
        try:
            found = write()
        except _find_kinds() as failure:
            error = KafkaPythonError(failure)
            raise build_write_failure(error, action=action, subject=subject, operation=operation) from None
        failed = {(spot.topic, spot.partition): kind for spot, kind in found.items() if kind.errno != 0}
        return {spot: KafkaPythonError(kind) for spot, kind in failed.items()}

    def _read(self, ask: Callable[[Any], T], action: str) -> T:
        """Use the kept client. One that broke since its last call is reopened once; a timeout stays a timeout."""
        with self._lock:
            was_open = self._kept is not None
            try:
                return self._ask(ask, action)
            except SeamarkError as error:
                if not was_open or isinstance(error, UnsupportedError | DeadlineError):
                    raise
            return self._ask(ask, action)

    def _ask(self, ask: Callable[[Any], T], action: str) -> T:
        if self._kept is None:
            self._kept = self._build(action)
        try:
            return ask(self._kept)
        except _find_kinds() as failure:
            self._drop()
            raise self._translate(failure, action=action) from None

    def _drop(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    @contextmanager
    def _open(self, action: str) -> Iterator[Any]:
        """A client for one call. Where it can't be opened, nothing was sent."""
        client = self._build(action)
        try:
            yield client
        finally:
            client.close()

    def _build(self, action: str) -> Any:
        build = self._build_client or _build_client
        settings = build_second_settings(self._config, timeout_seconds=self._timeout_seconds)
        if self._find_addresses is not None:
            settings["bootstrap_servers"] = list(self._find_addresses())
        try:
            return build(settings)
        except _find_kinds() as failure:
            raise self._translate(failure, action=action) from None

    def _translate(self, failure: Exception, *, action: str) -> SeamarkError:
        error = KafkaPythonError(failure)
        if error.name() == "UNSUPPORTED_VERSION":
            return UnsupportedError(
                f"could not {action}", cause=error.str(), hint="upgrade the brokers: their version doesn't support this"
            )
        return build_error(error, action=action, subject=self._address, operation="DESCRIBE")

    def _translate_code(self, code: int, *, action: str) -> SeamarkError:
        error = KafkaPythonError(load("kafka.errors").for_code(code))
        return build_error(error, action=action, subject=self._address, operation="DESCRIBE")


def _find_name(kind: type[BaseException], text: str) -> str:
    code = getattr(kind, "errno", None)
    if isinstance(code, int):
        from confluent_kafka import KafkaError  # noqa: PLC0415

        # An answer of the brokers has a number, which both libraries name, not always alike.
        return str(KafkaError(code).name())
    if kind.__name__ in _LATE:
        return "_TIMED_OUT"
    if "certificate" in text.lower() or "ssl" in text.lower():
        return "_SSL"
    return "_TRANSPORT" if kind.__name__ in _CONNECTION else "_FAIL"


def _find_kinds() -> tuple[type[Exception], ...]:
    """The errors that are the client's own. Any other is a fault of ours, and must not be dressed up."""
    return (load("kafka.errors").KafkaError, OSError)


def _take_sizes(sizes: dict[str, dict[tuple[int, int], int]], folder: Mapping[str, Any], *, broker: int) -> None:
    for topic in folder["topics"]:
        for partition in topic["partitions"]:
            # A copy on its way from one folder to another is counted where it still lives.
            if not partition["is_future_key"] and topic["name"] in sizes:
                sizes[topic["name"]][partition["partition_index"], broker] = partition["partition_size"]


def _build_client(settings: Mapping[str, Any]) -> Any:
    admin, network_client = load("kafka.admin").KafkaAdminClient, load("kafka.net.compat").KafkaNetClient
    _hide_logins()
    opened: list[Any] = []

    def open_network(**config: Any) -> Any:
        opened.append(network_client(**config))
        return opened[-1]

    try:
        return admin(**settings, kafka_client=open_network)
    except BaseException:
        # Its constructor starts a thread before it connects, and leaves it running where that fails.
        for network in opened:
            network.close()
        raise


class _LoginFilter(logging.Filter):
    """Keeps the lines out that spell a login: at its finest level kafka-python writes every request into its log."""

    def filter(self, record: logging.LogRecord) -> bool:
        args = record.args if isinstance(record.args, tuple) else ()
        return not any(type(found).__name__.startswith("Sasl") for found in args)


_LOGIN_FILTER = _LoginFilter()


def _hide_logins() -> None:
    # A filter that is there already is not added twice.
    logging.getLogger("kafka.net.connection").addFilter(_LOGIN_FILTER)


_KNOWN = frozenset(
    {
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.crl.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.providers",
    }
)
# These two change no rule of a connection; another one, such as fips, does.
_HARMLESS_PROVIDERS = frozenset({"default", "legacy"})


def build_tls(config: Mapping[str, str]) -> ssl.SSLContext:
    """The context for a client's connections."""
    for key in config:
        if key.startswith("ssl.") and key not in _KNOWN:
            raise build_untranslatable(key)
    if not set(config.get("ssl.providers", "default").split(",")) <= _HARMLESS_PROVIDERS:
        raise build_untranslatable("ssl.providers")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _set_checks(context, config)
    key = "ssl.ca.location"
    try:
        _load_authorities(context, config)
        key = "ssl.crl.location"
        if location := config.get(key):
            context.load_verify_locations(cafile=location)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        key = "ssl.cipher.suites"
        if ciphers := config.get(key):
            context.set_ciphers(ciphers)
        key = "ssl.certificate.location"
        _load_own(context, config)
    except (OSError, ValueError) as failure:
        # OpenSSL's message contains no secret, but may contain a part of a file: only its type is reported.
        raise InvalidSettingError(
            f"kafka.{key} of the context can't be used",
            cause=getattr(failure, "reason", "") or type(failure).__name__,
            hint="check the file and its password",
            context={"setting": f"kafka.{key}"},
        ) from None
    return context


def _set_checks(context: ssl.SSLContext, config: Mapping[str, str]) -> None:
    algorithm = config.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    # The host name first: Python does not let go of the certificate while it still compares names.
    context.check_hostname = algorithm != "none"
    if config.get("enable.ssl.certificate.verification", "true").strip().lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE


def _load_authorities(context: ssl.SSLContext, config: Mapping[str, str]) -> None:
    location, pem = config.get("ssl.ca.location", ""), config.get("ssl.ca.pem", "")
    if pem:
        context.load_verify_locations(cadata=pem)
    if location and location != "probe":
        is_folder = Path(location).is_dir()
        context.load_verify_locations(cafile=None if is_folder else location, capath=location if is_folder else None)
    elif not pem:
        context.load_default_certs()


def _load_own(context: ssl.SSLContext, config: Mapping[str, str]) -> None:
    """The client's own certificate and key, from files, from texts or from a PKCS12 store."""
    password = config.get("ssl.key.password")
    if location := config.get("ssl.keystore.location"):
        pem = _read_store(Path(location), config.get("ssl.keystore.password", ""))
        with _as_file(pem) as path:
            context.load_cert_chain(path)
        return
    certificate, key = config.get("ssl.certificate.location"), config.get("ssl.key.location")
    if certificate and key:
        context.load_cert_chain(certificate, key, password=password)
        return
    texts = [config.get("ssl.certificate.pem", ""), config.get("ssl.key.pem", "")]
    texts[0] = texts[0] or (Path(certificate).read_text(encoding="utf-8") if certificate else "")
    texts[1] = texts[1] or (Path(key).read_text(encoding="utf-8") if key else "")
    if any(texts):
        with _as_file("\n".join(texts).encode()) as path:
            context.load_cert_chain(path, password=password)


def _read_store(path: Path, password: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12  # noqa: PLC0415

    store = pkcs12.load_pkcs12(path.read_bytes(), password.encode())
    if store.key is None or store.cert is None:
        raise ValueError("no key")
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = [entry.certificate for entry in (store.cert, *store.additional_certs)]
    return key + b"".join(certificate.public_bytes(Encoding.PEM) for certificate in chain)


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path to a content that is in memory only: Python's ssl takes keys from files, and a key belongs on no disk."""
    descriptor = os.memfd_create("seamark-tls", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
