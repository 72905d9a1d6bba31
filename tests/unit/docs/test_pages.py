"""Every command block of the pages is run by a test, or says why it can't be; how a page is read and compared."""

from __future__ import annotations

import re

import pytest

from tests.unit.test_ci_shares import read_shares
from tools.pages.blocks import ROOT, Block, Command, PageError, list_pages, parse_page, read_page, split_console
from tools.pages.compare import compare, match
from tools.pages.runner import PageFailureError, Runner
from tools.pages.session import Session, SessionError, split_shell
from tools.pages.stage import SETUPS, build_spec

# The command blocks that no test runs, each with its reason. Add one only if no server of ours can run it.
SKIPPED = {
    "docs/runbooks/journal-topic-lost.md": 1,
    "docs/runbooks/moved-to-another-cluster.md": 1,
    "docs/runbooks/offsets-topic-deleted.md": 1,
    "docs/runbooks/offsets-topic-repartitioned.md": 1,
}

NOT_YET = {"docs/how-to/pipelines.md"}


@pytest.mark.parametrize("path", list_pages())
def test_every_command_block_is_run_or_says_why_not(path):
    page = read_page(path)
    if page.servers is None and page.test is None and path not in NOT_YET:
        left = [f"{path}:{block.line}" for block in page.commands if block.find("skip") is None]
        assert left == [], "add <!-- run: servers … --> to the page, see CONTRIBUTING.md"
    assert page.servers is None or page.test is None
    if page.servers is not None:
        build_spec(page.servers)
    if page.test is not None:
        name = path.rpartition("/")[2]
        assert name in (ROOT / page.test).read_text(encoding="utf-8"), f"{page.test} doesn't run {name}"
    for part in page.parts:
        if not isinstance(part, Block) and part.name == "setup":
            assert (SETUPS / f"{part.value}.sh").exists()


def test_blocks_that_are_not_run_are_few_and_known():
    skipped = {path: read_page(path).skipped for path in list_pages()}
    assert {path: len(blocks) for path, blocks in skipped.items() if blocks} == SKIPPED
    for blocks in skipped.values():
        assert all(len((block.find("skip") or "").split()) >= 4 for block in blocks), "a reason is a sentence"


def test_every_page_that_is_run_is_in_a_share():
    listed = {case for _, kind, test in read_shares() if kind == "pages" for case in re.findall(r"\[(.+)\]", test)}
    pages = {path.removeprefix("docs/").removesuffix(".md") for path in list_pages() if read_page(path).servers}
    assert listed == pages


PAGE = """# A page

<!-- run: servers postgres workers=2 -->
<!-- run: shell
echo "a > b"
  echo indented
-->

```console
$ seamark one \\
    --more
printed
$ seamark two <<END
input
END
> not a prompt
```

1. A list.

   <!-- run: exit 2 -->
   <!-- run: exact -->
   ```sh
   seamark three
   ```

````md
<!-- run: unknown -->
```sh
inner
```
````

```
$ a prompt without a kind
```

```yaml
not: a command
```
"""


def test_a_page_is_read_with_its_comments():
    page = parse_page("a.md", PAGE)
    assert (page.servers, page.test, page.context) == ("postgres workers=2", None, "dev")
    assert build_spec(page.servers).workers == 2
    step, console, listed, nested, bare, yaml = page.parts
    assert (step.name, step.value) == ("shell", 'echo "a > b"\n  echo indented')
    assert split_console(console.text) == [
        Command("seamark one \\\n    --more", ("printed",)),
        Command("seamark two <<END\ninput\nEND", ("> not a prompt",)),
    ]
    assert (listed.text, listed.find("exit"), listed.find("exact"), listed.find("stop")) == (
        "seamark three\n",
        "2",
        "",
        None,
    )
    assert nested.text == "<!-- run: unknown -->\n```sh\ninner\n```\n"
    assert [block.is_command for block in (console, listed, nested, bare, yaml)] == [True, True, False, True, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- run: sevrers none -->", "unknown comment 'run: sevrers'"),
        ("<!-- run: skip for a reason -->\ntext", "no block after 'run: skip'"),
        ("<!-- run: shell\necho a\n", "the comment has no end"),
        ("<!-- run: servers none -->\n<!-- run: servers s3 -->", "a second 'run: servers'"),
    ],
)
def test_a_wrong_comment_is_an_error(text, message):
    with pytest.raises(PageError, match=re.escape(message)):
        parse_page("a.md", text)


@pytest.mark.parametrize("word", ["postgers", "workers=two", "connect_versions"])
def test_a_word_that_names_no_server_is_an_error(word):
    with pytest.raises(PageError, match=f"unknown server '{word}'"):
        build_spec(word)


