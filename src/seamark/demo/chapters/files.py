"""The spec files that chapters 2 to 6 use, and their apply if chapter 2 was not played."""

from __future__ import annotations

from seamark.demo.chapter import Moment
from seamark.demo.stage import Stage

NAMES = ("read-login", "read-logout", "write-login")
SINK = "write-login"

_FOLDER_FILE = """\
# Settings for every file of this folder. The name distinguishes this spec from others on the same Connect cluster.
spec: demo
defaults:
  tasks.max: 1
"""
_FILE = """\
each:
  - name: read-${{ each.kind }}          # two connectors from one entry
    for:
      - {kind: login}
      - {kind: logout}
    config:
      connector.class: org.apache.kafka.connect.file.FileStreamSourceConnector
      file: ${{ env.DEMO }}/logs/${{ each.kind }}.txt
      topic: game-${{ each.kind }}
      batch.size: 100
connectors:
  write-login:
    config:
      connector.class: org.apache.kafka.connect.file.FileStreamSinkConnector
      topics: game-login
      file: ${{ env.DEMO }}/lake/login.txt
"""
_APPLIED = "the connectors of config/"


def write_files(stage: Stage) -> None:
    """Write the spec, and what its connectors read and write; nothing if it exists."""
    config = stage.folder / "config"
    if config.exists():
        return
    for name in ("config", "logs", "lake"):
        (stage.folder / name).mkdir()
    (config / "_defaults.yaml").write_text(_FOLDER_FILE)
    (config / "files.yaml").write_text(_FILE)
    for kind in ("login", "logout"):
        lines = (f"player-{number % 97} {kind}\n" for number in range(1000))
        (stage.folder / "logs" / f"{kind}.txt").write_text("".join(lines))


def write_and_apply(stage: Stage) -> None:
    """Do what chapter 2 does, without output; nothing if it was played."""
    if _APPLIED in stage.done:
        return
    write_files(stage)
    make_journal(stage)
    stage.read("seamark apply -f config --yes")
    stage.wait_for(ALL_RUN)
    mark_applied(stage)


def make_journal(stage: Stage) -> None:
    """Create the journal's topics, without output; nothing if they exist."""
    if _APPLIED not in stage.done:
        stage.read("seamark init --yes")


def mark_applied(stage: Stage) -> bool:
    """Record that the files are applied; always true, so that it can be used as a condition."""
    stage.done.add(_APPLIED)
    return True


def runs(stage: Stage, name: str) -> bool:
    """Return whether a connector and at least one of its tasks run, and none is in another state."""
    states = stage.find_states(name)
    return len(states) > 1 and set(states) == {"RUNNING"}


def has_failed(stage: Stage, name: str) -> bool:
    """Return whether a connector or one of its tasks has failed."""
    return "FAILED" in stage.find_states(name)


ALL_RUN = Moment(
    "every connector of config/ ran", lambda stage: all(runs(stage, name) for name in NAMES) and mark_applied(stage)
)
