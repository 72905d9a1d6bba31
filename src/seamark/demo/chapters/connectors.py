"""Chapter: a change outside seamark breaks something; it is found and repaired."""

from __future__ import annotations

from seamark.demo.chapter import Act, Chapter, Event, Moment, Need
from seamark.demo.chapters.files import ALL_RUN, NAMES, SINK, has_failed, runs, write_and_apply, write_files
from seamark.demo.stage import Stage
from seamark.errors import DevstackError

AS_CODE = Chapter(
    name="code",
    title="Connectors as code",
    set_up=write_files,
    acts=(
        Act(
            "Every change is written to a journal before it is made. It is a topic beside the data, made once.",
            "seamark init --yes",
        ),
        Act(
            "A folder says what should run. This file makes three connectors of two entries.",
            "cat config/files.yaml",
        ),
        Act(
            "What would have to be done? A plan asks Connect and changes nothing.",
            "seamark plan -f config",
            look="Three to create. The connectors of chapter 1 are not in this folder, so they are left alone.",
        ),
        Act(
            "Do it. Connect validates every config first; then it is waited until all tasks run.",
            "seamark apply -f config --yes",
            until=ALL_RUN,
        ),
        Act(
            "The same plan again.",
            "seamark plan -f config",
            look="Nothing to do. An apply that changes nothing restarts nothing.",
        ),
        Act(
            "Now one value changes in the file.",
            "sed -i 's/batch.size: 100/batch.size: 500/' config/files.yaml",
        ),
        Act(
            "The plan shows that field, and what it means for the running tasks.",
            "seamark plan -f config",
            look="Both sources come from one entry, so both change. The sink does not.",
        ),
        Act("And go.", "seamark apply -f config --yes", until=ALL_RUN),
    ),
)


FLEET = Chapter(
    name="fleet",
    title="The fleet",
    wishes=(Need.POSTGRES, Need.JDBC, Need.S3, Need.S3_SINK),
    acts=(
        Act(
            "A broker and two Connect workers run. We give them something to do: a source, a topic and a sink.",
            "python -m seamark.devstack seed --rows 1000",
        ),
        Act(
            "What runs, in one look.",
            "seamark status",
            look="One line for each Connect cluster. What is in trouble would stand below it, with its cause.",
        ),
        Act(
            "Every connector with one honest word for its health.",
            "seamark connectors list",
            look="HEALTHY means that the connector and all of its tasks run. Connect alone would say RUNNING earlier.",
        ),
        Act(
            "One of them, in full.",
            "seamark connectors show log-purchase",
            look="Tasks, the workers they run on, and the config. Passwords are never shown.",
        ),
        Act(
            "And what it remembers of what it has read.",
            "seamark offsets show log-purchase",
        ),
    ),
)


def _all_moved(stage: Stage) -> bool:
    """Return whether everything runs, and on the remaining worker."""
    left = stage.stack.connect["connect"].urls[0].removeprefix("http://")
    for name in NAMES:
        status = stage.call("GET", f"/connectors/{name}/status")
        if status is None or not runs(stage, name):
            return False
        if any(part["worker_id"] != left for part in (status["connector"], *status["tasks"])):
            return False
    return True


def _is_shared(stage: Stage) -> bool:
    """Return whether each worker has at least one task."""
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


_FAILED = Moment(f"{SINK} had failed", lambda stage: has_failed(stage, SINK))


def _misdirect(stage: Stage) -> None:
    """Change a config with a bare REST call, as a user with curl would."""
    path = f"/connectors/{SINK}/config"
    config = stage.call("GET", path)
    if config is None:
        raise DevstackError(f"the demo can't go on: connector {SINK} is not there")
    wrong = {**config, "file": str(stage.folder / "nowhere" / "login.txt")}
    stage.wait_for(Moment("Connect took the config", lambda stage: stage.call("PUT", path, wrong) is not None))


def _lose_disk(stage: Stage) -> None:
    """Remove the folder of the sink while its task is restarted."""
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


UNDO = Chapter(
    name="undo",
    title="Undo",
    set_up=write_and_apply,
    acts=(
        Act(
            "A quick change without the files.",
            "seamark connectors change read-login --set batch.size=7 --yes",
        ),
        Act("Who did what, and when?", "seamark journal list"),
        Act(
            "One change, step by step.",
            "seamark journal show {change}",
            look="What was before stands there too: that is what an undo puts back.",
        ),
        Act("Take it back.", "seamark journal undo {change} --yes", until=ALL_RUN),
        Act(
            "Now something that hurts.",
            "seamark connectors delete read-logout --yes",
            look="It says what stays behind: the position of what was read.",
        ),
        Act(
            "Take that back too.",
            "seamark journal undo {change} --yes",
            until=ALL_RUN,
            look="It is there again, with its config, and goes on where it stopped.",
        ),
        Act("Nothing is missing.", "seamark plan -f config"),
    ),
)


WAY_BACK = Chapter(
    name="way-back",
    title="A config that can't run",
    set_up=write_and_apply,
    acts=(
        Act(
            "A mistake in the file this time. Connect's validation will not see it: the folder is not there.",
            "sed -i 's#/lake/#/nowhere/#' config/files.yaml",
        ),
        Act(
            "Apply it all the same.",
            "seamark apply -f config --yes",
            codes=(3,),
            until=ALL_RUN,
            look="The task failed, so the old config was put back, and runs. Exit code 3: not all could be done.",
        ),
        Act("The sink writes where it did before.", "seamark connectors list write-login"),
        Act("We take the mistake out of the file.", "sed -i 's#/nowhere/#/lake/#' config/files.yaml"),
        Act("Files and fleet agree again.", "seamark plan -f config"),
    ),
)
