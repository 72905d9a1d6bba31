"""The codec of steps: every kind survives a file, nothing else is accepted, and no literal secret is written."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import zlib
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seamark.fleet.kinds
from seamark.changes.codec import MAX_DEPTH, CodecError, Encoded, SecretConfig, Transient, decode_fields, encode_fields
from seamark.changes.images import build_fingerprint, hide_secrets
from seamark.changes.step import Intent, Observed, Step, StepData, build_step, step_kind
from seamark.connectors.run_state import SetRunState
from seamark.connectors.steps import CreateConnector, PutConfig
from seamark.copies.cutover.steps import StartSwitched, SwitchToTarget
from seamark.core.refs import ConnectorType
from seamark.core.secrets import MASK, is_reference, mask_value
from seamark.dead_letters.search import AwaitFailingRecord, PoisonSearch
from seamark.dead_letters.steps import Failure, SendToDeadLetter
from seamark.errors import RefusedError, UsageError
from seamark.fleet.kinds import STEPS
from seamark.kafka.model import RecordLocation
from seamark.kip199.steps import WriteOffsetFile
from seamark.offsets.quiesce import ConnectorSnapshot
from seamark.offsets.write.guards import CheckStopped, VerifyOffsets
from seamark.offsets.write.steps import WriteOffsets
from tests.unit.changes.test_steps import EXAMPLES

TEXTS = st.text(max_size=8)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
SCALARS = {
    str: TEXTS,
    int: st.integers(),
    float: NUMBERS,
    bool: st.booleans(),
    NoneType: st.none(),
    bytes: st.binary(max_size=8),
}
CONFIGS = st.dictionaries(
    st.sampled_from(["topics", "db.password", "connection.url", "greeting", "api.key", "token"]) | TEXTS,
    st.sampled_from(
        [
            "",
            "hunter2",
            "${file:/a:b}",
            "secret://env/TOKEN",
            "jdbc:postgresql://db/game?password=hunter2",
            "https://me:hunter2@example.com",
            "-----BEGIN PRIVATE KEY-----hunter2",
            "Authorization: Basic hunter2",
            MASK,
        ]
    )
    | TEXTS,
    max_size=6,
)
# What a class checks beyond the types of its fields.
STATES = st.sampled_from(["RUNNING", "PAUSED", "STOPPED"])
SPECIAL = {
    **{
        (name, "state"): STATES for name in ("SetRunState", "RunTemporarily", "ResumeOnRecreatedTopic", "StartSwitched")
    },
    ("SetLogger", "scope"): st.sampled_from(["worker", "cluster"]),
    ("SetLogger", "levels"): st.dictionaries(TEXTS, st.dictionaries(TEXTS, TEXTS), min_size=1, max_size=2),
}


def generate(hint):
    """Values of a type hint, read independently of the codec."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return CONFIGS if any(isinstance(mark, SecretConfig) for mark in args) else generate(args[0])
    if hint is Any:
        return JSON
    if hint in SCALARS:
        return SCALARS[hint]
    if origin in (Union, UnionType):
        return st.one_of([generate(one) for one in args])
    if origin is tuple:
        # Some subjects are named by their first cluster.
        return st.lists(generate(args[0]), min_size=1, max_size=3).map(tuple)
    if origin is Mapping:
        return st.dictionaries(generate(args[0]), generate(args[1]), max_size=3)
    if issubclass(hint, StrEnum):
        return st.sampled_from(hint)
    assert is_dataclass(hint), hint
    return generate_object(hint)


def generate_object(cls):
    hints = get_type_hints(cls, include_extras=True)
    chosen = {
        found.name: SPECIAL[key] if (key := (cls.__name__, found.name)) in SPECIAL else generate(hints[found.name])
        for found in fields(cls)
        if not any(isinstance(mark, Transient) for mark in get_args(hints[found.name]))
    }
    required = {name for name in chosen if is_required(cls, name)}
    return st.fixed_dictionaries(
        {name: chosen[name] for name in required}, optional={name: chosen[name] for name in chosen.keys() - required}
    ).map(lambda arguments: cls(**arguments))


def is_required(cls, name):
    (found,) = [one for one in fields(cls) if one.name == name]
    return found.default is MISSING and found.default_factory is MISSING


