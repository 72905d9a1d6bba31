"""A Connect cluster whose offsets can be read in a topic and groups, and written through REST."""

from __future__ import annotations

import time

from seamark.changes.file_journal import FileJournal
from seamark.fleet.fleet import Fleet
from seamark.kafka.groups import Committed
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.fleet.builders import StubKafka
from tests.unit.fleet.living import LivingConnect, living_context
from tests.unit.offsets.scans import FakeScan


class MovingConnect(LivingConnect):
    """What is patched is in the topic or the group at once."""

    def __init__(self, scan, brokers, **more):
        super().__init__(**more)
        self.scan, self.brokers = scan, brokers
        self.silent = ()

    def patch_offsets(self, name, offsets):
        self._called("patch_offsets", name)
        assert self.states[name] == "STOPPED"
        for found in offsets:
            if "kafka_topic" in found.partition:
                group = self.brokers.groups[f"connect-{name}"].offsets
                spot = (found.partition["kafka_topic"], found.partition["kafka_partition"])
                group.pop(spot, None)
                if found.offset is not None:
                    group[spot] = Committed(found.offset["kafka_offset"])
            else:
                self.scan.put((name, found.partition), found.offset)

    def find_silent(self, workers, **_):
        return tuple(worker for worker in workers if worker in self.silent)


class Leaping:
    """A clock that leaps over every wait."""

    def __init__(self):
        self._ahead = 0.0

    def now(self):
        return time.time() + self._ahead

    def sleep(self, seconds):
        self._ahead += seconds


class Place:
    """A fleet with one cluster, a topic of offsets and brokers."""

    def __init__(self, folder, **changes):
        self.scan, self.brokers = FakeScan("offsets"), FakeBrokers()
        self.game = MovingConnect(self.scan, self.brokers)
        self.fleet = Fleet(
            living_context(folder, **changes),
            build_connect=lambda settings: self.game,
            build_kafka=lambda settings: StubKafka(),
            build_brokers=lambda context: self.brokers,
            open_journal=lambda opened: FileJournal(opened.journal.folder),
            open_scan=lambda config, topic, committed: self.scan,
        )

    def held(self, name):
        """What the store holds."""
        return [found.offset for found in self.fleet.offsets.get(name).offsets]

    def apply(self, planned):
        result = self.fleet.apply(planned)
        assert result.is_done, result.failures
        return result
