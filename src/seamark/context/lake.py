"""The lakes that topics are landed in: a folder, or a bucket of S3."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from seamark.context.context import Lookup
from seamark.context.layer import KeyPath
from seamark.context.schema import LAKE_KEYS
from seamark.context.settings import LakeSettings
from seamark.context.typed import build_invalid, read_text, refuse_reference
from seamark.context.value import Value

LAKES = "lakes"
# A region is part of the host name of AWS: any other character could name another host.
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_SCHEMES = ("s3://", "s3a://", "file:///", "/")


@dataclass(frozen=True, slots=True)
class LakePart:
    """The lakes with the values they were made of."""

    lakes: Mapping[str, LakeSettings] = field(default_factory=dict)
    values: tuple[Value, ...] = ()


def build_lakes(names: list[str], own: Mapping[KeyPath, Value], *, lookup: Lookup) -> LakePart:
    """The lakes of those names. `own` are the values of the context."""
    found: dict[str, LakeSettings] = {}
    shown: list[Value] = []
    for name in names:
        values = {key: own[LAKES, name, key] for key in LAKE_KEYS if (LAKES, name, key) in own}
        if "url" not in values:
            raise lookup.build_missing(f"{LAKES}.{name}.url")
        secrets = {key: values[key].as_secret() for key in ("access_key", "secret_key") if key in values}
        if len(secrets) == 1:
            (key,) = secrets
            raise build_invalid(values[key], "stands alone", hint="access_key and secret_key go together")
        found[name] = LakeSettings(
            name,
            _read_lake_url(values["url"], _SCHEMES, hint="write /FOLDER or s3://BUCKET/PREFIX"),
            endpoint=_read_lake_url(values["endpoint"], ("http://", "https://"), hint="write https://HOST:PORT")
            if "endpoint" in values
            else "",
            region=_read_region(values["region"]) if "region" in values else "",
            **secrets,
        )
        shown += values.values()
    return LakePart(found, tuple(shown))


def _read_region(value: Value) -> str:
    refuse_reference(value)
    region = read_text(value)
    if not _REGION.fullmatch(region):
        raise build_invalid(value, "is not the name of a region", hint="write a name such as eu-central-1")
    return region


def _read_lake_url(value: Value, schemes: tuple[str, ...], *, hint: str) -> str:
    refuse_reference(value)
    url = read_text(value)
    if not url.startswith(schemes) or "?" in url or "@" in url:
        raise build_invalid(value, "leads to no lake", hint=hint)
    return url.rstrip("/")
