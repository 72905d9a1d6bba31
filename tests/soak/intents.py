"""Whether every request had its intent before it, and none was sent twice on the word of one (I1)."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime

VERBS = {"STOPPED": "stop", "RUNNING": "resume", "PAUSED": "pause"}


def find_verb(step):
    """The last part of a request's path for what a step does; "" for what does not go through REST."""
    if step["kind"] == "set-run-state":
        return VERBS[step["arguments"]["state"]]
    if step["kind"] == "write-offsets" and step["arguments"]["route"] == "topic":
        return ""
    return {"put-config": "config", "write-offsets": "offsets"}.get(step["kind"], "")


def read_intents(change):
    """When each intent of a change was written, and for which request."""
    return [
        (_read_time(entry), find_verb(change.steps[entry.body["step"]]))
        for entry in change.entries
        if entry.kind == "intent"
    ]


def read_spooled(folder):
    """The intents that went to the spool because the journal could not take them: change, time and step."""
    found = []
    for file in folder.glob("**/spool/*.json"):
        told = json.loads(file.read_text())
        found.append((told["change"], file.stat().st_mtime, told["step"]))
    return found


def check_intents(changes, requests, spooled=()):
    """A sentence for each request that nobody had intended.

    `changes` are all of one owner, in their order, and `requests` all that were sent for it. A request belongs to the
    newest change that was opened before it. `spooled` are the intents that stand in the spool instead.
    """
    opened = [(_read_time(change.entries[0]), change) for change in changes]
    sent = {change.id: [] for change in changes}
    wrong = []
    for request in requests:
        if request.may_be_repeated:
            continue
        before = [change for at, change in opened if at <= request.at]
        if not before:
            wrong.append(f"a {request.verb} at {request.at}, before any change")
            continue
        sent[before[-1].id].append(request)
    for change in changes:
        beside = [(at, find_verb(change.steps[step])) for name, at, step in spooled if name == change.id]
        wrong += _check_change(change, sent[change.id], beside)
    return wrong


def _check_change(change, requests, beside):
    intents = read_intents(change) + beside
    wrong = [
        f"a {request.verb} at {request.at} had no intent before it [{change.id}]"
        for request in requests
        if not any(verb == request.verb and at <= request.at for at, verb in intents)
    ]
    for verb, count in Counter(request.verb for request in requests).items():
        allowed = sum(wanted == verb for _, wanted in intents)
        if count > allowed:
            wrong.append(f"{count} requests to {verb} on {allowed} intents [{change.id}]")
    return wrong


def _read_time(entry):
    return datetime.fromisoformat(entry.at).timestamp()
