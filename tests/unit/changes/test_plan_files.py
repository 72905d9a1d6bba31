"""Plan files are untrusted input: their sizes are bounded, and a plan of another journal key is named as such."""

from __future__ import annotations

import json
import resource
import zlib
from base64 import b64encode
from dataclasses import replace

import pytest

from seamark.changes.file_journal import FileJournal
from seamark.changes.plan import Plan, _hash, read_plan_file
from seamark.errors import RefusedError, UsageError
from seamark.fleet.fleet import Fleet
from seamark.kip199.steps import WriteOffsetFile
from tests.unit.fleet.builders import EmptyScan, StubKafka
from tests.unit.fleet.living import SOURCE_CONFIG, LivingConnect, living_context


def write_body(path, **changes):
    """Write a plan file with other content and a right SHA-256."""
    body = {key: value for key, value in Plan("t", "dev", "now", "me").to_file().items() if key != "sha256"} | changes
    path.write_text(json.dumps({**body, "sha256": _hash(body)}))
    return path


def build_bomb(mebibytes):
    packer = zlib.compressobj(9)
    parts = [packer.compress(bytes(1 << 20)) for _ in range(mebibytes)]
    return b64encode(b"".join([*parts, packer.flush()])).decode()


def build_file_action(content, path="/x"):
    return {"action": "write-offset-file", "cluster": "c", "path": path, "content": content}


def test_a_compressed_bomb_is_refused_without_filling_the_memory(tmp_path):
    path = write_body(tmp_path / "plan", actions=[build_file_action(build_bomb(400))])
    assert path.stat().st_size < 1 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((UsageError, RefusedError)):
        read_plan_file(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


def test_many_small_bombs_are_refused_before_the_first_is_decompressed(tmp_path):
    bomb = build_bomb(60)
    path = write_body(tmp_path / "plan", actions=[build_file_action(bomb, f"/{number}") for number in range(100)])
    with pytest.raises(UsageError) as caught:
        read_plan_file(path)
    assert caught.value.cause == "it writes 100 files, and a plan writes at most 4"


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"actions": [{}] * 50_001}, "it has 50,001 actions, and a plan has at most 50,000"),
        ({"notes": ["n"] * 50_001}, "it has 50,001 notes, and a plan has at most 50,000"),
        ({"title": "t" * 10_001}, "a text of its header has more than 10,000 characters"),
        ({"notes": ["n" * (1 << 20 | 1)]}, "it has a text of more than 1,048,576 characters"),
        (
            {"actions": [{"action": "put-config", "config": {"k" * (1 << 20 | 1): ""}}]},
            "it has a text of more than 1,048,576 characters",
        ),
    ],
)
def test_a_plan_file_beyond_every_plan_is_refused(tmp_path, changes, cause):
    with pytest.raises(UsageError) as caught:
        read_plan_file(write_body(tmp_path / "plan", **changes))
    assert caught.value.cause == cause


def test_a_file_that_no_undo_could_restore_is_refused_at_plan(monkeypatch):
    monkeypatch.setattr("seamark.kip199.steps._MAX_BYTES", 10)
    with pytest.raises(RefusedError, match="too large"):
        WriteOffsetFile("c", "/x", bytes(11)).to_data()


@pytest.mark.parametrize("counts", [[2], [1, 1], [2, -1], [0]])
def test_steps_that_belong_to_no_action_are_refused(counts):
    step = {"kind": "restart-failed", "subject": "s", "arguments": {}}
    body = Plan("t", "dev", "now", "me").to_dict() | {"steps": [step], "step_counts": counts}
    with pytest.raises(RefusedError, match="was edited"):
        Plan.from_dict(body)


class TestJournalKeys:
    """Two people with journal keys of their own, and a plan file that one gives to the other."""

    def open_fleet(self, folder, game, who):
        context = living_context(folder)
        journal = replace(context.journal, find_state_dir=lambda: folder / f"state-{who}")
        return Fleet(
            replace(context, own_journal=journal),
            build_connect=lambda _: game,
            build_kafka=lambda _: StubKafka(),
            open_journal=lambda opened: FileJournal(opened.journal.folder),
            open_scan=lambda _, topic, __: EmptyScan(topic),
        )

    def test_a_plan_of_another_key_names_both_keys(self, tmp_path):
        game = LivingConnect()
        game.add("a", SOURCE_CONFIG | {"connection.password": "hunter2"})
        with self.open_fleet(tmp_path, game, "dev") as dev, self.open_fleet(tmp_path, game, "ci") as ci:
            dev.save(dev.connectors.set("a", {"tasks.max": "2"}), tmp_path / "plan")
            plan = read_plan_file(tmp_path / "plan")
            with pytest.raises(RefusedError, match="the journal has another key than this context") as caught:
                ci.review(plan)
            names = {dev._world.keys.read().current.fingerprint, ci._world.keys.read().current.fingerprint}
            assert len(names) == 2
            assert all(name in caught.value.cause for name in names)
            assert "journal_key" in caught.value.hint
            assert game.writes == 0
            assert dev.apply(dev.review(plan)).is_done


def test_an_export_has_no_character_that_a_terminal_obeys(tmp_path):
    name = "a\u009b2Jb\u202egnp\u2028c"
    game = LivingConnect()
    game.add(name, SOURCE_CONFIG)
    with TestJournalKeys().open_fleet(tmp_path, game, "dev") as fleet:
        change = fleet.apply(fleet.connectors.pause(name)).change
        text, entries = fleet.journal.export(change), fleet.journal.show(change)
    assert [character for character in text if not (character.isprintable() or character == "\n")] == []
    assert "\\u009b" in text
    # The chain can be checked after decoding.
    decoded = [json.loads(line) for line in text.splitlines()]
    encoded = [json.dumps(one, sort_keys=True, separators=(",", ":"), ensure_ascii=False) for one in decoded]
    assert [line.encode() for line in encoded] == [entry.to_bytes() for entry in entries]
