"""Java key stores and trust stores, turned into what librdkafka takes.

What a file is, its first bytes say; `ssl.…store.type` is only looked at to refuse a type by name.
Java does the same since version 9, where a file called JKS is mostly PKCS12.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from seamark.context.files import read_limited
from seamark.errors import InvalidSettingError

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
# Quoted text with backslash escapes, a punctuation mark, or a bare word.
_TOKEN = re.compile(r"""\s*(?:"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'|([=;])|([^\s"'=;]+))""")
_CLASS_NAME = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)+")
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b"}


class JaasError(ValueError):
    """The text can't be used. The message never holds a part of it but the login module's name."""


@dataclass(frozen=True, slots=True)
class Login:
    """Who logs in, and by which login module."""

    module: str
    username: str
    password: str = field(repr=False)


def parse_jaas(text: str) -> Login:
    """The login that a `sasl.jaas.config` describes.

    Only PLAIN and SCRAM can be taken apart; another module is refused by its name.
    """
    tokens = _split_tokens(text)
    if len(tokens) < 3 or tokens[-1] != (";", True):
        raise JaasError("it must be MODULE required username=… password=… ;")
    module, flag = tokens[0][0], tokens[1][0]
    if module not in {PLAIN_MODULE, SCRAM_MODULE}:
        shown = f"the login module {module}" if _CLASS_NAME.fullmatch(module) else "its login module"
        raise JaasError(f"{shown} is not one of PlainLoginModule and ScramLoginModule, which seamark can read")
    if flag.lower() not in _FLAGS:
        raise JaasError("the word after the login module must be required")
    options = _read_options(tokens[2:-1])
    if options.get("tokenauth", "").lower() == "true":
        raise JaasError("delegation tokens (tokenauth) are not supported")
    if not options.get("username") or not options.get("password"):
        raise JaasError("username and password must both be given")
    return Login(module, options["username"], options["password"])


def _split_tokens(text: str) -> list[tuple[str, bool]]:
    """The tokens, each with whether it is bare punctuation."""
    tokens: list[tuple[str, bool]] = []
    position, text = 0, text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError("a quotation mark is not closed")
        double, single, mark, word = match.groups()
        quoted = double if double is not None else single
        tokens.append((_unescape(quoted), False) if quoted is not None else (mark or word, mark is not None))
        position = match.end()
    return tokens


def _unescape(quoted: str) -> str:
    def fill(match: re.Match[str]) -> str:
        escaped = match[1]
        return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPED.get(escaped, escaped)

    return _ESCAPE.sub(fill, quoted)


def _read_options(tokens: list[tuple[str, bool]]) -> dict[str, str]:
    if len(tokens) % 3 or any(tokens[i + 1] != ("=", True) for i in range(0, len(tokens), 3)):
        raise JaasError("after the login module only name=value pairs of one module and a ; may follow")
    return {tokens[i][0]: tokens[i + 2][0] for i in range(0, len(tokens), 3)}


# Java's own trust store of every public authority is about 200 KiB.
_MAX_BYTES = 4 << 20
_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


class StoreKind(StrEnum):
    """The formats of a store."""

    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"


def read_store_kind(path: Path, *, key: str, declared: str = "") -> StoreKind:
    """What the store is, by its content. `key` is the setting that names it."""
    if declared and declared.upper() not in StoreKind.__members__:
        raise InvalidSettingError(
            f"{key}: a store of type {declared} can't be used",
            cause="use a PEM or PKCS12 store",
            hint=_conversion(path),
            context={"setting": key, "file": str(path)},
        )
    data = read_limited(path, limit=_MAX_BYTES, place=key)
    # 0xFEEDFEED is JKS, 0xCECECECE its sibling JCEKS; 0x30 opens the outermost DER sequence of PKCS12.
    if data[:4] in {b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"}:
        return StoreKind.JKS
    if b"-----BEGIN " in data:
        return StoreKind.PEM
    if data[:1] == b"\x30":
        return StoreKind.PKCS12
    raise InvalidSettingError(
        f"{key}: the file is not a store that seamark can read",
        cause=f"{path} is neither PEM nor PKCS12",
        hint="check the path",
        context={"setting": key, "file": str(path)},
    )


def build_jks_refusal(path: Path, *, key: str) -> InvalidSettingError:
    """The error for a JKS store, with the command that converts it. The command asks for the passwords."""
    return InvalidSettingError(
        f"{key}: {path.name} is a JKS store, which only Java can read",
        cause=f"{path} starts as a JKS file does; librdkafka reads PEM and PKCS12",
        hint=_conversion(path),
        context={"setting": key, "file": str(path)},
    )


def read_trusted_pem(path: Path, *, key: str, password: str | None) -> str:
    """Every certificate of a PKCS12 trust store, as PEM."""
    # Loaded here: most contexts have no PKCS12 file, and the import costs more than all else.
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12  # noqa: PLC0415

    data = read_limited(path, limit=_MAX_BYTES, place=key)
    found = None
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
        found = [entry.certificate for entry in (store.cert, *store.additional_certs) if entry is not None]
    except (ValueError, TypeError):
        # Wrong password or damaged file: the library can't tell them apart, nor can we.
        found = None
    if not found:
        raise InvalidSettingError(
            f"{key}: the PKCS12 store contains no readable certificate",
            cause=f"{path} contains none" if found == [] else f"{path} is damaged, or ssl.truststore.password is wrong",
            hint=f"list its content: keytool -list -storetype PKCS12 -keystore {shlex.quote(str(path))}",
            context={"setting": key, "file": str(path)},
        )
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in found)


def build_pem(text: str) -> str:
    """PEM blocks in the lines that OpenSSL wants.

    Java takes a whole block in one line, as properties files often have it. OpenSSL does not.
    """

    def wrap(match: re.Match[str]) -> str:
        label, body = match[1], match[2]
        if ":" in body:
            # An old encrypted key has headers, which need their own lines; leave it as it is.
            return match[0] + "\n"
        packed = "".join(body.split())
        lines = [packed[start : start + 64] for start in range(0, len(packed), 64)]
        return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])

    blocks = [wrap(match) for match in _PEM_BLOCK.finditer(text)]
    return "".join(blocks) if blocks else text


def _conversion(path: Path) -> str:
    source, target = shlex.quote(str(path)), shlex.quote(str(path.with_suffix(".p12")))
    return (
        f"convert it: keytool -importkeystore -srckeystore {source} -destkeystore {target} "
        "-deststoretype PKCS12, and name the new file"
    )
