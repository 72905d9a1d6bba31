"""Lengths of time as people write them."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PART = r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|min|s|m|h|d)?"
_ISO = re.compile(r"PT(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?", re.IGNORECASE)


def parse_duration(text: str) -> float:
    """Seconds of `500ms`, `2s`, `90`, `5m`, `1h`, `2d` or ISO 8601 `PT5M`; a ValueError for anything else."""
    found = re.fullmatch(_PART, text.strip())
    if found:
        return float(found["number"]) * _UNITS[found["unit"] or "s"]
    iso = _ISO.fullmatch(text.strip())
    if iso and any(iso.groups()):
        return sum(float(iso[unit] or 0) * _UNITS[unit] for unit in "hms")
    raise ValueError(f"{text!r} is not a length of time")
