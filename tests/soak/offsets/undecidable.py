"""Changes of which no later look can tell how their write of offsets ended: what seamark prints about them.

The connector was started before the outcome was in the journal, so its offsets prove nothing. The error names the
command that closes such a change, and `journal show` prints the nonce. The soak types what it reads there, so that a
wrong advice shows.
"""

from __future__ import annotations

import re

from tests.soak.offsets.offset_history import UNKNOWN, WRITES

_ADVICE = re.compile(r"seamark journal unlock (\S+) --holder NONCE --force")
_NONCE = re.compile(r"seamark journal unlock --holder (\S+) (\S+)")
# The cause of `UndecidableError`, as the journal stores it.
_CAUSE = "was started again and its offsets advance"


def find_advised(said):
    """Return the change that the printed error tells to close with `journal unlock --force`; None for other errors."""
    found = _ADVICE.search(said)
    return found.group(1) if found else None


def find_nonce(shown, change):
    """Return the nonce that `journal show CHANGE` prints for `journal unlock`; None where it prints none."""
    return next((nonce for nonce, name in _NONCE.findall(shown) if name == change), None)


def find_unknown(change):
    """Return the steps of a change whose newest outcome is unknown, with the causes that the journal has for each."""
    newest, causes = {}, {}
    for entry in change.entries:
        number = entry.body.get("step")
        if entry.kind == "intent":
            causes.pop(number, None)
        elif entry.kind == "outcome":
            newest[number] = entry.body["outcome"]
            causes.setdefault(number, []).append(entry.body.get("error", {}).get("cause", ""))
    return {number: causes[number] for number, outcome in newest.items() if outcome == UNKNOWN}


def check_forced(change):
    """Return what is wrong with a change that was closed with --force as undecidable; "" if it is what it says.

    Every outcome but that of writes of offsets must be known. The journal must say of the write that its connector runs
    again, because only then nothing can tell.
    """
    unknown = find_unknown(change)
    others = [change.steps[number]["kind"] for number in unknown if change.steps[number]["kind"] not in WRITES]
    if others:
        return f"steps other than the write of offsets have no known outcome: {', '.join(others)}"
    if not all(any(_CAUSE in cause for cause in causes) for causes in unknown.values()):
        return "the journal doesn't say that the connector was started again"
    return ""


def check_held(found, before, after):
    """Return a sentence if the offsets of an owner at rest are neither the before-image nor the after-image."""
    return "" if found in (before, after) else f"{found} is held, and neither {before} nor {after}"
