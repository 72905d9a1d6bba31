"""A dependency audit without data is not a clean one."""

from __future__ import annotations

import json

import pytest

from tools import audit
from tools.audit import LOCK, NOT_AUDITED_EXIT, VULNERABLE_EXIT, main, read_pins

LOCK_TEXT = """\
click==8.5.1 \\
    --hash=sha256:00
    # via seamark
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:01
Ruamel_Yaml==0.19.1 ; python_full_version >= '3.11' \\
    --hash=sha256:02
"""
# What pip-audit 2.10.1 prints, with exit code 0, where its service knows none of the packages.
SKIPPED = {"name": "click", "skip_reason": "Dependency not found on PyPI and could not be audited: click (8.5.1)"}
CLICK = {"name": "click", "version": "8.5.1", "vulns": []}
YAML = {"name": "ruamel.yaml", "version": "0.19.1", "vulns": []}
BAD = {"name": "click", "version": "8.5.1", "vulns": [{"id": "PYSEC-1", "fix_versions": []}]}


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "lock.txt"
    path.write_text(LOCK_TEXT)
    return path


def run(tmp_path, lock, dependencies):
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"dependencies": dependencies, "fixes": []}))
    return main(["--report", str(report), "--lock", str(lock)])


@pytest.mark.parametrize(
    ("dependencies", "code", "words"),
    [
        ([SKIPPED], NOT_AUDITED_EXIT, "not audited: 0 of 2 locked packages, 0 known"),
        ([], NOT_AUDITED_EXIT, "not audited: 0 of 2"),
        ([CLICK], NOT_AUDITED_EXIT, "not audited: 1 of 2"),
        ([CLICK, {**YAML, "version": "0.18"}], NOT_AUDITED_EXIT, "not audited: 1 of 2"),
        ([CLICK, {"name": "ruamel.yaml", "version": "0.19.1"}], NOT_AUDITED_EXIT, "not audited: 1 of 2"),
        ([CLICK, YAML], 0, "audited: 2 of 2 locked packages, 0 known vulnerabilities in these (1 more"),
        ([BAD, YAML], VULNERABLE_EXIT, "vulnerable: click 8.5.1: PYSEC-1"),
        ([BAD], VULNERABLE_EXIT, "not audited: 1 of 2"),
    ],
)
def test_counts_are_printed_and_decide(tmp_path, lock, capsys, dependencies, code, words):
    assert run(tmp_path, lock, dependencies) == code
    assert words in capsys.readouterr().out


def test_missing_pip_audit_is_not_a_clean_audit(monkeypatch, lock, capsys):
    monkeypatch.setenv("PATH", "")
    assert main(["--lock", str(lock)]) == NOT_AUDITED_EXIT
    assert "not audited: 0 of 2" in capsys.readouterr().out


@pytest.mark.parametrize("said", ["", "[]", "{}", "not JSON"])
def test_pip_audit_without_a_report_is_not_a_clean_audit(monkeypatch, tmp_path, lock, capsys, said):
    program = tmp_path / "pip-audit"
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    program.chmod(0o700)
    monkeypatch.setattr(audit.shutil, "which", lambda _: str(program))
    assert main(["--lock", str(lock)]) == NOT_AUDITED_EXIT
    assert "pip-audit gave no report" in capsys.readouterr().out


def test_pip_audit_is_run_on_the_lock(monkeypatch, tmp_path, lock, capsys):
    program = tmp_path / "pip-audit"
    report = json.dumps({"dependencies": [CLICK, YAML]})
    program.write_text(f"#!/bin/sh\necho \"$@\" > '{tmp_path}/arguments'\necho '{report}'\n")
    program.chmod(0o700)
    monkeypatch.setattr(audit.shutil, "which", lambda _: str(program))
    assert main(["--lock", str(lock)]) == 0
    assert f"--requirement {lock}" in (tmp_path / "arguments").read_text()


def test_empty_lock_is_not_audited(tmp_path, capsys):
    path = tmp_path / "lock.txt"
    path.write_text("")
    assert run(tmp_path, path, []) == NOT_AUDITED_EXIT


def test_every_pin_of_the_real_lock_is_counted():
    text = LOCK.read_text()
    pins, others = read_pins(text)
    lines = [line for line in text.splitlines() if "==" in line.split(";")[0] and not line.startswith(" ")]
    assert len(pins) + others == len(lines)
    assert {"click", "confluent-kafka", "cryptography"} <= {pin.name for pin in pins}
