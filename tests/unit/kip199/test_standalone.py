"""Whether a standalone worker runs, told by its process and by its listener."""

from __future__ import annotations

import socket
from threading import Thread

import pytest

from seamark.context import ConnectSettings
from seamark.errors import MissingSettingError, RefusedError
from seamark.kip199.standalone import build_urls, find_addresses, find_listener, find_process, is_answering
from seamark.kip199.steps import StandaloneFile

MAIN = "org.apache.kafka.connect.cli.ConnectStandalone"


class Machine:
    """A /proc of our own."""

    def __init__(self, folder):
        self.proc = folder / "proc"
        self.proc.mkdir()
        (self.proc / "self").mkdir()
        self.config = folder / "etc" / "worker.properties"
        self.config.parent.mkdir()
        self.file = folder / "data" / "connect.offsets"
        self.file.parent.mkdir()
        self.file.write_bytes(b"")
        self.config.write_text(f"offset.storage.file.filename={self.file}\n")

    def start(self, *words, pid=41, cwd="/", root="/"):
        place = self.proc / str(pid)
        place.mkdir()
        (place / "cmdline").write_bytes("\0".join(map(str, words)).encode() + b"\0")
        if cwd is not None:
            (place / "cwd").symlink_to(cwd)
        if root is not None:
            (place / "root").symlink_to(root)

    def find(self):
        return find_process(self.config, self.file, proc=self.proc)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_nobody(machine):
    machine.start("/usr/bin/vim", machine.config)
    machine.start("java", "-cp", "a:b", "kafka.Kafka", "/etc/server.properties", pid=42)
    (machine.proc / "43").mkdir()
    assert machine.find() == ""


def test_a_worker_with_these_properties_is_found(machine):
    machine.start("/opt/jdk/bin/java", "-Xmx1g", "-cp", "/a.jar:/b.jar", MAIN, machine.config, "/etc/fs.properties")
    assert machine.find() == f"process 41 was started with {machine.config}"


def test_a_path_from_its_own_folder_is_followed(machine):
    machine.start("java", MAIN, "../etc/worker.properties", cwd=machine.file.parent)
    assert "process 41 was started with" in machine.find()


def test_a_link_to_the_properties_is_the_same_file(machine, tmp_path):
    (tmp_path / "link.properties").symlink_to(machine.config)
    machine.start("java", MAIN, tmp_path / "link.properties")
    assert "process 41 was started with" in machine.find()


def test_a_worker_in_a_container_is_known_by_the_file_itself(machine, tmp_path):
    inside = tmp_path / "container"
    (inside / "conf").mkdir(parents=True)
    (inside / "conf" / "worker.properties").hardlink_to(machine.config)
    machine.start("java", MAIN, "/conf/worker.properties", root=inside)
    assert "process 41 was started with" in machine.find()


def test_other_properties_that_name_the_same_file_are_found(machine, tmp_path):
    other = tmp_path / "other.properties"
    other.write_text("offset.storage.file.filename=connect.offsets\n")
    machine.start("java", MAIN, other, cwd=machine.file.parent)
    assert machine.find() == f"process 41, a standalone worker, uses {machine.file}"
    other.write_text("offset.storage.file.filename=another.offsets\n")
    assert machine.find() == ""


def test_where_a_process_hides_its_folder_the_name_decides(machine):
    machine.start("java", MAIN, "worker.properties", cwd=None, root=None)
    assert "process 41 was started with" in machine.find()


def test_without_proc_nothing_is_found(machine, tmp_path):
    assert find_process(machine.config, machine.file, proc=tmp_path / "none") == ""


@pytest.fixture
def listener():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        yield made


def test_a_listener_is_found(listener):
    address = listener.getsockname()
    assert find_listener([address]) == ""
    listener.listen()
    assert find_listener([address]) == f"a process listens on 127.0.0.1:{address[1]}, the address of its worker"


def test_a_worker_that_answers_can_be_asked(listener, monkeypatch):
    monkeypatch.setattr("seamark.kip199.standalone._ANSWER_SECONDS", 0.05)
    address = listener.getsockname()
    assert not is_answering([])
    assert not is_answering([address])
    listener.listen()
    # It takes the connection and says nothing.
    assert not is_answering([address])

    def answer():
        # The ones before it are still in its queue.
        for _ in range(2):
            with listener.accept()[0] as connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    monkeypatch.setattr("seamark.kip199.standalone._ANSWER_SECONDS", 30.0)
    speaker = Thread(target=answer)
    speaker.start()
    assert is_answering([address])
    speaker.join(30)


def test_the_file_is_refused_while_a_worker_uses_it(machine, listener):
    port = listener.getsockname()[1]
    machine.config.write_text(f"offset.storage.file.filename={machine.file}\nlisteners=http://127.0.0.1:{port}\n")
    settings = ConnectSettings("alone", (), worker_config=machine.config, offsets_file=machine.file)
    port = StandaloneFile(settings, proc=machine.proc)
    port.refuse_held()
    listener.listen()
    with pytest.raises(RefusedError, match=r"a worker uses .*; no changes were made"):
        port.refuse_held()
    with pytest.raises(RefusedError):
        port.swap(None, b"")
    assert port.read() == b""


def test_a_distributed_worker_has_no_file():
    with pytest.raises(MissingSettingError):
        StandaloneFile(ConnectSettings("game", ()))


@pytest.mark.parametrize(
    ("text", "urls", "addresses"),
    [
        ("", ["http://127.0.0.1:8083"], [("127.0.0.1", 8083)]),
        ("listeners=http://:18083\n", ["http://127.0.0.1:18083"], [("127.0.0.1", 18083)]),
        (
            "listeners=HTTP://0.0.0.0:1,https://w1:2\n",
            ["http://127.0.0.1:1", "https://w1:2"],
            [("127.0.0.1", 1), ("w1", 2)],
        ),
        (
            "listeners=http://:1,https://:2\nrest.advertised.listener=https\nrest.advertised.host.name=w9\n",
            ["https://w9:2", "https://127.0.0.1:2"],
            [("127.0.0.1", 1), ("127.0.0.1", 2)],
        ),
        (
            "listeners=http://:1\nrest.advertised.host.name=w9\nrest.advertised.port=99\n",
            ["http://w9:99", "http://127.0.0.1:1"],
            [("127.0.0.1", 1)],
        ),
        ("rest.host.name=w1\nrest.port=7\n", ["http://w1:7"], [("w1", 7)]),
        ("listeners=http://[::1]:5\n", ["http://[::1]:5"], [("::1", 5)]),
        ("listeners=nonsense\n", [], []),
    ],
)
def test_where_a_worker_is_reached(tmp_path, text, urls, addresses):
    from seamark.context.context import read_worker_file  # noqa: PLC0415
    from seamark.context.search import Surroundings  # noqa: PLC0415

    config = tmp_path / "worker.properties"
    config.write_text(text)
    assert list(build_urls(read_worker_file(config, Surroundings.build()))) == urls
    assert find_addresses(config) == addresses