def through_file(data):
    return StepData.from_dict(json.loads(json.dumps(data.to_dict())))


@pytest.mark.parametrize("kind", sorted(STEPS))
def test_every_kind_survives_a_file(kind):
    @settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(generate_object(STEPS[kind]))
    def check(step):
        data = step.to_data(lane="a", always=True)
        again = build_step(through_file(data))

        assert type(again) is STEPS[kind]
        assert again.to_data(lane="a", always=True) == data == through_file(data)
        assert build_fingerprint(again.to_data().arguments) == build_fingerprint(step.to_data().arguments)
        if MASK not in json.dumps(data.arguments):
            assert again == step

    check()


@pytest.mark.parametrize("step", EXAMPLES, ids=lambda step: step.kind)
class TestStrictness:
    def decode(self, step, arguments):
        return build_step(through_file(replace(step.to_data(), arguments=arguments)))

    def test_every_field_is_written_but_transient_ones(self, step):
        hints = get_type_hints(type(step), include_extras=True)
        transient = {
            name for name, hint in hints.items() if any(isinstance(mark, Transient) for mark in get_args(hint))
        }
        assert list(step.to_data().arguments) == [one.name for one in fields(step) if one.name not in transient]

    def test_an_unknown_field_is_refused_by_name(self, step):
        with pytest.raises(CodecError, match=r"field 'os' of \w+: unknown field"):
            self.decode(step, {**step.to_data().arguments, "os": "rm"})

    def test_a_missing_field_is_refused_by_name_unless_it_has_a_default(self, step):
        arguments = step.to_data().arguments
        for name in arguments:
            less = {key: value for key, value in arguments.items() if key != name}
            if is_required(type(step), name):
                with pytest.raises(CodecError, match=f"field '{name}' of .*: missing field"):
                    self.decode(step, less)
            else:
                assert self.decode(step, less).to_data().arguments.keys() == arguments.keys()

    def test_a_value_is_kept_as_it_is_or_refused_by_the_name_of_its_field(self, step):
        arguments = step.to_data().arguments
        values = (None, True, 7, 1.5, 2**60, "text", "7", [0], ["x"], {}, {"x": 1}, {"1": {"y": []}}, [{}], [[1, 2]])
        for name in arguments:
            refusals = []
            for value in values:
                try:
                    kept = self.decode(step, {**arguments, name: value})
                except CodecError as error:
                    refusals.append(error.message)
                    continue
                except RefusedError:
                    # A check of the class itself.
                    continue
                found = kept.to_data().arguments[name]
                # Fields with defaults may be missing from a nested value.
                assert found == value or (isinstance(value, dict) and found.items() >= value.items())
                assert type(found) is type(value)
            assert [said for said in refusals if not re.match(rf"invalid field ['\"]{name}['.\[]", said)] == []
            assert len(refusals) >= 8 or name == "body"


