"""Values of topic configs, so that what was written and what the brokers tell can be compared."""

from __future__ import annotations

_WORDS = frozenset({"true", "false"})


def normalize_value(value: str) -> str:
    """A value as the brokers spell it: they read each as a number, a word or a list, and write it anew.

    "compact, delete" is told as "compact,delete", "TRUE" as "true", "0.50" as "0.5".
    """
    return ",".join(_normalize_part(part.strip()) for part in value.split(","))


def _normalize_part(part: str) -> str:
    if part.lower() in _WORDS:
        return part.lower()
    try:
        return str(int(part)) if part.isascii() and "_" not in part else part
    except ValueError:
        pass
    try:
        # Java writes 1.0E10 where Python writes 10000000000.0; no topic config is so large a fraction.
        return str(float(part)) if "." in part and part.replace(".", "", 1).isdecimal() else part
    except ValueError:
        return part
