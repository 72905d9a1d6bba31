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
            "seamark records every change in a journal before it makes the change. The journal is a topic; create it "
            "once.",
            "seamark init --yes",
        ),
        Act(
            "A folder of spec files defines the connectors. This file defines three connectors with two entries.",
            "cat config/files.yaml",
        ),
        Act(
            "Preview the changes. A plan reads from Connect and changes nothing.",
            "seamark plan -f config",
            look="Three connectors to create. Those of chapter 1 are not in this folder, so they are not changed.",
        ),
        Act(
            "Apply the plan. Connect validates every config first; then seamark waits until all tasks are RUNNING.",
            "seamark apply -f config --yes",
            until=ALL_RUN,
        ),
        Act(
            "Create the same plan again.",
            "seamark plan -f config",
            look="No changes. An apply without changes restarts nothing.",
        ),
        Act(
            "Change one value in the file.",
            "sed -i 's/batch.size: 100/batch.size: 500/' config/files.yaml",
        ),
        Act(
            "The plan shows that field, and its effect on the running tasks.",
            "seamark plan -f config",
            look="Both sources come from one entry, so both change. The sink does not.",
        ),
        Act("Apply it.", "seamark apply -f config --yes", until=ALL_RUN),
    ),
)


FLEET = Chapter(
    name="fleet",
    title="The fleet",
    wishes=(Need.POSTGRES, Need.JDBC, Need.S3, Need.S3_SINK),
    acts=(
        Act(
            "A broker and two Connect workers run. Create a source, a topic and a sink for them.",
            "python -m seamark.devstack seed --rows 1000",
        ),
        Act(
            "Get an overview.",
            "seamark status",
            look="One line per Connect cluster. Failed connectors would be listed below it, with the cause.",
        ),
        Act(
            "List all connectors with their health.",
            "seamark connectors list",
            look="HEALTHY means that the connector and all of its tasks are RUNNING. Connect's own state ignores the "
            "tasks.",
        ),
        Act(
            "Show one connector in detail.",
            "seamark connectors show log-purchase",
            look="Its tasks, their workers, and the config. Passwords are never shown.",
        ),
        Act(
            "Show its offsets: how far it has read.",
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
        Act("Two workers run the tasks.", "seamark workers list"),
        Act("Kill one of them.", "python -m seamark.devstack kill worker-2"),
        Act(
            "seamark asks every worker, so it detects the failure at once.",
            "seamark workers list",
            codes=(0, 3),
            look="DOWN, with the cause. All other commands use the worker that responds.",
        ),
        Act(
            "Connect detects the failure later and reassigns the tasks. The default delay is five minutes.",
            "seamark connectors list",
            codes=(0, 3),
            until=Moment("all tasks ran on the remaining worker", _all_moved),
            look="Until then, Connect reported old states for those tasks. workers list shows that their worker is "
            "down.",
        ),
        Act("Check the overview again.", "seamark status", codes=(0, 3)),
        Act(
            "Restart the worker.",
            "python -m seamark.devstack restart worker-2",
            until=Moment("both workers ran tasks again", _is_shared),
        ),
        Act("Both workers are up.", "seamark workers list"),
    ),
)


_FAILED = Moment(f"{SINK} had failed", lambda stage: has_failed(stage, SINK))


def _misdirect(stage: Stage) -> None:
    """Change a config with a bare REST call, as a user with curl would."""
    path = f"/connectors/{SINK}/config"
    config = stage.call("GET", path)
    if config is None:
        raise DevstackError(f"the demo can't continue: connector {SINK} does not exist")
    wrong = {**config, "file": str(stage.folder / "nowhere" / "login.txt")}
    stage.wait_for(Moment("Connect accepted the config", lambda stage: stage.call("PUT", path, wrong) is not None))


def _lose_disk(stage: Stage) -> None:
    """Remove the folder of the sink while its task is restarted."""
    (stage.folder / "lake").rename(stage.folder / "lake.unmounted")
    path = f"/connectors/{SINK}/restart?includeTasks=true"
    stage.wait_for(Moment("Connect accepted the restart", lambda stage: stage.call("POST", path) is not None))


def _mount_disk(stage: Stage) -> None:
    (stage.folder / "lake.unmounted").rename(stage.folder / "lake")


TROUBLE = Chapter(
    name="trouble",
    title="Something breaks",
    set_up=write_and_apply,
    acts=(
        Act(
            "Another user changes the sink without the spec files: its new folder does not exist.",
            event=Event(f"PUT /connectors/{SINK}/config  file=…/nowhere/login.txt", _misdirect),
            until=_FAILED,
        ),
        Act(
            "Connect still reports this connector as RUNNING: only its task has failed.",
            "seamark connectors list",
            look="UNHEALTHY: none of its tasks is RUNNING.",
        ),
        Act(
            "Find the cause. The doctor checks the whole context and proposes a fix.",
            "seamark doctor",
            codes=(1,),
            look="The exception that ended the task. Exit code 1 tells scripts that there are problems.",
        ),
        Act(
            "Compare with the spec files.",
            "seamark plan -f config",
            look="Drift: this value was changed outside of the spec files. Apply restores it.",
        ),
        Act("Restore it.", "seamark apply -f config --yes", until=ALL_RUN),
        Act(
            "Another failure: the disk is not mounted when the task starts. The config is correct this time.",
            event=Event(f"mv lake lake.unmounted; POST /connectors/{SINK}/restart?includeTasks=true", _lose_disk),
            until=_FAILED,
        ),
        Act(
            "The disk is mounted again, but the task stays FAILED: Connect does not retry automatically.",
            event=Event("mv lake.unmounted lake", _mount_disk),
        ),
        Act(
            "heal restarts failed connectors with increasing delays, and gives up in the end. Here, once is enough.",
            "seamark connectors heal --once --yes",
            until=ALL_RUN,
            look="Connectors that run were not changed.",
        ),
    ),
)


UNDO = Chapter(
    name="undo",
    title="Undo",
    set_up=write_and_apply,
    acts=(
        Act(
            "Change a connector without spec files.",
            "seamark connectors update read-login --set batch.size=7 --yes",
        ),
        Act("List the changes: who, what and when.", "seamark journal list"),
        Act(
            "Show one change with its steps.",
            "seamark journal show {change}",
            look="It includes the previous values, which an undo restores.",
        ),
        Act("Undo it.", "seamark journal undo {change} --yes", until=ALL_RUN),
        Act(
            "Delete a connector.",
            "seamark connectors delete read-logout --yes",
            look="The result names what is kept: its offsets.",
        ),
        Act(
            "Undo that, too.",
            "seamark journal undo {change} --yes",
            until=ALL_RUN,
            look="The connector is recreated with its config and continues from its offsets.",
        ),
        Act("Spec files and connectors match.", "seamark plan -f config"),
    ),
)


ROLLBACK = Chapter(
    name="rollback",
    title="A config that can't run",
    set_up=write_and_apply,
    acts=(
        Act(
            "Make a mistake in the file. Connect's validation can't detect it: the folder does not exist.",
            "sed -i 's#/lake/#/nowhere/#' config/files.yaml",
        ),
        Act(
            "Apply it.",
            "seamark apply -f config --yes",
            codes=(3,),
            until=ALL_RUN,
            look="The task failed, so the previous config was restored and runs. Exit code 3: the change failed in "
            "part.",
        ),
        Act("The sink has its previous config.", "seamark connectors list write-login"),
        Act("Correct the file.", "sed -i 's#/nowhere/#/lake/#' config/files.yaml"),
        Act("Spec files and connectors match again.", "seamark plan -f config"),
    ),
)
