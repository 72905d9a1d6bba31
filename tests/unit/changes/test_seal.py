"""Seals: equal for equal secrets, useless without the key, and named after their key."""

import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from seamark.changes.images import find_key_names
from seamark.changes.keys import read_keys
from seamark.changes.signing import KeyRing, SealKey
from seamark.context import JournalSettings, Secret
from seamark.errors import ConfigurationError, InvalidSettingError


def settings(folder, **changes):
    return JournalSettings("dev", find_state_dir=lambda: folder, **changes)


def test_equal_secrets_give_equal_seals_and_nothing_else_does(tmp_path):
    key = read_keys(settings(tmp_path)).current
    assert key.seal("a") == key.seal("a") != key.seal("b")
    assert SealKey(b"another key of 16").seal("a") != key.seal("a")
    assert key.seal("a").split(":")[:2] == ["hmac-sha256", key.name]


def test_the_key_file_is_made_once_and_for_its_owner_alone(tmp_path):
    folder = tmp_path / "state"
    first = read_keys(settings(folder))
    assert stat.S_IMODE((folder / "journal.key").stat().st_mode) == 0o600
    assert read_keys(settings(folder)) == first
    assert [path.name for path in folder.iterdir()] == ["journal.key"]


def test_many_that_begin_at_once_get_the_same_key(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: read_keys(settings(tmp_path / "state")), range(32)))
    assert len({ring.current.key for ring in keys}) == 1


def test_a_key_of_the_context_wins_and_is_never_shown(tmp_path):
    key = read_keys(settings(tmp_path, key=Secret("canary-canary-canary")))
    assert key == KeyRing(SealKey(b"canary-canary-canary"))
    assert not list(tmp_path.iterdir())
    assert "canary" not in repr(key)


def test_a_short_key_is_refused(tmp_path):
    with pytest.raises(InvalidSettingError, match="shorter than 16 characters"):
        read_keys(settings(tmp_path, key=Secret("short")))


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [("ab" * 32, 0o644, "can be read by others"), ("not a key", 0o600, "contains no valid key")],
)
def test_a_key_file_that_can_not_be_trusted_is_refused(tmp_path, text, mode, said):
    (tmp_path / "journal.key").write_text(text)
    (tmp_path / "journal.key").chmod(mode)
    with pytest.raises(ConfigurationError, match=said):
        read_keys(settings(tmp_path))


def test_a_folder_that_can_not_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="the journal's key can't be used"):
        read_keys(settings(tmp_path / "file" / "below"))


def test_key_names_are_found_wherever_seals_stand(tmp_path):
    one, two = SealKey(b"1" * 16), SealKey(b"2" * 16)
    body = {"before": {"config": {"p": {"sealed": one.seal("x")}}}, "after": [{"sealed": two.seal("x")}], "n": 1}
    assert find_key_names(body) == {one.name, two.name}
    assert find_key_names({"text": f"not a seal: {one.seal('x')}"}) == set()
