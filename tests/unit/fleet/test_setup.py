"""`seamark init`: the folder, and which type a connector that is not there yet will have."""

import stat
from pathlib import Path

import pytest

from seamark.changes.kafka_journal import NeededAccess
from seamark.changes.setup import _build_commands, _make_folder, make_setup, read_setup
from seamark.connect.model import Plugin
from seamark.connect.plugins import find_type
from seamark.core.refs import ConnectorType
from seamark.errors import JournalError
from tests.unit.fleet.living import SINK, SOURCE, living_context


def test_a_folder_is_made_once_and_for_its_owner_alone(tmp_path):
    context = living_context(tmp_path)
    setup = read_setup(context)
    assert [item.name for item in setup.missing] == [str(tmp_path / "journal")]
    assert make_setup(context) == (str(tmp_path / "journal"),)
    assert stat.S_IMODE((tmp_path / "journal").stat().st_mode) == 0o700
    assert read_setup(context).missing == ()
    assert make_setup(context) == ()


def test_a_folder_that_can_not_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="can't create the journal's folder"):
        make_setup(living_context(tmp_path / "file"))


def test_access_is_told_as_commands_of_kafka():
    access = [
        NeededAccess("TOPIC", "j", "LITERAL", "READ"),
        NeededAccess("TOPIC", "j", "LITERAL", "DESCRIBE_CONFIGS"),
        NeededAccess("TRANSACTIONAL_ID", "seamark.x.", "PREFIXED", "WRITE"),
    ]
    head = "kafka-acls.sh --bootstrap-server HOST:PORT --add --allow-principal User:OPERATOR"
    assert _build_commands(access) == [
        f"{head} --operation Read --operation DescribeConfigs --topic j",
        f"{head} --operation Write --transactional-id seamark.x. --resource-pattern-type prefixed",
    ]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (SOURCE, ConnectorType.SOURCE),
        ("FileStreamSinkConnector", ConnectorType.SINK),
        ("FileStreamSource", ConnectorType.SOURCE),
        ("FileStream", ConnectorType.UNKNOWN),
        ("", ConnectorType.UNKNOWN),
    ],
)
def test_the_type_is_that_of_the_plugin_connect_would_take(given, kind):
    plugins = (
        Plugin(SOURCE, "source"),
        Plugin(SOURCE, "source", "2"),
        Plugin(SINK, "sink"),
        Plugin("x.Y", "converter"),
    )
    assert find_type(plugins, given) is kind


def test_two_plugins_of_one_short_name_are_nobodys_type():
    assert find_type((Plugin("a.X", "source"), Plugin("b.X", "sink")), "X") is ConnectorType.UNKNOWN


def test_folder_that_another_process_makes_meanwhile_is_used(tmp_path, monkeypatch):
    folder, make = tmp_path / "journal", Path.mkdir

    def make_first(self, **given):
        make(self, **given)
        raise FileExistsError(17, "File exists")

    monkeypatch.setattr(Path, "mkdir", make_first)
    assert _make_folder(folder) == ()
    assert folder.is_dir()
