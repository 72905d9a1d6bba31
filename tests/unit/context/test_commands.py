"""`secret://command/NAME`: the output of a command that only the user or the administrator defines."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from seamark.context import reference as module
from seamark.errors import ConfigurationError, SecretError, UntrustedSettingError

CONTEXT = """
contexts:
  dev:
    kafka: {bootstrap.servers: 'b:1', security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: u,
            sasl.password: secret://command/vault}
"""


def commands(*argv: str) -> str:
    return f"commands: {{vault: {json.dumps(argv)}}}\n"


def script(text: str) -> str:
    return commands(sys.executable, "-c", text)


def password(workplace) -> str:
    return workplace.open("dev").kafka.client_config()["sasl.password"]


def test_the_output_of_a_command_is_the_secret(workplace, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    workplace.write_user(CONTEXT + script("print('  hunter2 \\n')"))
    assert password(workplace) == "hunter2"
    assert "hunter2" not in caplog.text
    assert workplace.values("dev")["kafka.sasl.password"] == "secret://command/vault"


def test_no_shell_reads_the_arguments(workplace) -> None:
    workplace.write_user(CONTEXT + commands("echo", "$HOME; touch x", "`id`"))
    assert password(workplace) == "$HOME; touch x `id`"
    assert not (workplace.user / "x").exists()


def test_the_system_file_defines_a_command_that_the_user_file_can_not_replace(workplace) -> None:
    workplace.write_system(commands("echo", "system"))
    workplace.write_user(CONTEXT + commands("echo", "user"))
    assert password(workplace) == "system"


def test_seamark_config_may_define_commands(workplace) -> None:
    workplace.write(CONTEXT + commands("echo", "named"))
    workplace.trust_project()
    assert password(workplace) == "named"


def test_a_project_file_can_not_define_commands(workplace) -> None:
    marker = workplace.root / "ran"
    workplace.write_user(CONTEXT)
    workplace.write(f"commands: {{vault: [touch, {marker}]}}")
    with pytest.raises(UntrustedSettingError, match="commands") as caught:
        workplace.open("dev")
    assert "seamark.yaml:1" in caught.value.cause
    assert not marker.exists()


def test_a_project_file_can_not_send_the_output_of_a_command_to_its_own_address(workplace) -> None:
    workplace.write_user(commands("echo", "hunter2"))
    workplace.write(CONTEXT)
    with pytest.raises(UntrustedSettingError, match=r"kafka\.bootstrap\.servers"):
        workplace.open("dev")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("import sys; print('hunter2'); print('hunter3', file=sys.stderr); sys.exit(3)", "exit code 3"),
        ("pass", "printed nothing"),
        ("print('x' * 3_000_000)", "more than"),
        ("import sys; sys.stdout.buffer.write(b'\\xff')", "UTF-8"),
    ],
)
def test_a_command_that_fails_is_an_error_without_its_output(workplace, text: str, cause: str) -> None:
    workplace.write_user(CONTEXT + script(text))
    with pytest.raises(SecretError) as caught:
        password(workplace)
    assert cause in caught.value.cause
    assert "hunter" not in str(caught.value.as_dict())
    assert caught.value.__cause__ is None


def test_a_command_that_hangs_is_ended(workplace, monkeypatch) -> None:
    monkeypatch.setattr(module, "COMMAND_SECONDS", 0.3)
    workplace.write_user(CONTEXT + commands("sleep", "60"))
    with pytest.raises(SecretError, match="vault") as caught:
        password(workplace)
    assert "0.3 s" in caught.value.cause


@pytest.mark.parametrize(
    ("text", "cause"),
    [("", "no file defines the command vault"), (commands("/does/not/exist"), "No such file")],
)
def test_a_command_that_is_not_there(workplace, text: str, cause: str) -> None:
    workplace.write_user(CONTEXT + text)
    with pytest.raises(SecretError) as caught:
        password(workplace)
    assert cause in caught.value.cause
    assert "config.yaml" in caught.value.hint


@pytest.mark.parametrize("text", ["[a]", "{a: {b: c}}", "{a: []}", "{'a b': x}"])
def test_a_malformed_command_is_fatal(workplace, text: str) -> None:
    workplace.write_user(f"contexts: {{dev: {{kafka: {{bootstrap.servers: 'b:1'}}}}}}\ncommands: {text}\n")
    with pytest.raises(ConfigurationError):
        workplace.open("dev")
