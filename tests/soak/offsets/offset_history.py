"""What the journal tells of the changes of one owner's offsets, and whether it is one line (I7)."""

from __future__ import annotations

from datetime import datetime

from tests.soak.offsets.commits import Write
from tests.soak.offsets.delivered import Start

WRITES = {"write-offsets", "move-group", "delete-group"}
DONE = {"done", "nothing to do"}
FOREIGN = "foreign change"
UNKNOWN = "unknown"
KNOWN = {"done", "nothing to do", "did not happen"}
# An entry has the time of the command, a commit that of its broker; both clocks are of one machine.
_CLOCK_SECONDS = 0.5


def read_acts(change):
    """Each step that was begun: its kind, before-image, after-image, time of its newest intent, and newest outcome."""
    intents, outcomes = {}, {}
    for entry in change.entries:
        number = entry.body.get("step")
        if entry.kind == "intent":
            intents[number] = entry
            outcomes.pop(number, None)
        elif entry.kind == "outcome":
            outcomes[number] = entry.body["outcome"]
    return [
        (change.steps[number]["kind"], entry.body["before"], entry.body["after"], entry.at, outcomes.get(number))
        for number, entry in sorted(intents.items())
    ]


def find_written(change):
    """Whether a change wrote what it was to write, as its journal tells it: every write of it is done."""
    acts = [outcome for kind, _, _, _, outcome in read_acts(change) if kind in WRITES]
    found = [
        entry.body["outcome"]
        for entry in change.entries
        if entry.kind == "outcome" and change.steps[entry.body["step"]]["kind"] in WRITES
    ]
    return bool(found) and found[-1] in DONE and all(one in DONE for one in acts)


def find_breaks(changes, *, is_still=False, spooled=(), undecidable=()):
    """Where it is not one line. `is_still` says that nobody but these changes moves the owner.

    A change of `spooled` had to restore the run state without its journal: whoever resumes it finds it changed. The
    writes of offsets of `undecidable` changes may have no known outcome.
    """
    breaks, image = [], None
    for number, change in enumerate(changes):
        if not change.is_closed:
            breaks.append(f"{change.id} is open")
        if number and changes[number - 1].ends > change.begins:
            breaks.append(f"{change.id} begins at {change.begins}, before {changes[number - 1].id} has ended")
        for kind, before, after, _, outcome in read_acts(change):
            is_undecidable = outcome == UNKNOWN and kind in WRITES and change.id in undecidable
            if outcome not in KNOWN and not is_undecidable and not (outcome == FOREIGN and change.id in spooled):
                breaks.append(f"{change.id} has a step that ended as {outcome!r}")
            if kind not in WRITES:
                continue
            image, wrong = _go_on(image, before, after, outcome) if is_still else (None, "")
            if wrong:
                breaks.append(f"{change.id} {wrong}")
    return breaks


def _go_on(known, before, after, outcome):
    """The places that are known after a write; and a sentence where one was found otherwise than it had been left."""
    known = dict(known or {})
    # An image is None where nothing is held at any of its places; which they are, the other one tells.
    found = dict.fromkeys(flatten(after)) | flatten(before)
    wrong = {place: known[place] for place in known.keys() & found.keys() if found[place] != known[place]}
    left = dict.fromkeys(found) | flatten(after) if outcome in DONE else found
    if outcome == UNKNOWN:
        # Either image: what the next change finds there proves nothing.
        known = {place: known[place] for place in known.keys() - found.keys()}
        left = {}
    return known | left, f"found {found}, and it had been left as {wrong}" if wrong else ""


def flatten(image):
    """The places of an image with their values, of a connector or of a group."""
    if not image:
        return {}
    if "offsets" in image:
        return dict(image["offsets"])
    return {f"{topic}:{number}": value for topic, partitions in image.items() for number, value in partitions.items()}


def find_writes(changes, read_place):
    """By partition, every offset that these changes may have written or deleted, and when."""
    writes = {}
    for change in changes:
        ends = datetime.fromisoformat(change.entries[-1].at).timestamp() + _CLOCK_SECONDS
        for entry in change.entries:
            if entry.kind != "intent" or change.steps[entry.body["step"]]["kind"] != "write-offsets":
                continue
            begins = datetime.fromisoformat(entry.at).timestamp() - _CLOCK_SECONDS
            # An image is None where nothing is held; which partitions those are, the other one tells.
            written = dict.fromkeys(flatten(entry.body["before"])) | flatten(entry.body["after"])
            for partition, offset in written.items():
                spot, to = read_place(partition, offset)
                writes.setdefault(spot, []).append(Write(begins, ends, to))
    return writes


def find_starts(changes, read_place):
    """By partition, every position that these changes may have written, and from where."""
    starts = {}
    for change in changes:
        for kind, before, after, at, _ in read_acts(change):
            if kind != "write-offsets":
                continue
            held = flatten(before)
            for partition, offset in flatten(after).items():
                key, to = read_place(partition, offset)
                _, since = read_place(partition, held.get(partition))
                starts.setdefault(key, []).append(Start(datetime.fromisoformat(at).timestamp(), since, to))
    return starts
