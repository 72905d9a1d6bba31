"""Which files make a spec, what it is called, and what is defined twice."""

from __future__ import annotations

import socket
import time

import pytest

from seamark.errors import SpecError
from seamark.specs import load_spec
from seamark.specs.files import normalize_address

ONE = "connectors: [{{name: {}, config: {{connector.class: A}}}}]\n"


def test_a_folder_is_read_to_its_depth_without_hidden_and_underscored_files(folder):
    for name in ("b/deep/x.yml", "a.YAML", "_left/out.yaml", ".hidden/no.yaml", "_no.yaml", ".no.yaml", "notes.md"):
        folder.write(name, ONE.format(name.replace("/", "-")))
    folder.write("p.properties", "name=p\nconnector.class=P\n")
    assert list(folder.configs()) == ["a.YAML", "p", "b-deep-x.yml"]
    assert [file.removeprefix(f"{folder.path}/") for file in folder.load().files] == [
        "a.YAML", "p.properties", "b/deep/x.yml",
    ]  # fmt: skip


def test_properties_are_read_as_a_standalone_worker_reads_them(folder):
    folder.write("p.properties", "# c\nname = p\\u00e9\nconnector.class: P\nquery = SELECT \\\n   1\nk=1\nk=2\n")
    found = folder.connectors()["pé"]
    assert dict(found.config) == {"connector.class": "P", "query": "SELECT 1", "k": "2"}
    assert found.place.line == 2
    folder.write("p.properties", "a=\\u00zz\n")
    assert folder.fail().cause.startswith("p.properties:1:1: ")
    folder.write("p.properties", "a=1\n")
    assert "name is missing" in folder.fail().cause


def test_links_within_the_folder_are_followed_once(folder):
    real = folder.write("real/x.yaml", ONE.format("x"))
    (folder.path / "a-link.yaml").symlink_to(real)
    (folder.path / "b-link").symlink_to(real.parent)
    (folder.path / "loop").symlink_to(folder.path)
    folder.write("..data/y.yaml", ONE.format("y"))
    (folder.path / "y.yaml").symlink_to(folder.path / "..data" / "y.yaml")
    assert sorted(folder.configs()) == ["x", "y"]


@pytest.mark.parametrize("target", ["../outside.yaml", "/etc", "gone.yaml"])
def test_links_that_leave_the_folder_are_refused(folder, target):
    folder.write("../outside.yaml", ONE.format("x"))
    folder.write("x.yaml", ONE.format("y"))
    (folder.path / "link.yaml").symlink_to(target)
    assert folder.fail().cause.startswith("link.yaml: the link")


def test_defaults_behind_a_link_that_leaves_are_refused(folder):
    folder.write("../outside.yaml", "defaults: {}\n")
    folder.write("x.yaml", ONE.format("y"))
    (folder.path / "_defaults.yaml").symlink_to("../outside.yaml")
    assert folder.fail().cause.endswith("_defaults.yaml: the link's target is outside of the folder")


def test_two_files_that_define_one_name_are_both_named(folder):
    folder.write("a.yaml", ONE.format("x"))
    folder.write("b.json", '\n{"name": "x", "connector.class": "A"}')
    error = folder.fail()
    assert isinstance(error, SpecError)
    assert error.message == "connector x is defined twice"
    assert error.cause == "a.yaml:1:14 and b.json:2:1"


def test_one_name_in_two_clusters_is_two_connectors(folder):
    folder.write("a.yaml", "cluster: a\n" + ONE.format("x"))
    folder.write("b.yaml", "cluster: b\n" + ONE.format("x"))
    assert list(folder.configs()) == ["a/x", "b/x"]


def test_a_topic_defined_twice_is_refused_too(folder):
    folder.write("a.yaml", "topics: {t: {}}\n")
    folder.write("b.yaml", "topics: {t: {}}\n")
    assert folder.fail().message == "topic t is defined twice"


def test_rows_that_give_one_name_are_refused(folder):
    folder.write("a.yaml", "each:\n- name: x\n  for: [{a: 1}, {a: 2}]\n  config: {connector.class: A}\n")
    assert folder.fail().cause == "a.yaml:3:9 and a.yaml:3:17"


