"""examples/ci on real servers: a stub runner executes the lines of both files as GitHub and GitLab would."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from seamark.connect.client import ConnectClient
from seamark.errors import NotFoundError

pytestmark = pytest.mark.timeout(600)
ROOT = Path(__file__).parents[3]
CI = ROOT / "examples" / "ci"


class Repository:
    """A folder with config/, a context, and what runners have: seamark and gh."""

    def __init__(self, stack, folder):
        self.folder = folder
        self.endpoint = stack.connect["connect"]
        self.name = f"ci-{uuid.uuid4().hex[:8]}"
        (folder / "config").mkdir()
        # Jobs have checkouts in different folders, and on different hosts.
        (folder / "config" / "_defaults.yaml").write_text(
            (CI / "_defaults.yaml").read_text().replace("fleet", self.name)
        )
        context = {
            "current": "prod",
            "contexts": {
                "prod": {
                    "journal": "file",
                    "journal_folder": str(folder / "journal"),
                    "policy": {"files": ["/**"]},
                    "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
                    "connect": {"connect": {"urls": list(self.endpoint.urls)}},
                }
            },
        }
        (folder / "seamark.yaml").write_text(json.dumps(context))
        commands = folder / "bin"
        commands.mkdir()
        self._write_command(commands / "seamark", f'exec {sys.executable} -m seamark.cli "$@"')
        self._write_command(commands / "gh", f'echo "$@" >> {folder}/gh.log')
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("SEAMARK_")} | {
            "SEAMARK_CONFIG": str(folder / "seamark.yaml"),
            "XDG_STATE_HOME": str(folder / "state"),
            "PATH": f"{commands}:{os.environ['PATH']}",
        }

    def _write_command(self, path, line):
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def declare(self, **config):
        source = self.folder / "lines.txt"
        source.touch()
        whole = {"connector.class": "FileStreamSource", "file": str(source), "topic": self.name, **config}
        (self.folder / "config" / "a.json").write_text(json.dumps({"name": self.name, "config": whole}))

    def read_config(self):
        with ConnectClient(self.endpoint.urls) as client:
            try:
                return client.read_config(self.name)
            except NotFoundError:
                return None

    def change_outside(self, **config):
        with ConnectClient(self.endpoint.urls) as client:
            client.put_config(self.name, self.read_config() | config)

    def delete(self):
        with ConnectClient(self.endpoint.urls) as client:
            client.delete_connector(self.name)


class Runner:
    """Runs jobs in folders of their own, and passes artifacts between them."""

    def __init__(self, repository):
        self.repository = repository
        self.artifacts = {}
        self.outputs = {}
        self.log = ""

    def start(self, job):
        work = self.repository.folder / f"work-{job}"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(self.repository.folder / "config", work / "config")
        return work

    def execute(self, lines, work, env):
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", lines],
            cwd=work,
            env=self.repository.env | env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        self.log += done.stdout + done.stderr
        return done.returncode

    def run(self, event, *, jobs):
        """Run some jobs of a pipeline, and return the exit code of the first that fails, or 0."""
        return next((code for job in jobs if (code := self.run_job(job, event))), 0)


class GitHub(Runner):
    def __init__(self, repository):
        super().__init__(repository)
        self.jobs = YAML(typ="safe", pure=True).load(CI / "github.yaml")["jobs"]

    def run_job(self, name, event):
        job, work = self.jobs[name], self.start(name)
        if not self.evaluate(job.get("if", "True"), event):
            return 0
        for step in job["steps"]:
            if not self.evaluate(step.get("if", "True"), event):
                continue
            if code := self.run_step(step, work, job.get("env", {}), name):
                return code
        return 0

    def run_step(self, step, work, env, job):
        action = step.get("uses", "").partition("@")[0]
        if action == "actions/upload-artifact":
            shutil.copy(work / step["with"]["path"], self.repository.folder / "artifact")
        elif action == "actions/download-artifact":
            shutil.copy(self.repository.folder / "artifact", work / "plan.json")
        elif action != "actions/checkout":
            output = work / "output"
            lines = step["run"].replace("${{ github.event.pull_request.number }}", "7")
            assert "${{" not in lines
            code = self.execute(lines, work, {**env, "GITHUB_OUTPUT": str(output)})
            if output.exists():
                self.outputs[job] = dict(line.split("=", 1) for line in output.read_text().split())
            return code
        return 0

    def evaluate(self, condition, event):
        values = {
            "github.event_name": event,
            "github.event.pull_request.head.repo.full_name": "me/fleet",
            "github.repository": "me/fleet",
            "steps.plan.outputs.code": self.outputs.get("plan", {}).get("code", ""),
            "needs.plan.outputs.code": self.outputs.get("plan", {}).get("code", ""),
        }
        text = re.sub(r"[a-z_]+(?:\.[a-z_]+)+", lambda found: repr(values[found[0]]), condition)
        return eval(text.replace("||", " or ").replace("&&", " and "), {})


class GitLab(Runner):
    def __init__(self, repository):
        super().__init__(repository)
        self.jobs = YAML(typ="safe", pure=True).load(CI / "gitlab.yaml")

    def run_job(self, name, event):
        job, work = self.jobs[name], self.start(name)
        for path in self.artifacts:
            shutil.copy(self.artifacts[path], work / path)
        code = self.execute("\n".join(job["script"]), work, self.jobs["variables"])
        for path in job.get("artifacts", {}).get("paths", []):
            if (work / path).exists():
                kept = self.repository.folder / f"artifact-{path}"
                shutil.copy(work / path, kept)
                self.artifacts[path] = kept
        return code


@pytest.fixture(params=[GitHub, GitLab])
def runner(request, stack, tmp_path):
    repository = Repository(stack, tmp_path)
    yield request.param(repository)
    if repository.read_config() is not None:
        repository.delete()


def test_review_shows_the_plan_and_main_applies_it(runner):
    repository = runner.repository
    repository.declare()
    assert runner.run("pull_request", jobs=["plan"]) == 0, runner.log
    assert f"+ connector/connect/{repository.name}" in runner.log
    assert repository.read_config() is None
    if isinstance(runner, GitHub):
        assert "pr comment 7" in (repository.folder / "gh.log").read_text()
    assert runner.run("push", jobs=["plan", "apply"]) == 0, runner.log
    assert repository.read_config()["topic"] == repository.name
    # The second run has nothing to do.
    runner.artifacts.clear()
    assert runner.run("push", jobs=["plan", "apply"]) == 0, runner.log
    assert runner.log.count("No changes") >= 1 or "0 to create, 0 to change" in runner.log


def test_plan_that_is_no_longer_the_approved_one_is_refused(runner):
    repository = runner.repository
    repository.declare()
    assert runner.run("push", jobs=["plan", "apply"]) == 0, runner.log
    repository.declare(**{"batch.size": "100"})
    assert runner.run("push", jobs=["plan"]) == 0, runner.log
    repository.change_outside(**{"batch.size": "7"})
    repository.declare(**{"batch.size": "100", "tasks.max": "1"})
    assert runner.run("push", jobs=["apply"]) == 5, runner.log
    assert "the plan differs from the expected one" in runner.log
    assert repository.read_config()["batch.size"] == "7"


def test_invalid_config_ends_the_review(runner):
    runner.repository.declare(**{"tasks.max": "zero"})
    assert runner.run("pull_request", jobs=["plan"]) == 1, runner.log
    assert "tasks.max: Invalid value zero" in runner.log
