"""Journal files that were cut, flipped, shuffled: refused by name, or reported; never repaired in silence."""

from __future__ import annotations

import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.changes.file_journal import FileJournal
from seamark.changes.file_journal import entries as stored
from seamark.changes.file_journal.files import HEADER_BYTES, DamagedFrameError, Layout, build_frame, split_frames
from seamark.changes.journal import Entry, EntryKind
from seamark.errors import TamperedJournalError
from tests.fakes.changes.openings import AT, end, new_lock, opening

BODIES = st.lists(st.text(alphabet=st.characters(exclude_characters="\n\0", exclude_categories=["Cs"])), max_size=5)


@pytest.fixture
def journal(tmp_path):
    journal = FileJournal(tmp_path / "journal")
    yield journal
    journal.close()


@pytest.fixture
def change(journal):
    """An open change of three entries whose process has let go."""
    first = opening(new_lock(), title="pause orders @ noon")
    holder = journal.begin(first)
    holder.append(EntryKind.INTENT, {"step": 0, "before": "é", "after": "x y"})
    holder.append(EntryKind.NOTE, {"note": "z"})
    holder.release()
    return first.change


@pytest.fixture
def file(tmp_path, change):
    return tmp_path / "journal" / "changes" / f"{change}.journal"


def frame_ends(data):
    """Where each frame ends."""
    ends, offset = [], 0
    for _, body in split_frames(data).bodies:
        offset += len(build_frame(body))
        ends.append(offset)
    return ends


def take_over(journal, change):
    return journal.take_over(change, nonce="n2", by="ben@south:2", at=AT)


# --- flipped bits ------------------------------------------------------------------------------------------------


def test_every_flipped_bit_is_refused_by_name(journal, change, file):
    data = file.read_bytes()
    ends = frame_ends(data)
    assert len(ends) == 3
    flips = 0
    for index in range(len(data)):
        number = next(number for number, stop in enumerate(ends) if index < stop)
        begin = ends[number - 1] if number else 0
        for bit in range(8):
            flipped = bytearray(data)
            flipped[index] ^= 1 << bit
            with pytest.raises(DamagedFrameError) as caught:
                split_frames(bytes(flipped))
            assert (caught.value.number, caught.value.offset) == (number, begin)
            flips += 1
        # The whole way through the disk for one bit of each byte.
        file.write_bytes(flipped)
        with pytest.raises(TamperedJournalError) as refused:
            journal.read(change)
        assert f"{file} was modified" in refused.value.message
        assert f"entry {number} at byte {begin}" in refused.value.message
    assert flips == len(data) * 8 > 5000
    file.write_bytes(data)
    assert len(journal.read(change)) == 3


def test_flipped_bit_stops_every_use_of_the_change(journal, change, file):
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    for act in (
        lambda: journal.read(change),
        lambda: take_over(journal, change),
        lambda: journal.begin(opening(new_lock())),
        journal.heads,
        journal.open_heads,
    ):
        with pytest.raises(TamperedJournalError, match=change):
            act()
    assert file.read_bytes() == data


# --- torn tails --------------------------------------------------------------------------------------------------


def test_file_cut_at_every_byte_is_read_to_its_last_whole_entry_and_says_so(journal, change, file):
    data = file.read_bytes()
    entries = journal.read(change)
    ends = [0, *frame_ends(data)]
    # From the second frame on; each look at a torn tail waits 20 ms for a write in progress, so not every byte.
    cuts = {*ends[1:], *range(ends[1], len(data), 37), *(stop + 1 for stop in ends[1:-1]), len(data) - 1}
    torn = 0
    for cut in sorted(cuts):
        file.write_bytes(data[:cut])
        whole = sum(1 for stop in ends[1:] if stop <= cut)
        assert journal.read(change) == entries[:whole]
        left = cut - ends[whole]
        head = journal.open_heads()[0]
        tail = journal.torn_tail(change)
        if left:
            torn += 1
            assert tail.data == data[ends[whole] : cut]
            assert tail.offset == ends[whole]
            assert f"{left} bytes" in head.note
            assert str(file) in head.note
        else:
            assert (tail, head.note) == (None, "")
        assert file.read_bytes() == data[:cut]
    assert torn >= 15


