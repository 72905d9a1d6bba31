"""What a contexts file may hold, and how what it may not hold is refused."""

from __future__ import annotations

import resource
import time

import pytest
from confluent_kafka import KafkaException, Producer

from seamark.context.kafka_keys import IGNORED_KEYS, JAVA_KEYS, KAFKA_KEYS, LIBRDKAFKA_KEYS, REFUSED_KEYS
from seamark.context.layer import MAX_ALIASES, MAX_BYTES
from seamark.context.schema import CONNECT_KEYS, CONTEXT_KEYS, ROOT_KEYS, SECTION_KEYS
from seamark.errors import ConfigurationError, InvalidSettingError


def refuse(workplace, text: str) -> ConfigurationError:
    workplace.write(text)
    with pytest.raises(ConfigurationError) as caught:
        workplace.open("dev")
    return caught.value


@pytest.mark.parametrize(
    ("text", "place", "nearest"),
    [
        ("crrent: dev\n", "1:1", "use current, the most similar key"),
        ("contexts:\n  dev:\n    kafak: {}\n", "3:5", "use kafka, the most similar key"),
        ("contexts:\n  dev:\n    protectd: true\n", "3:5", "use protected, the most similar key"),
        (
            "contexts:\n  dev:\n    kafka:\n      bootstrap.server: b:1\n",
            "4:7",
            "use bootstrap.servers, the most similar key",
        ),
        ("contexts: {dev: {connect: {game: {url: 'http://a:1'}}}}\n", "1:35", "use urls, the most similar key"),
        ("contexts:\n  dev:\n    kafka:\n      <<: {}\n", "4:7", "merge keys are not supported"),
    ],
)
def test_an_unknown_key_is_fatal_with_its_place_and_the_nearest_key(workplace, text, place, nearest) -> None:
    error = refuse(workplace, text)
    assert error.message.startswith("unknown key ")
    assert error.cause.startswith(f"seamark.yaml:{place}: ")
    assert error.hint.startswith(nearest)


@pytest.mark.parametrize("key", [*ROOT_KEYS, *SECTION_KEYS, *CONTEXT_KEYS, *CONNECT_KEYS])
def test_every_own_key_misspelt_never_opens(workplace, key: str) -> None:
    """S4: a misspelt key never opens, whatever level it stands on."""
    wrong = key[:-1] + "x"
    for text in (
        f"{wrong}: x\ncontexts: {{dev: {{}}}}",
        f"contexts: {{dev: {{{wrong}: x}}}}",
        f"contexts: {{dev: {{connect: {{a: {{urls: 'http://a:1', {wrong}: x}}}}}}}}",
    ):
        assert "unknown key" in refuse(workplace, text).message


def test_an_unknown_key_in_another_context_is_fatal_too(workplace) -> None:
    assert "unknown key contexts.prod.x" in refuse(workplace, "contexts: {dev: {}, prod: {x: 1}}").message


@pytest.mark.parametrize("key", sorted(REFUSED_KEYS))
def test_client_keys_that_run_code_or_are_ours_are_refused_by_name(workplace, key: str) -> None:
    error = refuse(workplace, f"contexts: {{dev: {{kafka: {{{key}: x}}}}}}")
    assert error.message == f"contexts.dev.kafka.{key} can't be used"
    assert REFUSED_KEYS[key] in error.cause


def test_the_lists_of_client_keys_do_not_overlap() -> None:
    assert len(KAFKA_KEYS) == len(LIBRDKAFKA_KEYS) + len(JAVA_KEYS) + len(IGNORED_KEYS)
    assert not KAFKA_KEYS & REFUSED_KEYS.keys()


def test_librdkafka_knows_every_key_of_its_list() -> None:
    unknown = []
    for key in sorted(LIBRDKAFKA_KEYS):
        try:
            # The bad second value is refused before any client, thread or connection is made.
            Producer({key: "1", "security.protocol": "no such protocol"})
        except KafkaException as error:
            if "No such configuration property" in str(error) or "not supported" in str(error):
                unknown.append(key)
        else:
            pytest.fail("a client was made")
    assert unknown == []


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("current: a\ncurrent: b\n", "seamark.yaml:2:1: duplicate key current, first in line 1"),
        ("contexts:\n  dev: {}\n  dev: {}\n", "seamark.yaml:3:3: duplicate key dev, first in line 2"),
        ("contexts: {dev: {kafka: {client.id: a, client.id: b}}}\n", "seamark.yaml:1:40: duplicate key client.id"),
    ],
)
def test_a_key_that_stands_twice_is_refused_with_both_places(workplace, text: str, where: str) -> None:
    assert where in refuse(workplace, text).cause


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("contexts: [1]\n", "contexts must have keys below it"),
        ("just text\n", "the file must have keys below it"),
        ("contexts: {dev: text}\n", "contexts.dev must have keys below it"),
        ("contexts: {dev: {kafka: {client.id: [a]}}}\n", "must be a single text"),
        ("contexts: {dev: {connect: {a: {urls: [[x]]}}}}\n", "must be a text, or a list of texts"),
        ("contexts: {dev: {connect: {a: {group_id: [x]}}}}\n", "must be a single text"),
        ("? [a, b]\n: c\n", "a key must be a single text"),
        ("a: 1\n---\nb: 2\n", "a second document"),
        ("current: !!python/object/apply:os.system [ls]\n", "tags are not supported"),
        ("current: *nowhere\n", "an alias without its anchor"),
        ("contexts: &a {dev: *a}\n", "an alias without its anchor"),
        ("current: [\n", "seamark.yaml:2:1"),
        ("current: \x00\n", "seamark.yaml:1:10: a character that YAML does not allow"),
        ("a: " + "[" * 30 + "]" * 30, "nested more than 20 levels"),
    ],
)
def test_what_is_no_contexts_file_is_refused_with_its_place(workplace, text: str, problem: str) -> None:
    error = refuse(workplace, text)
    assert problem in error.cause
    assert error.cause.startswith("seamark.yaml:")
    assert error.__cause__ is None
    assert error.__context__ is None