class TestSecrets:
    CONFIG: Mapping[str, str] = {
        "topics": "orders",
        "greeting": "hunter2",
        "db.password": "hunter2",
        "url": "jdbc:postgresql://db/game?password=hunter2",
        "api.key": "${file:/a:b}",
        "token": "secret://env/TOKEN",
    }
    SHOWN: Mapping[str, str] = {**CONFIG, "db.password": MASK, "url": MASK}
    KEPT = ConnectorSnapshot(ConnectorType.SOURCE, {key: value for key, value in CONFIG.items() if key != "greeting"})
    WROTE = WriteOffsets("game", "orders", (), kept=KEPT)

    @pytest.mark.parametrize(
        "step",
        [
            PutConfig("game", "orders", CONFIG, keep=("a",), secret=("greeting",), hidden=("greeting", "api.key")),
            CreateConnector("game", "orders", {**CONFIG, "greeting": ""}),
            CheckStopped("game", "orders", kept=KEPT),
            WROTE,
            VerifyOffsets(WROTE),
        ],
        ids=lambda step: step.kind,
    )
    def test_the_encoded_form_is_the_same_with_secrets_and_after_a_file(self, step):
        data = step.to_data()
        again = build_step(through_file(data))

        assert "hunter2" not in f"{data} {step}"
        assert again != step
        assert again.to_data() == data
        assert build_fingerprint(again.to_data().to_dict()) == build_fingerprint(data.to_dict())

    def test_literal_secrets_are_masked_and_references_stay(self):
        assert encode_fields(CreateConnector("game", "orders", self.CONFIG))["config"] == self.SHOWN
        hidden = PutConfig("game", "orders", self.CONFIG, hidden=("greeting", "api.key"))
        assert encode_fields(hidden)["config"] == {**self.SHOWN, "greeting": MASK}

    def test_keys_that_are_hidden_are_not_written(self):
        step = PutConfig("game", "orders", self.CONFIG, hidden=("greeting",))
        assert "hidden" not in step.to_data().arguments
        assert build_step(step.to_data()).hidden == ()

    @given(CONFIGS, st.sets(st.sampled_from(["topics", "greeting", "api.key"])))
    def test_masking_examines_every_value_that_may_hold_a_secret(self, config, hidden):
        def is_secret(key, value):
            is_hidden = value != "" and key in hidden and not is_reference(value)
            return not value.startswith("secret://") and (is_hidden or mask_value(key, value) != value)

        shown = hide_secrets(config, hidden)
        assert shown == {key: MASK if is_secret(key, value) else value for key, value in config.items()}
        assert hide_secrets(shown, hidden) == hide_secrets(shown) == shown
        assert list(shown) == list(config)

    def test_an_error_names_the_field_and_no_value(self):
        arguments = {**PutConfig("game", "orders", {}).to_data().arguments, "config": {"db.password": ["hunter2"]}}
        with pytest.raises(CodecError) as caught:
            decode_fields(PutConfig, arguments)
        assert caught.value.message == (
            "invalid field \"config['db.password']\" of PutConfig: expected a string, found an array"
        )
        assert caught.value.__suppress_context__


class TestTransient:
    def test_what_a_trace_says_is_not_written(self):
        step = SendToDeadLetter(
            "c", "n", RecordLocation("t", 0, 1), "dlq", Failure("s", "c", "e", 1, "hunter2", "hunter2")
        )
        assert "hunter2" not in str(step.to_data())
        assert build_step(step.to_data()) == step

    def test_sightings_are_of_one_process(self):
        step = AwaitFailingRecord("c", "n", search=PoisonSearch(sightings=[RecordLocation("t", 0, 1)]))
        assert build_step(step.to_data()).search == PoisonSearch()


class TestOffsetFile:
    def decode(self, content):
        return WriteOffsetFile.from_data(
            StepData("write-offset-file", "file/a", {"cluster": "c", "path": "/a", "content": content})
        )

    def test_the_content_is_compressed(self):
        step = WriteOffsetFile("c", "/a", b"same" * 1000)
        assert len(step.to_data().arguments["content"]) < 100
        assert build_step(step.to_data()) == step

    @pytest.mark.parametrize(
        "packed", [b"", b"plain", zlib.compress(b"abc")[:-1], zlib.compress(b"abc") + b"x", b"\x78\x9c"]
    )
    def test_what_is_not_whole_is_refused(self, packed):
        with pytest.raises(CodecError, match="field 'content'"):
            self.decode(b64encode(packed).decode())

    def test_content_that_would_fill_the_memory_is_refused(self, monkeypatch):
        monkeypatch.setattr("seamark.kip199.steps._MAX_BYTES", 1000)
        assert self.decode(b64encode(zlib.compress(b"a" * 999)).decode()).content == b"a" * 999
        with pytest.raises(CodecError, match="field 'content'"):
            self.decode(b64encode(zlib.compress(b"a" * 1001)).decode())


class Color(StrEnum):
    RED = "red"


class Spot(NamedTuple):
    topic: str
    partition: int


class Plain:
    """A class with its own JSON form."""

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return isinstance(other, Plain) and self.number == other.number

    __hash__ = None

    def to_dict(self):
        return {"number": self.number}

    @classmethod
    def from_dict(cls, data):
        return cls(data["number"])