def test_frames_cut_at_every_byte_are_whole_ones_and_a_tail(file):
    data = file.read_bytes()
    ends = [0, *frame_ends(data)]
    for cut in range(len(data) + 1):
        frames = split_frames(data[:cut])
        whole = max(stop for stop in ends if stop <= cut)
        assert (frames.size, frames.torn_bytes) == (whole, data[whole:cut])
        assert len(frames.bodies) == ends.index(whole)


def test_taker_sets_a_torn_tail_aside_and_says_so_in_the_journal(journal, change, file):
    data = file.read_bytes()
    tail = data[frame_ends(data)[1] : -7]
    file.write_bytes(data[:-7])
    holder = take_over(journal, change)
    note = holder.entries[2]
    assert [entry.kind for entry in holder.entries] == ["open", "intent", "taken"]
    assert note.body["torn_bytes"] == len(tail)
    assert note.body["set_aside"] == f"{change}.torn-1"
    assert f"{len(tail)} bytes" in note.body["note"]
    side = file.with_name(f"{change}.torn-1")
    assert side.read_bytes() == tail
    assert stat.S_IMODE(side.stat().st_mode) == 0o600
    assert journal.open_heads()[0].note == ""
    assert journal.torn_tail(change) is None
    holder.release()
    with file.open("ab") as torn:
        torn.write(b"entry 0000")
    end(take_over(journal, change))
    assert file.with_name(f"{change}.torn-2").read_bytes() == b"entry 0000"
    assert [head.change for head in journal.heads()] == [change]
    assert len(journal.read(change)) == 5


def test_torn_tail_does_not_free_the_lock(journal, change, file):
    file.write_bytes(file.read_bytes()[:-7])
    [head] = journal.open_heads()
    with pytest.raises(Exception, match="is locked by change"):
        journal.begin(opening(*head.locks))


def test_blocks_a_power_cut_left_unwritten_are_a_torn_tail(file):
    data = file.read_bytes()
    begin = frame_ends(data)[1]
    for zeros_from, zeros_to in [
        (begin, len(data)),
        (begin + 10, len(data)),
        (len(data) - 30, len(data)),
        (begin, begin + HEADER_BYTES),
        (begin + HEADER_BYTES, begin + HEADER_BYTES + 40),
    ]:
        spoilt = data[:zeros_from] + bytes(zeros_to - zeros_from) + data[zeros_to:]
        frames = split_frames(spoilt)
        assert (frames.size, len(frames.bodies)) == (begin, 2)
        assert frames.torn_bytes == spoilt[begin:]


def test_zeros_before_the_last_entry_are_refused(journal, change, file):
    data = file.read_bytes()
    begin = frame_ends(data)[0]
    file.write_bytes(data[: begin + 20] + bytes(40) + data[begin + 60 :])
    with pytest.raises(TamperedJournalError, match="entry 1 at byte"):
        journal.read(change)


# --- whole frames in the wrong place -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "number"),
    [([0, 2], 1), ([0, 2, 1], 1), ([0, 1, 1, 2], 2), ([0, 0, 1, 2], 1), ([1, 2], 0), ([0, 1, 2, 2], 3)],
)
def test_frames_missing_doubled_or_swapped_are_refused(journal, change, file, order, number):
    frames = [build_frame(body) for _, body in split_frames(file.read_bytes()).bodies]
    file.write_bytes(b"".join(frames[index] for index in order))
    with pytest.raises(TamperedJournalError, match=f"entry {number} at byte"):
        journal.read(change)


