"""The offsets that wait for a connector that is not there yet: a source of that name goes on from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from seamark.connect.config import OWN_OFFSETS_TOPIC
from seamark.connect.connector import Connector
from seamark.core.fanout import fan_out
from seamark.errors import SeamarkError
from seamark.offsets.semantics.plugin_semantics import read_meaning

if TYPE_CHECKING:
    from seamark.connect.clusters import Clusters
    from seamark.offsets.stored_offset import StoredOffset
    from seamark.offsets.stores.stores import OffsetStores

# The workers' topic is read once for all of a cluster, one of a connector's own for each: so many within some seconds.
_MOST_READS = 50


class FormerOffsets:
    """Looks into the stores for offsets of new connectors. What can't be found out becomes words, never a failure."""

    def __init__(self, clusters: Clusters, *, stores: Callable[[], OffsetStores]) -> None:
        self._clusters = clusters
        self._stores = stores

    def describe(self, connectors: Sequence[Connector]) -> Mapping[str, str]:
        """By owner, where each of these sources would begin."""
        groups: dict[tuple[str, str], list[Connector]] = {}
        for one in connectors:
            groups.setdefault((one.cluster, one.config.get(OWN_OFFSETS_TOPIC, "")), []).append(one)
        if len(groups) > _MOST_READS:
            return {one.owner: "goes on from offsets of its name, if there are any" for one in connectors}
        answers = fan_out({" ".join(where): partial(self._describe, found) for where, found in groups.items()})
        words: dict[str, str] = {}
        for where, found in groups.items():
            error = answers.failures.get(" ".join(where))
            unknown = "" if error is None else f"nobody tells whether offsets of that name are held ({error.message})"
            words |= dict.fromkeys([one.owner for one in found], unknown) if error else answers.results[" ".join(where)]
        return words

    def _describe(self, connectors: Sequence[Connector]) -> dict[str, str]:
        """All of these share their stores: one reading is enough."""
        reading, _ = self._stores().find(connectors[0]).read_first(*(one.name for one in connectors))
        held: dict[str, list[StoredOffset]] = {}
        for stored in reading.offsets:
            if stored.offset is not None:
                held.setdefault(stored.key.connector, []).append(stored)
        return {one.owner: self._spell(one, held.get(one.name, ())) for one in connectors}

    def _spell(self, connector: Connector, held: Sequence[StoredOffset]) -> str:
        if not held:
            return "begins anew, no offset of that name"
        newest = max(held, key=lambda stored: stored.evidence.timestamp_ms or 0)
        if len(held) > 1:
            return f"goes on from {len(held)} offsets of that name that are left{_spell_day(newest, ', the newest')}"
        try:
            meaning = read_meaning(connector, self._clusters.client(connector.cluster))
            place = " ".join(meaning.describe(newest.key.partition, newest.offset))
        except SeamarkError:
            return f"goes on from an offset of that name that is left{_spell_day(newest)}"
        return f"goes on at {place}, an offset of that name is left{_spell_day(newest)}"


def _spell_day(stored: StoredOffset, before: str = "") -> str:
    millis = stored.evidence.timestamp_ms
    return "" if millis is None else f"{before} from {datetime.fromtimestamp(millis / 1000, tz=UTC):%Y-%m-%d}"
