"""`connect-offsets --import`: a standalone worker's file, and the offsets topic of distributed workers."""

from __future__ import annotations

import json

from seamark.fleet.environment import SystemClock
from tests.unit.cli.importing import FileTool, TopicTool, pair
from tests.unit.fleet.living import SOURCE_CONFIG
from tests.unit.scenarios.environment import Environment
from tests.unit.scenarios.registry import scenario

WANTED = {"orders": [pair("/o", 11), pair("/p", None), pair("/q", 3)], "customers": [pair("/c", 50)]}


class ImportEnvironment(Environment):
    """One of the tools of the unit tests, and its journal as `seamark journal` shows it."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.tool = self.build_tool()
        # The tools have a real clock.
        self.patch.setattr(SystemClock, "sleep", lambda _, seconds: self.clock.sleep(seconds))

    def build_tool(self):
        return TopicTool(self.folder, self.patch, "absent")

    def give(self, wanted, *argv):
        """Record an import from standard input."""
        ended = self.tool.give(wanted, *argv)
        shown = " ".join(["connect-offsets", "--import", f"--config={self.tool.config}", *argv])
        self.recorder.add_command(f"{shown} <<< '{json.dumps(wanted)}'", ended)
        return ended

    def give_back(self, change, *argv):
        """Record the undo of an import."""
        ended = self.tool.undo(change, *argv)
        shown = " ".join(["connect-offsets", f"--undo={change}", f"--config={self.tool.config}", *argv])
        self.recorder.add_command(shown, ended)
        return ended

    def import_and_undo(self, wanted):
        """Record the dry run, the import, its journal, and the undo."""
        self.give(wanted, "--dry-run")
        ended = self.give(wanted)
        self.show_state("state after the import")
        self.show_journal()
        change = self.tool.change(ended)
        self.give_back(change, "--dry-run")
        self.give_back(change)
        self.show_state("state after the undo")

    def read_state(self):
        return {"held": {repr(key): repr(value) for key, value in self.tool.held.items()}}


class StoppedEnvironment(ImportEnvironment):
    def build_tool(self):
        return TopicTool(self.folder, self.patch, "stopped")


class DownEnvironment(ImportEnvironment):
    def build_tool(self):
        return TopicTool(self.folder, self.patch, "down")


class FileEnvironment(ImportEnvironment):
    """A standalone worker that is down."""

    def build_tool(self):
        return FileTool(self.folder, self.patch)

    def show_journal(self):
        (found,) = {path.parent for path in (self.folder / "state").rglob("changes")}
        if not (self.folder / "journal").exists():
            (self.folder / "journal").symlink_to(found)
        super().show_journal()

    def close(self):
        self.tool.socket.close()


@scenario(FileEnvironment)
def import_file(env):
    """Import into the file of a standalone worker, and undo it."""
    env.import_and_undo(WANTED)


@scenario(ImportEnvironment)
def import_topic_absent(env):
    """Import offsets of connectors that don't exist, and undo it."""
    env.import_and_undo(WANTED)


@scenario(StoppedEnvironment)
def import_topic_stopped(env):
    """Import offsets of stopped connectors through the workers, and undo it."""
    env.import_and_undo(WANTED)


@scenario(DownEnvironment)
def import_topic_down(env):
    """Import offsets while all workers are down, and undo it."""
    env.import_and_undo(WANTED)


@scenario(ImportEnvironment)
def import_topic_refused(env):
    """A running connector refuses the import; nothing to do is no change."""
    env.tool.connect.add("orders", SOURCE_CONFIG)
    env.give(WANTED, "--dry-run")
    env.give(WANTED)
    env.give({"customers": [pair("/c", 50)]})
