"""A record of a compacted topic as it is stored."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class HeldRecord:
    """One record of an offsets topic, to the byte. No value is a tombstone, or no record at all."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None = None

    @property
    def place(self) -> str:
        """The topic, its partition and the key: what a later record of the same place replaces."""
        return f"{self.topic}-{self.partition} {b64encode(self.key).decode()}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON, the bytes in base64."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "key": b64encode(self.key).decode(),
            "value": None if self.value is None else b64encode(self.value).decode(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HeldRecord:
        """Read what `to_dict` gave."""
        value = data["value"]
        return cls(
            str(data["topic"]),
            int(data["partition"]),
            b64decode(data["key"], validate=True),
            None if value is None else b64decode(value, validate=True),
        )
