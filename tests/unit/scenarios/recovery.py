"""Interrupted changes: locked, resumed, unlocked, undone."""

from __future__ import annotations

from seamark.errors import RejectedError, UnknownOutcomeError
from tests.unit.fleet.living import SOURCE_CONFIG
from tests.unit.scenarios.copies import CopyEnvironment
from tests.unit.scenarios.environment import OPERATOR
from tests.unit.scenarios.offsets import OffsetEnvironment
from tests.unit.scenarios.registry import scenario


def add_two(env):
    env.game.add("a", SOURCE_CONFIG)
    env.game.add("b", SOURCE_CONFIG)


def interrupt(env, call, name, *argv):
    """Kill another operator's process right before a call, and return the ID of the open change."""
    env.note(f"another operator's process is killed before {call} {name}")
    env.game.before[call, name] = env.kill
    env.actor = "other@host:2"
    env.run_killed(*argv)
    env.actor = OPERATOR
    return env.newest()


def read_nonce(env, change):
    """Return the nonce with which the change is held."""
    with env.open_fleet() as fleet:
        (head,) = [head for head in fleet.journal.list() if head.change == change]
    return head.nonce


@scenario()
def locked(env):
    """An open change of another operator locks its connector, and no other."""
    add_two(env)
    change = interrupt(env, "pause", "a", "connectors", "pause", "a", "--yes")
    env.run("connectors", "stop", "a", "--yes")
    env.run("connectors", "stop", "b", "--yes")
    env.run("journal", "list", "--state", "open")
    env.run("journal", "show", change)
    env.run("journal", "undo", change, "--dry-run")


@scenario()
def resume_pause(env):
    """Resume an interrupted change, and undo it."""
    add_two(env)
    change = interrupt(env, "pause", "b", "connectors", "pause", "a", "b", "--yes")
    env.run("journal", "resume", change, typed="no\n")
    env.run("journal", "resume", change, "--yes")
    env.show_state("state after the resume")
    env.run("journal", "show", change)
    env.run("journal", "resume", change, "--yes")
    env.undo()


@scenario()
def unlock_pause(env):
    """Unlock an interrupted change: it is closed as it is."""
    add_two(env)
    change = interrupt(env, "pause", "b", "connectors", "pause", "a", "b", "--yes")
    env.run("journal", "unlock", "--holder", "wrong", change, "--yes")
    env.run("journal", "unlock", "--holder", read_nonce(env, change), change, "--yes")
    env.show_state("state after the unlock")
    env.run("journal", "show", change)
    env.undo()


@scenario(OffsetEnvironment)
def resume_offsets_move(env):
    """Resume a move that was interrupted while the connector was stopped."""
    change = interrupt(env, "patch_offsets", "fs", "offsets", "move", "fs", "--to", "40", "--yes")
    env.show_state("state after the interruption")
    env.run("journal", "resume", change, "--yes")
    env.show_state("state after the resume")
    env.show_journal()
    env.undo()


@scenario(OffsetEnvironment)
def unlock_offsets_move(env):
    """Unlock a move that was interrupted while the connector was stopped: it runs again."""
    change = interrupt(env, "patch_offsets", "fs", "offsets", "move", "fs", "--to", "40", "--yes")
    env.run("journal", "unlock", "--holder", read_nonce(env, change), change, "--yes")
    env.show_state("state after the unlock")
    env.show_journal()


@scenario(OffsetEnvironment)
def undo_open_move(env):
    """The undo of an open change closes it first; its dry run is refused."""
    change = interrupt(env, "patch_offsets", "lake", "offsets", "move", "lake", "--to", "earliest", "--yes")
    env.run("journal", "undo", change, "--dry-run")
    env.run("journal", "undo", change, "--yes")


@scenario()
def resume_apply(env):
    """Resume an interrupted apply of several files."""
    for name in "abc":
        env.write(f"config/{name}.json", {"name": name, "config": SOURCE_CONFIG})
    env.game.add("c", {**SOURCE_CONFIG, "tasks.max": "2"})
    change = interrupt(env, "create", "b", "apply", "-f", "config", "--yes")
    env.run("plan", "-f", "config")
    env.run("journal", "resume", change, "--yes")
    env.show_state("state after the resume")
    env.show_journal()
    env.undo()


@scenario(CopyEnvironment)
def resume_cutover(env):
    """Resume a cutover that was interrupted between two configs, and undo it."""
    copy = env.copy()
    change = interrupt(env, "put_config", "shop", "copies", "cutover", copy, "--allow-aborted-records", "--yes")
    env.show_state("state after the interruption")
    env.run("journal", "resume", change, "--yes")
    env.show_state("state after the resume")
    env.undo()


@scenario()
def unknown_outcome(env):
    """The outcome of a request is unknown, and the change stays open until it is resumed."""
    add_two(env)

    def vanish():
        env.game.states["a"] = "PAUSED"
        env.game.failing["read_status", "a"] = RejectedError("not now")
        raise UnknownOutcomeError("no answer")

    env.game.before["pause", "a"] = vanish
    env.run("connectors", "pause", "a", "--yes")
    env.run("journal", "list", "--state", "open")
    change = env.newest()
    env.game.failing.clear()
    env.run("journal", "resume", change, "--yes")
    env.run("journal", "show", change)
    env.undo()


@scenario()
def undo_twice(env):
    """Undo a change, undo the undo, and export the journal."""
    add_two(env)
    env.change("connectors", "delete", "a")
    env.undo()
    env.run("journal", "list")
    env.run("journal", "export", env.newest())


@scenario()
def interrupted_by_user(env):
    """Ctrl-C within a change."""
    add_two(env)

    def interrupt_by_key():
        raise KeyboardInterrupt

    env.game.before["pause", "b"] = interrupt_by_key
    env.run("connectors", "pause", "a", "b", "--yes")
    env.show_journal()
    env.run("journal", "resume", env.newest(), "--yes")
