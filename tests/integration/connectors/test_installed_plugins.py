"""`seamark plugins` on real workers of two versions."""

from __future__ import annotations

import io
import json

from seamark.cli.main import execute
from seamark.cli.session import Session

JSON = "org.apache.kafka.connect.json.JsonConverter"


def seamark(*argv):
    out, err = io.StringIO(), io.StringIO()
    code = execute(argv, session=Session(out=out, err=err, stdin=io.StringIO()))
    return code, out.getvalue(), err.getvalue()


def list_plugins(cluster, *argv):
    code, out, err = seamark("plugins", "list", "--cluster", cluster, "-o", "json", *argv)
    assert code == 0, err
    return json.loads(out)["items"]


def test_all_types_of_plugins_are_listed_on_every_version(stack):
    for cluster in ("connect", "connect-3-5-2"):
        items = list_plugins(cluster)
        assert {item["type"] for item in items} == {
            *("source", "sink", "transformation", "predicate", "converter", "header_converter")
        }
        assert all(len(item["workers"]) == 2 and not item["trouble"] for item in items)


def test_types_select_plugins(stack):
    # From 4.x on, Connect lists one class as converter and as header_converter.
    types = [item["type"] for item in list_plugins("connect", JSON)]
    assert types == ["converter", "header_converter"]
    (item,) = list_plugins("connect", JSON, "--type", "converter")
    assert (item["class"], item["type"], item["version"]) == (JSON, "converter", "4.3.1")
    transforms = list_plugins("connect", "--type", "transform", "InsertField*")
    assert [item["class"].rpartition(".")[2] for item in transforms] == ["InsertField$Key", "InsertField$Value"]
