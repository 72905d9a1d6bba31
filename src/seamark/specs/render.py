"""Single texts as YAML, JSON and properties write them."""

from __future__ import annotations

import json
import re

from seamark.specs.fill import escape_marks

# What no reader of YAML takes for anything but this text: words, numbers, paths, addresses, simple statements. A colon
# or a blank only stands between two of them.
_PLAIN = re.compile(
    r"[A-Za-z0-9_./$](?:[A-Za-z0-9_./$@+=,()*;<>%{}?&-]|:(?=[A-Za-z0-9_./$])| (?=[A-Za-z0-9_./$(*=<>]))*"
)
_PLAIN_FLOW = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./@+-]*")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
# Readers of YAML 1.1 take these for truth values and nothing; seamark would not, but people look twice.
_DOUBTFUL = frozenset({"null", "~", "true", "false", "yes", "no", "on", "off", "y", "n"})
_KEPT_BARE = frozenset({"true", "false"})
_JSON_BARE = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false")
_YAML_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_PROPERTIES_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def render_key(key: str) -> str:
    """A key of a YAML table."""
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _DOUBTFUL else render_double(key)


def render_text(text: str, *, style: str = "", flow: bool = False) -> str:
    """A value of a YAML spec on one line. `style` is the one it had, kept where it can be."""
    escaped = escape_marks(text)
    if style == "'" and escaped.isprintable():
        return "'" + escaped.replace("'", "''") + "'"
    plain = _PLAIN_FLOW if flow else _PLAIN
    if style == '"' or not plain.fullmatch(escaped) or _is_doubtful(escaped):
        return render_double(escaped)
    return escaped


def render_double(text: str) -> str:
    """A text in double quotation marks, as YAML reads them."""
    return '"' + "".join(_escape_yaml(char) for char in text) + '"'


def render_block(text: str, *, indent: str, newline: str = "\n") -> str | None:
    """A `|` block from its header on, without a last line break; None where it can't hold the text."""
    rows = text.removesuffix("\n").split("\n")
    if not text.strip() or text.endswith("\n\n") or rows[0].startswith(" ") or not rows[0]:
        return None
    if any(not row.isprintable() or (row and not row.strip()) for row in rows):
        return None
    head = "|" if text.endswith("\n") else "|-"
    return newline.join([head, *(f"{indent}{row}" if row else "" for row in map(escape_marks, rows))])


def render_json_text(text: str, *, bare: bool = False) -> str:
    """A JSON text. With `bare`, what is a number or a truth value stands without quotation marks."""
    if bare and _JSON_BARE.fullmatch(text):
        return text
    # Half of a surrogate pair can't be in a file; as an escape it can.
    return json.dumps(text, ensure_ascii=any("\ud800" <= char <= "\udfff" for char in text))


def render_property(text: str, *, is_key: bool = False) -> str:
    """A key or a value of a properties file, as Java itself would store it."""
    out = []
    for position, char in enumerate(text):
        if char == " " and (is_key or position == 0):
            out.append("\\ ")
        elif char in _PROPERTIES_ESCAPES:
            out.append(_PROPERTIES_ESCAPES[char])
        elif char == "\\" or (char in "=:#!" and (is_key or position == 0)):
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        else:
            units = char.encode("utf-16-be", "surrogatepass")
            out += [f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2)]
    return "".join(out)


def _is_doubtful(text: str) -> bool:
    return text.lower() in _DOUBTFUL and text not in _KEPT_BARE


def _escape_yaml(char: str) -> str:
    if char in _YAML_ESCAPES:
        return _YAML_ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
