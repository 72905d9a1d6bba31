"""The pace of a context: how fast changes are applied, and who may make them faster."""

from __future__ import annotations

import pytest

from seamark.context import PaceSettings
from seamark.errors import ConfigurationError

PROD = "current: prod\ncontexts:\n  prod:\n    connect: {game: {urls: 'http://w:8083'}}\n"


def test_without_the_key_there_is_no_pace(workplace):
    workplace.write(PROD)
    assert workplace.open().pace is None


@pytest.mark.parametrize(
    ("text", "pace"),
    [
        ("{parallel: 4}", PaceSettings(4, wait_stable=False)),
        ("{parallel: 4, wait_stable: true}", PaceSettings(4, wait_stable=True)),
        ("{wait_stable: true}", PaceSettings(16, wait_stable=True)),
    ],
)
def test_the_keys_are_read_with_their_origins(workplace, text, pace):
    workplace.write(f"{PROD}    pace: {text}\n")
    assert workplace.open().pace == pace
    assert {origin for key, origin in workplace.origins().items() if key.startswith("pace.")} == {"seamark.yaml:5"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{parallel: 0}", "pace.parallel is not a number of at least 1"),
        ("{parallel: -1}", "pace.parallel is not a number of at least 1"),
        ("{parallel: 1.5}", "pace.parallel is not a number of at least 1"),
        ("{parallel: '٤'}", "pace.parallel is not a number of at least 1"),
        ("{parallel: 10000000}", "pace.parallel is not a number of at least 1"),
        ("{wait_stable: soon}", "pace.wait_stable"),
        ("{batch: 1}", "unknown key contexts.prod.pace.batch"),
        ("4", "seamark.yaml can.t be used"),
    ],
)
def test_what_is_no_pace_is_refused(workplace, text, said):
    workplace.write(f"{PROD}    pace: {text}\n")
    with pytest.raises(ConfigurationError, match=said):
        workplace.open()


def test_a_project_file_or_a_variable_makes_changes_no_faster(workplace):
    workplace.write_user(f"{PROD}    pace: {{parallel: 2, wait_stable: true}}\n")
    workplace.write("contexts: {prod: {pace: {parallel: 100, wait_stable: false}}}\n")
    workplace.environ["SEAMARK_CONTEXTS__PROD__PACE__PARALLEL"] = "50"
    assert workplace.open().pace == PaceSettings(2, wait_stable=True)


def test_a_variable_sets_the_pace_that_no_file_sets(workplace):
    workplace.write_user(PROD)
    workplace.environ["SEAMARK_CONTEXTS__PROD__PACE__PARALLEL"] = "5"
    assert workplace.open().pace == PaceSettings(5)


def test_project_can_not_change_more_at_once_than_the_default_of_the_pace_that_the_user_sets(workplace):
    workplace.write_user(f"{PROD}    pace: {{wait_stable: true}}\n")
    workplace.write("contexts: {prod: {pace: {parallel: 1000}}}\n")
    assert workplace.open().pace == PaceSettings(wait_stable=True)
    workplace.write("contexts: {prod: {pace: {parallel: 4}}}\n")
    assert workplace.open().pace == PaceSettings(4, wait_stable=True)
