"""A TLS context of Python's own from librdkafka's settings: as strict as the one that librdkafka makes of them."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from seamark.errors import InvalidSettingError
from seamark.kafka.second_settings import build_untranslatable

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
        # OpenSSL's words name no secret, but they may name a part of a file: only their kind is told.
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
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        NoEncryption,
        PrivateFormat,
        pkcs12,
    )

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
