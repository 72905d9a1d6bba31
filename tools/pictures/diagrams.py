"""The diagrams of the documentation, by the name of their file."""

from __future__ import annotations

from collections.abc import Callable

from tools.pictures.drawing import Arrow, Box, Label, build_diagram

# The strata of CONTRIBUTING.md, from the top, with their packages.
STRATA = (
    ("shells", ("cli", "demo", "fleet")),
    (
        "workflows",
        ("specs", "copies", "pipelines", "lifecycle", "dead_letters", "doctor", "overview", "kip199", "consumer"),
    ),
    ("resources", ("offsets", "connectors", "topics", "groups")),
    ("engines", ("changes", "kafka_sink")),
    ("foundations", ("connect", "kafka", "tables", "spark", "context", "report", "policy", "core", "errors")),
)


def build_strata() -> str:
    """Draw the strata of the packages."""
    parts: list[Box | Arrow | Label] = []
    for number, (name, packages) in enumerate(STRATA):
        kind = "key" if name == "engines" else "box"
        parts.append(Box(24, 24 + 68 * number, 660, 52, (name, " · ".join(packages)), kind))
    parts.append(Arrow(((718, 44), (718, 340)), "imports", (718, 34)))
    return build_diagram("The five strata of packages: each imports only those below it", 760, 372, tuple(parts))


def build_change() -> str:
    """Draw the life of a change."""
    row = ("read", "plan", "confirm", "lock", "open entry")
    below = ("state, offsets", "actions, effects", "yes, or --yes", "one per resource", "in the journal")
    parts: list[Box | Arrow | Label] = [
        Box(24 + 146 * number, 24, 124, 56, (name, text))
        for number, (name, text) in enumerate(zip(row, below, strict=True))
    ]
    parts += [Arrow(((148 + 146 * number, 52), (168 + 146 * number, 52))) for number in range(4)]
    parts += [
        Arrow(((670, 80), (670, 112), (110, 112), (110, 150))),
        Label(390, 106, "for each step", anchor="middle"),
        Box(24, 152, 172, 56, ("intent entry", "what will be sent"), "key"),
        Arrow(((196, 180), (226, 180))),
        Box(228, 152, 172, 56, ("request", "to Connect or Kafka")),
        Arrow(((400, 180), (430, 180))),
        Box(432, 152, 172, 56, ("outcome entry", "read back and verified"), "key"),
        Arrow(((604, 180), (634, 180))),
        Box(636, 152, 96, 56, ("close", "unlock")),
        Box(24, 252, 172, 56, ("crash", "any process, any time"), "bad"),
        Arrow(((110, 252), (110, 210))),
        Label(122, 236, "journal resume reads the outcome and continues"),
        Box(228, 252, 172, 56, ("step failed", "or can't run"), "bad"),
        Arrow(((400, 280), (430, 280))),
        Box(432, 252, 172, 56, ("roll back", "previous state restored")),
        Box(636, 252, 96, 56, ("undo", "a new plan")),
        Arrow(((684, 208), (684, 250))),
    ]
    return build_diagram(
        "The life of a change, from reading to its close, with resume, roll back and undo", 756, 332, tuple(parts)
    )


def build_offsets() -> str:
    """Draw where offsets are stored."""
    rows = (
        ("source connector", "distributed worker", ("offsets topic", "connect-offsets, or a topic of its own")),
        ("source connector", "standalone worker", ("file", "offset.storage.file.filename")),
        ("sink connector", "group connect-NAME", ("__consumer_offsets", "topic of the Kafka cluster")),
        ("consumer group", "of any application", ("__consumer_offsets", "topic of the Kafka cluster")),
        ("pipeline, exactly-once consumer", "Spark or Python", ("ledger", "in the database or lake, with the rows")),
    )
    parts: list[Box | Arrow | Label] = [
        Label(24, 32, "owner", "text"),
        Label(404, 32, "where its offsets are stored", "text"),
    ]
    for number, (owner, kind, store) in enumerate(rows):
        y = 48 + 68 * number
        parts += [
            Box(24, y, 270, 52, (owner, kind)),
            Arrow(((294, y + 26), (402, y + 26)), "commits"),
            Box(404, y, 312, 52, store, "key"),
        ]
    return build_diagram("Where offsets are stored, by the kind of their owner", 740, 400, tuple(parts))


def build_cutover() -> str:
    """Draw consumers and producers before and after a cutover."""
    parts: list[Box | Arrow | Label] = [
        Label(24, 34, "before", "text"),
        Box(24, 48, 150, 52, ("producers", "sources, programs")),
        Arrow(((174, 74), (242, 74))),
        Box(244, 48, 210, 52, ("orders", "12 partitions"), "key"),
        Arrow(((454, 74), (522, 74))),
        Box(524, 48, 150, 52, ("consumers", "sinks, groups")),
        Arrow(((349, 100), (349, 140)), "copies run: each record, and where it went", (500, 124)),
        Box(244, 142, 210, 52, ("orders-copy", "6 partitions")),
        Label(24, 240, "cutover, one change: stop · copy the rest · translate offsets · switch · start", "text"),
        Box(24, 262, 150, 52, ("producers", "sources, programs")),
        Arrow(((174, 288), (242, 340))),
        Box(244, 256, 210, 52, ("orders", "kept until cleanup")),
        Box(244, 326, 210, 52, ("orders-copy", "6 partitions"), "key"),
        Arrow(((454, 352), (522, 296))),
        Box(524, 262, 150, 52, ("consumers", "translated offsets")),
    ]
    return build_diagram(
        "A topic is copied to fewer partitions, then producers and consumers are switched", 700, 402, tuple(parts)
    )


def build_ledger() -> str:
    """Draw how rows and offsets are committed together."""
    parts = (
        Box(24, 70, 150, 64, ("orders-0", "records 40 to 59")),
        Arrow(((174, 102), (238, 102)), "read"),
        Label(264, 34, "one transaction of the database, or one commit of the table", "text"),
        Box(240, 46, 300, 140, ("",), "group"),
        Box(264, 62, 252, 46, ("rows", "20 rows inserted"), "key"),
        Box(264, 124, 252, 46, ("ledger", "orders-0: 40 → 60"), "key"),
        Arrow(((540, 116), (604, 116)), "commit"),
        Box(606, 84, 130, 64, ("next batch", "from 60")),
        Box(24, 214, 340, 52, ("crash before the commit", "neither rows nor ledger: read again from 40"), "bad"),
        Box(396, 214, 340, 52, ("crash after the commit", "both are stored: continue at 60"), "bad"),
    )
    return build_diagram(
        "Rows and the ledger's offset are committed together, so that each record is stored once", 760, 290, parts
    )


DIAGRAMS: dict[str, Callable[[], str]] = {
    "strata.svg": build_strata,
    "change.svg": build_change,
    "offsets.svg": build_offsets,
    "cutover.svg": build_cutover,
    "ledger.svg": build_ledger,
}
