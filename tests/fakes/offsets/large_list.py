"""Measure `seamark offsets list` on a fleet without servers: `python -m tests.fakes.offsets.large_list [FORMAT]`.

10,000 sources with 50 offsets each: what brokers and workers would send is built while it is read. Prints the CPU
seconds, which other processes change little, and how much the peak of the process's memory grew, in MiB.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from seamark.cli.main import without_collector
from seamark.cli.session import Session
from seamark.kafka.model import RawRecord, ScanResult
from seamark.kafka.partitioner import build_partitioner
from seamark.offsets.list_views import build_list_view
from seamark.report.data import OutputFormat
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.fleet.living import SOURCE_CONFIG, LivingConnect, open_living_fleet

PARTITIONS = 25


class LargeScan:
    """An offsets topic whose records are built while it is read, as a client builds them from its buffers."""

    topic = "connect-offsets"

    def __init__(self, connectors, offsets_each):
        self.connectors, self.offsets_each = connectors, offsets_each

    def read_newest(self, accept=None):
        home = build_partitioner(PARTITIONS)
        records = tuple(record for record in self._build(home) if accept is None or accept(record.key))
        return ScanResult(self.topic, PARTITIONS, len(records), records)

    def _build(self, home):
        for number in range(self.connectors):
            for table in range(self.offsets_each):
                key = b'["log-%05d",{"protocol":"1","table":"game.public.events_%03d"}]' % (number, table)
                value = b'{"incrementing":%d,"timestamp":%d,"timestamp_nanos":0}' % (table * 7919, 1_700_000_000_000)
                yield RawRecord(home(key), number, 1_700_000_000_000, key, value)


def measure(form, *, connectors=10_000, offsets_each=50, out=None):
    """Run the command's own calls; return the seconds and the growth of the peak in MiB."""
    game = LivingConnect()
    for number in range(connectors):
        game.add(f"log-{number:05}", SOURCE_CONFIG)
    scan = LargeScan(connectors, offsets_each)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder, Path(out or "/dev/null").open("w", encoding="utf-8") as file:
        session = Session(output=form, out=file)
        fleet = open_living_fleet(Path(folder), game, brokers=FakeBrokers(), scan=scan)
        with without_collector():
            found = fleet.offsets.list()
            read = time.process_time()
            assert len(found) == connectors * offsets_each, len(found)
            assert not found.failures, found.failures
            session.reporter.show(build_list_view(found))
    ended = time.process_time()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return ended - begun, grown, read - begun


if __name__ == "__main__":
    chosen = OutputFormat(sys.argv[1] if len(sys.argv) > 1 else "json")
    seconds, mebibytes, reading = measure(chosen)
    print(f"{chosen}: {seconds:.1f} s, of which {reading:.1f} s to read; peak +{mebibytes:.0f} MiB")
