"""Where a context keeps its journal, and where that was said."""

from __future__ import annotations

import pytest

from seamark.context import JournalKind, Verify
from seamark.errors import InvalidSettingError, SecretError


def test_without_a_word_the_journal_is_a_topic(workplace) -> None:
    workplace.write("contexts: {dev: {kafka: {bootstrap.servers: b:9092}}}")
    journal = workplace.open().journal
    assert (journal.kind, journal.topic, journal.heads_topic) == (
        JournalKind.KAFKA,
        "seamark-journal",
        "seamark-journal-heads",
    )
    assert journal.in_flight_seconds == 90
    assert journal.key is None
    assert workplace.origins()["journal"] == "default"
    assert workplace.values()["journal_topic"] == "seamark-journal"
    assert "journal_folder" not in workplace.values()


def test_a_folder_is_the_users_state_folder_by_default(workplace, tmp_path) -> None:
    workplace.environ["XDG_STATE_HOME"] = str(tmp_path / "state")
    workplace.write("contexts: {dev: {journal: file}}")
    journal = workplace.open().journal
    assert journal.folder == tmp_path / "state" / "seamark" / "journal" / "dev"
    assert journal.key_file == tmp_path / "state" / "seamark" / "journal.key"
    assert workplace.values()["journal_folder"] == str(journal.folder)
    assert "journal_topic" not in workplace.values()


def test_every_key_is_taken_with_its_origin(workplace) -> None:
    workplace.environ |= {"KEY": "k" * 32, "SEAMARK_CONTEXTS__DEV__IN_FLIGHT_TIMEOUT": "3s"}
    workplace.write(
        "contexts:\n  dev:\n    journal: file\n    journal_folder: history\n    journal_topic: ops.journal\n"
        "    journal_key: secret://env/KEY\n    in_flight_timeout: 90s\n"
    )
    journal = workplace.open().journal
    assert journal.folder == workplace.project / "history"
    assert journal.topic == "ops.journal"
    assert journal.key is not None
    assert journal.key.reveal() == "k" * 32
    assert journal.in_flight_seconds == 3
    assert workplace.origins() | {"context": ""} == {
        "context": "",
        "protected": "default",
        "insecure": "default",
        "read_only": "default",
        "journal": "seamark.yaml:3",
        "journal_folder": "seamark.yaml:4",
        "journal_topic": "seamark.yaml:5",
        "journal_key": "seamark.yaml:6",
        "in_flight_timeout": "SEAMARK_CONTEXTS__DEV__IN_FLIGHT_TIMEOUT",
        "offset_verification": "default",
    }


def test_without_brokers_the_journal_is_in_files_and_rest_is_believed(workplace) -> None:
    workplace.write("contexts: {dev: {connect: {game: {urls: http://w:8083}}}}")
    context = workplace.open()
    assert (context.journal.kind, context.verify, context.has_brokers) == (JournalKind.FILE, Verify.REST, False)
    assert (workplace.values()["journal"], workplace.values()["offset_verification"]) == ("file", "rest")


def test_who_has_brokers_may_believe_rest_too(workplace) -> None:
    workplace.write("contexts:\n  dev:\n    kafka: {bootstrap.servers: b:9092}\n    offset_verification: rest\n")
    context = workplace.open()
    assert (context.journal.kind, context.verify, context.has_brokers) == (JournalKind.KAFKA, Verify.REST, True)
    assert workplace.origins()["offset_verification"] == "seamark.yaml:4"
    workplace.write("contexts: {dev: {kafka: {bootstrap.servers: b:9092}}}")
    assert workplace.open().verify is Verify.STORE
    workplace.write("contexts: {dev: {offset_verification: hope}}")
    with pytest.raises(InvalidSettingError, match="must be store or rest"):
        workplace.open()


def test_a_key_that_stands_in_the_file_is_never_shown(workplace) -> None:
    workplace.write("contexts: {dev: {journal_key: canary-canary-canary}}")
    assert workplace.values()["journal_key"] == "(sensitive)"
    assert "canary" not in repr(workplace.open())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("journal: database", "journal must be kafka or file"),
        ("journal: secret://env/X", "journal doesn't support secret references"),
        ("journal_topic: no blanks", "journal_topic is not a valid topic name"),
        (f"journal_topic: {'x' * 244}", "journal_topic is not a valid topic name"),
        ("in_flight_timeout: soon", "in_flight_timeout is not a duration"),
        ("in_flight_timeout: 0s", "in_flight_timeout is not a duration"),
    ],
)
def test_what_can_not_be_used_is_refused_with_its_place(workplace, text: str, problem: str) -> None:
    workplace.write(f"contexts: {{dev: {{{text}}}}}")
    with pytest.raises(InvalidSettingError, match=problem) as caught:
        workplace.open()
    assert caught.value.cause.startswith("seamark.yaml:1:")


def test_a_reference_of_a_connectors_config_is_revealed_by_the_context(workplace) -> None:
    workplace.environ["DB_PASSWORD"] = "hunter2"
    workplace.write_user("contexts: {dev: {policy: {references: ['secret://env/*']}}}")
    context = workplace.open()
    assert context.reveal("secret://env/DB_PASSWORD") == "hunter2"
    with pytest.raises(SecretError, match="secret://env/NOT_THERE"):
        context.reveal("secret://env/NOT_THERE")
