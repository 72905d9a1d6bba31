"""Sinks and groups, which hold positions in a topic: how they can be moved, and what they must have delivered."""

from __future__ import annotations

import json
import re
from collections import Counter

from tests.soak.offsets.commits import check_commits
from tests.soak.offsets.offset_history import find_writes
from tests.soak.offsets.owners import FILE, Owner, Wish

TEXT = "org.apache.kafka.connect.storage.StringConverter"
PARTITIONS = 3


class Positions:
    """Positions in a topic of three partitions, of a sink or a group."""

    def fill(self, count):
        for number in range(PARTITIONS):
            for offset in range(self.ends[number], self.ends[number] + count):
                self.site.producer.produce(self.topic, value=f"<{number}-{offset:06d}>", partition=number)
            self.ends[number] += count
        assert self.site.producer.flush(240) == 0

    def make_topic(self):
        self.topic = f"{self.name}-in"
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self.site.brokers.make_topic(self.topic, PARTITIONS)
        self.fill(100)

    def spell(self, positions):
        return [
            {
                "partition": {"kafka_topic": self.topic, "kafka_partition": int(name.rpartition(":")[2])},
                "offset": None if offset is None else {"kafka_offset": offset},
            }
            for name, offset in positions.items()
        ]

    def hold(self):
        return self.site.brokers.read_commits(self.group)

    def draw(self, before):
        number = self.rng.randrange(PARTITIONS)
        spot = f"{self.topic}:{number}"
        held = before.get(spot)
        target = self.rng.choice([place for place in range(self.ends[number] + 1) if place != held])
        file = {name: self.rng.randint(0, self.ends[int(name[-1])]) for name in before} | {spot: target}
        ways = [
            lambda: (("move", self.owner, "--to", str(target), "--topic", spot), before | {spot: target}),
            lambda: (("move", self.owner, "--from-file", str(self.write_export(file))), before | file),
            lambda: (("import", str(self.write_export(file)), self.owner), before | file),
        ]
        if held is not None:
            without = {name: offset for name, offset in before.items() if name != spot}
            ways.append(lambda: (("reset", self.owner, "--topic", spot), without))
        if len(before) == PARTITIONS:
            ways += self._draw_whole(before)
        arguments, wanted = self.rng.choice(ways)()
        return Wish(("offsets", *arguments), wanted)

    def _draw_whole(self, before):
        """Ways for all partitions at once."""
        least = min(before.values())
        ways = [lambda: (("reset", self.owner), {})]
        if any(before.values()):
            ways.append(lambda: (("move", self.owner, "--to", "earliest"), dict.fromkeys(before, 0)))
        if least > 0:
            by = self.rng.randint(1, least)
            moved = {name: offset - by for name, offset in before.items()}
            ways.append(lambda: (("move", self.owner, "--shift", str(-by)), moved))
        return ways

    def read_place(self, partition, offset):
        """The `topic:0` of a partition in an image, and its offset."""
        found = json.loads(partition)
        spot = f"{found['kafka_topic']}:{found['kafka_partition']}"
        return spot, None if offset is None else json.loads(offset)["kafka_offset"]


class FileSink(Positions, Owner):
    """A file sink that reads three partitions."""

    word = "sink"

    def begin(self):
        self.group = f"connect-{self.name}"
        self.file = self.site.folder / f"{self.name}.out"
        self.make_topic()
        config = {
            "connector.class": f"{FILE}SinkConnector",
            "tasks.max": "2",
            "file": str(self.file),
            "topics": self.topic,
            "key.converter": TEXT,
            "value.converter": TEXT,
        }
        self.site.rest.call("PUT", f"/connectors/{self.name}/config", config)
        self.come_to_rest()

    def grow(self):
        self.fill(self.rng.randint(1, 40))

    def _has_read_all(self):
        return self.hold() == {f"{self.topic}:{number}": end for number, end in self.ends.items()}

    def find_unwritten(self, wanted, since):
        """A sentence for a partition whose wanted offset the group has not committed since."""
        wrong = []
        for number, end in self.ends.items():
            spot = f"{self.topic}:{number}"
            written = [one.offset for one in self.site.commits.read_partition(self.group, spot) if one.at >= since - 1]
            # One that had come back there by itself had nothing written.
            if wanted.get(spot) not in (*written, end):
                wrong.append(f"{wanted.get(spot)} of {spot} is not among the commits {written}")
        return "; ".join(wrong)

    def check_data(self, changes, deaths):
        """What stands in the file, held against what the group committed and what changes wrote."""
        del deaths
        text = self.file.read_text()
        writes = find_writes(changes, self.read_place)
        wrong, counts = [], Counter()
        for number, end in self.ends.items():
            found = [int(one) for one in re.findall(rf"<{number}-(\d{{6}})>", text)]
            self.counts["delivered"] += len(found)
            spot = f"{self.topic}:{number}"
            commits = self.site.commits.read_partition(self.group, spot)
            some_wrong, some = check_commits(commits, writes.get(spot, ()), found, end=end)
            wrong += [f"{spot}: {words}" for words in some_wrong]
            counts += some
        return wrong, counts


class PlainGroup(Positions, Owner):
    """A consumer group with nobody in it."""

    word = "group"
    states = ("STOPPED",)

    def begin(self):
        self.group = self.name
        self.owner = f"group/{self.name}"
        self.state = "STOPPED"
        self.make_topic()
        self.site.brokers.commit(self.group, {f"{self.topic}:{number}": 50 for number in range(PARTITIONS)})

    def set_state(self, state):
        del state

    def come_to_rest(self):
        """It always is."""

    def grow(self):
        """Nothing: nobody reads it."""

    def check_data(self, changes, deaths):
        del changes, deaths
        return [], Counter()

    def end(self):
        """It goes with the stack."""


class IdleGroup(PlainGroup):
    """A group that nobody may touch."""

    word = "idle-group"

    def begin(self):
        super().begin()
        self.before = self.hold()

    def is_untouched(self):
        return self.hold() == self.before
