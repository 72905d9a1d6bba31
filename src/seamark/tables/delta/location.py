"""Where a lake is: a folder, or a prefix of a bucket, with what it takes to reach it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import pyarrow.fs as pafs

from seamark.core import strict_json as strict
from seamark.errors import ConfigurationError

_BUCKET = re.compile(r"s3a?://([^/?#]+(?:/[^?#]*)?)")
# A folder's name may have any sign: what is a query or a fragment of a URL is not one here.
_FOLDER = re.compile(r"(?:file:(?://)?)?(/(?!/).*)")
_KEYS = ("url", "endpoint", "region", "access_key", "secret_key")
_REGION = "us-east-1"
_SECONDS = 20


@dataclass(frozen=True, slots=True)
class TableLocation:
    """A folder (`/data/lake`, `file:///data/lake`) or a prefix (`s3://bucket/lake`).

    Without keys those of the machine are taken, as AWS's own tools find them.
    """

    url: str
    endpoint: str = ""
    region: str = ""
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        """Refuse what is neither."""
        if not _BUCKET.fullmatch(self.url) and not _FOLDER.fullmatch(self.url):
            raise ConfigurationError(
                f"invalid url {self.url!r} of a lake", hint="use an absolute path (/data/lake), or s3://BUCKET/PREFIX"
            )

    @property
    def is_s3(self) -> bool:
        """Whether it is a bucket, and no folder."""
        return _BUCKET.fullmatch(self.url) is not None

    @property
    def path(self) -> str:
        """The path as a file system of Arrow takes it: BUCKET/PREFIX, or the folder."""
        found = _BUCKET.fullmatch(self.url) or _FOLDER.fullmatch(self.url)
        return found[1].rstrip("/") if found else ""

    @property
    def table_url(self) -> str:
        """As delta-rs takes it."""
        return f"s3://{self.path}" if self.is_s3 else self.path

    def below(self, name: str) -> TableLocation:
        """A table of the lake."""
        return TableLocation(
            f"{self.url.rstrip('/')}/{name}",
            endpoint=self.endpoint,
            region=self.region,
            access_key=self.access_key,
            secret_key=self.secret_key,
        )

    def build_options(self) -> dict[str, str]:
        """The options of delta-rs."""
        if not self.is_s3:
            return {}
        found = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region or _REGION,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ALLOW_HTTP": "true" if self.endpoint.startswith("http:") else "",
            # Who commits first has the number of that commit: the server is asked to write only what is not there.
            "AWS_CONDITIONAL_PUT": "etag",
            "timeout": f"{_SECONDS}s",
        }
        return {key: value for key, value in found.items() if value}

    def open_files(self) -> pafs.FileSystem:
        """The file system in which `path` lies."""
        if not self.is_s3:
            return pafs.LocalFileSystem()
        scheme, _, host = self.endpoint.rpartition("://")
        wanted: dict[str, Any] = {
            "access_key": self.access_key or None,
            "secret_key": self.secret_key or None,
            "endpoint_override": host or None,
            "scheme": scheme or None,
            "region": self.region or _REGION,
        }
        return pafs.S3FileSystem(
            **{key: value for key, value in wanted.items() if value is not None},
            connect_timeout=_SECONDS,
            request_timeout=_SECONDS,
        )

    def to_json(self) -> str:
        """For an option that Spark does not show: with its keys."""
        return json.dumps({key: getattr(self, key) for key in _KEYS})

    @classmethod
    def from_json(cls, text: str) -> TableLocation:
        """Read what `to_json` gave."""
        fields = strict.read_object(strict.read_json(text, what="a lake"), keys=_KEYS, what="a lake")
        return cls(**{key: strict.read_text(value, what="a lake") for key, value in fields.items()})