@pytest.mark.parametrize(
    ("name", "problem"), [("gone", "gone does not exist or is not a file"), ("notes.md", "notes.md can't be used")]
)
def test_a_path_that_can_not_be_used_is_an_error(folder, name, problem):
    folder.write("notes.md", "")
    assert folder.fail(name).message.endswith(problem)


def test_a_file_that_is_not_text_says_the_line(folder):
    folder.write("a.yaml", "")
    (folder.path / "a.yaml").write_bytes(b"a: 1\nb: \xff\n")
    assert folder.fail().cause == "a.yaml:2: it is not UTF-8 text"


def test_a_byte_order_mark_is_no_part_of_the_text(folder):
    folder.write("a.yaml", "\ufeff" + ONE.format("x"))
    assert list(folder.configs()) == ["x"]


def test_the_id_is_named_by_the_folder_that_is_given(folder):
    folder.environ["STAGE"] = "dev"
    folder.write("_defaults.yaml", "spec: game-${{ env.STAGE }}\n")
    folder.write("sub/x.yaml", ONE.format("x"))
    assert folder.load().id == "game-dev"
    # A part of the folder must not pass for the whole: an apply of it would delete the rest.
    assert folder.load("sub").id == f"{socket.gethostname()}:{folder.path}/sub"
    assert folder.load("sub", "sub/x.yaml").id.count(",") == 1


def test_the_id_comes_from_the_repository(folder):
    folder.write(
        "../.git/config",
        '[core]\n\tbare = false\n[remote "up"]\n\turl = x\n[remote "origin"]\n\turl = https://me:tok@git.example/a/b.git\n',
    )
    folder.write("x.yaml", ONE.format("x"))
    assert folder.load().id == "git.example/a/b//config"
    assert load_spec([folder.path.parent], environ={}).id == "git.example/a/b//"


def test_a_second_work_tree_has_the_same_id(folder):
    folder.write("../main/.git/config", '[remote "origin"]\n url = git@git.example:a/b\n')
    folder.write("../main/.git/worktrees/w/commondir", "../..\n")
    folder.write("../w/.git", "gitdir: ../main/.git/worktrees/w\n")
    folder.write("../w/config/x.yaml", ONE.format("x"))
    assert folder.load("../w/config").id == "git.example/a/b//config"


def test_without_a_remote_the_id_is_of_this_machine(folder):
    folder.write(".git/config", "[core]\n")
    folder.write("x.yaml", ONE.format("x"))
    assert folder.load().id == f"{socket.gethostname()}:{folder.path}"


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example/a/b.git",
        "https://user:pass@git.example/a/b/",
        "ssh://git@git.example:22/a/b.git",
        "git@git.example:a/b.git",
        "git@GIT.example:/a/b",
        "git://git.example/a/b",
    ],
)
def test_one_repository_has_one_address(url):
    assert normalize_address(url) == "git.example/a/b"


def test_a_large_fleet_loads_in_linear_time(folder):
    def load_cpu_seconds(files: int) -> float:
        for number in range(files):
            rows = [f"  - name: c-{number}-{row}\n    config:\n" for row in range(50)]
            keys = "".join(f"      some.key.{key}: some value {key}\n" for key in range(12))
            text = "defaults:\n  connector.class: A\nconnectors:\n" + "".join(row + keys for row in rows)
            folder.write(f"{files}/f{number}.yaml", text)
        begin = time.process_time()
        spec = folder.load(str(files))
        assert len(spec.connectors) == files * 50
        return time.process_time() - begin

    load_cpu_seconds(2)
    # A machine that is taken away for a while counts for the process: the best of three pairs tells.
    pairs = [(load_cpu_seconds(8), load_cpu_seconds(40)) for _ in range(3)]
    # 2,000 connectors are a fifth of the fleet that must load in 3 s; it takes a quarter of that on a busy machine.
    assert min(large for _, large in pairs) < 2.0
    assert min(large / small for small, large in pairs) < 5 * 3
