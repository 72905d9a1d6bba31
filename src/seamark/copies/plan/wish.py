"""The options of a new copy, and how the command line writes them."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.errors import UsageError
from seamark.groups.targets import Where, parse_where
from seamark.kafka_sink.routing import Rule
from seamark.topics.service import check_name

MOST_PARTITIONS = 100_000


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """The topic to copy, and how.

    `expected` is the number of partitions that the topic must have. `since` and `until` are places in the log,
    by default all of it. Without `slice_records` slices are made as large as their tasks can well bear.
    """

    topic: str
    partitions: int
    expected: int | None = None
    to: str = ""
    rule: Rule | None = None
    since: Where | None = None
    until: Where | None = None
    replication_factor: int | None = None
    slice_records: int | None = None

    def __post_init__(self) -> None:
        """Refuse what no broker would take."""
        check_name(self.target)
        for what, number in (("replication-factor", self.replication_factor), ("slice-records", self.slice_records)):
            if number is not None and number < 1:
                raise UsageError(f"{what} must be 1 or more, and not {number}")

    @property
    def target(self) -> str:
        """The name of the target."""
        return self.to or f"{self.topic}-{self.partitions}"


def build_copy_options(
    topic: str,
    partitions: int | str,
    *,
    to: str = "",
    rule: str | Rule | None = None,
    since: str | int | None = None,
    until: str | int | None = None,
    replication_factor: int | None = None,
    slice_records: int | None = None,
) -> CopyOptions:
    """Build the options from the values of the command line."""
    expected, wanted = parse_shape(str(partitions))
    return CopyOptions(
        topic,
        partitions=wanted,
        expected=expected,
        to=to,
        rule=parse_rule(rule),
        since=None if since is None else parse_where(since),
        until=None if until is None else parse_where(until),
        replication_factor=replication_factor,
        slice_records=slice_records,
    )


def parse_shape(text: str) -> tuple[int | None, int]:
    """`N`, or `M:N` where the topic must have M partitions now."""
    parts = text.split(":")
    if len(parts) > 2 or not all(part.isascii() and part.isdecimal() for part in parts):
        raise UsageError(f"{text!r} is no number of partitions", hint="N, or M:N for a topic that has M of them: 12:6")
    numbers = [int(part) for part in parts]
    if not all(1 <= number <= MOST_PARTITIONS for number in numbers):
        raise UsageError(f"{text!r}: a topic has 1 to {MOST_PARTITIONS} partitions")
    return (numbers[0] if len(numbers) == 2 else None), numbers[-1]


def parse_rule(text: str | Rule | None) -> Rule | None:
    """A rule by its name."""
    if text is None:
        return None
    try:
        return Rule(text)
    except ValueError:
        raise UsageError(f"{text!r} is no rule for placing records", hint=f"one of {', '.join(Rule)}") from None
