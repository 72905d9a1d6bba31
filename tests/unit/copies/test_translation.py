"""Translated positions against a copy in memory: nothing skipped, and exactly as much read again as was said."""

from __future__ import annotations

import random as randoms
from collections import Counter
from math import gcd

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.copies.cutover.translation import Missing, build_map, list_questions, translate, translate_all
from seamark.copies.plan.plan import Limits, cut_slices
from seamark.copies.plan.progress import BoundedCount
from seamark.errors import RefusedError, UsageError
from seamark.kafka_sink.routing import Partitioner, Routing
from tests.unit.copies.simulation import Simulation, build_source

SHAPES = [(12, 6), (6, 12), (12, 8), (6, 5), (8, 3), (6, 6)]
seeds = st.integers(0, 2**32)


def make(seed, shape, *, rule=Partitioner.MURMUR2, is_strict=True, grown_from=None, upto=None):
    """A copied topic of that shape, and the dice."""
    random = randoms.Random(seed)
    sources, targets = shape
    source, ranges = build_source(random, sources=sources, rule=rule, is_strict=is_strict, grown_from=grown_from)
    modulus = gcd(sources, grown_from or sources) if is_strict else 1
    made = Simulation(Routing(rule, sources, targets=targets, modulus=modulus), source, ranges)
    made.slices = cut_slices(ranges, {}, limits=Limits(random.choice([15, 40, 150, 10_000])))
    made.copy(random=random, upto=upto)
    return made, random


def draw_positions(random, covered, *, some_missing=False):
    """Anywhere in what was copied, the edges among it."""
    drawn = {}
    for partition, whole in covered.items():
        if not (some_missing and random.random() < 0.3):
            drawn[partition] = random.choice([whole.begin, whole.end, *[random.randint(whole.begin, whole.end)] * 3])
    return drawn


def read(made, translation):
    """Every record that a reader gets from its new positions on."""
    got = Counter()
    for target, first in translation.offsets.items():
        got.update(place for offset, place in made.target[target].items() if offset >= first)
    return got


def left(made, positions):
    """Every record that the reader still had before it, of those that were copied."""
    copied = [place for log in made.target.values() for place in log.values()]
    return Counter((source, offset) for source, offset in copied if offset >= positions[source])


def compare(made, positions, translation):
    """How many records are skipped, and how many are read again."""
    got, wanted = read(made, translation), left(made, positions)
    return (wanted - got).total(), (got - wanted).total()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rule", [Partitioner.MURMUR2, Partitioner.CRC32, Partitioner.PARTITION])
@settings(max_examples=25)
@given(seed=seeds)
def test_nothing_is_skipped_and_replay_is_as_predicted(shape, rule, seed):
    made, random = make(seed, shape, rule=rule)
    copied = build_map(made.progress(), made.ranges, targets=shape[1])
    for _ in range(4):
        positions = draw_positions(random, copied.covered)
        found = translate_all(copied, {"g": positions}, recount=made.recount)["g"]
        skipped, replayed = compare(made, positions, found)
        assert skipped == 0
        assert found.replayed == BoundedCount(replayed, replayed)
        assert found.to_read == read(made, found).total()


