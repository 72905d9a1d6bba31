"""Chapter: something breaks past seamark, and is found and mended."""

from __future__ import annotations

from seamark.demo.chapter import Act, Chapter, Event, Moment
from seamark.demo.chapters.files import ALL_RUN, SINK, has_failed, write_and_apply
from seamark.demo.stage import Stage
from seamark.errors import DevstackError

_FAILED = Moment(f"{SINK} had failed", lambda stage: has_failed(stage, SINK))


def _misdirect(stage: Stage) -> None:
    """Somebody with curl and good intentions."""
    path = f"/connectors/{SINK}/config"
    config = stage.call("GET", path)
    if config is None:
        raise DevstackError(f"the demo can't go on: connector {SINK} is not there")
    wrong = {**config, "file": str(stage.folder / "nowhere" / "login.txt")}
    stage.wait_for(Moment("Connect took the config", lambda stage: stage.call("PUT", path, wrong) is not None))


def _lose_disk(stage: Stage) -> None:
    """The folder of the sink is away while its task is started anew."""
    (stage.folder / "lake").rename(stage.folder / "lake.unmounted")
    path = f"/connectors/{SINK}/restart?includeTasks=true"
    stage.wait_for(Moment("Connect took the restart", lambda stage: stage.call("POST", path) is not None))


def _mount_disk(stage: Stage) -> None:
    (stage.folder / "lake.unmounted").rename(stage.folder / "lake")


TROUBLE = Chapter(
    name="trouble",
    title="Something breaks",
    set_up=write_and_apply,
    acts=(
        Act(
            "Somebody changes the sink by hand, past the files: it shall write into a folder that is not there.",
            event=Event(f"PUT /connectors/{SINK}/config  file=…/nowhere/login.txt", _misdirect),
            until=_FAILED,
        ),
        Act(
            "Connect itself still calls this connector RUNNING: only its task has failed.",
            "seamark connectors list",
            look="UNHEALTHY: none of its tasks runs.",
        ),
        Act(
            "Why? The doctor looks at everything, and says what to do.",
            "seamark doctor",
            codes=(1,),
            look="The words with which the task died. Exit code 1 is for programs: something needs mending.",
        ),
        Act(
            "What differs from the files?",
            "seamark plan -f config",
            look="Drift: this value was changed outside the files. Apply would put it back.",
        ),
        Act("So we do that.", "seamark apply -f config --yes", until=ALL_RUN),
        Act(
            "Another night, another trouble: the disk is away while the task starts. The config is fine this time.",
            event=Event(f"mv lake lake.unmounted; POST /connectors/{SINK}/restart?includeTasks=true", _lose_disk),
            until=_FAILED,
        ),
        Act(
            "The disk comes back, the task does not: Connect never tries again by itself.",
            event=Event("mv lake.unmounted lake", _mount_disk),
        ),
        Act(
            "Healing restarts what has failed, more and more rarely, and gives up in the end. Here once is enough.",
            "seamark connectors heal --once --yes",
            until=ALL_RUN,
            look="What runs was left alone.",
        ),
    ),
)
