"""Which clusters a plan is for: IDs that the clusters report, never names from a user's context file.

All users of a Kafka cluster share one journal, while contexts are files of single users: `game` in one file and `game`
in another may be different Connect clusters. A plan and the journal entry that opens its change contain the identity of
every cluster that they affect; apply, review, undo, resume and unlock compare it first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from seamark.changes.codec import decode_fields, encode_fields
from seamark.changes.environment import Environment
from seamark.core.refs import Port
from seamark.errors import RefusedError


@dataclass(frozen=True, slots=True)
class ConnectIdentity:
    """What identifies a Connect cluster.

    A distributed Connect cluster is identified by its worker group on a Kafka cluster. The REST API doesn't report the
    group, so a context without brokers has only the Kafka cluster ID and the worker IDs. A standalone worker is
    identified by the offset file on its host.
    """

    kafka_cluster_id: str = ""
    group: str = ""
    worker_ids: tuple[str, ...] = ()
    file: str = ""

    def matches(self, other: ConnectIdentity) -> bool:
        """Return whether both are the same Connect cluster. Workers come and go, so one common worker is enough."""
        if (self.kafka_cluster_id, self.group, self.file) != (other.kafka_cluster_id, other.group, other.file):
            return False
        return bool(self.group or self.file) or not set(self.worker_ids).isdisjoint(other.worker_ids)

    def __str__(self) -> str:
        if self.file:
            return f"standalone worker with {self.file}"
        known = f"worker group {self.group}" if self.group else f"workers {', '.join(self.worker_ids) or '(none)'}"
        return f"{known} on Kafka cluster {self.kafka_cluster_id or '(unknown)'}"


@dataclass(frozen=True, slots=True)
class Identity:
    """The clusters of a plan: the Kafka cluster, and the Connect clusters by the names that the plan uses for them.

    `kafka_cluster_id` is "" if the context names no brokers, and for a plan that changes files only.
    """

    kafka_cluster_id: str = ""
    connect: Mapping[str, ConnectIdentity] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether no cluster is known."""
        return not self.kafka_cluster_id and not self.connect

    @property
    def is_local(self) -> bool:
        """Whether the plan affects only files of this machine, for which no Kafka cluster is queried."""
        return bool(self.connect) and all(found.file for found in self.connect.values())

    def describe(self) -> tuple[str, ...]:
        """Return a short description of each cluster."""
        kafka = (f"Kafka cluster {self.kafka_cluster_id}",) if self.kafka_cluster_id else ()
        return (*kafka, *(f"Connect cluster {name}: {found}" for name, found in sorted(self.connect.items())))

    def to_dict(self) -> dict[str, Any]:
        """Return the identity as JSON."""
        return encode_fields(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Identity:
        """Build the identity from what `to_dict` returned.

        Raises:
            CodecError: it has other fields, or values of other types.
        """
        return decode_fields(cls, data)


class ClusterNames(Protocol):
    """The Connect clusters of a context, and their identities."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def identify(self, name: str) -> ConnectIdentity | None:
        """Return the identity of a Connect cluster; None if it can't be determined."""
        ...


def merge_identities(identities: Iterable[Identity]) -> Identity:
    """Return the identity of a plan that combines several plans of one context."""
    found = list(identities)
    kafka = next((one.kafka_cluster_id for one in found if one.kafka_cluster_id), "")
    return Identity(kafka, {name: cluster for one in found for name, cluster in one.connect.items()})


IDENTITY: Port[Callable[[Collection[str]], Identity]] = Port("read_identity")
"""Reads the identity of the Kafka cluster and of Connect clusters by name, from the clusters themselves."""


def check_identity(expected: Identity, world: Environment) -> None:
    """Refuse to act on clusters other than those that a plan was created for.

    Raises:
        RefusedError: a cluster isn't the expected one.
        SeamarkError: a cluster doesn't report its identity.
    """
    if expected.is_empty:
        return
    found = world.use(IDENTITY)(tuple(expected.connect))
    if not expected.is_local and found.kafka_cluster_id != expected.kafka_cluster_id:
        raise build_wrong_kafka(expected, found.kafka_cluster_id)
    for name, wanted in expected.connect.items():
        if not wanted.matches(found.connect[name]):
            raise build_wrong_connect(name, wanted, f"{name} is {found.connect[name]}")


def build_wrong_kafka(expected: Identity, found: str, *, context: str = "") -> RefusedError:
    """Build the error for a plan of another Kafka cluster. `context` names the context the plan was created in."""
    return RefusedError(
        "the plan is for another Kafka cluster; no changes were made",
        cause=f"the plan is for {expected.kafka_cluster_id or '(none)'}, this context has {found or '(no brokers)'}",
        hint=_build_hint(context),
        context={"expected": expected.kafka_cluster_id, "found": found},
    )


def build_wrong_connect(name: str, wanted: ConnectIdentity, found: str, *, context: str = "") -> RefusedError:
    """Build the error for a plan of a Connect cluster that this context doesn't have."""
    return RefusedError(
        f"the plan is for another Connect cluster than this context's; no changes were made ({name})",
        cause=f"the plan's {name} is {wanted}; in this context, {found}",
        hint=_build_hint(context),
        context={"cluster": name},
    )


def _build_hint(context: str) -> str:
    other = f" (the plan was created in context {context})" if context else ""
    return f"use a context that has this cluster{other}: --context NAME"
