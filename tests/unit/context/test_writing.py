"""Adding contexts and choosing one: comments stay, and a change is whole or not at all."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from seamark.context import editing
from seamark.errors import (
    AlreadyExistsError,
    ConfigurationError,
    ContextNotFoundError,
    DeadlineError,
    InvalidSettingError,
    RefusedError,
    UsageError,
)

COMMENTED = """\
# my contexts
current: dev      # the usual one

contexts:
  # the laptop
  dev:
    kafka: {bootstrap.servers: "127.0.0.1:9092"}   # one broker
    connect:
      game:
        urls:
          - http://127.0.0.1:8083   # first
          - 'http://127.0.0.1:8084'
        group_id: connect-cluster
  lab:
    protected: yes-that-is-text-only-when-quoted
"""
# What stands in `lab` is not opened by these tests; it only must stay as it is.


def test_a_context_is_added_to_a_new_private_file(workplace) -> None:
    written = workplace.add(
        "dev",
        kafka={"bootstrap.servers": "b:1", "sasl.password": "secret://env/PW"},
        connect={
            "game": {"urls": ["http://a:1", "http://b:2"], "group_id": "g", "exactly_once": False, "ca_file": None}
        },
        protected=True,
        make_current=True,
    )
    path = workplace.user / "config.yaml"
    assert (written.path, written.place, written.shadowed_by) == (path, "~/.config/seamark/config.yaml", None)
    assert path.read_text() == (
        "current: dev\n"
        "contexts:\n"
        "  dev:\n"
        "    kafka:\n"
        "      bootstrap.servers: b:1\n"
        "      sasl.password: secret://env/PW\n"
        "    connect:\n"
        "      game:\n"
        "        urls: [http://a:1, http://b:2]\n"
        "        group_id: g\n"
        "        exactly_once: false\n"
        "    protected: true\n"
    )
    assert path.stat().st_mode & 0o777 == 0o600
    context = workplace.open()
    assert (context.name, context.protected, context.connect["game"].urls) == (
        "dev",
        True,
        ("http://a:1", "http://b:2"),
    )
    assert sorted(found.name for found in workplace.user.iterdir()) == ["config.yaml"]


def test_texts_that_look_like_something_else_come_back_as_they_were(workplace) -> None:
    odd = {
        "client.id": "null",
        "client.rack": "010",
        "debug": "true",
        "log_level": "# x",
        "ssl.cipher.suites": "a: 'b'\"\\",
    }
    workplace.add("dev", kafka=odd)
    assert {key: value.reveal() for key, value in workplace.open("dev").kafka.values.items()} == odd


def test_comments_order_and_quotation_marks_stay(workplace) -> None:
    path = workplace.write_user(COMMENTED)
    workplace.add("new", kafka={"bootstrap.servers": "n:1"})
    added = "  new:\n    kafka:\n      bootstrap.servers: n:1\n"
    assert path.read_text() == COMMENTED + added
    workplace.use("new")
    assert path.read_text() == COMMENTED.replace("current: dev      #", "current: new      #") + added


def test_use_adds_the_key_where_there_is_none(workplace) -> None:
    path = workplace.write_user("# top\n\ncontexts:\n  dev: {}\n  lab: {}\n")
    written = workplace.use("lab")
    assert "current: lab\n" in path.read_text()
    assert path.read_text().startswith("# top\n")
    assert (workplace.load().current, written.shadowed_by) == ("lab", None)


def test_a_file_of_comments_only_keeps_them(workplace) -> None:
    path = workplace.write_user("# nothing here yet")
    workplace.add("dev", kafka={"bootstrap.servers": "b:1"})
    assert path.read_text().startswith("# nothing here yet\ncontexts:\n")
    assert workplace.load().names == ("dev",)


def test_line_ends_of_windows_stay(workplace) -> None:
    path = workplace.write_user("")
    path.write_bytes(b"# top\r\ncontexts:\r\n  dev: {}\r\n")
    workplace.use("dev")
    assert b"\n" not in path.read_bytes().replace(b"\r\n", b"")
    assert workplace.load().current == "dev"


def test_an_existing_name_is_refused_and_replace_replaces_it(workplace) -> None:
    path = workplace.write_user(COMMENTED)
    with pytest.raises(AlreadyExistsError, match="context dev already exists") as caught:
        workplace.add("dev", kafka={"bootstrap.servers": "n:1"})
    assert caught.value.cause == "it is defined in ~/.config/seamark/config.yaml:6"
    assert path.read_text() == COMMENTED
    workplace.add("dev", kafka={"bootstrap.servers": "n:1"}, replace=True)
    assert dict(workplace.open("dev").connect) == {}
    assert workplace.open("dev").kafka.bootstrap_servers == "n:1"
    assert "lab:\n    protected: yes-that" in path.read_text()


def test_a_name_of_another_file_is_refused_too(workplace) -> None:
    workplace.write("contexts: {dev: {}}")
    with pytest.raises(AlreadyExistsError, match="dev"):
        workplace.add("dev", kafka={"bootstrap.servers": "n:1"})
    assert not (workplace.user / "config.yaml").exists()


def test_the_project_file_is_written_when_asked(workplace) -> None:
    workplace.cwd = workplace.project / "deep"
    workplace.cwd.mkdir()
    written = workplace.add("dev", kafka={"bootstrap.servers": "b:1"}, project=True)
    assert written.path == workplace.cwd / "seamark.yaml"
    assert written.path.stat().st_mode & 0o777 == 0o600
    written.path.unlink()
    workplace.write("contexts: {}\n").chmod(0o644)
    written = workplace.add("dev", kafka={"bootstrap.servers": "b:1"}, project=True)
    assert written.path == workplace.project / "seamark.yaml"
    assert written.path.stat().st_mode & 0o777 == 0o644


def test_seamark_config_is_the_file_that_is_written(workplace) -> None:
    workplace.environ["SEAMARK_CONFIG"] = "lab.yaml"
    written = workplace.add("lab", kafka={"bootstrap.servers": "b:1"}, make_current=True)
    assert written.path == workplace.project / "lab.yaml"
    assert workplace.open().name == "lab"
    with pytest.raises(UsageError, match="SEAMARK_CONFIG"):
        workplace.use("lab", project=True)


def test_use_says_when_something_stronger_chooses_another(workplace) -> None:
    workplace.write("current: dev\ncontexts: {dev: {}, lab: {}}")
    assert str(workplace.use("lab").shadowed_by) == "seamark.yaml:1"
    assert workplace.use("lab", project=True).shadowed_by is None
    workplace.environ["SEAMARK_CONTEXT"] = "dev"
    assert str(workplace.use("lab").shadowed_by) == "SEAMARK_CONTEXT"


def test_use_refuses_a_context_that_is_not_there(workplace) -> None:
    workplace.write_user(COMMENTED)
    with pytest.raises(ContextNotFoundError, match="there is no context prod"):
        workplace.use("prod")


@pytest.mark.parametrize("mask", ["(sensitive)", "******", "[hidden]", "http://u:(sensitive)@a:1"])
def test_a_masked_value_is_never_written(workplace, mask: str) -> None:
    for content in (
        {"kafka": {"sasl.password": mask}},
        {"connect": {"game": {"urls": ["http://a:1"], "username": "u", "password": mask}}},
        {"connect": {"game": {"urls": [mask]}}},
    ):
        with pytest.raises(InvalidSettingError, match="contains the mask of a secret"):
            workplace.add("dev", **content)
    assert not (workplace.user / "config.yaml").exists()


@pytest.mark.parametrize(
    "content",
    [
        {"kafka": {"bootstrap.server": "b:1"}},
        {"connect": {"game": {"url": "http://a:1"}}},
        {"connect": {"game": {"urls": ["ftp://a:1"]}}},
        {"connect": {"game": {"urls": ["http://a:1"], "worker_config": "nowhere.properties"}}},
        {"connect": {"game": {"urls": ["https://a:1"], "tls_verify": False}}},
        {"connect": {"group": {"urls": ["https://a:1"]}}},
    ],
)
def test_what_could_not_be_opened_is_never_written(workplace, content) -> None:
    path = workplace.write_user(COMMENTED)
    with pytest.raises(ConfigurationError):
        workplace.add("new", **content)
    assert path.read_text() == COMMENTED
    assert sorted(found.name for found in workplace.user.iterdir()) == ["config.yaml"]


def test_secrets_need_not_be_at_hand_when_a_context_is_added(workplace) -> None:
    cluster = {"urls": ["https://a:1"], "username": "secret://env/WHO", "password": "secret://env/PW"}
    workplace.add("dev", connect={"game": cluster})
    workplace.environ |= {"WHO": "w", "PW": "p"}
    assert workplace.open("dev").connect["game"].username == "w"


def test_a_name_that_can_not_be_is_refused(workplace) -> None:
    with pytest.raises(ConfigurationError, match="can't be called"):
        workplace.add("a/b")


def test_an_anchor_in_a_replaced_context_does_not_change_the_others(workplace) -> None:
    path = workplace.write_user("contexts:\n  a:\n    kafka: &k {client.id: x}\n  b:\n    kafka: *k\n")
    workplace.add("a", kafka={"bootstrap.servers": "n:1"}, replace=True)
    assert workplace.open("b").kafka.values["client.id"].reveal() == "x"
    assert "bootstrap.servers: n:1" in path.read_text()


def test_a_change_that_would_touch_something_else_is_refused(workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    path = workplace.write_user(COMMENTED)
    monkeypatch.setattr(editing, "_render", lambda old, edit: "contexts: {new: {kafka: {bootstrap.servers: 'n:1'}}}\n")
    with pytest.raises(ConfigurationError, match="without changing other settings"):
        workplace.add("new", kafka={"bootstrap.servers": "n:1"})
    assert path.read_text() == COMMENTED


def test_a_crash_before_the_rename_leaves_the_old_file(workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    path = workplace.write_user(COMMENTED)

    def fail(temporary: Path, target: Path, *, is_private: bool) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(editing, "_replace", fail)
    with pytest.raises(ConfigurationError, match="can't be written") as caught:
        workplace.use("dev")
    assert caught.value.cause == "No space left on device"
    assert path.read_text() == COMMENTED
    assert sorted(found.name for found in workplace.user.iterdir()) == ["config.yaml"]


def test_a_linked_file_stays_a_link(workplace, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.yaml"
    real.write_text("contexts: {dev: {}}\n")
    (workplace.user / "config.yaml").symlink_to(real)
    workplace.use("dev")
    assert (workplace.user / "config.yaml").is_symlink()
    assert "current: dev" in real.read_text()


def test_what_is_no_plain_file_is_not_written(workplace) -> None:
    (workplace.user / "config.yaml").mkdir()
    with pytest.raises(ConfigurationError, match="can't be written"):
        workplace.add("dev", kafka={"bootstrap.servers": "b:1"})


def test_writers_at_the_same_time_lose_nothing(workplace) -> None:
    names = [f"c{number}" for number in range(6)]
    threads = [
        threading.Thread(target=workplace.add, args=(name,), kwargs={"kafka": {"bootstrap.servers": "b:1"}})
        for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert list(workplace.load().names) == names


def test_of_two_writers_of_one_name_the_second_is_refused(workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    real = editing._lock_folder

    def lock(folder: Path, place: str):
        workplace.write_user("contexts: {dev: {kafka: {bootstrap.servers: 'first:1'}}}\n")
        return real(folder, place)

    monkeypatch.setattr(editing, "_lock_folder", lock)
    with pytest.raises(AlreadyExistsError):
        workplace.add("dev", kafka={"bootstrap.servers": "second:1"})
    assert workplace.open().kafka.bootstrap_servers == "first:1"


def test_a_locked_folder_is_given_up_at_the_deadline(workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editing, "LOCK_SECONDS", 0.1)
    holder = os.open(workplace.user, os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(DeadlineError, match="another seamark"):
            workplace.add("dev", kafka={"bootstrap.servers": "b:1"})
    finally:
        os.close(holder)


THREE = """\
# my contexts
current: dev      # the usual one

