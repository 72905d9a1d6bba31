"""The folder of files that chapters 2 to 6 live by, and how it comes to run where chapter 2 was not played."""

from __future__ import annotations

from seamark.demo.chapter import Moment
from seamark.demo.stage import Stage

NAMES = ("read-login", "read-logout", "write-login")
SINK = "write-login"

_FOLDER_FILE = """\
# What holds for every file of this folder. The name tells this spec from others on the same cluster.
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
    """Write the spec, and what its connectors read and write; nothing where they are there."""
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
    """What chapter 2 does, unseen; nothing where it was played."""
    if _APPLIED in stage.done:
        return
    write_files(stage)
    make_journal(stage)
    stage.read("seamark apply -f config --yes")
    stage.wait_for(ALL_RUN)
    mark_applied(stage)


def make_journal(stage: Stage) -> None:
    """Make the journal's topics, unseen; nothing where they are there."""
    if _APPLIED not in stage.done:
        stage.read("seamark init --yes")


def mark_applied(stage: Stage) -> bool:
    """Note that the files run; always true, so that it can stand in a moment."""
    stage.done.add(_APPLIED)
    return True


def runs(stage: Stage, name: str) -> bool:
    """Whether a connector and at least one task of it run, and nothing of it does anything else."""
    states = stage.find_states(name)
    return len(states) > 1 and set(states) == {"RUNNING"}


def has_failed(stage: Stage, name: str) -> bool:
    """Whether a connector or a task of it has failed."""
    return "FAILED" in stage.find_states(name)


ALL_RUN = Moment(
    "every connector of config/ ran", lambda stage: all(runs(stage, name) for name in NAMES) and mark_applied(stage)
)
