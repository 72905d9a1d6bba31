"""The command tree: summaries, examples, help that fits a screen, and the words of other tools."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from seamark.cli.main import root
from seamark.cli.tree import GLOBAL_LINE, OPTIONS, VERBS, GlobalOption, HelpGroup, read_summary
from tests.unit.cli.stubs import run_seamark
from tests.unit.cli.test_options import LEAVES, walk
from tests.unit.docs.test_commands import check_command

COMMANDS = [(path, command) for path, command in walk(root) if path]
GROUPS = [(path, command) for path, command in walk(root) if isinstance(command, HelpGroup)]


def read_help(*path):
    """Return the help of a command on a terminal of 80 columns."""
    context = click.Context(root, info_name="seamark", terminal_width=80, help_option_names=["-h", "--help"])
    command = root
    for name in path:
        command = command.get_command(context, name)
        context = click.Context(command, info_name=name, parent=context)
    return command.get_help(context)


def name_commands(found):
    return pytest.mark.parametrize(("path", "command"), found, ids=[" ".join(path) or "root" for path, _ in found])


@name_commands(COMMANDS)
def test_summary_is_short(path, command):
    summary = read_summary(command)
    assert 0 < len(summary) <= 50
    assert not summary.endswith(".")


@name_commands(LEAVES)
def test_every_command_has_examples_that_can_be_parsed(path, command):
    assert command.examples
    for example in command.examples:
        words = shlex.split(example.removeprefix('eval "$(').removesuffix(')"').partition(" > ")[0])
        assert words[: len(path) + 1] == ["seamark", *path]
        check_command(words[1:])
        assert f"\n  {example}\n" in read_help(*path)
        assert len(example) <= 78


@name_commands(GROUPS)
def test_no_summary_is_cut(path, command):
    shown = read_help(*path)
    for name in command.list_commands(click.Context(command)):
        found = command.get_command(click.Context(command), name)
        assert [line for line in shown.splitlines() if line.split()[:1] == [name] and read_summary(found) in line]


@name_commands(COMMANDS)
def test_global_options_have_one_line(path, command):
    shown = read_help(*path)
    assert "--no-headers" not in shown
    has_them = any(isinstance(param, GlobalOption) for param in command.params)
    assert has_them or isinstance(command, click.Group) or path == ("completion",)
    assert shown.endswith(GLOBAL_LINE)


@name_commands(COMMANDS)
def test_no_environment_variable_is_in_the_help(path, command):
    assert "SEAMARK_" not in read_help(*path)


@name_commands(COMMANDS)
def test_options_say_what_they_take(path, command):
    assert not re.search(r"\b(TEXT|INTEGER|FLOAT|RANGE|PLACE|DIRECTORY|FILENAME)\b", read_help(*path))


def test_help_fits_a_screen():
    assert len(read_help().splitlines()) <= 60
    assert len(read_help("offsets", "move").splitlines()) <= 40


def test_root_help_has_sections():
    titles = [line.removesuffix(":") for line in read_help().splitlines() if line.endswith(":")]
    assert titles == ["Inspect and change", "As code", "History", "Data jobs", "Set up", "Global options"]


@name_commands(GROUPS)
def test_synonyms_are_no_commands_and_lead_to_some(path, command):
    for word, target in command.synonyms.items():
        assert command.get_command(click.Context(command), word) is None, word
        if not target.startswith("-"):
            check_command([one for one in target.split() if not one.startswith("-")])


def test_verbs_lead_to_verbs_of_some_group():
    known = {name for _, command in GROUPS for name in command.list_commands(click.Context(command))}
    assert {verb for verbs in VERBS.values() for verb in verbs} <= known


def test_options_lead_to_options_of_some_command():
    known = {name for _, command in COMMANDS for param in command.params for name in param.opts}
    for rights in OPTIONS.values():
        for right in rights:
            assert {word for word in right.split() if word.startswith("--")} <= known


# What users of other tools type, and what seamark answers: "" if it is a command of seamark as well.
TYPED = {
    "kcctl": [
        ("info", "seamark status"),
        ("get connectors", "seamark connectors list"),
        ("get plugins", "seamark plugins list"),
        ("get loggers", "seamark loggers list"),
        ("get logger org.apache.kafka", "seamark loggers list org.apache.kafka"),
        ("get offsets log-guild", "seamark offsets show log-guild"),
        ("describe connector log-guild", "seamark connectors show log-guild"),
        ("describe plugin FileStreamSource", "seamark plugins show FileStreamSource"),
        ("apply -f connector.json", ""),
        ("patch connector log-guild -s tasks.max=2", "seamark connectors update log-guild"),
        ("patch logger org.apache.kafka -l DEBUG", "seamark loggers set org.apache.kafka LEVEL"),
        (
            "patch offsets log-guild --kafka-topic orders --kafka-partition 0 --kafka-offset 5",
            "seamark offsets move log-guild",
        ),
        ("delete offsets log-guild", "seamark offsets reset log-guild"),
        ("delete connector log-guild", "seamark connectors delete log-guild"),
        ("pause connector log-guild", "seamark connectors pause log-guild"),
        ("resume connector log-guild", "seamark connectors resume log-guild"),
        ("stop connector log-guild", "seamark connectors stop log-guild"),
        ("restart connector log-guild", "seamark connectors restart log-guild"),
        ("restart task log-guild/0", "seamark connectors restart log-guild"),
        ("config set-context dev --cluster http://localhost:8083", "seamark context add dev"),
        ("config use-context dev", "seamark context use dev"),
        ("config get-contexts", "seamark context list"),
        ("config current-context", "seamark context show"),
    ],
    "kubectl": [
        ("get connectors -o wide", "seamark connectors list"),
        ("get connector log-guild", "seamark connectors show log-guild"),
        ("get connector/log-guild -o yaml", "seamark connectors show log-guild"),
        ("get topics", "seamark topics list"),
        ("describe connector/log-guild", "seamark connectors show log-guild"),
        ("edit connector log-guild", "seamark connectors update log-guild"),
        ("scale connector/log-guild --replicas=4", "seamark connectors update log-guild"),
        ("logs connector/log-guild", "seamark connectors show log-guild"),
        ("delete topic orders", "seamark topics delete orders"),
        ("delete -f config/", "seamark destroy -f config/"),
        ("create -f connector.json", "seamark connectors create -f connector.json"),
        ("replace -f connector.json", "seamark connectors update NAME -f connector.json"),
        ("apply -f config/ --dry-run", ""),
        ("apply --filename config/", "--file PATH"),
        ("apply -k config/", "--file PATH"),
        ("diff -f config/", "seamark plan -f config/"),
        ("rollout restart connector/log-guild", "seamark connectors restart log-guild"),
        ("rollout undo connector/log-guild", "seamark journal undo CHANGE"),
        ("rollout history connector/log-guild", "seamark journal list"),
        ("config view", "seamark context show"),
        ("cluster-info", "seamark status"),
        ("connectors list -n game", "--context NAME"),
        ("version", "seamark --version"),
    ],
    "rpk": [
        ("topic list", "seamark topics list"),
        ("topic describe orders -p", "seamark topics show orders"),
        ("topic create orders -p 3 -r 3", "seamark topics create orders"),
        ("topic delete orders", "seamark topics delete orders"),
        ("topic alter-config orders --set retention.ms=3600000", "seamark topics update orders"),
        ("topic add-partitions orders --num 3", "seamark topics add-partitions orders"),
        ("topics add-partitions orders --num 3", "--total N"),
        ("group list", "seamark groups list"),
        ("group describe billing", "seamark groups show billing"),
        ("group seek billing --to start --topics orders", "seamark groups move billing"),
        ("groups move billing --to latest --topics orders", "--topic T[:0,1]"),
        ("group delete billing", "seamark groups delete billing"),
        ("group offset-delete billing -t orders:0,1", "seamark offsets reset group/billing"),
        ("cluster info", "seamark status"),
        ("profile list", "seamark context list"),
        ("profile use prod", "seamark context use prod"),
        ("profile create prod", "seamark context add prod"),
    ],
    "kafka-consumer-groups": [
        ("groups --bootstrap-server localhost:9092 --list", "seamark groups list"),
        ("groups --bootstrap-server localhost:9092 --describe --group billing", "seamark groups show billing"),
        ("groups --bootstrap-server localhost:9092 --describe --all-groups", "seamark groups list"),
        (
            "groups --bootstrap-server localhost:9092 --describe --group billing --members",
            "seamark groups show billing",
        ),
        ("groups --bootstrap-server localhost:9092 --delete --group billing", "seamark groups delete billing"),
        (
            "groups --bootstrap-server localhost:9092 --delete-offsets --group billing --topic orders",
            "seamark offsets reset group/billing",
        ),
        (
            "groups --bootstrap-server x:9092 --group billing --reset-offsets --to-earliest --topic orders --execute",
            "seamark groups move billing",
        ),
        (
            "consumer-groups --bootstrap-server x:9092 --group billing --reset-offsets --shift-by -10 --dry-run",
            "seamark groups move billing",
        ),
        ("kafka-consumer-groups --bootstrap-server localhost:9092 --list", "seamark groups list"),
        ("kafka-consumer-groups.sh --bootstrap-server x:9092 --describe --group g", "seamark groups show g"),
        ("--context prod groups --describe --group billing", "seamark groups show billing"),
        ("groups reset-offsets billing", "seamark groups move billing"),
        ("groups --reset-offsets", "seamark groups move NAME|GLOB..."),
        ("groups move billing --to-earliest --execute", "--to earliest"),
        ("groups move billing --to-latest", "--to latest"),
        ("groups move billing --to-current", "--to current"),
        ("groups move billing --to-offset 5", "--to OFFSET"),
        ("groups move billing --to-datetime 2026-11-14T12:00:00.000", "--to TIME"),
        ("groups move billing --by-duration PT1H", "--to -DURATION"),
        ("groups move billing --shift-by -10", "--shift N"),
        ("groups move billing --to latest --execute", "--yes"),
        ("groups list --bootstrap-server localhost:9092", "--context NAME"),
    ],
    "kafka-topics": [
        ("topics --describe", "seamark topics list"),
        ("kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic orders", "seamark topics show orders"),
        ("topics --bootstrap-server x:9092 --create --topic orders --partitions 3", "seamark topics create orders"),
        ("topics --alter --topic orders", "seamark topics update orders"),
        ("topics --alter --topic orders --partitions 6", "seamark topics add-partitions orders"),
        ("topics --delete --topic orders", "seamark topics delete orders"),
    ],
}

# Words from other tools that every group answers (`SYNONYM_WORDS`), and the command that is right. A group without
# such a command answers with its help.
SYNONYMS = {
    "connectors": ("show X", "show X", "update X", "offsets reset X", "delete X", "list X"),
    "offsets": ("show X", "show X", "move X", "move X", "reset X", "list X"),
    "topics": ("show X", "show X", "update X", "", "delete X", "list X"),
    "groups": ("show X", "show X", "move X", "move X", "delete X", "list X"),
    "workers": ("show X", "show X", "", "", "", "list"),
    "plugins": ("show X", "show X", "", "", "", "list X"),
    "loggers": ("list X", "list X", "set X LEVEL", "", "", "list X"),
    "copies": ("status X", "status X", "", "", "", "status X"),
    "pipelines": ("status X", "status X", "", "offsets move pipeline/X", "", "list X"),
    "journal": ("show X", "show X", "", "", "", "list X"),
    "context": ("show X", "show X", "", "", "remove X", "list"),
    "spark": ("", "", "", "", "", ""),
}
SYNONYM_WORDS = ("describe", "get", "alter", "reset-offsets", "rm", "ls")

# Names that seamark had before.
RENAMED = [
    ("connectors describe log-guild", "seamark connectors show log-guild"),
    ("workers describe w1:8083", "seamark workers show w1:8083"),
    ("workers get w1:8083", "seamark workers show w1:8083"),
    ("workers get", "seamark workers list"),
    ("describe worker w1:8083", "seamark workers show w1:8083"),
    ("connectors change log-guild", "seamark connectors update log-guild"),
    ("connectors plugins", "seamark plugins list"),
    ("connectors loggers set root debug", "seamark loggers set root debug"),
    ("offsets forget log-guild", "seamark offsets reset log-guild"),
    ("offsets mend log-guild", "seamark offsets repair log-guild"),
    ("topics alter orders", "seamark topics update orders"),
    ("topics grow orders", "seamark topics add-partitions orders"),
    ("copy run plan.json", "seamark copies run plan.json"),
    ("copy readers plan.json", "seamark copies consumers plan.json"),
    ("copy finish plan.json", "seamark copies cleanup plan.json"),
    ("land run payments", "seamark pipelines run payments"),
    ("offsets move log-guild --as-of 2026-11-14", "seamark offsets restore OWNER --at TIME"),
    ("offsets move log-guild --from backup.json", "--from-file FILE or --from-group GROUP"),
    ("offsets move log-guild --to 3 --accept-zombie", "--assume-worker-down"),
    ("offsets reset log-guild --wait 0s", "--progress-timeout DURATION"),
    ("connectors rename a b --accept-loss", "--allow-offset-loss"),
    ("copies cutover p --accept-debris", "--allow-aborted-records"),
    ("copies cutover p --leave g", "--exclude-group GROUP"),
    ("copies cutover p --missing earliest", "--default-offset earliest|latest"),
    ("copies cutover p --source s", "--source-connector CONNECTOR"),
    ("copies cleanup p --abandon g", "--ignore-group GROUP"),
    ("copies plan t --partitions 2 --to x", "--target NAME"),
    ("copies plan t --partitions 2 --from 5", "--start OFFSET|TIME"),
    ("copies plan t --partitions 2 --until 5", "--end OFFSET|TIME"),
    ("copies plan t --partitions 2 --rule crc32", "--partitioner NAME"),
    ("copies run p --lag 0", "--max-lag N"),
    ("offsets skip lake --lend a=b", "--temporary-config KEY=VALUE"),
    ("offsets skip lake --park t", "--dlq-topic TOPIC"),
    ("offsets skip lake --show", "--show-value"),
    ("offsets repair fs --take newest", "--prefer newest|LOCATION"),
    ("offsets relocate fs --workers", "--worker-topic"),
    ("status --every 5s", "--interval DURATION"),
    ("status --count 3", "--max-updates N"),
    ("pipelines submit p -f x --as airflow", "--format FORMAT"),
    ("demo --fast", "--no-pause"),
    ("demo --yes", "--no-pause"),
    ("topics create t --replication 3", "--replication-factor N"),
    ("topics update t --set a=b", "--config KEY=VALUE"),
    ("topics add-partitions t --to 3", "--total N"),
    ("connectors create -f c.json --state paused", "--initial-state STATE"),
    ("journal list --open", "--state open"),
    ("journal unlock 01A --id x", "--holder NONCE"),
    ("pull -f config", "--dir DIR"),
    ("spark pack --out x", "--dir DIR"),
    ("plugins list --differing", "--mismatched"),
    ("groups move g --to 3 --partition t:1", "--topic T[:0,1]"),
]


def test_enough_words_of_other_tools_are_known():
    assert sum(len(lines) for lines in TYPED.values()) >= 40
    assert all(len(TYPED[tool]) >= 10 for tool in ("kcctl", "kubectl", "rpk", "kafka-consumer-groups"))


def read_lines():
    found = [line for lines in (*TYPED.values(), RENAMED) for line in lines]
    return pytest.mark.parametrize(("line", "answer"), found, ids=[line for line, _ in found])


@read_lines()
def test_words_of_other_tools_are_answered_with_the_right_command(line, answer):
    words = line.split()
    if not answer:
        check_command(words)
        return
    ended = run_seamark(*words)
    assert (ended.code, ended.out) == (64, "")
    message, hint = ended.err.splitlines()
    assert message.startswith("error: unknown ")
    assert hint == (f"hint:  use {answer}" if answer.startswith("-") else f"hint:  use: {answer}")
    if answer.startswith("seamark") and not answer.endswith(("--version", " LEVEL")):
        check_command(answer.split()[1:])


def test_every_group_answers_the_synonyms():
    assert set(SYNONYMS) == {path[0] for path, _ in GROUPS if path}


@pytest.mark.parametrize("word", SYNONYM_WORDS)
@pytest.mark.parametrize("group", SYNONYMS)
def test_synonym_is_answered_with_the_right_command(group, word):
    right = SYNONYMS[group][SYNONYM_WORDS.index(word)]
    answer = right if right.startswith("offsets ") else f"{group} {right}"
    ended = run_seamark(group, word, "X")
    assert (ended.code, ended.out) == (64, "")
    message, hint = ended.err.splitlines()
    assert message == f"error: unknown command 'seamark {group} {word}'"
    assert hint == (f"hint:  use: seamark {answer}" if right else f"hint:  run: seamark {group} --help")


def test_unknown_word_is_answered_with_help():
    ended = run_seamark("connectors", "frobnicate")
    assert (
        ended.err == "error: unknown command 'seamark connectors frobnicate'\nhint:  run: seamark connectors --help\n"
    )