def test_a_page_may_have_connect_clusters_of_several_versions():
    spec = build_spec("postgres connect_versions=4.3.1,3.4.1")
    assert (spec.postgres, spec.connect_versions) == (True, ("4.3.1", "3.4.1"))


def test_numbers_may_differ_unless_the_page_says_exact():
    assert compare(["3,214 rows of log-1"], "40 rows of log-2", exact=True) == "3,214 rows of log-1"
    assert compare(["3,214 rows of log-1"], "40 rows of log-2") is None
    assert compare(["rows"], "row") == "rows"


def test_change_ids_of_the_page_are_bound_to_those_that_were_printed():
    shown, printed = "01M7FJY413QE26J423R8F2YT91", "01M7GC1ER413Y9K0RRV1T04155"
    assert match([f"Change {shown}, 2 steps"], f"  Change {printed}, 2 steps") == (None, {shown: printed})


def test_a_shell_block_is_split_into_whole_commands():
    text = "# first\na=1\n\nfor n in 1 2; do\n  echo $n\ndone\ncat <<'END'\nx\nEND\necho \\\n  more  # end\n"
    assert split_shell(text) == [
        "a=1",
        "for n in 1 2; do\n  echo $n\ndone",
        "cat <<'END'\nx\nEND",
        "echo \\\n  more  # end",
    ]
    with pytest.raises(SessionError, match="not a complete shell command"):
        split_shell("echo 'open\n")


@pytest.fixture
def run(tmp_path):
    def run(text):
        with Session(tmp_path, {"PATH": "/usr/bin:/bin"}) as session:
            runner = Runner(parse_page("a.md", text), session, say=lambda _: None)
            runner.run()
        return runner

    return run


ASK = """<!-- run: shell
ask() { read -rp "Type yes to continue, or use --yes: " answer; echo "answered $answer"; }
-->
"""


def test_blocks_share_a_shell_and_questions_are_answered(run):
    runner = run(
        ASK + "```sh\nname=lake\n```\n```console\n$ echo $name\nlake\n$ ask\n"
        "Type yes to continue, or use --yes: yes\nanswered yes\n```\n"
    )
    assert runner.ran == 3
    assert runner.last.was_asked


def test_a_block_is_written_to_a_file_and_output_compared(run):
    page = (
        "<!-- run: file lake.yaml -->\n```yaml\na: $HOME\n```\n```sh\ncat lake.yaml\n```\n"
        "<!-- run: output -->\n```text\na: $HOME\n```\n<!-- run: with tr a-z A-Z -->\n```sql\nselect 1\n```\n"
        "<!-- run: output -->\n```\nSELECT 1\n```\n"
    )
    assert run(page).last.text == "SELECT 1\n"


def test_names_and_changes_of_the_page_are_replaced(run):
    runner = run(
        "<!-- run: replace HOST:9092 $(echo local:1) -->\n```console\n"
        "$ echo Change 01M7GC1ER413Y9K0RRV1T04155 done in 3 s at HOST:9092\n"
        "Change 01M7GC1ER413Y9K0RRV1T04155 done in 9 s at HOST:9092\n```\n"
        "```console\n$ echo CHANGE 01M7GC1\n01M7GC1ER413Y9K0RRV1T04155 01M7GC1ER413Y9K0RRV1T04155\n```\n"
    )
    assert runner.ran == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```sh\nexit_with() { return $1; }\nexit_with 64\n```", "exit code 64, expected 0"),
        ("<!-- run: exit 2 -->\n```sh\n(exit 64)\n```", "exit code 64, expected 2"),
        ("<!-- run: once -->\n<!-- run: exact -->\n```console\n$ echo a 1\na 2\n```", "not printed:\na 2"),
        ("<!-- run: once -->\n```sh\necho a\n```\n```text\nb\n```", "not printed:\nb"),
        ("<!-- run: once -->\n```console\n$ echo a\nb\n```", "not printed:\nb"),
        ("<!-- run: once -->\n```sh\necho a\n```\n<!-- run: output -->\n```\nb\n```", "not printed:\nb"),
        ("<!-- run: shell\nfalse\ntrue\n-->", "the shell ended in"),
    ],
)
def test_a_page_that_does_not_hold_fails(run, text, message):
    with pytest.raises((PageFailureError, SessionError), match=re.escape(message)):
        run(text)


def test_a_command_without_an_end_is_stopped(run):
    assert run("<!-- run: stop 1 -->\n```sh\nsleep 60\n```\n").ran == 1
