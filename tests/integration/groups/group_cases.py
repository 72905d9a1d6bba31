"""Moves of groups, each spelled for seamark and for kafka-consumer-groups.

`{t}` and `{u}` stand for the topics. `t` has four partitions: 0 with 20 records, 1 with 12 of which the first five are
deleted, 2 never written, 3 with 8 that are all deleted. `u` has 6 and 3. The records of a partition are a minute apart,
and the last one is an hour old. The groups stand in `POSITIONS`; whatever is not named there is not committed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
RECORDS = {("t", 0): 20, ("t", 1): 12, ("t", 2): 0, ("t", 3): 8, ("u", 0): 6, ("u", 1): 3}
DELETED = {("t", 1): 5, ("t", 3): 8}
ENDS = RECORDS
# Offset and metadata. `plain` never had a member. `lost` stands before the first record and behind the last one.
POSITIONS = {
    "plain": {("t", 0): (7, "by hand"), ("t", 1): (6, ""), ("t", 2): (0, ""), ("u", 0): (2, "é")},
    "lost": {("t", 0): (25, ""), ("t", 1): (1, "old"), ("t", 3): (3, "")},
    "classic": {("t", 0): (7, ""), ("t", 1): (9, ""), ("u", 1): (1, "")},
    "consumer": {("t", 0): (7, ""), ("t", 1): (9, ""), ("u", 1): (1, "")},
    "other": {("t", 0): (11, ""), ("t", 1): (2, ""), ("t", 3): (8, ""), ("u", 0): (5, "")},
    "new": {},
}


@dataclass(frozen=True)
class Case:
    """One move: the arguments of `groups.move`, and the options of the other program."""

    group: str
    ours: dict
    theirs: tuple[str, ...]
    topics: tuple[str, ...] = ()
    expected: dict = field(default_factory=dict)

    @property
    def name(self):
        ways = [f"{key} {value}" for key, value in self.ours.items()]
        return " ".join([self.group, *ways, *self.topics]).replace("{", "").replace("}", "")


def to(place, option, *, group="plain", topics=(), **expected):
    return Case(group, {"to": place}, (option,), topics, expected.get("expected", {}))


def at(moment):
    """A time so many ms after the first record of partition 0 of `t`; filled in by the test."""
    return "{time:" + str(moment) + "}"


CASES = [
    # The edges
    to("earliest", "--to-earliest", expected={("t", 0): 0, ("t", 1): 5, ("t", 2): 0, ("u", 0): 0}),
    to("latest", "--to-latest", expected={("t", 0): 20, ("t", 1): 12, ("t", 2): 0, ("u", 0): 6}),
    to("earliest", "--to-earliest", topics=("{t}",), expected={("t", 0): 0, ("t", 1): 5, ("t", 2): 0, ("t", 3): 8}),
    to("latest", "--to-latest", topics=("{t}",)),
    to("earliest", "--to-earliest", topics=("{t}:0,3",)),
    to("latest", "--to-latest", topics=("{t}:1", "{u}")),
    to("earliest", "--to-earliest", topics=("{t}", "{u}")),
    to("earliest", "--to-earliest", group="lost"),
    to("latest", "--to-latest", group="lost"),
    to("earliest", "--to-earliest", group="new", topics=("{t}", "{u}:1")),
    to("latest", "--to-latest", group="new", topics=("{t}",)),
    to("earliest", "--to-earliest", group="classic"),
    to("latest", "--to-latest", group="consumer"),
    to("earliest", "--to-earliest", group="consumer", topics=("{u}",)),
    # An offset, and beyond both ends
    to(8, "--to-offset=8", expected={("t", 0): 8, ("t", 1): 8, ("t", 2): 0, ("u", 0): 6}),
    to("0", "--to-offset=0"),
    to("3", "--to-offset=3", topics=("{t}",)),
    to("1000000", "--to-offset=1000000", topics=("{t}", "{u}")),
    to("9", "--to-offset=9", group="classic"),
    to("9", "--to-offset=9", group="consumer", topics=("{t}:0,1,2,3",)),
    to("4", "--to-offset=4", group="new", topics=("{u}",)),
    # A time: before, at, between, at the last record, after all of them
    to(at(-HOUR_MS), "--to-datetime", expected={("t", 0): 0, ("t", 1): 5, ("t", 2): 0, ("u", 0): 0}),
    to(at(0), "--to-datetime", topics=("{t}",)),
    to(at(9 * MINUTE_MS), "--to-datetime"),
    to(at(9 * MINUTE_MS + 1), "--to-datetime"),
    to(at(12 * MINUTE_MS - 1), "--to-datetime", topics=("{t}", "{u}")),
    to(at(19 * MINUTE_MS), "--to-datetime"),
    to(at(19 * MINUTE_MS + 1), "--to-datetime", topics=("{t}",)),
    to(at(10 * HOUR_MS), "--to-datetime", topics=("{t}", "{u}")),
    to(at(15 * MINUTE_MS), "--to-datetime", group="consumer"),
    to(at(15 * MINUTE_MS), "--to-datetime", group="new", topics=("{t}",)),
    # Before now: the last record of each partition is an hour old
    Case("plain", {"to": "-2d"}, ("--by-duration", "P2D")),
    Case("plain", {"to": "-1h"}, ("--by-duration", "PT1H"), ("{t}",)),
    Case("plain", {"to": "-3930s"}, ("--by-duration", "PT1H5M30S"), ("{t}", "{u}")),
    Case("plain", {"to": "-P1DT12H"}, ("--by-duration", "P1DT12H")),
    Case("plain", {"to": "-PT1H5M30S"}, ("--by-duration", "PT1H5M30S"), ("{t}",)),
    Case("classic", {"to": "-70m"}, ("--by-duration", "PT70M")),
    # So many records on, or back
    Case("plain", {"shift": 1}, ("--shift-by", "1"), expected={("t", 0): 8, ("t", 1): 7, ("t", 2): 0, ("u", 0): 3}),
    Case("plain", {"shift": -3}, ("--shift-by=-3",), expected={("t", 0): 4, ("t", 1): 5, ("t", 2): 0, ("u", 0): 0}),
    Case("plain", {"shift": 1000}, ("--shift-by", "1000")),
    Case("plain", {"shift": -1000}, ("--shift-by=-1000",), ("{t}:0,1,2",)),
    Case("lost", {"shift": 2}, ("--shift-by", "2")),
    Case("lost", {"shift": -2}, ("--shift-by=-2",)),
    Case("consumer", {"shift": -4}, ("--shift-by=-4",), ("{t}:0",)),
    Case("classic", {"shift": 5}, ("--shift-by", "5")),
]

# What another group has, or a file: the other program reads only its own files, so each is made by it.
FILES = {
    "its own export": ("plain", ("--to-current",), "plain"),
    "an export of another place": ("plain", ("--to-earliest",), "plain"),
    "an export of a group that stands outside of the log": ("lost", ("--to-current",), "lost"),
    "an export for a group of the new protocol": ("consumer", ("--to-offset=8",), "consumer"),
}
FROM_GROUPS = (("plain", "other"), ("new", "other"), ("consumer", "plain"), ("plain", "lost"), ("other", "classic"))
