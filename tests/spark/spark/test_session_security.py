"""A real session of seamark: no secret on a command line, no UI, connections on loopback that are authenticated."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.spark.conftest import ROOT

CANARY = "plume00quill"
# A child, because the session of the other tests is running in this process. The secret is reversed in the program: the
# program is on the command line of the child.
PROGRAM = f"""
import json, os, sys
from pathlib import Path
from seamark.spark import open_session

KEY = "fs.s3a.bucket.b.secret.key"
spark = open_session("local[1]", conf={{"spark.hadoop." + KEY: "{CANARY[::-1]}"[::-1]}})
context = spark.sparkContext

def read_processes():
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                yield int(folder.name), (folder / "cmdline").read_bytes()
            except OSError:
                pass

lines = dict(read_processes())
jvm = context._gateway.proc.pid
sockets = {{os.readlink(link) for link in Path(f"/proc/{{jvm}}/fd").iterdir() if link.is_symlink()}}
listening = []
for table in ("tcp", "tcp6"):
    for line in Path(f"/proc/{{jvm}}/net/{{table}}").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{{fields[9]}}]" in sockets:
            listening.append(fields[1].partition(":")[0])
rows = context.parallelize(range(3), 2).map(lambda number: number * 2).collect()
print(json.dumps({{
    "visible": [pid for pid, line in lines.items() if b"{CANARY[::-1]}"[::-1] in line],
    "held": context._jsc.hadoopConfiguration().get(KEY) == "{CANARY[::-1]}"[::-1],
    "ui": context.uiWebUrl,
    "authenticate": context.getConf().get("spark.authenticate"),
    "listening": listening,
    "rows": rows,
}}))
spark.stop()
"""
# 127.0.0.1 in the byte order of /proc/net/tcp, and the same in an IPv6 socket.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def test_a_session_shows_no_secret_and_listens_on_loopback():
    environ = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=180, check=False, env=environ
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["visible"] == []
    assert found["held"] is True
    assert found["ui"] is None
    assert found["authenticate"] == "true"
    assert found["listening"]
    assert set(found["listening"]) <= LOOPBACK
    assert found["rows"] == [0, 2, 4]
