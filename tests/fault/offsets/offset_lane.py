"""A connector whose offsets are moved while something breaks, and what must be true of it afterwards.

A source reads a file of three lines, a sink writes three records into one. Whoever moves it behind the first sees the
other two once more, whoever makes it forget sees all three: so a count tells what happened, and that it happened once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

import seamark
from seamark.changes.outcome import GOOD, SilentProgress
from seamark.changes.setup import make_setup
from seamark.changes.timing import retry_while
from seamark.connect.caller import Timing
from seamark.connect.clusters import Clusters, build_connect_client
from seamark.context import open_context
from seamark.devstack.process import wait_until
from seamark.errors import DevstackError, RefusedError, SeamarkError
from seamark.kafka.partitioner import choose_partition
from seamark.offsets.codec.codec import encode_key
from tests.fault.history import Change
from tests.fault.rig import ROOT
from tests.fault.toxic import CUT_VARIABLE
from tests.integration.offset_rig import read_raw
from tests.integration.offset_tools import Brokers
from tests.integration.rest import call
from tests.integration.waits import TRIES, says_hindered

LINES = 3
LINE = "line 0\n"
TEXT = "".join(f"line {number}\n" for number in range(LINES))
CLASSES = {
    "source": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "sink": "org.apache.kafka.connect.file.FileStreamSinkConnector",
}
STRINGS = {f"{kind}.converter": "org.apache.kafka.connect.storage.StringConverter" for kind in ("key", "value")}
# A sink's member that was killed is out of its group after this; the default is 45 s.
SESSION = {"consumer.override.session.timeout.ms": "6000", "consumer.override.heartbeat.interval.ms": "1500"}
# The steps of a change, as hooks name them, by their kinds; the run state is set twice.
NAMES = {
    "prove-stopped": "prove",
    "check-preview": "preview",
    "write-offsets": "write",
    "verify-offsets": "verify",
    "check-progress": "progress",
}
VERBS = {"stop": ("set-run-state", "STOPPED"), "resume": ("set-run-state", "RUNNING"), "offsets": ("write-offsets", "")}
PATIENCE_SECONDS = 120
# Longer than a rebalance on a busy machine.
ZOMBIE_SECONDS = 12
# What a plan is refused with while a rebalance shows the connector UNASSIGNED.
UNTOLD = "can't determine whether"
# What a person is told to do about a change whose write nobody can tell the end of.
UNSETTLED = "--holder NONCE --force"
# The workers that stand still, by URL: nobody shall wait for their answers.
ASLEEP = set()
HASTY = Timing(read_seconds=4)
# Of a devstack's offsets topic.
OFFSETS_PARTITIONS = 5


class Hooks(SilentProgress):
    """Does something when a step has begun or ended well: `{"ended write": act}`. What goes wrong in it is kept."""

    def __init__(self, planned, acts):
        kinds = [step.kind for step in planned.plan.steps]
        self._names = [NAMES.get(kind, kind) for kind in kinds]
        states = [number for number, kind in enumerate(kinds) if kind == "set-run-state"]
        for number, name in zip(states, ("stop", "restore"), strict=False):
            self._names[number] = name
        unknown = {word.split()[1] for word in acts} - set(self._names)
        assert not unknown, f"the plan has no step {unknown}: {self._names}"
        self._acts = dict(acts)
        self.outcomes = {}
        self.errors = []

    def begun(self, number, words):
        self._do(f"begun {self._names[number]}")

    def ended(self, result):
        self.outcomes[self._names[result.number]] = str(result.outcome)
        # A stop that a rebalance hindered is not what the act shall come behind.
        if result.outcome in GOOD:
            self._do(f"ended {self._names[result.number]}")

    @property
    def left(self):
        """What was never reached."""
        return set(self._acts)

    def _do(self, word):
        act = self._acts.pop(word, None)
        try:
            if act is not None:
                act()
        except Exception as error:  # noqa: BLE001 - a change must not notice; the test does
            self.errors.append(error)


@dataclass
class Ended:
    """How a change ended: its id, its first ending, what each step gave, and what was said."""

    change: str | None
    ending: str | None
    outcomes: dict
    said: str
    is_left: set = field(default_factory=set)
    verb: str = "move"

    @property
    def is_done(self):
        return self.ending == "done"

    @property
    def has_written(self):
        return self.outcomes.get("write") == "done"


class Lane:
    """One connector, whoever moves its offsets, and a plain look at both from the outside."""

    def __init__(self, stack, folder, *, kind, urls=None, servers=None):
        """`servers` are the brokers as commands reach them; their journal is then a topic, and the test's way is not
        theirs.
        """
        self.kind = kind
        self.name = f"{kind}-{uuid.uuid4().hex[:8]}"
        self.stack = stack
        self.folder = folder / self.name
        self.folder.mkdir()
        self.file = self.folder / "data.txt"
        self.endpoint = stack.connect["connect"]
        self.lines = self.seen = LINES
        self.has_zombie = False
        self._urls = tuple(urls or self.endpoint.urls)
        self._servers = servers
        self._set_up()

    @property
    def is_sink(self):
        return self.kind == "sink"

    @property
    def partition(self):
        return {"kafka_topic": self.name, "kafka_partition": 0} if self.is_sink else {"filename": str(self.file)}

    def build_offset(self, lines):
        """Its place behind so many lines."""
        return {"kafka_offset": lines} if self.is_sink else {"position": lines * len(LINE)}

    def _set_up(self, *, in_flight="3s"):
        cluster = {"urls": list(self._urls), "worker_config": self.endpoint.worker_config}
        journal = {"journal": "file", "journal_folder": str(self.folder / "journal")}
        if self._servers:
            journal = {"journal": "kafka", "journal_topic": f"journal-{self.name}"}
        context = {
            **journal,
            "in_flight_timeout": in_flight,
            "policy": {"files": ["/**"]},
            "connect": {"connect": cluster},
        }
        direct = self.stack.kafka.bootstrap_servers
        self._environ = self._write_context("seamark.yaml", context, direct)
        self._operator = self._write_context("operator.yaml", context, self._servers or direct)
        make_setup(open_context(environ=self._environ))

    def _write_context(self, name, context, servers):
        file = self.folder / name
        context = context | {"kafka": {"bootstrap.servers": servers}}
        file.write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
        return {"SEAMARK_CONFIG": str(file), "XDG_STATE_HOME": str(self.folder / "state")}

    def be_patient(self):
        """From now on a request counts as over after 90 s, as Connect says: who is asleep carries it out later."""
        self._set_up(in_flight="90s")

    def open(self):
        fleet = seamark.Fleet(open_context(environ=self._environ))
        if ASLEEP or self.has_zombie:
            # A plan asks every worker who it is, and waits half a minute for one that hangs.
            fleet._clusters = Clusters(fleet.context, build_client=partial(build_connect_client, timing=HASTY))
        return fleet

    # --- the connector, past seamark -----------------------------------------------------------------------------

    def call(self, method, path="", body=None, *, until=None):
        """A plain REST call to whichever worker answers."""
        wanted = until or (lambda status, _: status in (200, 201, 202, 204))
        answers = []

        def is_answered():
            for url in set(self.endpoint.urls) - ASLEEP:
                try:
                    status, answer = call(f"{url}/connectors/{self.name}{path}", method=method, body=body)
                except (OSError, HTTPException):
                    continue
                answers.append(answer)
                if wanted(status, answer):
                    return True
            return False

        try:
            wait_until(is_answered, f"{method} {self.name}{path} was right", seconds=PATIENCE_SECONDS)
        except DevstackError as error:
            raise AssertionError(f"{error}; the last answer: {answers[-1:]}") from error
        return answers[-1]

    def create(self):
        config = {"connector.class": CLASSES["sink" if self.is_sink else "source"], "tasks.max": "1", **STRINGS}
        config |= {"file": str(self.file)}
        if self.is_sink:
            producer = Producer({"bootstrap.servers": self.stack.kafka.bootstrap_servers, "acks": "all"})
            for line in TEXT.splitlines():
                producer.produce(self.name, value=line)
            assert producer.flush(60) == 0
            config |= {"topics": self.name, **SESSION}
        else:
            self.file.write_text(TEXT)
            config |= {"topic": self.name}
        self.call("PUT", "/config", config)
        self.await_end()
        # On a busy machine Connect may end a task before its first flush, and begin anew.
        self.seen = self.count()
        assert self.seen >= LINES

    def delete(self):
        self.call("DELETE", until=lambda status, _: status in (204, 404))

    def read_offset(self):
        """What REST says, by itself. Of a key that lies in two places a restarted worker may tell either: see there."""
        if self.kind == "stray":
            return self._read_home()
        found = {}

        def is_told(status, answer):
            if status == 200:
                found["offsets"] = answer["offsets"]
            return status == 200

        self.call("GET", "/offsets", until=is_told)
        mine = [entry["offset"] for entry in found["offsets"] if entry["partition"] == self.partition]
        return mine[0] if mine else None

    def _read_home(self):
        """What lies where tasks write it."""
        key = encode_key(self.name, self.partition)
        home = choose_partition(key, partitions=OFFSETS_PARTITIONS)
        found = read_raw(Brokers(self.stack.kafka.bootstrap_servers), self.endpoint.offsets_topic, self.name)
        value = found.get((home, key))
        return None if value is None else json.loads(value)

    def await_running(self):
        """It is said to run. With `has_zombie`, a zombie may have been the last to say something of it.

        Then it is UNASSIGNED for ever, and a person restarts it.
        """
        if self.has_zombie:
            with suppress(DevstackError):
                wait_until(
                    lambda: is_running(self.call("GET", "/status", until=lambda status, _: status == 200)),
                    f"{self.name} was said to run",
                    seconds=ZOMBIE_SECONDS,
                    every_seconds=0.5,
                )
                return
            self.call("POST", "/restart?includeTasks=true")
        self.call("GET", "/status", until=lambda status, answer: status == 200 and is_running(answer))

    def await_end(self):
        """It runs, and its place is at the end, and was flushed."""
        self.await_running()
        end = self.build_offset(self.lines)
        wait_until(
            lambda: self.read_offset() == end,
            f"{self.name} stood at its end",
            seconds=PATIENCE_SECONDS,
            every_seconds=0.3,
        )

    def read_worker(self):
        """The worker that runs its task: its address."""
        return self.call("GET", "/status", until=lambda status, answer: status == 200 and is_running(answer))["tasks"][
            0
        ]["worker_id"]

    def count(self):
        """How many lines or records it has written so far."""
        if self.is_sink:
            return len(self.file.read_text().splitlines()) if self.file.exists() else 0
        bounds = []
        wait_until(lambda: self._read_bounds(bounds), f"{self.name} was counted", seconds=PATIENCE_SECONDS)
        return bounds[1] - bounds[0]

    def _read_bounds(self, bounds):
        consumer = Consumer({"bootstrap.servers": self.stack.kafka.bootstrap_servers, "group.id": "count"})
        try:
            bounds[:] = consumer.get_watermark_offsets(TopicPartition(self.name, 0), timeout=10)
        except KafkaException:
            # A broker may have died that led it, or it may not be there yet.
            return False
        finally:
            consumer.close()
        return True

    def write_stray(self, value):
        """The same key once more, on another partition of the topic: REST can't reach it, so records are written."""
        key = encode_key(self.name, self.partition)
        home = choose_partition(key, partitions=OFFSETS_PARTITIONS)
        producer = Producer({"bootstrap.servers": self.stack.kafka.bootstrap_servers, "acks": "all"})
        where = (home + 1) % OFFSETS_PARTITIONS
        spelled = json.dumps(value, separators=(",", ":")).encode()
        producer.produce(self.endpoint.offsets_topic, key=key, value=spelled, partition=where)
        assert producer.flush(60) == 0
        return home, where

    # --- whoever changes it --------------------------------------------------------------------------------------

    def change(self, verb="move", *, hooks=None, **options):
        """Plan and apply one move or forget. What is refused is an end too."""
        return self._apply(lambda fleet: self._plan_again(fleet, verb, options), hooks=hooks, verb=verb)

    def _apply(self, plan, *, hooks=None, verb="move"):
        with self.open() as fleet:
            known = {head.change for head in fleet.journal.list()}
            try:
                planned = plan(fleet)
            except SeamarkError as error:
                return Ended(None, "refused", {}, describe(error), set(hooks or {}), verb)
            told = Hooks(planned, hooks or {})
            try:
                result = fleet.apply(planned, progress=told)
            except SeamarkError as error:
                # It may have been refused before there was a change; the newest one is then that of an earlier round.
                new = [head.change for head in fleet.journal.list() if head.change not in known]
                ended = Ended(new[0] if new else None, "raised", told.outcomes, describe(error), told.left, verb)
            else:
                said = " / ".join(describe(step.error) for step in result.steps if step.error is not None)
                ending = None if result.ending is None else str(result.ending)
                ended = Ended(result.change, ending, told.outcomes, said, told.left, verb)
        assert not told.errors, told.errors
        return ended

    def change_at(self, point, act, verb="move", **options):
        """A change in which somebody acts at one point. It is made anew where a rebalance kept it from there.

        With a short `in_flight_timeout` a request is repeated for 8 s; on a busy machine rebalances may last longer,
        and then it is refused, and nothing was moved.
        """
        for _ in range(TRIES):
            ended = self.change(verb, hooks={point: act}, **options)
            if not ended.is_left or not says_hindered(ended.said):
                break
            assert self.settle(ended)[0] is False, ended
        return ended

    def _plan_again(self, fleet, verb, options):
        """A plan. Whoever is told that a rebalance goes on waits and repeats the command."""
        made = []

        def is_made():
            try:
                made.append(retry_while(lambda: self._plan(fleet, verb, options), fleet._world.clock, seconds=90))
            except RefusedError as error:
                if UNTOLD not in error.message:
                    raise
            return bool(made)

        wait_until(is_made, f"somebody could tell what {self.name} is meant to do", seconds=90, every_seconds=0.5)
        return made[0]

    def _plan(self, fleet, verb, options):
        if verb == "forget":
            return fleet.offsets.reset(self.name, **options)
        return fleet.offsets.move(self.name, to=1 if self.is_sink else self.build_offset(1), **options)

    def start(self, *words, failpoint=None, cut="", is_direct=False):
        """An operator at the real command, as a process of its own; `is_direct` where the test's way is his too.

        `cut` is the order for a failpoint that cuts a link.
        """
        environ = self._environ if is_direct else self._operator
        env = {**os.environ, **environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", CUT_VARIABLE: cut}
        env.pop("SEAMARK_FAILPOINT", None)
        return subprocess.Popen(
            [sys.executable, "-m", "tests.fault.cli", *words, "--yes"],
            env=env | ({"SEAMARK_FAILPOINT": failpoint} if failpoint else {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start_change(self, verb, **options):
        """The command that moves it or makes it forget."""
        if verb == "forget":
            return self.start("offsets", "reset", self.name, **options)
        place = "1" if self.is_sink else json.dumps(self.build_offset(1))
        return self.start("offsets", "move", self.name, "--to", place, **options)

    def read_ended(self, process, verb, *, seconds=240):
        """How a command ended: by its exit code, what it said, and the journal."""
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"{self.name} did not end in {seconds} s: {(late.stderr or b'').decode()}") from None
        with self.open() as fleet:
            heads = fleet.journal.list()
        ending = "done" if process.returncode == 0 else f"exit code {process.returncode}"
        return Ended(heads[0].change if heads else None, ending, {}, out + err, verb=verb)

    def finish_by_command(self):
        """`finish`, by commands: where brokers die, librdkafka may take a process with it (librdkafka#4605)."""
        times, said = 0, []

        def is_over():
            nonlocal times
            with self.open() as fleet:
                heads = fleet.journal.list(only_open=True)
            for head in heads:
                times += 1
                said[:] = self.start("journal", "resume", head.change).communicate(timeout=240)
                if UNSETTLED in said[1]:
                    said[:] = self._unlock(head.change)
            return not heads

        try:
            wait_until(is_over, f"{self.name} had no open change", seconds=PATIENCE_SECONDS * 2, every_seconds=1)
        except Exception as error:
            raise AssertionError(f"{error}: {said}") from error
        return times

    def _unlock(self, change):
        """Close a change of which nobody can tell how it ended, as its error says."""
        holder = [entry for entry in self._read_entries(change) if str(entry.kind) in ("open", "taken")][-1]
        words = ("journal", "unlock", change, "--holder", holder.body["nonce"], "--force")
        return self.start(*words).communicate(timeout=240)

    def _read_entries(self, change):
        with self.open() as fleet:
            return fleet.journal.show(change)

    def finish(self):
        """Type `journal resume` until nothing is open; gives how often. The last answer must be that it is over."""
        times, said = 0, []

        def is_over():
            nonlocal times
            with self.open() as fleet:
                for head in fleet.journal.list(only_open=True):
                    times += 1
                    try:
                        fleet.journal.resume(head.change)
                    except SeamarkError as error:
                        said.append(describe(error))
                return not fleet.journal.list(only_open=True)

        try:
            wait_until(is_over, f"{self.name} had no open change", seconds=PATIENCE_SECONDS, every_seconds=1)
        except Exception as error:
            raise AssertionError(f"{error}: {said}") from error
        return times

    def read_outcomes(self, change):
        """What the journal says of each step, by its kind; of several of one kind the last."""
        entries = self._read_entries(change)
        kinds = [step["kind"] for step in entries[0].body["plan"]["steps"]]
        return {kinds[entry.body["step"]]: entry.body["outcome"] for entry in entries if str(entry.kind) == "outcome"}

    def read_changes(self):
        """Every change of the journal, the oldest first, as `tests.fault.history` tells them.

        A change has its lock at its second entry; the first has the time of the command.
        """
        with self.open() as fleet:
            told = [(head.change, fleet.journal.show(head.change)) for head in fleet.journal.list(limit=1000)]
        changes = [
            Change(change, entries=entries, begins=entries[min(1, len(entries) - 1)].at, ends=entries[-1].at)
            for change, entries in told
        ]
        return sorted(changes, key=lambda change: change.begins)

    def give_more(self):
        """One more line, which it reads and stores."""
        if self.is_sink:
            producer = Producer({"bootstrap.servers": self.stack.kafka.bootstrap_servers, "acks": "all"})
            producer.produce(self.name, value=LINE.strip())
            assert producer.flush(60) == 0
        else:
            with self.file.open("a") as file:
                file.write(LINE)
        self.lines += 1

    def undo(self, change):
        """Undo a change that moved it, when one line more was read: the undo goes back before it, and it comes again.

        Where a rebalance hinders it, it is typed again. If Connect ends the new task in a rebalance, it stores its
        offset sooner than the check of progress expects, and that check refuses: then the lines that were read decide.
        """
        self.give_more()
        self.await_end()
        self.seen = self.count()
        for _ in range(TRIES):
            ended = self._apply(lambda fleet: fleet.undo(change))
            if ended.is_done or not says_hindered(ended.said):
                break
            self.finish()
        is_written = ended.change is not None and self.read_outcomes(ended.change).get("write-offsets") == "done"
        assert ended.is_done or is_written, ended
        self.check(1)

    def count_intents(self):
        """How often the journal intends each verb that Connect is asked."""
        found = Counter()
        with self.open() as fleet:
            for head in fleet.journal.list(limit=1000):
                entries = fleet.journal.show(head.change)
                steps = entries[0].body["plan"]["steps"]
                for entry in entries:
                    if str(entry.kind) == "intent":
                        step = steps[entry.body["step"]]
                        wanted = (step["kind"], step["arguments"].get("state", ""))
                        found[next(verb for verb, words in VERBS.items() if words == wanted)] += 1
        return found

    def check(self, *allowed):
        """It runs, nothing is open, its place is the old one or the new one, and so many lines were read once more."""
        self.await_end()
        with self.open() as fleet:
            assert fleet.journal.list(only_open=True) == ()
        new = self.count() - self.seen
        # Its place was flushed, so nothing more comes. A task that Connect itself ended before its flush reads again.
        is_right = any(new > 0 and new % again == 0 if again else new == 0 for again in allowed)
        assert is_right, f"{self.name} has read {new} lines again, expected {allowed}"
        self.seen += new

    def settle(self, ended, *, by_command=False):
        """After a fault is over: finish what is open, and check it. Gives whether it was moved, and the resumes.

        None stands for a write of which the journal says that nobody can tell.
        """
        times = self.finish_by_command() if by_command else self.finish()
        outcome = None if ended.change is None else self.read_outcomes(ended.change).get("write-offsets")
        if ended.is_done:
            assert outcome == "done", f"{self.name} said done: {ended}"
        # A move goes behind the first line, and whoever has no offset begins with it.
        again = self.lines - (ended.verb == "move")
        self.check(*{"done": (again,), "unknown": (0, again)}.get(outcome, (0,)))
        return None if outcome == "unknown" else outcome == "done", times


def is_running(answer):
    """Whether a status says that the connector and its task run."""
    states = [answer["connector"]["state"], *(task["state"] for task in answer["tasks"])]
    return len(states) > 1 and set(states) == {"RUNNING"}


def describe(error):
    return f"{error.message} | {error.cause} | {error.hint}"