@dataclass(frozen=True, slots=True)
class Sample:
    text: str = "a"
    whole: int = 1
    part: float = 0.5
    flag: bool = True
    maybe: int | None = None
    many: tuple[Color, ...] = (Color.RED,)
    fixed: tuple[str, int] = ("a", 1)
    spot: Spot = field(default_factory=lambda: Spot("t", 3))
    by_spot: Mapping[Spot, int] = field(default_factory=lambda: {Spot("t", 3): 7})
    by_number: Mapping[int, Color] = field(default_factory=lambda: {-1: Color.RED, 10: Color.RED})
    raw: bytes = b"\xff"
    anything: Any = None
    own: Plain = field(default_factory=lambda: Plain(1))
    doubled: Annotated[int, Encoded(lambda value: value * 2, lambda value: value // 2)] = 1
    derived: int = field(init=False, default=3)


@dataclass(frozen=True, slots=True)
class Chain:
    inner: Chain | None = None


@dataclass(frozen=True, slots=True)
class Longer(Chain):
    more: int = 1


@dataclass(frozen=True, slots=True)
class Holder:
    chain: Chain


class TestTypes:
    def test_each_type_has_its_form(self):
        encoded = encode_fields(Sample(anything={"a": (1, None)}))
        assert encoded == {
            "text": "a",
            "whole": 1,
            "part": 0.5,
            "flag": True,
            "maybe": None,
            "many": ["red"],
            "fixed": ["a", 1],
            "spot": ["t", 3],
            "by_spot": [[["t", 3], 7]],
            "by_number": {"-1": "red", "10": "red"},
            "raw": "/w==",
            "anything": {"a": [1, None]},
            "own": {"number": 1},
            "doubled": 2,
        }
        again = decode_fields(Sample, json.loads(json.dumps(encoded)))
        assert again == Sample(anything={"a": [1, None]})
        assert isinstance(again.spot, Spot)
        assert decode_fields(Sample, {}) == Sample()

    @pytest.mark.parametrize(
        ("name", "value", "said"),
        [
            ("text", 1, "expected a string, found an integer"),
            ("whole", True, "expected an integer, found a boolean"),
            ("whole", 1.0, "expected an integer, found a number"),
            ("part", True, "expected a finite number, found a boolean"),
            ("part", math.nan, "expected a finite number, found a number"),
            ("part", math.inf, "expected a finite number, found a number"),
            ("part", 2**53 + 1, "expected a finite number, found an integer"),
            ("part", 10**400, "expected a finite number, found an integer"),
            ("flag", 1, "expected a boolean, found an integer"),
            ("maybe", "1", "expected an integer, found a string"),
            ("many", "red", "expected an array, found a string"),
            ("many", {"0": "red"}, "expected an array, found an object"),
            ("many", ["red", "blue"], "expected one of red, found a string"),
            ("fixed", ["a"], "expected an array of 2 values, found 1"),
            ("fixed", ["a", "1"], "expected an integer, found a string"),
            ("by_spot", {"t": 7}, "expected an array, found an object"),
            ("by_spot", [[["t"], 7]], "expected an array of 2 values, found 1"),
            ("by_number", {"01": "red"}, "expected a name that is an integer"),
            ("by_number", {"1_0": "red"}, "expected a name that is an integer"),
            ("by_number", {"9" * 5000: "red"}, "expected a name that is an integer"),
            ("by_number", {"\u0661": "red"}, "expected a name that is an integer"),
            ("by_number", {7: "red"}, "expected a name of type string, found an integer"),
            ("raw", "/w", "expected base64, found a string"),
            ("raw", "/x==", "expected base64, found a string"),
            ("raw", " /w==", "expected base64, found a string"),
            ("raw", [1], "expected base64, found an array"),
            ("anything", {"a": {1}}, "expected a JSON value, found set"),
            ("anything", {1: "a"}, "expected names of type string"),
            ("own", {}, "expected the JSON form of Plain, found an object"),
            ("doubled", "a", "expected its own JSON form, found a string"),
            ("derived", 3, "unknown field"),
        ],
    )
    def test_another_type_is_refused(self, name, value, said):
        with pytest.raises(CodecError, match=f"field .{name}.*of Sample: {re.escape(said)}") as caught:
            decode_fields(Sample, {name: value})
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, UsageError)
        assert len(caught.value.message) < 300

    def test_the_path_leads_to_the_value(self):
        with pytest.raises(CodecError, match=re.escape("'chain.inner.inner.os'")):
            decode_fields(Holder, {"chain": {"inner": {"inner": {"os": 1}}}})
        with pytest.raises(CodecError, match=re.escape("'by_spot[0][0][1]'")):
            decode_fields(Sample, {"by_spot": [[["t", "3"], 7]]})

    @pytest.mark.parametrize("data", [None, [], "text", 7])
    def test_what_is_not_an_object_is_refused(self, data):
        with pytest.raises(CodecError, match="invalid Sample: expected an object"):
            decode_fields(Sample, data)

    def test_nesting_is_bounded(self):
        chain, bomb = {}, []
        for _ in range(100_000):
            chain, bomb = {"inner": chain}, [bomb]
        for cls, data in ((Chain, chain), (Sample, {"anything": bomb})):
            with pytest.raises(CodecError, match=f"nested deeper than {MAX_DEPTH} levels"):
                decode_fields(cls, data)
        ring: list[Any] = []
        ring.append(ring)
        with pytest.raises(CodecError, match="nested deeper than"):
            encode_fields(Sample(anything=ring))

    def test_a_value_of_a_subclass_is_not_cut_to_its_base(self):
        with pytest.raises(TypeError, match="expected a Chain, found a Longer"):
            encode_fields(Holder(Longer()))
        over = SwitchToTarget("c", "n", {})
        with pytest.raises(TypeError, match="expected a SwitchConfig, found a SwitchToTarget"):
            StartSwitched("c", "n", "RUNNING", (over,)).to_data()


@dataclass
class NoForm:
    odd: set[int]


@dataclass
class TwoForms:
    odd: Chain | Sample


@dataclass
class Shown:
    config: Annotated[Mapping[str, str], SecretConfig()]


@dataclass
class NoConfig:
    config: Annotated[str, SecretConfig()] = field(repr=False)


@dataclass
class NoHidden:
    config: Annotated[Mapping[str, str], SecretConfig(hidden="others")] = field(repr=False)


@dataclass
class NoDefault:
    seen: Annotated[int, Transient()]


@pytest.mark.parametrize("cls", [NoForm, TwoForms, Shown, NoConfig, NoHidden, NoDefault, Plain])
def test_a_class_without_a_schema_is_an_error_of_its_author(cls):
    with pytest.raises(TypeError):
        decode_fields(cls, {})


class TestRegistry:
    def test_a_kind_is_registered_once(self):
        with pytest.raises(ValueError, match="'put-config' is already that of PutConfig"):
            step_kind("put-config")(SetRunState)
        assert STEPS["put-config"] is PutConfig
        assert SetRunState.kind == "set-run-state"

    def test_every_kind_is_known_to_who_imports_the_package(self):
        folder = Path(seamark.__file__).parent
        written = [
            kind for path in folder.rglob("*.py") for kind in re.findall(r'@step_kind\("(.+)"\)', path.read_text())
        ]
        code = "from seamark.fleet.kinds import STEPS; print(*STEPS)"
        known = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        assert sorted(known) == sorted(written)

    def test_every_kind_of_action_is_known_to_who_imports_the_package(self):
        folder = Path(seamark.__file__).parent
        written = [
            kind for path in folder.rglob("*.py") for kind in re.findall(r'@action_kind\("(.+)"\)', path.read_text())
        ]
        code = "import seamark.fleet.kinds; from seamark.changes import action; print(*action._KINDS)"
        known = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        assert len(written) > 10
        assert sorted(known) == sorted(written)

    def test_every_kind_is_a_step_that_writes_itself_by_the_codec(self):
        for kind, cls in STEPS.items():
            assert issubclass(cls, Step)
            assert cls.kind == kind
            assert cls.to_data is Step.to_data
            assert cls.from_data.__func__ is Step.from_data.__func__

    def test_every_kind_has_slots_only(self):
        assert [step.kind for step in EXAMPLES if hasattr(step, "__dict__")] == []

    def test_a_step_needs_all_its_methods(self):
        class Half(Step):
            aspect = "half"

        with pytest.raises(TypeError, match="abstract"):
            Half()

    def test_traits_have_defaults(self):
        class Whole(Step):
            aspect = "whole"
            subject = "a thing"

            def describe(self):
                return "do it"

            def intend(self, world):
                return Intent(None, None)

            def perform(self, world, intent):
                return None

            def observe(self, world, intent):
                return Observed.AFTER

            def undo(self, intent):
                return None

        step = Whole()
        assert (step.acts, step.lands_late, step.settle_seconds) == (True, True, 60.0)
        assert not any((step.drifts, step.repeats, step.proves, step.expires))
