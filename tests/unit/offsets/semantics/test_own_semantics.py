"""The semantics of another source connector are added by one module: this one, found by its entry point."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from seamark.core.offsets import Certainty, Distance, Fixed, Order, Unit, order_of
from seamark.errors import RefusedError, UnsupportedError
from seamark.offsets.semantics import registry
from seamark.offsets.semantics.arithmetic import NumberMover
from seamark.offsets.semantics.fields import Notes, read_integer
from seamark.offsets.semantics.semantics import Consequence, GenericMeaning, Harm
from tests.unit.offsets.moving import Place

CLASS = "example.PageSourceConnector"
CONFIG = {"connector.class": CLASS, "tasks.max": "1", "site": "shop"}
SITE = {"site": "shop"}


class PageSemantics(GenericMeaning):
    """`{"site": NAME}` and `{"page": N}`: N pages of a site are read."""

    family = "page source"

    @classmethod
    def matches(cls, connector_class, config):
        return connector_class == CLASS

    def check(self, partition, offset):
        notes = Notes(self.describe_partition(partition))
        notes.check_shape(partition, [{"site"}], '{"site": "NAME"}')
        if offset is not None:
            notes.check_integers(offset, ["page"])
        return notes.result()

    def compare(self, left, right):
        first, second = _read_page(left), _read_page(right)
        return Order.UNKNOWN if None in (first, second) else order_of((first,), (second,))

    def describe(self, partition, offset):
        return f"site {partition.get('site')}", f"page {_read_page(offset)}"

    def explain_rewind(self):
        return Consequence(Harm.OVERWRITES, "pages are keyed by their number, so the newer read wins")

    def build_distance(self, partition, start, end):
        first, last = _read_page(start), _read_page(end)
        if end is None or first is None or last is None:
            return Distance(Unit.RECORDS, None, Certainty.UNKNOWN, reason="the site doesn't report its last page")
        return Distance(Unit.RECORDS, Fixed(max(0, last - first)))

    def build_mover(self):
        return NumberMover("page")


def _read_page(offset):
    return 0 if offset is None else read_integer(offset, "page")


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """As if this module were an installed package with an entry point."""
    point = EntryPoint("pages", f"{__name__}:PageSemantics", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == registry.GROUP else [])
    registry.open_registry.cache_clear()
    yield
    registry.open_registry.cache_clear()


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    made.game.add("pages", CONFIG)
    made.scan.put(("pages", SITE), {"page": 100})
    with made.fleet:
        yield made


def test_offsets_are_moved_counted_and_put_back(place):
    planned = place.fleet.offsets.move("pages", shift=-30)
    (change,) = [field for effect in planned.effects for field in effect.fields]
    assert change.key == "site shop"
    assert (change.before, change.after) == ("page 100", "page 70")
    assert change.preview.counted.figure == 30
    assert "pages are keyed by their number" in str(planned)
    result = place.apply(planned)
    assert place.held("pages") == [{"page": 70}]
    place.apply(place.fleet.undo(result.change))
    assert place.held("pages") == [{"page": 100}]


def test_an_offset_that_its_check_rejects_is_refused(place):
    with pytest.raises(RefusedError, match="invalid offsets for game/pages"):
        place.fleet.offsets.move("pages", to={"page": "x"})


def test_without_the_entry_point_nothing_is_known_of_it(place, monkeypatch):
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
    registry.open_registry.cache_clear()
    with pytest.raises(UnsupportedError):
        place.fleet.offsets.move("pages", shift=-30)
