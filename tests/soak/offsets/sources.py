"""Sources whose offsets are moved: what each holds, how it can be moved, and what it must have delivered."""

from __future__ import annotations

import json
from base64 import b64decode

from tests.integration.offsets.test_topic_route import CLASS as COUNTING
from tests.soak.offsets.delivered import Delivered, check_delivered
from tests.soak.offsets.offset_history import find_starts
from tests.soak.offsets.owners import FILE, Owner, Wish

# Lines of one length: so the position of a line is its number times this.
WIDTH = 12


class Source(Owner):
    """A source of numbered things, with one partition."""

    key = ""
    lines = 0

    def build_place(self, number):
        """The offset of the thing with this number."""
        raise NotImplementedError

    def find_line(self, offset):
        """The number of the thing at an offset."""
        raise NotImplementedError

    def hold(self):
        return {
            json.dumps(json.loads(key)[1]): record.offset
            for key, record in self.site.ledger.read_newest(self.name).items()
            if record.value is not None
        }

    def hold_raw(self):
        newest = self.site.ledger.read_newest(self.name)
        # Absent and forgotten are the same for whoever reads it.
        return {key: record.value for key, record in newest.items() if record.value is not None}

    def find_unwritten(self, wanted, since):
        written = [one.offset for one in self.site.ledger.read(self.name) if one.at >= since - 1]
        place = wanted.get(self.key)
        # One that had come back there by itself had nothing written.
        return "" if place in (*written, self.build_place(self.lines)) else f"{place} is not among {written}"

    def _has_read_all(self):
        return self.hold() == {self.key: self.build_place(self.lines)}

    def spell(self, positions):
        return [{"partition": json.loads(key), "offset": offset} for key, offset in positions.items()]

    def draw(self, before):
        """A wish that is not what is held already."""
        held = before.get(self.key)
        line = -1 if held is None else self.find_line(held)
        target = self.rng.choice([number for number in range(self.lines + 1) if number != line])
        arguments, wanted = self.rng.choice(self.list_ways(held, target))()
        return Wish(("offsets", *arguments), {} if wanted is None else {self.key: wanted})

    def list_ways(self, held, target):
        """How it can be told to go somewhere, each with what it then holds."""
        place = self.build_place(target)
        ways = [
            lambda: (("move", self.owner, "--to", json.dumps(place)), place),
            lambda: (("move", self.owner, "--from-file", str(self.write_export({self.key: place}))), place),
            lambda: (("import", str(self.write_export({self.key: place})), self.owner), place),
        ]
        if held is not None:
            ways += [
                lambda: (("move", self.owner, "--to", "earliest"), None),
                lambda: (("reset", self.owner), None),
            ]
        return ways

    def check_data(self, changes, deaths):
        """What stands in the topic, held against what was moved."""
        starts = find_starts(changes, self.read_place)
        delivered = [
            Delivered(self.read_value(record.value()), record.timestamp()[1] / 1000)
            for record in self.site.read_topic(self.name)
        ]
        self.counts["delivered"] += len(delivered)
        held = {0, *(self.find_line(one.offset) for one in self.site.ledger.read(self.name) if one.value)}
        died = [(at, at + 120) for at in deaths]
        return check_delivered(delivered, starts.get(self.key, ()), end=self.lines, held=held, died=died)


class FileSource(Source):
    """A file source, whose lines are numbers."""

    word = "source"

    def begin(self):
        self.file = self.site.folder / f"{self.name}.txt"
        self.file.write_text("")
        self.key = json.dumps({"filename": str(self.file)})
        self.site.brokers.make_topic(self.name, 1)
        self._append(300)
        config = {"connector.class": f"{FILE}SourceConnector", "file": str(self.file), "topic": self.name}
        self.site.rest.call("PUT", f"/connectors/{self.name}/config", {**config, "tasks.max": "1"})
        self.come_to_rest()

    def _append(self, count):
        with self.file.open("a") as file:
            file.writelines(f"{number:0{WIDTH - 1}d}\n" for number in range(self.lines, self.lines + count))
        self.lines += count

    def grow(self):
        self._append(self.rng.randint(1, 120))

    def build_place(self, number):
        return {"position": number * WIDTH}

    def find_line(self, offset):
        return offset["position"] // WIDTH

    def read_value(self, value):
        return int(json.loads(value))

    def list_ways(self, held, target):
        place, idle = self.build_place(target), self.site.idle_source
        ways = [*super().list_ways(held, target), lambda: (("move", self.owner, "--to", str(place["position"])), place)]
        if held is not None:
            by = place["position"] - held["position"]
            ways.append(lambda: (("move", self.owner, "--shift", str(by)), place))
        if held != idle.place:
            ways.append(lambda: (("copy", idle.name, self.owner), idle.place))
        return ways

    def read_place(self, partition, offset):
        """The key of a partition in an image, and the number of the line at its offset."""
        return json.dumps(json.loads(partition)), 0 if offset is None else self.find_line(json.loads(offset))


class IdleSource(FileSource):
    """A stopped source that others copy from and nobody may touch."""

    word = "idle"

    def begin(self):
        super().begin()
        self.set_state("STOPPED")
        self.place = self.hold()[self.key]
        self.before = self.site.ledger.read(self.name)

    def is_untouched(self):
        return self.site.ledger.read(self.name) == self.before


class CountingSource(Source):
    """A source whose key REST would spell another way: it is moved in the topic, to the byte."""

    word = "counting"
    is_exact = True

    def begin(self):
        self.lines = 500
        self.key = json.dumps({"topic": self.name, "shard": 1, "area": "north"})
        self.site.brokers.make_topic(self.name, 1)
        config = {"connector.class": COUNTING, "tasks.max": "1", "topic": self.name, "limit": str(self.lines)}
        self.site.rest.call("PUT", f"/connectors/{self.name}/config", config)
        self.come_to_rest()

    def grow(self):
        """Nothing: it counts to its limit."""

    def build_place(self, number):
        return {"count": number}

    def find_line(self, offset):
        return offset["count"]

    def read_value(self, value):
        # The first number is 1.
        return int(json.loads(value)) - 1

    def read_place(self, place, value):
        """The one key, and the number at a record's bytes in an image."""
        del place
        return self.key, 0 if value is None else self.find_line(json.loads(b64decode(value)))
