"""The policy of a context: which file has the last word, and what is refused in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from seamark.context.schema import POLICY_KEYS
from seamark.core.secrets import is_sensitive
from seamark.errors import ConfigurationError, InvalidSettingError, UntrustedSettingError, UsageError
from seamark.policy.policy import DEFAULT_POLICY, DEFAULT_WORD
from seamark.policy.rules import RULES

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "policy.md").read_text(encoding="utf-8")


def file(policy="", *, lab="", game=""):
    clusters = f"lab: {{urls: 'http://a:1', policy: {{{lab}}}}}, game: {{urls: 'http://b:1', policy: {{{game}}}}}"
    return f"contexts: {{dev: {{kafka: {{bootstrap.servers: 'b:1'}}, policy: {{{policy}}}, connect: {{{clusters}}}}}}}"


def test_without_a_word_the_default_counts(workplace) -> None:
    workplace.write("contexts: {dev: {connect: {game: {urls: 'http://a:1'}}}}")
    context = workplace.open()
    assert context.policy == context.policy_of("game") == context.policy_of(None) == DEFAULT_POLICY
    assert not [setting for setting in context.settings() if "policy" in setting.key]


def test_a_list_replaces_the_default_and_default_adds_to_it(workplace) -> None:
    workplace.write(file("connector_classes: [a.*, b.C], files: /x, provider_paths: [default, /y], scripts: true"))
    policy = workplace.open().policy
    assert policy.connector_classes == ("a.*", "b.C")
    assert policy.files == ("/x",)
    assert policy.provider_paths == (*DEFAULT_POLICY.provider_paths, "/y")
    assert policy.scripts
    assert not policy.jndi


def test_an_empty_list_allows_nothing_and_null_says_nothing(workplace) -> None:
    workplace.write(file("connector_classes: [], config_providers: null"))
    policy = workplace.open().policy
    assert policy.connector_classes == ()
    assert policy.config_providers == DEFAULT_POLICY.config_providers


def test_a_cluster_replaces_the_policy_of_its_context_key_by_key(workplace) -> None:
    workplace.write(file("files: [/a], jndi: true", lab="files: [/b]"))
    context = workplace.open()
    assert context.policy_of("lab").files == ("/b",)
    assert context.policy_of("lab").jndi
    assert context.policy_of("game") == context.policy
    assert context.policy.files == ("/a",)


def test_a_repository_can_not_loosen_what_an_administrator_wrote(workplace) -> None:
    workplace.write_system(file("files: [], connector_classes: [a.*]", game="jndi: false"))
    workplace.write_user(file("connector_classes: ['*'], login_modules: [x.M]", game="jndi: true"))
    workplace.write(file("files: [/**], login_modules: ['*']", lab="files: [/**]", game="jndi: true"))
    context = workplace.open("dev")
    for policy in (context.policy, context.policy_of("lab"), context.policy_of("game")):
        assert (policy.files, policy.connector_classes, policy.login_modules) == ((), ("a.*",), ("x.M",))
        assert not policy.jndi


@pytest.mark.parametrize(
    "policy",
    [
        "scripts: true",
        "jndi: true",
        "files: [/**]",
        "login_modules: [default, x.M]",
        "jdbc_urls: ['jdbc:h2:']",
        "provider_paths: [default, '/**']",
        "client_overrides: ['*']",
        "environment: ['*']",
    ],
)
@pytest.mark.parametrize("place", ["context", "cluster"])
def test_a_repository_can_not_loosen_the_default_for_a_context_of_a_more_trusted_place(
    workplace, policy: str, place: str
) -> None:
    workplace.write_user(file())
    workplace.write(file(policy) if place == "context" else file(lab=policy))
    with pytest.raises(UntrustedSettingError, match="allows more than the default") as caught:
        workplace.open("dev")
    assert "~/.config/seamark/config.yaml" in caught.value.hint
    assert "seamark.yaml:1" in caught.value.cause


def test_a_repository_may_tighten_the_default_for_a_context_of_a_more_trusted_place(workplace) -> None:
    workplace.write_user(file())
    workplace.write(
        file(
            "connector_classes: [io.aiven.*], provider_paths: [/run/secrets/**], scripts: false, "
            "jdbc_urls: ['jdbc:postgresql://*.db.internal']"
        )
    )
    policy = workplace.open("dev").policy
    assert policy.connector_classes == ("io.aiven.*",)
    assert (policy.provider_paths, policy.jdbc_urls) == (("/run/secrets/**",), ("jdbc:postgresql://*.db.internal",))


def test_references_are_allowed_by_trusted_files_alone(workplace) -> None:
    assert DEFAULT_POLICY.references == ()
    workplace.write(file("references: ['secret://*']", lab="references: ['secret://*']"))
    context = workplace.open("dev")
    assert context.policy.references == context.policy_of("lab").references == ()
    # The addresses are still those of the repository: its Connect clusters get no secrets.
    workplace.write_user("contexts: {dev: {policy: {references: ['secret://env/DB_*']}}}")
    context = workplace.open("dev")
    assert context.policy.references == ("secret://env/DB_*",)
    assert context.policy_of("lab").references == ()
    workplace.trust_project()
    assert workplace.open("dev").policy_of("lab").references == ("secret://*",)


def test_a_policy_comes_from_files_alone(workplace) -> None:
    workplace.write(file())
    for variable in ("POLICY", "POLICY__FILES", "CONNECT__LAB__POLICY", "CONNECT__LAB__POLICY__FILES"):
        workplace.environ = {f"SEAMARK_CONTEXTS__DEV__{variable}": "/**"}
        with pytest.raises(ConfigurationError):
            workplace.open("dev")
    workplace.environ = {}
    for key in ("policy", "policy.files", "connect.lab.policy.files", "connect.lab.policy"):
        with pytest.raises((UsageError, ConfigurationError)):
            workplace.open("dev", overrides={key: "/**"})


def test_the_values_are_shown_with_their_origin(workplace) -> None:
    workplace.trust_project()
    workplace.write(file("files: [/a, /b], references: ['secret://env/*']", lab="jndi: true"))
    shown = {setting.key: setting for setting in workplace.open().settings()}
    assert shown["policy.files"].value == "/a, /b"
    assert shown["policy.references"].value == "secret://env/*"
    assert shown["connect.lab.policy.jndi"].value == "true"
    assert str(shown["policy.files"].origin) == "seamark.yaml:1"


def test_no_key_looks_like_a_secret() -> None:
    assert [key for key in POLICY_KEYS if is_sensitive(f"policy.{key}")] == []


@pytest.mark.parametrize("key", sorted(POLICY_KEYS))
def test_a_misspelt_key_is_fatal(workplace, key: str) -> None:
    """S4: a slip must never open anything."""
    for text in (file(f"{key}x: true"), file(lab=f"{key}x: true")):
        workplace.write(text)
        with pytest.raises(ConfigurationError, match="unknown key") as caught:
            workplace.open("dev")
        assert key in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "scripts: yes",
        "jndi: [true]",
        "files: [relative/path]",
        "files: {a: b}",
        "provider_paths: [~/x]",
        "jdbc_urls: [postgresql]",
        "client_overrides: [linger.ms]",
        "references: [env/X]",
    ],
)
def test_what_can_never_fit_is_refused(workplace, text: str) -> None:
    workplace.write_user(file(text))
    with pytest.raises((InvalidSettingError, ConfigurationError)):
        workplace.open("dev")


def test_consent_to_programs_counts_only_where_it_does_not_come_with_them(workplace) -> None:
    workplace.write(file("python: true"))
    assert not workplace.open("dev").policy.python
    workplace.write_user(file("python: true"))
    assert workplace.open("dev").policy.python


# --- the page


def cells(heading: str) -> dict[str, list[str]]:
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip().strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {row[0].strip().strip("`"): [cell.strip() for cell in row[1:]] for row in rows}


def test_the_page_has_every_key_and_every_rule() -> None:
    assert list(cells("Keys")) == list(POLICY_KEYS)
    rules = cells("Rules")
    assert list(rules) == list(RULES)
    for rule, row in rules.items():
        allowed = RULES[rule].allow.partition(":")[0]
        assert row[-1] == (f"`{allowed}`" if allowed else "\N{EN DASH}")


def test_the_file_of_the_page_opens(workplace) -> None:
    example = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    workplace.write(example[1])
    context = workplace.open()
    assert context.policy_of("lab").files == ("/srv/lab/**",)
    assert context.policy_of("game").files == ()
    assert DEFAULT_WORD not in context.policy.client_overrides
