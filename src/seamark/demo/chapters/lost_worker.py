"""Chapter: a worker dies."""

from __future__ import annotations

from seamark.demo.chapter import Act, Chapter, Moment
from seamark.demo.chapters.files import NAMES, runs, write_and_apply
from seamark.demo.stage import Stage


def _all_moved(stage: Stage) -> bool:
    """Whether everything runs, and on the worker that is left."""
    left = stage.stack.connect["connect"].urls[0].removeprefix("http://")
    for name in NAMES:
        status = stage.call("GET", f"/connectors/{name}/status")
        if status is None or not runs(stage, name):
            return False
        if any(part["worker_id"] != left for part in (status["connector"], *status["tasks"])):
            return False
    return True


def _is_shared(stage: Stage) -> bool:
    """Whether each worker has at least one task."""
    listed = stage.call("GET", "/connectors?expand=status") or {}
    busy = {task["worker_id"] for found in listed.values() for task in found["status"]["tasks"]}
    return len(busy) == len(stage.stack.connect["connect"].urls)


LOST_WORKER = Chapter(
    name="worker",
    title="A worker dies",
    set_up=write_and_apply,
    acts=(
        Act("Two workers share the work.", "seamark workers list"),
        Act("One of them is killed, without a word.", "python -m seamark.devstack kill worker-2"),
        Act(
            "seamark asks every worker itself, so it knows at once.",
            "seamark workers list",
            codes=(0, 3),
            look="DOWN, and why. All other commands go to the worker that answers.",
        ),
        Act(
            "Connect notices after a while and moves the tasks. In production the default is five minutes.",
            "seamark connectors list",
            codes=(0, 3),
            until=Moment("everything ran on the worker that is left", _all_moved),
            look="Until then Connect's word on those tasks was old. seamark can't know better, but workers list does.",
        ),
        Act("Where is it all now?", "seamark status", codes=(0, 3)),
        Act(
            "The worker comes back.",
            "python -m seamark.devstack restart worker-2",
            until=Moment("both had something to do again", _is_shared),
        ),
        Act("Both are there.", "seamark workers list"),
    ),
)