def test_entry_changed_with_its_checksum_breaks_the_chain(journal, change, file):
    first, second, third = (Entry.from_bytes(body) for _, body in split_frames(file.read_bytes()).bodies)
    forged = Entry(change, number=1, kind=second.kind, at=second.at, by=second.by, body={}, previous=first.hash)
    file.write_bytes(b"".join(build_frame(entry.to_bytes()) for entry in (first, forged, third)))
    with pytest.raises(TamperedJournalError, match="entry 2 at byte") as caught:
        journal.read(change)
    assert "doesn't contain the hash of the previous entry" in caught.value.cause


def test_file_of_another_change_is_refused(journal, change, file):
    another = opening(new_lock())
    journal.begin(another).release()
    file.write_bytes(file.with_name(f"{another.change}.journal").read_bytes())
    with pytest.raises(TamperedJournalError, match="entry 0 at byte 0") as caught:
        journal.read(change)
    assert another.change in caught.value.cause


@pytest.mark.parametrize("data", [b"", b"entry 0", b"hello", bytes(500)])
def test_file_without_a_whole_entry_is_refused(journal, change, file, data):
    file.write_bytes(data)
    with pytest.raises(TamperedJournalError, match="entry 0 at byte 0"):
        journal.read(change)


def test_closed_change_whose_end_was_cut_off_is_refused(journal, change, file):
    open_data = file.read_bytes()
    end(take_over(journal, change))
    closed_data = file.read_bytes()
    for cut in (len(open_data), len(closed_data) - 1):
        file.write_bytes(closed_data[:cut])
        with pytest.raises(TamperedJournalError, match="not listed as open") as caught:
            journal.read(change)
        assert str(file) in caught.value.message
    # The way out that the hint names.
    (file.parents[1] / "open" / change).touch(mode=0o600)
    assert journal.open_heads()[0].change == change


# --- any bytes ---------------------------------------------------------------------------------------------------


@given(BODIES)
@settings(max_examples=50)
def test_frames_are_read_as_they_were_written(texts):
    bodies = [text.encode() for text in texts]
    data = b"".join(build_frame(body) for body in bodies)
    frames = split_frames(data)
    assert [body for _, body in frames.bodies] == bodies
    assert (frames.size, frames.torn_bytes) == (len(data), b"")


@given(st.binary(max_size=300))
@settings(max_examples=200)
def test_noise_is_a_tail_or_damage_and_never_an_entry(noise):
    whole = build_frame(b'{"a":1}')
    try:
        frames = split_frames(whole + noise)
    except DamagedFrameError as error:
        found = (error.number, error.offset, noise)
    else:
        found = (len(frames.bodies), frames.size, frames.torn_bytes)
    assert found == (1, len(whole), noise)


# --- what was read once ------------------------------------------------------------------------------------------


@pytest.fixture
def closed(journal):
    """A change that ended, and was read."""
    first = opening(new_lock())
    holder = journal.begin(first)
    end(holder)
    holder.release()
    assert journal.read(first.change)[-1].kind is EntryKind.CLOSE
    return first.change


def test_closed_change_is_read_from_the_disk_once(journal, closed, monkeypatch):
    reads = []
    monkeypatch.setattr(stored, "read_change", lambda _, change: reads.append(change))
    before = journal.read(closed)
    assert [entry.kind for entry in before] == [EntryKind.OPEN, EntryKind.CLOSE]
    assert [head.change for head in journal.heads()] == [closed]
    assert reads == []


def test_closed_change_whose_file_was_touched_is_read_anew(journal, closed, tmp_path):
    file = tmp_path / "journal" / "changes" / f"{closed}.journal"
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    with pytest.raises(TamperedJournalError, match=closed):
        journal.read(closed)


def test_what_is_kept_has_a_bound(tmp_path, journal, closed):
    layout = Layout(tmp_path / "journal")
    size = layout.change_file(closed).stat().st_size
    small, enough = stored.ClosedChanges(size - 1), stored.ClosedChanges(size)
    assert small.read(layout, closed) is not small.read(layout, closed)
    assert enough.read(layout, closed) is enough.read(layout, closed)
