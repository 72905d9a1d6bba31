"""Compute the lag of every source: its offsets come from the stores, the end from the database that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from seamark.connect.clusters import Clusters
from seamark.connect.config import OWN_OFFSETS_TOPIC
from seamark.connect.model import Connector
from seamark.connect.plugins import find_class
from seamark.core.offsets import Certainty, Counted, Distance, Offset, TableRows, WalBytes, settle
from seamark.core.readings import Reading, fan_out
from seamark.core.refs import EVERY_OWNER, ConnectorType, OwnerPatterns
from seamark.errors import NotFoundError, SeamarkError
from seamark.offsets.exports import PartitionLag, SourceLag
from seamark.offsets.semantics import OffsetSemantics
from seamark.offsets.semantics.registry import find_meaning

if TYPE_CHECKING:
    from seamark.connect.api import ConnectPort
    from seamark.context import Context
    from seamark.offsets.stores.stores import OffsetStores
    from seamark.tables import Database


_LIST = "list all: seamark lag --sources"


def rows_behind(connector: Connector, offset: Offset, database: Database) -> Counted:
    """Count in its database what a source has not yet read: rows, or bytes of the write-ahead log for Debezium.

    The count is limited by the database's time limit; beyond it, the result is an estimate and marked as one.

    Raises:
        SeamarkError: The database can't be reached, or counting is not permitted.
    """
    meaning = find_meaning(connector.plugin, connector.config)
    return measure_behind(meaning.build_distance(offset.partition, offset.offset, None), database)


def measure_behind(distance: Distance, database: Database) -> Counted:
    """Run the count of a distance, if a database can do it."""
    known = settle(distance)
    if known is not None:
        return known
    if isinstance(distance.count, TableRows | WalBytes):
        return database.count(distance)
    return Counted(distance.unit, None, Certainty.UNKNOWN, "a database can't count this unit")


def database_url(config: Mapping[str, str]) -> str | None:
    """Return the JDBC URL of the database that a connector reads or writes; None if its config has none."""
    if url := (config.get("connection.url") or "").strip():
        return url
    host, name = (config.get("database.hostname") or "").strip(), (config.get("database.dbname") or "").strip()
    if not host or not name:
        return None
    return f"jdbc:postgresql://{host}:{(config.get('database.port') or '5432').strip()}/{name}"


def open_database(context: Context, config: Mapping[str, str], stack: ExitStack) -> Database | str:
    """Open the database of a connector's config, closed with `stack`; or return why there is none."""
    settings = context.find_database(database_url(config))
    if settings is None:
        return "the context has no database for this connector: add one under databases"
    try:
        from seamark.tables import Database  # noqa: PLC0415

        return stack.enter_context(Database(settings.dsn.reveal(), name=settings.name))
    except SeamarkError as error:
        return error.message


def read_source_lags(
    context: Context, *, clusters: Clusters, stores: OffsetStores, only: OwnerPatterns = EVERY_OWNER
) -> Reading[SourceLag]:
    """Read the lag of every source, or of those in `only`, largest first. One that doesn't exist is in `failures`.

    An offsets topic is read once for all connectors that share it. Databases are queried concurrently, each with one
    count at a time, and each count has the database's own time limit.
    """
    answers = clusters.ask(_read_sources)
    everything = [source for found in answers.results.values() for source in found]
    sources = [source for source in everything if only.matches(source.owner)]
    missing: dict[str, SeamarkError] = {}
    if not answers.failures:
        absent = only.find_missing({source.owner for source in everything})
        missing = {name: NotFoundError(f"source {name} does not exist", hint=_LIST) for name in absent}
    offsets, failures = _read_offsets(sources, stores)
    groups: dict[str, list[Connector]] = {}
    for source in sources:
        if source.owner in offsets:
            groups.setdefault(database_url(source.config) or "", []).append(source)
    counted = fan_out({url: partial(_count_all, context, found, offsets) for url, found in groups.items()})
    lags = [lag for found in counted.results.values() for lag in found]
    return Reading(
        tuple(sorted(lags, key=lambda lag: (-(lag.total if lag.total is not None else -1), lag.owner))),
        failures={**answers.failures, **missing, **failures, **counted.failures},
    )


def _read_sources(client: ConnectPort) -> list[Connector]:
    """Read the sources of a Connect cluster, each with its full class name; its config may have a short one."""
    found = [source for source in client.read_connectors() if source.type is ConnectorType.SOURCE]
    plugins = client.read_plugins() if any("." not in source.plugin for source in found) else ()
    return [
        replace(source, config={**source.config, "connector.class": find_class(plugins, source.plugin)})
        for source in found
    ]


def _read_offsets(
    sources: Sequence[Connector], stores: OffsetStores
) -> tuple[Mapping[str, tuple[Offset, ...]], Mapping[str, SeamarkError]]:
    """Return the offsets of each source by owner; failures by Connect cluster, or by source if it has its own topic."""
    calls: dict[str, partial[dict[str, tuple[Offset, ...]]]] = {}
    shared: dict[str, list[Connector]] = {}
    for source in sources:
        if source.config.get(OWN_OFFSETS_TOPIC):
            calls[source.owner] = partial(_read_own, stores, source)
        else:
            shared.setdefault(source.cluster, []).append(source)
    calls |= {cluster: partial(_read_shared, stores, cluster, found) for cluster, found in shared.items()}
    answers = fan_out(calls)
    found = {owner: offsets for read in answers.results.values() for owner, offsets in read.items()}
    return found, answers.failures


def _read_own(stores: OffsetStores, source: Connector) -> dict[str, tuple[Offset, ...]]:
    reading = stores.find(source).first.read([source.name])
    return {source.owner: tuple(found.as_offset() for found in reading.offsets)}


def _read_shared(stores: OffsetStores, cluster: str, sources: Sequence[Connector]) -> dict[str, tuple[Offset, ...]]:
    reading = stores.find_workers(cluster).read([source.name for source in sources])
    held: dict[str, list[Offset]] = {source.name: [] for source in sources}
    for found in reading.offsets:
        held[found.key.connector].append(found.as_offset())
    return {source.owner: tuple(held[source.name]) for source in sources}


def _count_all(
    context: Context, sources: Sequence[Connector], offsets: Mapping[str, Sequence[Offset]]
) -> list[SourceLag]:
    """Count the lags of sources that share a database."""
    with ExitStack() as stack:
        database = open_database(context, sources[0].config, stack)
        return [_count_source(source, offsets[source.owner], database) for source in sources]


def _count_source(source: Connector, offsets: Sequence[Offset], database: Database | str) -> SourceLag:
    meaning = find_meaning(source.plugin, source.config)
    state = source.status.state.value if source.status else ""
    return SourceLag(source.owner, state, tuple(_count_partitions(meaning, offsets, database)))


def _count_partitions(
    meaning: OffsetSemantics, offsets: Sequence[Offset], database: Database | str
) -> Iterator[PartitionLag]:
    for offset in offsets:
        words, _ = meaning.describe(offset.partition, offset.offset)
        distance = meaning.build_distance(offset.partition, offset.offset, None)
        yield PartitionLag(words, _count(distance, database))


def _count(distance: Distance, database: Database | str) -> Counted:
    if isinstance(database, str):
        return Counted(distance.unit, None, Certainty.UNKNOWN, distance.reason if distance.count is None else database)
    try:
        return measure_behind(distance, database)
    except SeamarkError as error:
        return Counted(distance.unit, None, Certainty.UNKNOWN, error.message)
