"""`sasl.jaas.config`: the PLAIN and SCRAM login modules, taken apart into user name and password."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

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
        shown = f"the login module {module}" if _CLASS_NAME.fullmatch(module) else "what stands there"
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
        raise JaasError("after the login module only name=value pairs may stand, for one module, and then ;")
    return {tokens[i][0]: tokens[i + 2][0] for i in range(0, len(tokens), 3)}
