"""What the contract suite covers, and the table of it in docs/reference/connect-rest.md.

`python -m tests.contract.connect.catalogue` writes the table anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "connect-rest.md"
BEGIN, END = "<!-- quirks: written by python -m tests.contract.connect.catalogue -->", "<!-- end of quirks -->"

# Quirk, and what seamark does about it.
QUIRKS: dict[int, tuple[str, str]] = {
    1: (
        "Four different 409s, three of them a rebalance",
        "distinguished by text; three are repeated until the deadline, the fourth is `AlreadyExistsError` at once",
    ),
    2: ("The same rebalance is a 500 on some reads", "a request with that answer is repeated"),
    3: (
        '500 `Request timed out` does not mean "not done"',
        "a read is repeated; a write ends as `UnknownOutcomeError` and is never repeated",
    ),
    4: (
        "A follower validates, then the leader validates again",
        "`validate_config` first; writes wait 100 s, longer than Connect's 90",
    ),
    5: ("One herder thread, which three reads bypass", "the fleet is read by one `expand` call that does not queue"),
    6: (
        '201 is neither "running" nor "visible everywhere"',
        "a 404 is asked twice; a connector without status has `status=None`",
    ),
    7: ("After a delete the status lingers", "`read_status` returns it with type unknown; wait for `NotFoundError`"),
    8: ("Delete keeps offsets and a sink's group", "documented in `delete_connector`; nothing is deleted implicitly"),
    9: (
        "pause and resume are 202 and eventual, stop is 204 and the tasks may still run",
        "the calls return; callers wait for the status and for `tasks: []`",
    ),
    10: ("The status can be wrong", "health is derived from the tasks; unknown states are UNKNOWN"),
    11: (
        "Offsets can only be changed while STOPPED with no task",
        "400 is `RejectedError` with a hint; nothing was changed",
    ),
    12: (
        "Sink offsets: 500 while zombie tasks hold the group; reset deletes the group",
        "repeated until the deadline, then `UnknownOutcomeError`, because a part may have been changed",
    ),
    13: (
        "PATCH of offsets merges, never replaces",
        "`offset` is always sent, null to delete it; duplicate partitions are refused",
    ),
    14: ("Success text must be read", "`OffsetsChange.may_be_external`; a plugin that refuses is `UnsupportedError`"),
    15: (
        "Offsets may live in a topic of the connector's own",
        "REST merges the stores; `read_offsets` gets 100 s because each call may read a topic",
    ),
    16: (
        "Below 3.6 only a write to the offsets topic itself changes offsets, by exact bytes",
        "refused through REST; offsets are written to the topic or for the group",
    ),
    17: ("Version gates", "`Capabilities` by the lowest worker; `UnsupportedError` before anything is sent"),
    18: ("Forwarding noise", "the leader's words are read out of the follower's 500; another worker is asked"),
    19: (
        "Every config PUT restarts the connector; configs hold secrets",
        "`is_same_config` before a PUT; a mask is never written back",
    ),
    20: (
        "Topic tracking may be off; unusual names; `name` must match",
        "`UnsupportedError`; every segment is quoted; names are checked before they are sent",
    ),
    21: (
        "A worker that starts lists no connector, or some of them, and has no status",
        "an answer that lacks something counts only from a worker whose herder has answered, else `UnsettledError`",
    ),
}


@dataclass(frozen=True)
class Case:
    """A case on one target."""

    case: str
    file: str
    target: str
    quirks: tuple[int, ...]


def collect_cases() -> list[Case]:
    """Every case of the suite as pytest collects it, whatever was selected for the present run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.json"
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", "tests/contract"]
        # A run inside a run must not take the outer one's options.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        environment["SEAMARK_CONTRACT_CATALOGUE"] = str(path)
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120)
        return [Case(**{**entry, "quirks": tuple(entry["quirks"])}) for entry in json.loads(path.read_text())]


def render_table(cases: list[Case]) -> str:
    """The table of quirks as Markdown."""
    lines = ["| # | quirk | what seamark does | case | on |", "|---|---|---|---|---|"]
    for number, (quirk, answer) in QUIRKS.items():
        targets: dict[str, list[str]] = defaultdict(list)
        for case in cases:
            if number in case.quirks and case.target not in targets[case.case]:
                targets[case.case].append(case.target)
        names = sorted(targets)
        shown = "<br>".join(f"`{name}`" for name in names)
        where = "<br>".join(_shorten(targets[name]) for name in names)
        lines.append(f"| {number} | {quirk} | {answer} | {shown} | {where} |")
    return "\n".join(lines)


def read_table() -> str:
    """The table as it stands in the page."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0].strip()


def write_table() -> None:
    """Put the table into the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{render_table(collect_cases())}\n{END}{after}")


def _shorten(targets: list[str]) -> str:
    return "fake only" if targets == ["fake"] else ", ".join(target.removeprefix("real-") for target in targets)


if __name__ == "__main__":
    write_table()
