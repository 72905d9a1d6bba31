"""The check of the bench of the list: it sees missing and wrong offsets in each format, and its worker is read."""

from __future__ import annotations

import json

import pytest

from bench.cases.offsets_list import BENCH, MOST_BYTES, MOST_SECONDS, Ground, Ran, _name, _serve, check_list
from bench.harness.definition import WrongResultError
from seamark.connect.client import ConnectClient
from seamark.kafka.model import RawRecord
from seamark.offsets.list_views import build_list_view
from seamark.offsets.read.listing import OffsetList, _OwnerRows
from seamark.offsets.stores.topic import PlainRecord
from seamark.report.data import OutputFormat
from seamark.report.listing import stream_view

SIZE = 100
FORMS = ("json", "csv", "table")


def write_list(ground, form, *, numbers=range(SIZE), shift=0):
    owners = {}
    for number in numbers:
        name, table = _name(number)
        rows = owners.setdefault(f"bench/{name}", _OwnerRows("topic t"))
        partition = json.dumps({"protocol": "1", "table": table}, separators=(",", ":")).encode()
        value = b'{"incrementing":%d,"timestamp":1,"timestamp_nanos":0}' % (number + shift)
        rows.plain.append(PlainRecord(b"", partition, RawRecord(0, number, 1, b"", value)))
    found = OffsetList({name: [rows] for name, rows in owners.items()})
    ground.out.write_text("".join(stream_view(build_list_view(found), OutputFormat(form))), encoding="utf-8")
    return Ran(form, 1.0, 1.0, 1)


@pytest.fixture
def ground(tmp_path):
    return Ground("", "t", SIZE, tmp_path)


@pytest.mark.parametrize("form", FORMS)
def test_a_right_list_passes(ground, form):
    check_list(ground, write_list(ground, form))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wrong", [{"numbers": range(SIZE - 1)}, {"shift": 1}, {"numbers": [0, *range(SIZE)]}])
def test_a_wrong_list_is_seen(ground, form, wrong):
    with pytest.raises(WrongResultError, match="are wrong"):
        check_list(ground, write_list(ground, form, **wrong))


def test_a_wrong_count_is_seen(ground):
    ground.out.write_text("99")
    with pytest.raises(WrongResultError, match="99"):
        check_list(ground, Ran("", 1.0, 1.0, 1))


def test_the_worker_is_read_as_a_real_one():
    with _serve(3) as url, ConnectClient((url,), cluster="bench") as client:
        assert [one.name for one in client.read_connectors()] == ["log-00000", "log-00001", "log-00002"]


def test_the_limits_are_those_of_the_issue():
    bars = {(limit.leg, limit.gauge): limit.bar for limit in BENCH.limits}
    for form in FORMS:
        assert bars[form, "seconds"] == MOST_SECONDS == 15
        assert bars[form, "peak_bytes"] == MOST_BYTES == 600 * 1024 * 1024
