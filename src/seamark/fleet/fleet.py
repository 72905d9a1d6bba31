"""The entry point of the Python API: an opened context."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

from seamark.changes.permissions import build_access, find_principal, permits
from seamark.changes.timing import FLEET_PACE
from seamark.connect.api import ConnectPort
from seamark.connect.clusters import Clusters
from seamark.connect.model import Wait
from seamark.connectors.service import Connectors
from seamark.connectors.workers import Workers
from seamark.core.readings import Finding
from seamark.core.refs import OwnerPatterns
from seamark.kafka.api import BrokersPort, KafkaPort
from seamark.offsets.service import Offsets
from seamark.overview.status import FleetStatus, read_status
from seamark.policy.permissions import Permission

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.changes.actor import Actor
    from seamark.changes.journal import JournalPort
    from seamark.changes.outcome import ChangeResult, Progress
    from seamark.changes.plan import Plan, PlannedChange
    from seamark.changes.planner import Planner
    from seamark.changes.signing import SignedJournal
    from seamark.changes.timing import Pace
    from seamark.connectors.config import DesiredConnector
    from seamark.connectors.loggers import Loggers
    from seamark.connectors.plans import ConnectorPlans
    from seamark.context import ConnectSettings, Context, KafkaSettings
    from seamark.copies.service import Copies
    from seamark.core.readings import Reading
    from seamark.dead_letters.service import Skips
    from seamark.doctor.service import Doctor
    from seamark.errors import SeamarkError
    from seamark.fleet.changes import Changes
    from seamark.fleet.environment import LiveEnvironment, PlanEnvironment
    from seamark.fleet.identity import FleetLocks, Identities
    from seamark.fleet.journal import Journal
    from seamark.groups.lag import GroupLag
    from seamark.groups.service import Groups
    from seamark.kip199.plans import Imports
    from seamark.lifecycle.plans import Lifecycle
    from seamark.offsets.exports import SourceLag
    from seamark.offsets.port import OffsetDependencies
    from seamark.offsets.stores.stores import OffsetStores, OpenScan
    from seamark.overview.connector import ConnectorOverview
    from seamark.pipelines.service import Pipelines
    from seamark.policy.permissions import Access
    from seamark.specs.load import SpecFiles, SpecSource
    from seamark.specs.planner import SpecPlans
    from seamark.specs.validation import ValidatedConnector
    from seamark.topics.service import Topics


def build_kafka_admin(settings: KafkaSettings) -> KafkaPort:
    """Build the real client of the brokers."""
    from seamark.kafka.admin import KafkaAdmin  # noqa: PLC0415

    return KafkaAdmin(settings.client_config())


class Fleet:
    """The API of one context. Use it as a context manager, or close it."""

    def __init__(
        self,
        context: Context,
        *,
        build_connect: Callable[[ConnectSettings], ConnectPort] | None = None,
        build_kafka: Callable[[KafkaSettings], KafkaPort] | None = None,
        build_brokers: Callable[[Context], BrokersPort] | None = None,
        open_journal: Callable[[Context], JournalPort] | None = None,
        open_scan: OpenScan | None = None,
        actor: Actor | None = None,
    ) -> None:
        self.context = context
        self._clusters = Clusters(context, build_client=build_connect or partial(self._build_client, changes=False))
        self._write_clusters = Clusters(
            context, build_client=build_connect or partial(self._build_client, changes=True)
        )
        self._build_kafka = build_kafka or build_kafka_admin
        self._build_brokers = build_brokers
        self._open_journal = open_journal
        self._open_scan = open_scan
        self._own_actor = actor
        self._opened: SignedJournal | None = None
        self._build_connect = build_connect
        # This fleet with other names of its Connect clusters, as plans from other contexts use them.
        self._views: dict[tuple[tuple[str, str], ...], Fleet] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Fleet({self.context.name!r}, clusters={list(self._clusters.names)})"

    def _build_client(self, settings: ConnectSettings, *, changes: bool) -> ConnectPort:
        from seamark.fleet.environment import build_client  # noqa: PLC0415

        return build_client(self.context, settings, open_scan=self._open_scan, changes=changes)

    def close(self) -> None:
        """Close every connection. The fleet can be used again; it then opens new ones."""
        self._clusters.close()
        self._write_clusters.close()
        for view in self._views.values():
            view._opened = None  # noqa: SLF001 - its journal is this fleet's
            view.close()
        if "copies" in self.__dict__:
            self.copies.close()
        if "_world" in self.__dict__:
            self._world.close()
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    @cached_property
    @permits(Permission.READ)
    def connectors(self) -> Connectors:
        """Return the API for the connectors of every Connect cluster: read them, and plan changes."""
        plans, lifecycle = lambda: self._plans, lambda: self._lifecycle
        return Connectors(self._clusters, plans=plans, lifecycle=lifecycle, labels=lambda: self._world.labels)

    @cached_property
    @permits(Permission.READ)
    def workers(self) -> Workers:
        """Return the API for the workers of every Connect cluster."""
        read = lambda cluster: self._world.read_members(cluster)  # noqa: E731, PLW0108 - opened late
        return Workers(self._clusters, read_members=read)

    @cached_property
    @permits(Permission.READ)
    def loggers(self) -> Loggers:
        """Return the API for the workers' log levels: read them, and plan changes."""
        from seamark.connectors.loggers import Loggers  # noqa: PLC0415

        return Loggers(self._clusters, planner=lambda: self._planner)

    @cached_property
    @permits(Permission.READ)
    def offsets(self) -> Offsets:
        """Return the API for offsets."""
        plan, pipelines = self._open_offset_plan, self._read_registered
        return Offsets(
            self._clusters, self.connectors, stores=lambda: self._stores, open_plan=plan, read_pipelines=pipelines
        )

    @cached_property
    @permits(Permission.READ)
    def skips(self) -> Skips:
        """Return the API for a record that a failed sink can't process: find it, skip it, send it to the DLQ."""
        from seamark.dead_letters.service import Skips  # noqa: PLC0415

        return Skips(
            self.context,
            clusters=self._clusters,
            connectors=self.connectors,
            open_records=lambda cluster, name: self._world.records(cluster, name),  # noqa: PLW0108 - opened late
            planner=lambda: self._planner,
        )

    @property
    @permits(Permission.READ)
    def connect_offsets(self) -> Imports:
        """Return the API of `connect-offsets --import` for a one-worker context. It caches reads for one plan."""
        from seamark.kip199.plans import Imports  # noqa: PLC0415

        return Imports(self._open_offset_plan())

    @cached_property
    @permits(Permission.READ)
    def topics(self) -> Topics:
        """Return the API for topics: read them, and plan changes."""
        from seamark.topics.service import Topics  # noqa: PLC0415

        world, planner = self._world, lambda: self._planner
        return Topics(self.context, clusters=self._clusters, kafka=world.kafka, clock=world.clock, planner=planner)

    @cached_property
    @permits(Permission.READ)
    def groups(self) -> Groups:
        """Return the API for consumer groups: read, move and delete them."""
        from seamark.groups.service import Groups  # noqa: PLC0415

        world = self._world
        return Groups(clusters=self._clusters, kafka=world.kafka, clock=world.clock, planner=lambda: self._planner)

    @cached_property
    @permits(Permission.READ)
    def copies(self) -> Copies:
        """Return the API for topic copies: plan them, run them on Spark, show their progress, and verify them."""
        from seamark.copies.plan.endpoints import CopyEndpoint, CopyEndpoints, KafkaLogs  # noqa: PLC0415
        from seamark.copies.service import Copies  # noqa: PLC0415

        endpoint = CopyEndpoint(
            self.context,
            self._world,
            open_kafka=self._world.kafka,
            logs=KafkaLogs(self.context.kafka.client_config),
            actor=self._actor,
            planner=lambda: self._planner,
            apply=self._apply_part,
        )
        return Copies(
            CopyEndpoints(endpoint, endpoint),
            clusters=self._clusters,
            delete_topic=lambda topic: self.topics.delete(topic),  # noqa: PLW0108 - opened late
        )

    @cached_property
    @permits(Permission.READ)
    def pipelines(self) -> Pipelines:
        """Return the API for pipelines: plan a run, run them on Spark, show their progress."""
        from seamark.pipelines.service import Pipelines  # noqa: PLC0415
        from seamark.specs.load import read_section  # noqa: PLC0415

        world, planner = self._world, lambda: self._planner
        load = partial(read_section, "pipelines", self.context)
        read, now = self._read_registered, world.clock.now
        return Pipelines(self.context, kafka=world.kafka, load=load, read_registered=read, now=now, planner=planner)

    @permits(Permission.READ)
    def lag(self, owners: Sequence[str] = (), *, seconds: bool = True) -> Reading[GroupLag]:
        """Return the lag of every group and every sink, or those of `owners`, in records and seconds, largest first."""
        from seamark.groups.lag import read_lag  # noqa: PLC0415

        now, only = self._world.clock.now(), OwnerPatterns(tuple(owners))
        return read_lag(self._world.kafka(), self._clusters, now=now, with_seconds=seconds, only=only)

    @permits(Permission.READ)
    def source_lag(self, owners: Sequence[str] = ()) -> Reading[SourceLag]:
        """Return what all sources, or `owners`, have not yet read, counted in their databases, largest first."""
        from seamark.offsets.read.lag import read_source_lags  # noqa: PLC0415

        only = OwnerPatterns(tuple(owners))
        return read_source_lags(self.context, clusters=self._clusters, stores=self._stores, only=only)

    @cached_property
    @permits(Permission.READ)
    def doctor(self) -> Doctor:
        """Return the checks that find what is wrong, with a fix for each."""
        from seamark.doctor.offset_checks import OffsetsReader  # noqa: PLC0415
        from seamark.doctor.service import Doctor  # noqa: PLC0415

        reader = OffsetsReader(self._stores, brokers=self._world.kafka, now=self._world.clock.now)
        return Doctor(
            self.context,
            clusters=self._clusters,
            build_kafka=self._build_kafka,
            read_offsets=reader.read,
            read_transactions=reader.read_transactions,
            read_pipelines=lambda: self.pipelines.examine(),  # noqa: PLW0108 - opened late
            read_members=self._world.read_members,
        )

    @cached_property
    @permits(Permission.READ)
    def journal(self) -> Journal:
        """Return the API for the journal of changes."""
        from seamark.fleet.journal import Journal  # noqa: PLC0415

        return Journal(
            self.context,
            find_changes=self._find_changes,
            journal=self._find_journal,
            keys=lambda: self._world.keys,
            actor=lambda: self._actor,
            find_patterns=self._locks.find_patterns,
        )

    @permits(Permission.READ)
    def apply(
        self,
        planned: PlannedChange | Plan,
        progress: Progress | None = None,
        *,
        pace: Pace | None = None,
        confirm: str = "",
    ) -> ChangeResult:
        """Apply a plan: journaled, locked, verified. The result contains every failure.

        `pace` limits how many connectors change at once, and after how many failures no other is begun. In a protected
        context `confirm` is the name of the one resource that the plan changes, else that of the context.

        Raises:
            StalePlanError: The plan is out of date. Nothing was changed.
            LockedError: Another process is changing one of the resources. Nothing was changed.
            JournalError, FencedError: The journal failed, or another process resumed the change in the meantime.
            SeamarkError: The plan lacks what its spec declares, see `PlannedChange.blocked_by`. Nothing was changed.
        """
        from seamark.changes.plan import Plan  # noqa: PLC0415

        plan = planned if isinstance(planned, Plan) else planned.plan
        return self._find_changes(plan).apply(planned, progress=progress, pace=pace, confirm=confirm)

    def build_pace(self, *, canary: int = 0, max_failures: int | None = None, max_changes: int | None = None) -> Pace:
        """Build the pace of a large change: the first `canary` connectors alone, then the rest; see `Pace`."""
        return replace(FLEET_PACE, canary=canary, max_failures=max_failures, max_changes=max_changes)

    @permits(Permission.READ)
    def review(self, plan: Plan, *, validate: bool = True) -> PlannedChange:
        """Check whether a saved plan can be applied here and now, and return its effects."""
        return self._find_changes(plan).review(plan, validate=validate)

    @permits(Permission.READ)
    def save(self, planned: PlannedChange, path: Path) -> SeamarkError | None:
        """Save a plan in a file that only its owner can read. Returns why the file can't be applied, if it can't.

        A plan of a process that can't write the journal is a proposal, which `apply -f PATH --expect FILE` compares.
        """
        from seamark.fleet.changes import save_plan  # noqa: PLC0415

        return save_plan(planned, path, find_changes=self._find_changes)

    @permits(Permission.READ)
    def undo(self, change: str | ChangeResult) -> PlannedChange:
        """Plan the undo of a closed change."""
        import seamark.fleet.kinds  # noqa: F401, PLC0415 - plans are decoded here
        from seamark.changes.history import read_plan  # noqa: PLC0415

        entries = self.journal.show(change if isinstance(change, str) else change.change)
        return self._find_changes(read_plan(entries)).undo(entries[0].change)

    @permits(Permission.READ)
    def plan(
        self,
        what: SpecSource,
        *,
        prune: bool = False,
        names: Sequence[str] = (),
        adopt: bool = False,
        allow_python: bool = False,
        validate: bool = True,
        wait_seconds: float = 60.0,
    ) -> PlannedChange:
        """Plan the changes from what runs to what files, folders or a spec declare.

        What a previous apply of the same spec created and the spec no longer declares is deleted; with `prune`
        everything in its Connect clusters that it does not declare. `names` are names and globs that limit the plan.
        With `adopt` the plan takes over connectors of another spec. `allow_python` allows Python files to run. Plugins
        validate new configs, unless `validate` is false. A connector that should run has `wait_seconds` to do so; after
        that its previous config is restored, if it ran with that.

        Raises:
            UsageError, ConfigurationError: The files are invalid.
            RefusedError: Another spec owns one of these connectors, or a policy or a plugin rejects it.
            UnreachableError: A Connect cluster did not respond. There are no partial plans.
        """
        return self._spec_plans.plan(
            what,
            prune=prune,
            names=names,
            adopt=adopt,
            allow_python=allow_python,
            validate=validate,
            wait_seconds=wait_seconds,
        )

    @permits(Permission.READ)
    def destroy(
        self, what: SpecSource, *, names: Sequence[str] = (), adopt: bool = False, allow_python: bool = False
    ) -> PlannedChange:
        """Plan to delete every existing connector that files, folders or a spec declare."""
        return self._spec_plans.destroy(what, names=names, adopt=adopt, allow_python=allow_python)

    @permits(Permission.READ)
    def check(
        self, what: SpecSource, *, names: Sequence[str] = (), allow_python: bool = False
    ) -> tuple[DesiredConnector, ...]:
        """Return the connectors that files, folders or a spec declare, checked against the policy, without a server."""
        from seamark.specs.planner import check_spec  # noqa: PLC0415

        return check_spec(what, self.context, names=names, allow_python=allow_python)

    @permits(Permission.READ)
    def validate(
        self, what: SpecFiles, *, names: Sequence[str] = (), allow_python: bool = False
    ) -> tuple[ValidatedConnector, ...]:
        """Validate declared connectors with their plugins, without a plan and without resolving secrets."""
        from seamark.specs.validation import validate_spec  # noqa: PLC0415

        return validate_spec(
            what, self.context, clusters=self._clusters, world=self._world, names=names, allow_python=allow_python
        )

    @permits(Permission.READ)
    def status(self, *, labels: Sequence[str] = ()) -> FleetStatus:
        """Return a summary of every Connect cluster; with `labels` (`KEY=VALUE`), of its connectors that have them."""
        pick = self.connectors.build_picker(labels)
        return read_status(self._clusters, context=self.context.name, pick=pick)

    @permits(Permission.READ)
    def overview(self, owner: str) -> ConnectorOverview:
        """Return a connector with its topics, offsets or lag, spec and last changes."""
        from seamark.fleet.overview import read_fleet_overview  # noqa: PLC0415

        connector, world, names = self.connectors.get(owner), self._world, self._identities
        return read_fleet_overview(
            connector, self._clusters, world=world, journal=self.journal, open_journal=self._find_journal, names=names
        )

    def waits(self) -> tuple[Wait, ...]:
        """Return the calls that have not ended yet. It can be used from another thread."""
        return self._clusters.waits() + self._write_clusters.waits()

    @permits(Permission.READ)
    def check_connectivity(self) -> tuple[Finding, ...]:
        """Check whether every worker and the brokers can be reached: only the first checks of the doctor."""
        return self.doctor.check_connectivity()

    @cached_property
    def _actor(self) -> Actor:
        from seamark.changes.actor import this_actor  # noqa: PLC0415

        return self._own_actor or this_actor(find_principal(self.context))

    @cached_property
    def access(self) -> Access:
        """Return the permissions of this process's principal in the context."""
        return build_access(self.context)

    @cached_property
    def _world(self) -> LiveEnvironment:
        from seamark.connectors.labels import LabelReader  # noqa: PLC0415
        from seamark.fleet.environment import LiveEnvironment  # noqa: PLC0415

        return LiveEnvironment(
            self.context,
            clusters=self._write_clusters,
            build_brokers=self._build_brokers,
            open_scan=self._open_scan,
            open_copies=lambda: self.copies.operations,
            read_registered=self._read_registered,
            labels=LabelReader(self._find_journal, names=lambda: self._identities),
            read_identity=lambda names: self._identities.read(names),  # noqa: PLW0108 - it needs this world's brokers
        )

    @cached_property
    def _identities(self) -> Identities:
        from seamark.fleet.identity import Identities  # noqa: PLC0415

        build = self._build_kafka
        open_kafka = self._world.kafka if build is build_kafka_admin else lambda: build(self.context.kafka)
        return Identities(self.context, self._clusters, open_kafka=open_kafka)

    @property
    def _locks(self) -> FleetLocks:
        from seamark.fleet.identity import FleetLocks  # noqa: PLC0415

        return FleetLocks(self._clusters, self._identities)

    def _find_changes(self, plan: Plan) -> Changes:
        """Return what changes the clusters of a plan, by the names that the plan uses for them.

        Raises:
            RefusedError: The plan is for clusters that this context doesn't have.
        """
        from seamark.fleet.identity import rename_clusters  # noqa: PLC0415

        names = {} if plan.is_empty else self._identities.match(plan)
        if all(name == own for name, own in names.items()):
            return self._changes
        key = tuple(sorted(names.items()))
        if key not in self._views:
            self._views[key] = Fleet(
                rename_clusters(self.context, names),
                build_connect=self._build_connect,
                build_kafka=self._build_kafka,
                build_brokers=self._build_brokers,
                open_scan=self._open_scan,
                actor=self._own_actor,
            )
            self._views[key]._opened = self._find_journal()  # noqa: SLF001 - one journal for both
        return self._views[key]._changes  # noqa: SLF001 - a fleet of this class

    @cached_property
    def _stores(self) -> OffsetStores:
        from seamark.offsets.stores.stores import OffsetStores  # noqa: PLC0415

        return OffsetStores(self.context, clusters=self._clusters, brokers=self._world.kafka, open_scan=self._open_scan)

    @cached_property
    def _planner(self) -> Planner:
        from seamark.changes.planner import Planner  # noqa: PLC0415
        from seamark.fleet.environment import build_plan_ports  # noqa: PLC0415

        ports = build_plan_ports(
            self.context,
            self._clusters,
            world=self._world,
            locks=self._locks,
            # The plans are built from this planner: they are looked up when they are needed.
            open_plans=lambda: self._plans,
            open_copies=lambda: self.copies,
        )
        return Planner(
            self.context.name,
            self._world,
            actor=self._actor,
            find_identity=self._identities.find,
            ports=ports,
            open_world=self._open_plan_world,
            pace=self.context.pace,
        )

    def _apply_part(self, planned: PlannedChange) -> ChangeResult:
        """Apply a change that is part of a confirmed whole, such as the target topic of a copy."""
        from seamark.changes.planner import find_plan_confirmation  # noqa: PLC0415

        return self.apply(planned, confirm=find_plan_confirmation(planned.plan, self.context))

    @cached_property
    def _plans(self) -> ConnectorPlans:
        from seamark.connectors.plans import ConnectorPlans  # noqa: PLC0415
        from seamark.lifecycle.plans import Leftovers  # noqa: PLC0415
        from seamark.offsets.read.export import ExistingOffsets  # noqa: PLC0415

        former = ExistingOffsets(self._clusters, stores=lambda: self._stores)
        return ConnectorPlans(
            self.context,
            clusters=self._clusters,
            planner=self._planner,
            leftovers=Leftovers(lambda: self._build_kafka(self.context.kafka), former),
        )

    @cached_property
    def _lifecycle(self) -> Lifecycle:
        from seamark.lifecycle.plans import Lifecycle  # noqa: PLC0415

        return Lifecycle(self.context, clusters=self._clusters, plans=lambda: self._plans)

    def _open_plan_world(self) -> PlanEnvironment:
        """Open what one plan reads from; it caches what it has read."""
        from seamark.fleet.environment import PlanEnvironment  # noqa: PLC0415

        return PlanEnvironment(self._world, self._clusters, context=self.context, open_scan=self._open_scan)

    def _open_offset_plan(self) -> OffsetDependencies:
        """Build the dependencies of one plan for offsets. Each plan has its own, because they cache what they read."""
        from seamark.lifecycle.relocate import Relocations  # noqa: PLC0415
        from seamark.offsets.port import OffsetDependencies  # noqa: PLC0415

        return OffsetDependencies(
            self.context,
            self._clusters,
            self.connectors,
            self._open_plan_world(),
            self._planner,
            open_groups=lambda: self.groups,
            open_journal=self._find_journal,
            open_relocations=Relocations,
        )

    @cached_property
    def _spec_plans(self) -> SpecPlans:
        from seamark.specs.planner import SpecPlans  # noqa: PLC0415

        names, clock = self._identities, self._world.clock
        return SpecPlans(self.context, planner=self._planner, clock=clock, journal=self._find_journal, names=names)

    @cached_property
    def _changes(self) -> Changes:
        from seamark.fleet.changes import Changes  # noqa: PLC0415

        return Changes(
            self.context,
            clusters=self._clusters,
            world=self._world,
            planner=self._planner,
            actor=self._actor,
            journal=self._find_journal,
            names=self._identities,
            access=self.access,
        )

    def _read_registered(self) -> Mapping[str, Any]:
        from seamark.pipelines.actions import read_registered  # noqa: PLC0415

        return read_registered(self._find_journal)

    def _find_journal(self) -> SignedJournal:
        if self._opened is None:
            from seamark.fleet.kinds import open_signed_journal  # noqa: PLC0415

            self._opened = open_signed_journal(self.context, self._world.keys, self._open_journal)
        return self._opened