def test_a_file_that_is_not_utf8_is_refused(workplace) -> None:
    (workplace.project / "seamark.yaml").write_bytes(b"current: dev\n# \xe9\n")
    with pytest.raises(ConfigurationError) as caught:
        workplace.load()
    assert caught.value.cause == "seamark.yaml:2:1: it is not UTF-8"


def test_a_bomb_of_aliases_is_refused_fast_and_small(workplace) -> None:
    """S14: nine levels of nine aliases are 81, below the limit; expanded they are a billion."""
    levels = ["a0: &a0 [lol,lol,lol,lol,lol,lol,lol,lol,lol]"]
    levels += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    error = refuse(workplace, "\n".join(levels))
    assert "with its aliases expanded" in error.cause
    # Of the process: others may have the machine meanwhile.
    assert time.process_time() - started < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_too_many_aliases_are_refused_and_a_hundred_are_not(workplace) -> None:
    def text(count: int) -> str:
        names = ", ".join(f"c{n}: *base" for n in range(count))
        return f"contexts: {{dev: &base {{kafka: {{client.id: x}}}}, {names}}}"

    workplace.write(text(MAX_ALIASES))
    assert len(workplace.load().names) == MAX_ALIASES + 1
    assert "more than 100 aliases" in refuse(workplace, text(MAX_ALIASES + 1)).cause


def test_a_huge_file_is_refused_before_it_is_parsed(workplace) -> None:
    workplace.write("# " + "x" * MAX_BYTES)
    started = time.process_time()
    with pytest.raises(ConfigurationError, match="too large"):
        workplace.load()
    assert time.process_time() - started < 1


def test_yaml_1_2_texts_stay_as_they_are_written(workplace) -> None:
    workplace.write(
        "contexts:\n  dev:\n    kafka: {client.id: yes, client.rack: 010, log_level: 12:30, debug: 'null'}\n"
        "    connect:\n      on: {urls: http://a:1, group_id: 0o14}\n"
    )
    context = workplace.open()
    values = {key: value.reveal() for key, value in context.kafka.values.items()}
    assert values == {"client.id": "yes", "client.rack": "010", "log_level": "12:30", "debug": "null"}
    assert context.connect["on"].group_id == "0o14"


def test_an_alias_of_a_whole_part_works(workplace) -> None:
    workplace.write("contexts:\n  a:\n    kafka: &k\n      client.id: x\n  b:\n    kafka: *k\n")
    assert workplace.open("b").kafka.values["client.id"].reveal() == "x"


def test_a_text_that_comes_by_an_alias_is_located_at_its_anchor(workplace) -> None:
    workplace.write("contexts:\n  dev:\n    kafka:\n      client.id: &x a\n      client.rack: *x\n")
    value = workplace.open("dev").kafka.values["client.rack"]
    assert (value.reveal(), str(value.origin)) == ("a", "seamark.yaml:4")


@pytest.mark.parametrize(
    "text", ["", "# only a comment\n", "contexts:\n", "current: null\ncontexts: {}\n", "\ufeffcontexts: {}\n"]
)
def test_an_empty_file_has_no_contexts(workplace, text: str) -> None:
    workplace.write(text)
    assert workplace.load().names == ()
    assert workplace.load().current is None


@pytest.mark.parametrize("name", ["a/b", "-a", "a__b", "'a b'", "''", "é"])
def test_names_that_could_not_be_addressed_are_refused(workplace, name: str) -> None:
    assert "can't be called" in refuse(workplace, f"contexts: {{{name}: {{}}}}").message
    assert "can't be called" in refuse(workplace, f"contexts: {{dev: {{connect: {{{name}: {{}}}}}}}}").message


@pytest.mark.parametrize("name", ["group", "Pipeline"])
def test_a_cluster_can_not_have_the_name_of_another_kind_of_owner(workplace, name: str) -> None:
    error = refuse(workplace, f"contexts: {{dev: {{connect: {{{name}: {{urls: 'http://a:1'}}}}}}}}")
    assert "means something else" in error.cause


@pytest.mark.parametrize(
    "line",
    ["protected: yes", "protected: 1", "insecure: on", "connect: {a: {urls: 'http://a:1', exactly_once: maybe}}"],
)
def test_a_flag_must_be_true_or_false(workplace, line: str) -> None:
    error = refuse(workplace, f"contexts:\n  dev:\n    {line}\n")
    assert isinstance(error, InvalidSettingError)
    assert "must be true or false" in error.message
    assert error.cause.startswith("seamark.yaml:3:")
