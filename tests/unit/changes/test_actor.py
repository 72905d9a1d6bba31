"""What the journal records of whoever acts."""

from __future__ import annotations

import os
import pwd

from seamark.changes.actor import this_actor


def test_principal_and_host_are_facts_and_the_rest_is_claimed(monkeypatch):
    monkeypatch.setenv("LOGNAME", "root-of-evil")
    monkeypatch.setenv("USER", "root-of-evil")
    environ = {"CI_JOB_URL": "x" * 500, "GITHUB_SHA": "abc"}
    actor = this_actor("User:ana", environ)
    assert actor.name.startswith("ana@")
    assert actor.name.endswith(f":{os.getpid()}")
    assert actor.facts["principal"] == "User:ana"
    user = pwd.getpwuid(os.getuid()).pw_name
    assert actor.facts["claimed"] == {"user": user, "job": "x" * 200, "commit": "abc"}
    assert "evil" not in str(actor)


def test_without_a_principal_the_user_is_marked_as_claimed(monkeypatch):
    monkeypatch.setenv("LOGNAME", "forged")
    actor = this_actor(environ={})
    assert actor.name.startswith(f"claimed:{pwd.getpwuid(os.getuid()).pw_name}@")
    assert actor.facts["principal"] == "User:ANONYMOUS"
