"""Every class of the error tree as the command line prints it: as text and as JSON.

The errors are built here with realistic arguments; texts at the places that raise them have tests of their own. A new
class needs an error in `ERRORS`, and `pytest tests/unit/test_errors.py --snapshot-update`.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import seamark
from seamark import errors
from seamark.changes.codec import CodecError
from seamark.errors import SeamarkError
from tests.unit.cli.stubs import StubFleet, run_seamark

SOURCE = Path(seamark.__file__).parent

UNREACHABLE = errors.UnreachableError(
    "Connect cluster logs does not respond",
    cause="connect-1:8083: connection refused\nconnect-2:8083: no answer within 5 s",
    hint="check the URLs: seamark context show",
    context={"cluster": "logs"},
)

ERRORS = (
    SeamarkError(
        "unexpected internal error (please report it)",
        cause="ZeroDivisionError: division by zero",
        hint="run the command with -v to show the traceback",
    ),
    errors.UsageError(
        "invalid value 'yesterday' for --to: expected an offset, a time, earliest, latest or current",
        hint="run: seamark offsets move --help",
    ),
    CodecError("invalid plan: actions[3].connector: expected a string, found an integer", hint="create a new plan"),
    errors.ConfigurationError(
        "pipelines need PostgreSQL 14 or later, and database game is PostgreSQL 13",
        cause="before 14, the progress of COPY can't be read",
        hint="upgrade the database",
    ),
    errors.ContextNotFoundError(
        "unknown context 'prd'", cause="known contexts: dev, prod", hint="run seamark context list"
    ),
    errors.MissingSettingError(
        "setting connect.game.urls is missing",
        cause="not in SEAMARK_CONNECT_URLS\nnot in /etc/seamark/config.yaml",
        hint="add the URL of at least one worker, such as http://connect-1:8083",
        context={"setting": "connect.game.urls"},
    ),
    errors.InvalidSettingError(
        "invalid value 'soon' for in_flight_timeout: expected a duration such as 90s",
        cause="seamark.yaml, line 12, column 16",
        hint="use a duration: 90s, 5m",
        context={"setting": "in_flight_timeout", "origin": "seamark.yaml:12"},
    ),
    errors.SecretError(
        "the reference in connect.game.password can't be resolved: secret://env/GAME_PASSWORD",
        cause="seamark.yaml, line 9: the variable is not set",
        hint="set GAME_PASSWORD",
        context={"setting": "connect.game.password", "reference": "secret://env/GAME_PASSWORD"},
    ),
    errors.SpecError(
        "unknown key 'connectrs' in a spec file",
        cause="config/game.yaml, line 3, column 1",
        hint="use connectors",
        context={"file": "config/game.yaml"},
    ),
    errors.AccessError("access to lake archive was denied", cause="S3 answered 403", hint="check its credentials"),
    errors.AuthenticationError(
        "Connect cluster game rejected the credentials",
        cause="401 Unauthorized: password=hunter2 is wrong",
        hint="check username and password of connect.game",
        context={"cluster": "game"},
    ),
    errors.AuthorizationError(
        "Kafka doesn't allow ALTER_CONFIGS on topic orders; no changes were made",
        cause="TOPIC_AUTHORIZATION_FAILED",
        hint="add an ACL with kafka-acls.sh --add --operation AlterConfigs --topic orders",
        context={"missing": "AlterConfigs topic orders"},
    ),
    errors.PermissionDeniedError(
        "your roles don't allow topics.delete; no changes were made",
        cause="kim has the role operator",
        hint="ask an owner of context prod",
        context={"permission": "topics.delete"},
    ),
    errors.RefusedError(
        "refusing to modify internal topic connect-offsets (used by Connect)",
        hint="use kafka-topics.sh if you really need to",
        context={"topic": "connect-offsets"},
    ),
    errors.UntrustedSettingError(
        "credentials of connect.game would be sent to an address from a project file",
        cause="urls: seamark.yaml, line 4; password: user file, line 8",
        hint="set urls in the user file",
        context={"setting": "connect.game.urls"},
    ),
    errors.UnsupportedError(
        "Connect 3.4.1 can't stop connectors; no changes were made",
        cause="PUT /connectors/NAME/stop exists since 3.5",
        hint="use connect-offsets --import while all workers are down",
        context={"cluster": "game", "version": "3.4.1"},
    ),
    errors.LockedError(
        "connector/game/log-guild is being changed by another process",
        cause="change 01JCQ8 of kim on ops-2, started 2026-11-14T12:04:31Z, at step 2 of 5",
        hint="wait until it has finished, or run: seamark journal show 01JCQ8",
        context={"change": "01JCQ8"},
    ),
    errors.StaleFilesError(
        "another process changed 3 files of the table in the meantime; no changes were made",
        cause="for example part-1.parquet",
        hint="try again",
    ),
    errors.StalePlanError(
        "the plan is out of date; no changes were made",
        cause="changed since: connector/game/log-guild",
        hint="create a new plan and review it",
    ),
    errors.FormatVersionError(
        "can't read export backup.json: found version 3, this seamark reads version 2",
        hint="upgrade seamark to the version that wrote it",
        context={"format": "export", "found": "3", "supported": "2"},
    ),
    errors.TamperedJournalError(
        "journal entry 7 of change 01JCQ8 has an invalid signature",
        cause="the entry was not written with the key of this journal",
        hint="check who can write to the journal topic",
        context={"change": "01JCQ8"},
    ),
    UNREACHABLE,
    errors.DeadlineError(
        "connector log-guild did not stop within 30 s", cause="state: RUNNING", hint="retry with a longer --timeout"
    ),
    errors.UnsettledError(
        "Connect cluster game is rebalancing", cause="409 Conflict for 60 s", hint="retry in a minute"
    ),
    errors.UnknownOutcomeError(
        "the outcome of pause connector/game/log-guild is unknown",
        cause="the connection was closed before an answer",
        hint="run: seamark journal resume 01JCQ8",
        context={"change": "01JCQ8"},
    ),
    errors.UndecidableError(
        "seamark can't determine whether the offsets of log-guild were written",
        cause="the connector has stored newer offsets since",
        hint="check the data, then run: seamark journal unlock 01JCQ8",
    ),
    errors.UnreadableOutcomeError(
        "the offsets of log-guild can't be read, so the connector stays stopped",
        cause="broker 1 does not respond",
        hint="run: seamark journal resume 01JCQ8",
    ),
    errors.RejectedError(
        "Connect rejected the config of log-guild",
        cause="400 Bad Request: tasks.max: must be at least 1",
        hint="correct the config",
        context={"cluster": "game"},
    ),
    errors.NotFoundError("connector log-gild not found", hint="check the name: log-guild", context={"cluster": "game"}),
    errors.AlreadyExistsError("topic orders exists already", hint="use seamark topics update orders"),
    errors.FencedError(
        "another process took over change 01JCQ8",
        cause="kim resumed it on ops-2",
        hint="run: seamark journal show 01JCQ8",
    ),
    errors.JournalError(
        "the journal can't be written; no changes were made",
        cause="NOT_ENOUGH_REPLICAS",
        hint="check topic seamark-journal: seamark topics health",
    ),
    errors.PartialError(
        "1 of 2 Connect clusters can't be read", failures={"logs": UNREACHABLE}, hint="run: seamark doctor"
    ),
    errors.DevstackError("could not build toxiproxy: go ended with 1", cause="go: no network", hint="install Go"),
    errors.InterruptedRunError("interrupted"),
)


def find_error_classes(folder=SOURCE):
    """Return the names of SeamarkError and of all classes below it, read from the source: some modules need extras."""
    bases = {}
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                named = [ast.unparse(base) for base in node.bases]
                # Click has a UsageError, too.
                known = {base.rpartition(".")[2] for base in named if not base.startswith("click.")}
                bases[node.name] = bases.get(node.name, set()) | known
    found = {SeamarkError.__name__}
    while more := {name for name, named in bases.items() if named & found} - found:
        found |= more
    return found


def test_every_class_has_one_error_here():
    assert sorted(type(error).__name__ for error in ERRORS) == sorted(find_error_classes())


def test_classes_in_packages_are_found(tmp_path):
    (tmp_path / "errors.py").write_text("class SeamarkError(Exception): ...\nclass AError(SeamarkError): ...\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.py").write_text(
        "class BError(errors.AError, ValueError): ...\nclass COther(ValueError): ...\n"
    )
    assert find_error_classes(tmp_path) == {"SeamarkError", "AError", "BError"}


@pytest.mark.parametrize("error", ERRORS, ids=[type(error).__name__ for error in ERRORS])
def test_error_as_printed(error, snapshot):
    text = run_seamark("status", fleet=StubFleet(error=error))
    document = run_seamark("status", "-o", "json", fleet=StubFleet(error=error))
    assert (text.code, text.out) == (document.code, document.out) == (error.exit_code, "")
    assert "hunter2" not in text.err + document.err
    assert f"exit code: {text.code}\n{text.err}{document.err}" == snapshot
