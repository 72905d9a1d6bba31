"""The plan of a copy: a frozen value that says all that will be done, to be printed, saved and refused."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from seamark.copies.plan.target_configs import ConfigChoice
from seamark.core import strict
from seamark.core.format_version import StoredFormat, check_format
from seamark.errors import RefusedError, UsageError
from seamark.kafka_sink.control import CONTROL_TOPIC
from seamark.kafka_sink.routing import Routing
from seamark.spark.slices import OffsetRange, Slice, check_cover

FORMAT = StoredFormat("copy plan", 1)

_KEYS = (
    "format_version", "id", "made_at", "source", "target", "routing", "evidence",
    "ranges", "slices", "configs", "notes", "refusals",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TopicEnd:
    """One end of a copy. `topic_id` tells a topic from another of the same name; "" where it is yet to be made."""

    cluster_id: str
    topic: str
    topic_id: str
    partitions: int
    replication_factor: int

    def to_dict(self) -> dict[str, Any]:
        """The topic as JSON takes it."""
        return {
            "cluster_id": self.cluster_id,
            "topic": self.topic,
            "topic_id": self.topic_id,
            "partitions": self.partitions,
            "replication_factor": self.replication_factor,
        }

    @classmethod
    def from_dict(cls, data: object) -> TopicEnd:
        """Read what `to_dict` gave."""
        keys = ("cluster_id", "topic", "topic_id", "partitions", "replication_factor")
        fields = strict.read_object(data, keys=keys, what="a topic of the plan")
        return cls(
            cluster_id=strict.read_text(fields["cluster_id"], what="the cluster of a topic"),
            topic=strict.read_text(fields["topic"], what="the name of a topic"),
            topic_id=strict.read_text(fields["topic_id"], what="the id of a topic"),
            partitions=strict.read_count(fields["partitions"], what="the partitions of a topic"),
            replication_factor=strict.read_count(fields["replication_factor"], what="the copies of a topic"),
        )


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """What is copied, where to, and how.

    `ranges` are the offsets of the source, resolved once: nothing in a run asks for "latest". `routing` is None only in
    a plan that is refused. `evidence` says how the routing is known. `notes` are for the reader; `refusals` say why it
    can't be run.
    """

    id: str
    made_at: str
    source: TopicEnd
    target: TopicEnd
    routing: Routing | None
    evidence: str
    ranges: tuple[OffsetRange, ...]
    slices: tuple[Slice, ...]
    configs: tuple[ConfigChoice, ...]
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a plan whose parts do not belong together."""
        shape = (self.source.partitions, self.target.partitions)
        if self.routing and (self.routing.sources, self.routing.targets) != shape:
            raise UsageError(f"the routing is for another shape than {shape[0]} to {shape[1]} partitions")
        check_cover(self.ranges, self.slices)

    @property
    def is_refused(self) -> bool:
        """Whether it can't be run."""
        return bool(self.refusals)

    @property
    def is_one_cluster(self) -> bool:
        """Whether both ends lie in the same cluster."""
        return bool(self.source.cluster_id) and self.source.cluster_id == self.target.cluster_id

    @property
    def size(self) -> int:
        """How many offsets are copied: records at most."""
        return sum(one.size for one in self.ranges)

    def require_accepted(self) -> Routing:
        """The routing of a plan that can be run; an error with every reason if it can't."""
        if self.refusals or self.routing is None:
            raise RefusedError(
                f"{self.source.topic} can't be copied to {self.target.topic}",
                cause="; ".join(self.refusals) or "nobody said how its records are to be placed",
                hint="change what is named, and make the plan anew",
            )
        return self.routing

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON takes it, with its format version and a sum that shows whether it was changed since."""
        body: dict[str, Any] = {
            **FORMAT.field,
            "id": self.id,
            "made_at": self.made_at,
            "source": self.source.to_dict(),
            "target": self.target.to_dict(),
            "routing": self.routing.to_dict() if self.routing else None,
            "evidence": self.evidence,
            "ranges": [one.to_list() for one in self.ranges],
            "slices": [one.to_dict() for one in self.slices],
            "configs": [one.to_list() for one in self.configs],
            "notes": list(self.notes),
            "refusals": list(self.refusals),
        }
        return {**body, "sha256": _sum(body)}

    @classmethod
    def from_dict(cls, data: object, *, where: str = "the plan of a copy") -> CopyPlan:
        """Read what `to_dict` gave. Another format is refused, and a plan that was changed by hand.

        `where` is its location, for errors.
        """
        check_format(FORMAT, data, where=where)
        fields = strict.read_object(data, keys=(*_KEYS, "sha256"), what="a plan of a copy")
        if fields["sha256"] != _sum({key: fields[key] for key in _KEYS}):
            raise UsageError("this plan of a copy was changed since it was written", hint="make the plan anew")
        return cls(
            id=strict.read_text(fields["id"], what="the id of a plan"),
            made_at=strict.read_text(fields["made_at"], what="made_at of a plan"),
            source=TopicEnd.from_dict(fields["source"]),
            target=TopicEnd.from_dict(fields["target"]),
            routing=None if fields["routing"] is None else Routing.from_dict(fields["routing"]),
            evidence=strict.read_text(fields["evidence"], what="the evidence of a plan"),
            ranges=tuple(map(OffsetRange.from_list, strict.read_list(fields["ranges"], what="the ranges of a plan"))),
            slices=tuple(map(Slice.from_dict, strict.read_list(fields["slices"], what="the slices of a plan"))),
            configs=tuple(
                map(ConfigChoice.from_list, strict.read_list(fields["configs"], what="the configs of a plan"))
            ),
            notes=strict.read_texts(fields["notes"], what="the notes of a plan"),
            refusals=strict.read_texts(fields["refusals"], what="the refusals of a plan"),
        )


def dump_plan(plan: CopyPlan) -> str:
    """The plan as the text of a file."""
    return json.dumps(plan.to_dict(), indent=1, ensure_ascii=False) + "\n"


def load_plan(text: str | bytes) -> CopyPlan:
    """Read what `dump_plan` gave."""
    return CopyPlan.from_dict(strict.read_json(text, what="a plan of a copy"))


def _sum(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def build_copy_name(plan: str, control_topic: str) -> str:
    """Return the name by which steps refer to a copy: `PLAN`, or `PLAN@CONTROL_TOPIC` for another control topic."""
    return plan if control_topic == CONTROL_TOPIC else f"{plan}@{control_topic}"


def parse_copy_name(copy: str) -> tuple[str, str]:
    """Return the plan ID and the control topic of a copy from the name that steps use."""
    plan, _, control_topic = copy.partition("@")
    return plan, control_topic or CONTROL_TOPIC


def build_back_name(copy: str) -> str:
    """Return the name of the copy from the target back to the recreated source."""
    plan, at, control_topic = copy.partition("@")
    return f"{plan}-back{at}{control_topic}"