contexts:
  # the laptop
  dev:
    kafka: {bootstrap.servers: "127.0.0.1:9092"}   # one broker
    # the end of dev

  # the lab
  "lab":
    kafka:
      bootstrap.servers: l:1
  prod:
    kafka: {bootstrap.servers: p:1}

# the end
"""


def test_removed_context_leaves_every_other_line(workplace) -> None:
    path = workplace.write_user(THREE)
    written = workplace.remove("lab")
    assert (written.place, written.shadowed_by, written.journal) == ("~/.config/seamark/config.yaml", None, None)
    lab = '  # the lab\n  "lab":\n    kafka:\n      bootstrap.servers: l:1\n'
    assert path.read_text() == THREE.replace(lab, "")
    assert workplace.load().names == ("dev", "prod")
    assert path.stat().st_mode & 0o777 == 0o600


def test_removed_current_context_leaves_no_pointer_to_it(workplace) -> None:
    path = workplace.write_user(THREE)
    workplace.remove("dev")
    assert path.read_text() == (
        "# my contexts\n\ncontexts:\n\n"
        '  # the lab\n  "lab":\n    kafka:\n      bootstrap.servers: l:1\n'
        "  prod:\n    kafka: {bootstrap.servers: p:1}\n\n# the end\n"
    )
    assert workplace.load().current is None
    workplace.remove("lab")
    workplace.remove("prod")
    assert workplace.load().names == ()
    workplace.add("new", kafka={"bootstrap.servers": "n:1"})
    assert workplace.load().names == ("new",)


def test_renamed_context_keeps_its_lines_and_stays_the_current_one(workplace) -> None:
    path = workplace.write_user(THREE)
    written = workplace.rename("dev", "laptop")
    assert path.read_text() == THREE.replace("current: dev ", "current: laptop ").replace("  dev:", "  laptop:")
    assert (workplace.load().current, written.shadowed_by) == ("laptop", None)
    workplace.rename("lab", "attic")
    assert '  # the lab\n  "attic":\n' in path.read_text()
    assert workplace.load().current == "laptop"
    assert workplace.open("attic").kafka.bootstrap_servers == "l:1"


def test_context_in_braces_is_renamed_and_its_removal_is_left_to_the_user(workplace) -> None:
    path = workplace.write_user("contexts: {dev: {}, lab: {}}\n")
    workplace.rename("dev", "new")
    assert path.read_text() == "contexts: {new: {}, lab: {}}\n"
    with pytest.raises(ConfigurationError, match="without changing other settings") as caught:
        workplace.remove("new")
    assert caught.value.hint == "edit the file by hand"
    assert path.read_text() == "contexts: {new: {}, lab: {}}\n"


@pytest.mark.parametrize("change", [lambda place: place.remove("dev"), lambda place: place.rename("dev", "new")])
def test_context_of_another_file_is_refused_by_the_name_of_that_file(workplace, change) -> None:
    path = workplace.write_user("contexts:\n  dev:\n    kafka: {bootstrap.servers: b:1}\n")
    workplace.write("contexts:\n  dev:\n    protected: true\n")
    with pytest.raises(RefusedError, match="no changes were made") as caught:
        change(workplace)
    assert "seamark.yaml:2" in caught.value.cause
    assert caught.value.hint == "edit seamark.yaml"
    assert "dev:" in path.read_text()
    path.write_text("contexts: {}\n")
    with pytest.raises(RefusedError):
        change(workplace)
    with pytest.raises(ContextNotFoundError):
        workplace.remove("nope")


def test_context_that_the_environment_completes_is_refused(workplace) -> None:
    workplace.write_user("contexts:\n  dev:\n    kafka: {bootstrap.servers: b:1}\n")
    workplace.environ["SEAMARK_CONTEXTS__DEV__PROTECTED"] = "true"
    with pytest.raises(RefusedError) as caught:
        workplace.rename("dev", "new")
    assert "SEAMARK_CONTEXTS__DEV" in caught.value.cause


def test_new_name_must_be_free_and_valid(workplace) -> None:
    path = workplace.write_user(THREE)
    workplace.write("contexts: {other: {}}\n")
    for name in ("prod", "other"):
        with pytest.raises(AlreadyExistsError) as caught:
            workplace.rename("dev", name)
        assert caught.value.hint == "choose another name"
    with pytest.raises(ConfigurationError, match="can't be called"):
        workplace.rename("dev", "a/b")
    assert path.read_text() == THREE


def test_stronger_choice_of_the_old_name_is_reported(workplace) -> None:
    workplace.write_user(THREE)
    workplace.environ["SEAMARK_CONTEXT"] = "dev"
    assert str(workplace.rename("dev", "new").shadowed_by) == "SEAMARK_CONTEXT"
    workplace.environ["SEAMARK_CONTEXT"] = "new"
    assert str(workplace.remove("new").shadowed_by) == "SEAMARK_CONTEXT"


def test_journal_and_its_keys_follow_a_renamed_context(workplace) -> None:
    state = workplace.root / "state"
    workplace.environ["XDG_STATE_HOME"] = str(state)
    (state / "seamark" / "journal" / "dev").mkdir(parents=True)
    keys = state / "seamark" / "journal-keys"
    keys.mkdir()
    (keys / "dev.key").write_text("one")
    workplace.write_user("contexts:\n  dev:\n    journal: file   # no brokers\n")
    before = workplace.open("dev").journal
    written = workplace.rename("dev", "new")
    after = workplace.open("new").journal
    assert (after.folder, written.journal) == (before.folder, before.folder)
    assert after.own_key_file.read_text() == "one"
    assert after.own_key_file.stat().st_mode & 0o777 == 0o600
    assert "journal: file   # no brokers\n" in (workplace.user / "config.yaml").read_text()
    # A second rename leaves the setting as it is.
    assert workplace.rename("new", "third").journal is None
    assert workplace.open("third").journal.folder == before.folder


def test_keys_of_an_earlier_context_are_never_replaced(workplace) -> None:
    state = workplace.root / "state"
    workplace.environ["XDG_STATE_HOME"] = str(state)
    keys = state / "seamark" / "journal-keys"
    keys.mkdir(parents=True)
    (keys / "dev.key").write_text("one")
    (keys / "new.key").write_text("another")
    path = workplace.write_user(THREE)
    with pytest.raises(AlreadyExistsError, match="can't be renamed to new"):
        workplace.rename("dev", "new")
    assert (keys / "new.key").read_text() == "another"
    assert path.read_text() == THREE


def test_anchor_in_a_removed_context_is_left_to_the_user(workplace) -> None:
    text = "contexts:\n  a:\n    kafka: &k {client.id: x}\n  b:\n    kafka: *k\n"
    path = workplace.write_user(text)
    with pytest.raises(ConfigurationError, match="without changing other settings"):
        workplace.remove("a")
    assert path.read_text() == text
    workplace.remove("b")
    assert workplace.load().names == ("a",)
