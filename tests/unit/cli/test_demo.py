"""The demo without servers: what is said, what is left out, and that the servers end whatever happens."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from seamark.cli.main import root
from seamark.demo import servers as demo_servers
from seamark.demo.chapter import EVERYWHERE, Act, Chapter, Event, Moment, Need
from seamark.demo.chapters import CHAPTERS
from seamark.demo.chapters.data import write_table_files
from seamark.demo.chapters.files import write_files
from seamark.demo.servers import Lack, run_servers
from seamark.demo.show import Audience, build_programme, run_show
from seamark.demo.stage import Stage
from seamark.errors import DevstackError, UsageError
from tests.unit.cli.stubs import run_seamark

PAGE = (Path(__file__).parents[3] / "docs" / "start" / "demo.md").read_text()
NAMES = [chapter.name for chapter in CHAPTERS]
STACK = SimpleNamespace(
    folder="/stack",
    kafka=SimpleNamespace(bootstrap_servers="127.0.0.1:9092"),
    connect={"connect": SimpleNamespace(urls=("http://127.0.0.1:8083",), worker_config="/stack/worker.properties")},
    postgres=None,
    s3=None,
)


def lack(*missing):
    """A machine that has everything but this."""
    return lambda needs: tuple(Lack(need, f"no {need}", f"get {need}") for need in needs if need in missing)


class Theatre:
    """Servers that only count how often they were started and ended."""

    def __init__(self):
        self.started = 0
        self.ended = []
        self.options = ()

    @contextlib.contextmanager
    def run(self, file, *, options, keep, tell):
        self.started += 1
        self.options = options
        tell("broker-1 ready after 1.0 s")
        try:
            yield STACK
        except BaseException as error:
            self.ended.append(type(error).__name__)
            raise
        else:
            self.ended.append("kept" if keep else "down")


def show(chapters, *, theatre, stdin=None, keep=False, missing=()):
    """Play chapters and give what was seen."""
    out = io.StringIO()
    audience = Audience(out, stdin=io.StringIO(stdin or ""), waits=stdin is not None)
    programme = build_programme(chapters=chapters, find=lack(*missing))
    run_show(programme, audience, keep=keep, servers=theatre.run)
    return out.getvalue()


@pytest.fixture
def theatre():
    return Theatre()


def test_acts_are_done_in_order_and_the_servers_end(theatre, capfd):
    happened = []
    chapter = Chapter(
        "one",
        "The first",
        (
            Act("We write.", "sh -c 'echo hello > note.txt; cat note.txt'", look="A word."),
            Act("It breaks.", event=Event("rm note.txt", lambda stage: (stage.folder / "note.txt").unlink())),
            Act("It ends badly.", "sh -c 'cat note.txt || exit 3'", codes=(3,)),
            Act("We wait.", until=Moment("it was seen twice", lambda _stage: happened.append(1) or len(happened) > 1)),
        ),
    )
    seen = show([chapter], theatre=theatre)
    assert theatre.ended == ["down"]
    assert len(happened) == 2
    wanted = [
        "1. The first",
        "We write.",
        "$ sh -c",
        "→ A word.",
        "> rm note.txt",
        "exit code 3",
        "until it was seen twice",
    ]
    assert [seen.index(words) for words in wanted] == sorted(seen.index(words) for words in wanted)
    assert "The demo is finished" in seen
    assert capfd.readouterr().out == "hello\n"


def test_quitting_ends_the_servers_and_runs_nothing_more(theatre, capfd):
    chapter = Chapter("one", "One", (Act("First.", "echo first"), Act("Second.", "echo second")))
    seen = show([chapter], theatre=theatre, stdin="\nq\n")
    assert theatre.ended == ["down"]
    assert capfd.readouterr().out == "first\n"
    assert "The demo was ended" in seen


def test_closed_input_is_taken_for_a_quit(theatre, capfd):
    show([Chapter("one", "One", (Act("First.", "echo first"),))], theatre=theatre, stdin="")
    assert theatre.ended == ["down"]
    assert capfd.readouterr().out == ""


def test_command_that_ends_otherwise_fails_the_demo_and_ends_the_servers(theatre):
    chapter = Chapter("one", "One", (Act("Wrong.", "sh -c 'exit 7'"),))
    with pytest.raises(DevstackError, match="ended with exit code 7"):
        show([chapter], theatre=theatre)
    assert theatre.ended == ["DevstackError"]


def test_interrupt_ends_the_servers(theatre):
    def interrupt(_stage):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        show([Chapter("one", "One", (Act("Stop.", event=Event("^C", interrupt)),))], theatre=theatre)
    assert theatre.ended == ["KeyboardInterrupt"]


def test_moment_that_never_comes_fails_at_its_deadline(theatre):
    act = Act("We wait.", until=Moment("pigs flew", lambda _stage: False, deadline_seconds=0.01))
    with pytest.raises(DevstackError, match="until pigs flew"):
        show([Chapter("one", "One", (act,))], theatre=theatre)
    assert theatre.ended == ["DevstackError"]


def test_chapter_whose_needs_are_missing_is_left_out_and_said(theatre):
    with_table = Chapter("table", "A table", (Act("Not played.", "sh -c 'exit 1'"),), needs=(Need.POSTGRES,))
    plain = Chapter("plain", "Plain", (Act("Played.", "true"),))
    seen = show([with_table, plain], theatre=theatre, missing=[Need.POSTGRES])
    assert "chapter 1, table, is skipped: it needs PostgreSQL (get PostgreSQL)" in seen
    assert "2. Plain" in seen
    assert "1. A table" not in seen
    assert theatre.options == ("--workers", "2")


def test_only_servers_that_a_chapter_can_use_are_started(theatre):
    wish = (Need.POSTGRES, Need.JDBC, Need.S3, Need.S3_SINK)
    show([Chapter("a", "A", (), wishes=wish)], theatre=theatre, missing=[Need.JDBC])
    assert theatre.options == ("--workers", "2", "--s3")
    show([Chapter("a", "A", (), wishes=wish)], theatre=theatre)
    assert theatre.options == ("--workers", "2", "--postgres", "--s3")


def test_set_up_comes_before_the_first_act(theatre, capfd):
    chapter = Chapter(
        "one", "One", (Act("Read.", "cat made.txt"),), set_up=lambda stage: (stage.folder / "made.txt").write_text("x")
    )
    show([chapter], theatre=theatre)
    assert capfd.readouterr().out == "x"


def test_keep_says_how_to_use_and_end_them(theatre, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    chapter = Chapter("one", "One", (Act("Look.", "true"),))
    seen = show([chapter], theatre=theatre, keep=True)
    folder = tmp_path / "state" / "seamark" / "demo"
    assert theatre.ended == ["kept"]
    assert f"$ python -m seamark.devstack down --file {folder}/stack.json" in seen
    assert "$ export SEAMARK_CONFIG=" in seen
    assert folder.is_dir()
    (folder / "stack.json").write_text("{}")
    with pytest.raises(DevstackError, match="still exist") as caught:
        show([chapter], theatre=theatre, keep=True)
    assert str(folder / "stack.json") in caught.value.hint
    assert theatre.started == 1


def test_commands_see_the_demo_and_nothing_of_the_users(tmp_path, monkeypatch):
    monkeypatch.setenv("SEAMARK_CONTEXT", "production")
    monkeypatch.setenv("SEAMARK_CONTEXTS__PRODUCTION__PROTECTED", "true")
    monkeypatch.setenv("SEAMARK_PLUGINS", "/jars")
    stage = Stage(STACK, folder=tmp_path, file=tmp_path / "stack.json")
    names = dict(line.split("=", 1) for line in stage.read("env").splitlines() if "=" in line)
    found = {name: value for name, value in names.items() if name.startswith("SEAMARK_")}
    assert found == {
        "SEAMARK_CONFIG": str(tmp_path / "seamark.yaml"),
        "SEAMARK_DEVSTACK": str(tmp_path / "stack.json"),
        "SEAMARK_PLUGINS": "/jars",
        "SEAMARK_COLOR": "auto",
    }
    assert names["XDG_STATE_HOME"] == str(tmp_path / "state")
    assert stage.read("seamark --version").startswith("seamark ")
    with pytest.raises(DevstackError, match="ended with exit code 64"):
        stage.read("seamark nonsense")


@pytest.mark.parametrize("folder", ["config", "table"])
def test_spec_of_the_chapters_is_allowed_by_the_context_of_the_demo(tmp_path, folder):
    (tmp_path / "buckets").mkdir()
    database = SimpleNamespace(host="127.0.0.1", port=5432, user="postgres", password="x", database="postgres")
    s3 = SimpleNamespace(endpoint="http://127.0.0.1:9000", data=str(tmp_path / "buckets"))
    (tmp_path / "worker.properties").write_text("group.id=demo\n")
    workers = SimpleNamespace(urls=("http://127.0.0.1:8083",), worker_config=str(tmp_path / "worker.properties"))
    stack = SimpleNamespace(**{**vars(STACK), "connect": {"connect": workers}, "postgres": database, "s3": s3})
    stage = Stage(stack, folder=tmp_path, file=tmp_path / "stack.json")
    stage.write_context()
    {"config": write_files, "table": write_table_files}[folder](stage)
    planned = json.loads(stage.read(f"seamark plan -f {folder} --offline -o json"))
    assert len(planned["items"]) == {"config": 3, "table": 2}[folder]


def fake_devstack(monkeypatch, folder, script):
    """A program that stands for devstack; it notes how it ends."""
    program = folder / "devstack.py"
    program.write_text(script)
    monkeypatch.setattr(demo_servers, "_DEVSTACK", (sys.executable, str(program)))


def test_servers_are_told_of_and_ended_by_their_own_way(tmp_path, monkeypatch):
    fake_devstack(
        monkeypatch,
        tmp_path,
        "import pathlib, signal, sys, time\n"
        "def end(*_):\n    pathlib.Path('ended').write_text(' '.join(sys.argv[1:]))\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('broker-1 ready after 1.0 s', flush=True)\n"
        "print('ready: 3 servers', flush=True)\n"
        "time.sleep(60)\n",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("seamark.devstack.load_stack", lambda file: f"stack of {file}")
    told = []

    def interrupt():
        with run_servers(Path("s.json"), options=("--workers", "2"), keep=False, tell=told.append) as stack:
            assert stack == "stack of s.json"
            assert not Path("ended").exists()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert told == ["broker-1 ready after 1.0 s"]
    assert Path("ended").read_text() == "up --foreground --workers 2 --name demo --file s.json"


def test_kept_servers_are_ended_by_a_failure_only(tmp_path, monkeypatch):
    fake_devstack(
        monkeypatch,
        tmp_path,
        "import pathlib, sys\n"
        "with open('calls', 'a') as file:\n    file.write(sys.argv[1] + '\\n')\n"
        "pathlib.Path('s.json').write_text('{}') if sys.argv[1] == 'up' else None\n"
        "print(\"the stack 'demo' is ready: 3 servers\", flush=True)\n",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("seamark.devstack.load_stack", lambda file: "stack")
    with run_servers(Path("s.json"), options=(), keep=True, tell=print):
        pass
    assert Path("calls").read_text().split() == ["up"]
    with (
        pytest.raises(DevstackError),
        run_servers(Path("s.json"), options=(), keep=True, tell=print),
    ):
        raise DevstackError("broken")
    assert Path("calls").read_text().split() == ["up", "up", "down"]


def test_servers_that_do_not_start_say_why(tmp_path, monkeypatch):
    fake_devstack(monkeypatch, tmp_path, "import sys\nprint('error: no port is free')\nsys.exit(1)\n")
    for keep in (False, True):
        with (
            pytest.raises(DevstackError, match="did not start") as caught,
            run_servers(tmp_path / "s.json", options=(), keep=keep, tell=lambda _line: None),
        ):
            raise AssertionError
        assert "no port is free" in caught.value.cause


def test_list_names_every_chapter_and_what_it_lacks(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SEAMARK_CACHE", str(tmp_path))
    ended = run_seamark("demo", "--list", "-o", "wide")
    assert ended.code == 0
    assert all(re.search(rf"^ *{number} +{name} ", ended.out, re.MULTILINE) for number, name in enumerate(NAMES, 1))
    assert "name it in SEAMARK_PLUGINS" in ended.out
    assert run_seamark("demo", "--list", "-o", "name").out.split() == NAMES


def test_machine_without_java_and_maven_is_told_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("SEAMARK_CACHE", str(tmp_path))
    ended = run_seamark("demo")
    assert ended.code == 1
    assert "the demo needs Java 17 and Kafka's jars" in ended.err
    assert "apt-get install openjdk-17-jre-headless" in ended.err
    assert "apt-get install maven" in ended.err


def test_chapters_are_chosen_by_number_or_name():
    chosen = build_programme(("undo", "1"), find=lack())
    assert [entry.chapter.name for entry in chosen.played] == [NAMES[0], "undo"]
    with pytest.raises(UsageError) as caught:
        build_programme(("nope",), find=lack())
    assert all(name in caught.value.hint for name in NAMES)


def test_chosen_chapter_that_can_not_be_played_is_refused():
    with pytest.raises(DevstackError, match="table can't run") as caught:
        build_programme(("table",), find=lack(Need.JDBC)).check()
    assert caught.value.hint == f"get {Need.JDBC}"


def test_names_and_needs_are_sound():
    assert len(set(NAMES)) == len(NAMES)
    assert not any(name.isdigit() for name in NAMES)
    for chapter in CHAPTERS:
        assert not set(chapter.needs) & set(EVERYWHERE)
        assert all(act.command or act.event or act.until for act in chapter.acts)


COMMANDS = [act.command for chapter in CHAPTERS for act in chapter.acts if act.command.startswith("seamark ")]


@pytest.mark.parametrize("command", sorted(set(COMMANDS)))
def test_every_command_of_the_chapters_can_be_parsed(command):
    words = shlex.split(command)[1:]
    found, context = root, click.Context(root)
    while isinstance(found, click.Group):
        found = found.get_command(context, words.pop(0))
    assert found is not None
    found.make_context(found.name, words)


def test_page_names_every_chapter_and_need():
    rows = re.findall(r"^\| (\d+) \| `([a-z-]+)` \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
    assert [(int(number), name, title.strip()) for number, name, title, _ in rows] == [
        (number, chapter.name, chapter.title) for number, chapter in enumerate(CHAPTERS, 1)
    ]
    for (*_, needs), chapter in zip(rows, CHAPTERS, strict=True):
        assert needs.strip() == (", ".join(chapter.needs) or "-")
