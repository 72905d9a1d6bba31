"""What the counter's offsets mean, for seamark. A package of its own: `pip install .` is all that seamark needs."""

from seamark.core.offsets import Certainty, Distance, Fixed, Order, Unit, order_of
from seamark.offsets.semantics.fields import Notes, read_integer
from seamark.offsets.semantics.semantics import GenericMeaning


class CounterMeaning(GenericMeaning):
    """`{"counter": topic}` and `{"count": n}`, the last number that was sent."""

    family = "counter"

    @classmethod
    def matches(cls, connector_class, config):
        """By the class alone. The config is there for families that share one."""
        del config
        return connector_class == "example.counter.CounterSourceConnector"

    def check(self, partition, offset):
        """What the connector's own alterOffsets refuses, said before anything is stopped."""
        notes = Notes(self.describe_partition(partition))
        if not notes.check_shape(partition, [{"counter"}], '{"counter": "topic"}'):
            return notes.result()
        topic = self.config.get("topic")
        if topic and partition["counter"] != topic:
            notes.error("it is another counter's", f"the partition is the topic: {topic}")
        if offset is not None:
            notes.check_integers(offset, ["count"])
            notes.check_known(offset, ["count"])
            if (read_integer(offset, "count") or 0) < 0:
                notes.error("count is negative", "the connector rejects it")
        return notes.result()

    def compare(self, left, right):
        """By the number; nothing is before 1."""
        first, second = _read_count(left), _read_count(right)
        return Order.UNKNOWN if None in (first, second) else order_of((first,), (second,))

    def describe(self, partition, offset):
        """In a few words."""
        count = _read_count(offset)
        return self.describe_partition(partition), "no offset" if offset is None else f"counted to {count}"

    def build_distance(self, partition, start, end):
        """Every number is one record; the last one is `limit`."""
        del partition
        limit = self.config.get("limit", "")
        last = _read_count(end) if end is not None else int(limit) if limit.isdigit() else None
        first = _read_count(start)
        if first is None or last is None:
            return Distance(Unit.RECORDS, None, Certainty.UNKNOWN, reason="it counts for ever")
        return Distance(Unit.RECORDS, Fixed(max(0, last - first)))


def _read_count(offset):
    return 0 if offset is None else read_integer(offset, "count")
