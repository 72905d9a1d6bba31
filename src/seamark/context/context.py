"""One opened context."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from seamark.context.journal import JournalSettings
from seamark.context.kafka_keys import WORKER_PIECES
from seamark.context.layer import Layer
from seamark.context.origin import Origin, OriginKind, Trust
from seamark.context.places import build_missing_setting
from seamark.context.reference import SecretReferences
from seamark.context.roles import Role
from seamark.context.schema import PART_KEYS
from seamark.context.search import Place
from seamark.context.settings import ConnectSettings, DatabaseSettings, KafkaSettings, LakeSettings
from seamark.context.value import Setting, Value
from seamark.context.verify import Verify
from seamark.context.worker import WORKER_KEYS
from seamark.errors import MissingSettingError, RefusedError
from seamark.policy.policy import DEFAULT_POLICY, Policy
from seamark.policy.policy_reference import is_allowed_reference


class Lookup:
    """Where the values of a context were looked for; what errors about missing ones are made of.

    `worker_places` are the worker files of the Connect clusters that name one; `references` resolves references to
    secrets. Not a dataclass, so that no `asdict` lays the layers or the environment open.
    """

    __slots__ = ("context", "layers", "places", "references", "worker_places")

    def __init__(
        self,
        context: str,
        layers: tuple[Layer, ...] = (),
        *,
        places: tuple[Place, ...] = (),
        worker_places: Mapping[str, str] | None = None,
        references: SecretReferences | None = None,
    ) -> None:
        self.context = context
        self.layers = layers
        self.places = places
        self.worker_places = dict(worker_places or {})
        self.references = references

    def __deepcopy__(self, memo: object) -> Lookup:
        """Itself: it is only read."""
        return self

    def build_missing(self, key: str) -> MissingSettingError:
        """The error for a setting below the context, such as `connect.game.offsets_topic`."""
        head, _, rest = key.partition(".")
        parts: tuple[str, ...] = (head, rest) if rest else (head,)
        if head in {"connect", *PART_KEYS}:
            cluster, _, last = rest.rpartition(".")
            parts = (head, cluster, last)
        return build_missing_setting(
            ("contexts", self.context, *parts),
            layers=self.layers,
            places=self.places,
            worker_places=self._describe_workers(parts),
        )

    def _describe_workers(self, parts: tuple[str, ...]) -> list[str]:
        """What the worker files were asked for. Only some settings can come from there."""
        if parts[0] == "connect":
            wanted = WORKER_KEYS.get(parts[-1])
            places = [self.worker_places[parts[1]]] if parts[1] in self.worker_places else []
        else:
            wanted = parts[-1] if any(parts[-1] in piece.keys for piece in WORKER_PIECES) else None
            places = list(self.worker_places.values())
        if wanted is None:
            return []
        return [f"{place}: {wanted} not found" for place in places] or ["(worker_config): none is named"]


@dataclass(frozen=True, slots=True)
class Context:
    """One named Kafka cluster and its named Connect clusters.

    `protected` requires a typed confirmation of every change; `read_only` allows no change; `insecure` states that the
    user accepts connections that others can read. `verify` says where held offsets are read. `roles` are the declared
    roles, by name.
    """

    name: str
    kafka: KafkaSettings
    connect: Mapping[str, ConnectSettings]
    protected: bool = False
    insecure: bool = False
    read_only: bool = False
    own_journal: JournalSettings | None = field(default=None, repr=False)
    verify: Verify = Verify.STORE
    policy: Policy = field(default=DEFAULT_POLICY, repr=False)
    cluster_policies: Mapping[str, Policy] = field(default_factory=dict, repr=False)
    databases: Mapping[str, DatabaseSettings] = field(default_factory=dict, repr=False)
    lakes: Mapping[str, LakeSettings] = field(default_factory=dict, repr=False)
    roles: Mapping[str, Role] = field(default_factory=dict, repr=False)
    values: tuple[Value, ...] = field(default=(), repr=False)
    lookup: Lookup | None = field(default=None, repr=False, compare=False)

    @property
    def journal(self) -> JournalSettings:
        """Where changes of this context are recorded."""
        return self.own_journal or JournalSettings(self.name)

    @property
    def has_brokers(self) -> bool:
        """Whether it is known where the brokers are. Without them everything goes through REST."""
        return "bootstrap.servers" in self.kafka.values

    def policy_of(self, cluster: str | None) -> Policy:
        """What the connectors of a Connect cluster may do. None is the only cluster, where there is but one."""
        if cluster is None and len(self.connect) == 1:
            (cluster,) = self.connect
        return self.cluster_policies.get(cluster or "", self.policy)

    def find_database(self, url: str | None) -> DatabaseSettings | None:
        """The database that a connector's `connection.url` leads to, or None where the context names none."""
        return next((one for one in self.databases.values() if url and one.serves(url)), None)

    def settings(self) -> tuple[Setting, ...]:
        """Every value with its origin, masked where it is a secret."""
        return tuple(value.as_setting() for value in self.values)

    def missing(self, key: str) -> MissingSettingError:
        """The error to raise for a setting that an operation needs: it lists each place tried."""
        return (self.lookup or Lookup(self.name)).build_missing(key)

    def build_reference_hint(self, references: Sequence[str], cluster: str | None = None) -> str:
        """Return the line to add so that connectors of a Connect cluster may use references, and its file."""
        shown = {value.key: value for value in self.values}
        if cluster is None and len(self.connect) == 1:
            (cluster,) = self.connect
        urls = shown.get(f"connect.{cluster}.urls")
        own = f"connect.{cluster}.policy.references"
        key = own if own in shown else "policy.references"
        setting = shown.get(key)
        if setting is not None and urls is not None and urls.origin.trust < setting.origin.trust:
            return f"set {urls.key} in the file that allows references, not in {urls.origin}"
        present = [item for item in (setting.raw.split("\n") if setting is not None else ()) if item]
        line = ", ".join(f"'{item}'" for item in dict.fromkeys([*present, *references]))
        places = self.lookup.places if self.lookup is not None else ()
        file = next((place.shown for place in places if place.trust is Trust.USER), "your contexts file")
        where = setting.origin.place if setting is not None else file
        return f"add references: [{line}] under contexts.{self.name}.{key.rpartition('.')[0]} in {where}"

    def reveal(self, reference: str) -> str:
        """Return the secret behind a `secret://` reference of a connector's config. A relative path starts here.

        Raises:
            RefusedError: no policy of the context allows the reference.
        """
        if not any(is_allowed_reference(reference, one) for one in (self.policy, *self.cluster_policies.values())):
            raise RefusedError(
                f"the policy of context {self.name} does not allow the reference {reference}",
                cause="policy.references doesn't list it",
                hint=self.build_reference_hint((reference,)),
            )
        references = (self.lookup and self.lookup.references) or SecretReferences(os.environ)
        origin = Origin(OriginKind.OVERRIDE, "the connector's config")
        return references.resolve(reference, key="a config value", origin=origin, folder=Path.cwd())