@pytest.mark.parametrize(("before", "shape"), [(6, (12, 6)), (3, (6, 12)), (8, (12, 8)), (4, (6, 6)), (5, (6, 5))])
@settings(max_examples=25)
@given(seed=seeds)
def test_a_topic_that_has_grown_is_translated_as_exactly(before, shape, seed):
    made, random = make(seed, shape, grown_from=before)
    copied = build_map(made.progress(), made.ranges, targets=shape[1])
    positions = draw_positions(random, copied.covered)
    found = translate_all(copied, {"g": positions}, recount=made.recount)["g"]
    skipped, replayed = compare(made, positions, found)
    assert (skipped, found.replayed) == (0, BoundedCount(replayed, replayed))


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=25)
@given(seed=seeds)
def test_positions_are_the_first_records_that_the_reader_has_not_had(shape, seed):
    made, random = make(seed, shape)
    copied = build_map(made.progress(), made.ranges, targets=shape[1], ends=made.ends)
    positions = draw_positions(random, copied.covered)
    found = translate_all(copied, {"g": positions}, recount=made.recount)["g"]
    for target, log in made.target.items():
        waiting = [at for at, (source, offset) in log.items() if offset >= positions[source]]
        assert found.offsets[target] == min(waiting, default=made.ends[target])


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=25)
@given(seed=seeds)
def test_without_a_recount_the_replay_is_a_bound_and_nothing_is_skipped(shape, seed):
    made, random = make(seed, shape, is_strict=seed % 2 == 0)
    copied = build_map(made.progress(), made.ranges, targets=shape[1])
    positions = draw_positions(random, copied.covered)
    found = translate(copied, positions)
    skipped, replayed = compare(made, positions, found)
    assert skipped == 0
    assert found.replayed.least <= replayed <= found.replayed.most
    if not list_questions(copied, positions):
        assert found.replayed.is_exact


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=25)
@given(seed=seeds)
def test_records_that_vanished_since_make_a_bound_and_nothing_is_skipped(shape, seed):
    made, random = make(seed, shape)
    copied = build_map(made.progress(), made.ranges, targets=shape[1])
    positions = draw_positions(random, copied.covered)
    # Compaction takes what it likes of the source; the target was written before.
    made.source = {p: [entry for entry in log if random.random() < 0.6] for p, log in made.source.items()}
    found = translate_all(copied, {"g": positions}, recount=made.recount)["g"]
    skipped, replayed = compare(made, positions, found)
    assert skipped == 0
    assert found.replayed.least <= replayed <= found.replayed.most


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=15)
@given(seed=seeds)
def test_a_copy_that_still_goes_on_can_be_translated(shape, seed):
    made, random = make(seed, shape, upto=0)
    whole = made.slices
    upto = random.randint(0, len(whole))
    made.slices = whole[:upto]
    made.copy(random=random)
    made.slices = whole
    copied = build_map(made.progress(), made.ranges, targets=shape[1])
    positions = draw_positions(random, copied.covered)
    found = translate_all(copied, {"g": positions}, recount=made.recount)["g"]
    made.slices = whole[upto:]
    made.copy(random=random)
    skipped, replayed = compare(made, positions, found)
    assert skipped == 0
    assert found.replayed == BoundedCount(replayed, replayed)


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=15)
@given(seed=seeds)
def test_a_drained_reader_reads_nothing_again(shape, seed):
    made, _ = make(seed, shape, is_strict=False)
    copied = build_map(made.progress(), made.ranges, targets=shape[1], ends=made.ends)
    found = translate(copied, {partition: whole.end for partition, whole in copied.covered.items()})
    assert (found.replayed, found.to_read) == (BoundedCount(0, 0), 0)
    assert found.offsets == made.ends
    assert list_questions(copied, {partition: whole.end for partition, whole in copied.covered.items()}) == ()


def test_without_the_ends_it_is_right_behind_the_last_record():
    made, _ = make(3, (6, 4))
    copied = build_map(made.progress(), made.ranges, targets=4)
    assert copied.ends == {target: max(log, default=-1) + 1 for target, log in made.target.items()}
    empty, _ = make(3, (6, 4), upto=0)
    assert build_map(empty.progress(), empty.ranges, targets=4).ends == dict.fromkeys(range(4), 0)


@pytest.mark.parametrize("shape", [(6, 12), (6, 6), (1, 4), (3, 9)])
@settings(max_examples=25)
@given(seed=seeds)
def test_growing_by_a_multiple_reads_nothing_again(shape, seed):
    made, random = make(seed, shape)
    copied = build_map(made.progress(), made.ranges, targets=shape[1])
    positions = draw_positions(random, copied.covered)
    assert translate_all(copied, {"g": positions}, recount=made.recount)["g"].replayed == BoundedCount(0, 0)


