"""How far every source is behind: its offsets from the stores, the rest from the database that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from seamark.connect.clusters import Clusters
from seamark.connect.config import OWN_OFFSETS_TOPIC
from seamark.connect.connector import Connector
from seamark.connect.plugin_type import find_class
from seamark.core.distance import Certainty, Counted, Distance
from seamark.core.fanout import fan_out
from seamark.core.offset import Offset
from seamark.core.reading import Reading
from seamark.core.refs import ConnectorType
from seamark.errors import SeamarkError
from seamark.offsets.read.behind import database_url, measure_behind
from seamark.offsets.read.databases import open_database
from seamark.offsets.semantics import Meaning, find_meaning
from seamark.offsets.source_lag import PartitionLag, SourceLag

if TYPE_CHECKING:
    from seamark.connect.api import ConnectPort
    from seamark.context import Context
    from seamark.offsets.stores.stores import OffsetStores
    from seamark.tables import Database


def read_source_lags(context: Context, *, clusters: Clusters, stores: OffsetStores) -> Reading[SourceLag]:
    """Every source, the one with the most to read first.

    An offsets topic is read once for all connectors that share it. Databases are asked at the same time, each with one
    count after the other, and each count has the database's own time limit.
    """
    answers = clusters.ask(_read_sources)
    sources = [source for found in answers.results.values() for source in found]
    offsets, failures = _read_offsets(sources, stores)
    groups: dict[str, list[Connector]] = {}
    for source in sources:
        if source.owner in offsets:
            groups.setdefault(database_url(source.config) or "", []).append(source)
    counted = fan_out({url: partial(_count_all, context, found, offsets) for url, found in groups.items()})
    lags = [lag for found in counted.results.values() for lag in found]
    return Reading(
        tuple(sorted(lags, key=lambda lag: (-(lag.total if lag.total is not None else -1), lag.owner))),
        failures={**answers.failures, **failures, **counted.failures},
    )


def _read_sources(client: ConnectPort) -> list[Connector]:
    """The sources of a cluster, each with the whole name of its class, for which its config may have a short one."""
    found = [source for source in client.read_connectors() if source.type is ConnectorType.SOURCE]
    plugins = client.read_plugins() if any("." not in source.plugin for source in found) else ()
    return [
        replace(source, config={**source.config, "connector.class": find_class(plugins, source.plugin)})
        for source in found
    ]


def _read_offsets(
    sources: Sequence[Connector], stores: OffsetStores
) -> tuple[Mapping[str, tuple[Offset, ...]], Mapping[str, SeamarkError]]:
    """The offsets of each source by its owner; failures by cluster, or by the source that has a topic of its own."""
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
    """Sources of one database: their configs lead to the same."""
    with ExitStack() as stack:
        database = open_database(context, sources[0].config, stack)
        return [_count_source(source, offsets[source.owner], database) for source in sources]


def _count_source(source: Connector, offsets: Sequence[Offset], database: Database | str) -> SourceLag:
    meaning = find_meaning(source.plugin, source.config)
    state = source.status.state.value if source.status else ""
    return SourceLag(source.owner, state, tuple(_count_partitions(meaning, offsets, database)))


def _count_partitions(meaning: Meaning, offsets: Sequence[Offset], database: Database | str) -> Iterator[PartitionLag]:
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