@pytest.mark.parametrize("missing", Missing)
@settings(max_examples=25)
@given(seed=seeds)
def test_partitions_without_a_position_are_as_was_said(missing, seed):
    made, random = make(seed, (6, 4))
    copied = build_map(made.progress(), made.ranges, targets=4)
    positions = draw_positions(random, copied.covered, some_missing=True)
    found = translate_all(copied, {"g": positions}, recount=made.recount, missing=missing)["g"]
    meant = {p: whole.begin if missing is Missing.EARLIEST else whole.end for p, whole in copied.covered.items()}
    skipped, replayed = compare(made, meant | positions, found)
    assert (skipped, found.replayed) == (0, BoundedCount(replayed, replayed))
    assert set(found.assumed) == set(copied.covered) - set(positions)


@given(seed=seeds)
def test_questions_of_a_reader_lie_in_one_slice_of_each_partition(seed):
    made, random = make(seed, (6, 5))
    copied = build_map(made.progress(), made.ranges, targets=5)
    asked = list_questions(copied, draw_positions(random, copied.covered))
    slices = {run: record.claim.part for record in made.control for run in record.runs}
    places = {(question.run.source, slices[question.run]) for question in asked}
    assert len(places) == len({question.run.source for question in asked})


def test_many_readers_are_recounted_at_once():
    made, random = make(5, (6, 5))
    copied = build_map(made.progress(), made.ranges, targets=5)
    calls = []

    class Counting:
        def recount(self, questions):
            calls.append(len(questions))
            return made.recount(questions)

    readers = {f"g{number}": draw_positions(random, copied.covered) for number in range(50)}
    found = translate_all(copied, readers, recount=Counting().recount)
    assert len(calls) == 1
    assert calls[0] > 0
    assert len(found) == 50
    assert all(one.replayed.is_exact for one in found.values())


class TestRefusals:
    """What can't be translated honestly is refused, with the next step."""

    def setup_method(self):
        self.made, _ = make(3, (6, 4))
        self.copied = build_map(self.made.progress(), self.made.ranges, targets=4)
        self.ends = {partition: whole.end for partition, whole in self.copied.covered.items()}

    def refuse(self, positions, **more):
        with pytest.raises(RefusedError) as caught:
            translate(self.copied, positions, **more)
        assert caught.value.hint
        return caught.value

    def test_missing_positions_need_a_word(self):
        del self.ends[2], self.ends[4]
        error = self.refuse(self.ends)
        assert "no committed offset in partition 2, 4" in error.message
        assert "--default-offset" in error.hint

    def test_a_reader_beyond_the_copy_waits(self):
        self.ends[3] += 1
        assert "copy the rest first" in self.refuse(self.ends).hint

    def test_unknown_partitions_are_named(self):
        assert "partition 9" in self.refuse(self.ends | {9: 1}).message

    def test_a_reader_behind_the_copy_is_named_and_can_be_allowed(self):
        begin = self.copied.covered[1].begin
        assert begin > 0
        assert "in partition 1" in self.refuse(self.ends | {1: begin - 1}).message
        allowed = translate(self.copied, self.ends | {1: begin - 1}, allow_behind=True)
        assert allowed.behind == (1,)
        assert allowed.offsets == translate(self.copied, self.ends | {1: begin}).offsets

    def test_a_recount_of_another_topic_is_refused(self):
        made, random = make(5, (6, 5))
        copied = build_map(made.progress(), made.ranges, targets=5)
        positions = next(p for _ in range(99) if list_questions(copied, p := draw_positions(random, copied.covered)))
        made.source = {p: [(offset, None) for offset in range(500)] for p in made.source}
        with pytest.raises(RefusedError, match="gives another count than the copy"):
            translate_all(copied, {"g": positions}, recount=made.recount)

    def test_ends_before_the_records_are_refused(self):
        with pytest.raises(RefusedError, match="before the end of the copied records"):
            build_map(self.made.progress(), self.made.ranges, targets=4, ends=dict.fromkeys(range(4), 0))

    def test_ends_while_the_copy_goes_on_are_refused(self):
        made, _ = make(3, (6, 4), upto=0)
        with pytest.raises(UsageError, match="before the copy is finished"):
            build_map(made.progress(), made.ranges, targets=4, ends=made.ends)
