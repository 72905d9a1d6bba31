"""Trust order of settings: what a project file, the environment and other less trusted places can't do."""

from __future__ import annotations

from pathlib import Path

import pytest

from seamark.context.environment import build_variable
from seamark.context.layer import read_file_layer
from seamark.core.secrets import mask_text
from seamark.errors import ConfigurationError, InvalidSettingError, SecretError, UntrustedSettingError, UsageError

USER = """
current: prod
contexts:
  prod:
    protected: true
    kafka:
      bootstrap.servers: kafka.prod:9093
      security.protocol: SASL_SSL
      sasl.mechanism: SCRAM-SHA-512
      sasl.username: ops
      sasl.password: secret://env/PROD_PASSWORD
    connect:
      main: {urls: 'https://connect.prod:8083', username: ops, password: secret://env/REST_PASSWORD}
    databases:
      game: {jdbc_url: 'jdbc:postgresql://db/game', dsn: 'host=db user=ops password=hunter4'}
    lakes:
      lake: {url: 's3://lake', endpoint: 'https://s3.prod', access_key: secret://env/A, secret_key: secret://env/B}
"""
SECRETS = {"PROD_PASSWORD": "hunter2", "REST_PASSWORD": "hunter3", "A": "a", "B": "b"}
SASL = "security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: ops"


@pytest.fixture
def prod(workplace):
    workplace.environ.update(SECRETS)
    workplace.write_user(USER)
    return workplace


def project(text: str) -> str:
    return f"contexts: {{prod: {{{text}}}}}"


def test_the_repository_of_finding_b6_is_refused(prod) -> None:
    prod.write("""
contexts:
  prod:
    protected: false
    insecure: true
    kafka: {bootstrap.servers: 'evil.example:9092', security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN}
    connect:
      main: {urls: 'http://evil.example', tls_verify: 'false'}
""")
    with pytest.raises(UntrustedSettingError) as caught:
        prod.open()
    error = caught.value
    assert "hunter" not in str(error.as_dict())
    # Masking must not take a file's name for a password.
    assert (mask_text(error.cause), mask_text(error.hint)) == (error.cause, error.hint)
    assert error.exit_code == 5
    assert "seamark.yaml:" in error.cause
    assert "~/.config/seamark/config.yaml:" in error.cause
    assert "SEAMARK_CONFIG=seamark.yaml" in error.hint


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("kafka: {bootstrap.servers: 'evil:9092'}", "kafka.bootstrap.servers"),
        ("kafka: {bootstrap.servers: 'secret://file/evil.txt'}", "kafka.bootstrap.servers"),
        ("kafka: {security.protocol: SASL_PLAINTEXT}, insecure: true", "kafka.security.protocol"),
        ("kafka: {ssl.ca.location: evil.pem}", "kafka.ssl.ca.location"),
        ("kafka: {enable.ssl.certificate.verification: 'false'}, insecure: true", "kafka.enable.ssl"),
        ("kafka: {sasl.oauthbearer.token.endpoint.url: 'https://evil'}", "kafka.sasl.oauthbearer.token"),
        ("kafka: {debug: all}", "kafka.debug"),
        ("connect: {main: {urls: 'https://evil:8083'}}", "connect.main.urls"),
        ("connect: {main: {ca_file: evil.pem}}", "connect.main.ca_file"),
        ("connect: {main: {tls_verify: 'false'}}, insecure: true", "connect.main.tls_verify"),
        ("lakes: {lake: {endpoint: 'https://evil'}}", "lakes.lake.endpoint"),
        ("lakes: {lake: {url: 's3://evil'}}", "lakes.lake.url"),
        ("insecure: true", "insecure"),
    ],
)
@pytest.mark.parametrize("place", ["project", "environment"])
def test_a_less_trusted_place_can_not_redirect_credentials(prod, text: str, setting: str, place: str) -> None:
    (prod.project / "evil.txt").write_text("evil:9092")
    (prod.project / "evil.pem").write_text("")
    if place == "project":
        prod.write(project(text))
    else:
        prod.environ |= build_variables(text, prod.root / "settings.yaml")
    with pytest.raises(UntrustedSettingError) as caught:
        prod.open("prod")
    assert setting in caught.value.message


def build_variables(text: str, path: Path) -> dict[str, str]:
    """Return the same settings as environment variables."""
    path.write_text(project(text), encoding="utf-8")
    layer = read_file_layer(path, place=path.name)
    return {build_variable(key): leaf.text for key, leaf in layer.values.items()}


def test_a_worker_file_of_the_project_can_not_redirect_credentials(prod) -> None:
    (prod.project / "worker.properties").write_text("bootstrap.servers=evil:9092\nssl.truststore.location=/evil\n")
    prod.write_user(USER.replace("      bootstrap.servers: kafka.prod:9093\n", ""))
    prod.write(project("connect: {lab: {urls: 'http://lab:1', worker_config: worker.properties}}"))
    with pytest.raises(UntrustedSettingError, match=r"kafka\.bootstrap\.servers"):
        prod.open("prod")


def test_a_project_can_not_send_the_login_of_a_worker_file_to_its_brokers(workplace) -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    worker = workplace.root / "worker.properties"
    worker.write_text(f"bootstrap.servers=good:1\nsecurity.protocol=SASL_SSL\nsasl.jaas.config={login}\n")
    cluster = f"lab: {{urls: 'http://lab:1', worker_config: {worker}}}"
    workplace.write(f"contexts: {{dev: {{kafka: {{bootstrap.servers: 'evil:1'}}, connect: {{{cluster}}}}}}}")
    with pytest.raises(UntrustedSettingError, match=r"kafka\.bootstrap\.servers"):
        workplace.open()


def test_a_worker_file_of_the_project_resolves_no_references(workplace) -> None:
    workplace.environ["STOLEN"] = "canary"
    (workplace.project / "worker.properties").write_text(
        "config.providers=env\nconfig.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        "group.id=${env:STOLEN}\n"
    )
    workplace.write("contexts: {dev: {connect: {lab: {urls: 'http://evil', worker_config: worker.properties}}}}")
    with pytest.raises(SecretError) as caught:
        workplace.open()
    assert "canary" not in str(caught.value.as_dict())
    assert "project file" in caught.value.cause
    workplace.environ["SEAMARK_CONFIG"] = str(workplace.project / "seamark.yaml")
    assert workplace.open().connect["lab"].group_id == "canary"


@pytest.mark.parametrize(
    "text",
    [
        f"kafka: {{bootstrap.servers: 'evil:1', {SASL}, sasl.password: secret://env/PROD_PASSWORD}}",
        "kafka: {bootstrap.servers: 'evil:1', client.id: secret://env/PROD_PASSWORD}",
        "kafka: {bootstrap.servers: secret://env/PROD_PASSWORD}",
        "kafka: {bootstrap.servers: 'evil:1', sasl.oauthbearer.assertion.file: /etc/hostname}",
        "kafka: {bootstrap.servers: 'evil:1', sasl.oauthbearer.metadata.authentication.type: azure_imds}",
        "connect: {main: {urls: 'https://evil', username: u, password: secret://env/REST_PASSWORD}}",
        "connect: {main: {urls: 'https://evil', username: u, password: secret://file//etc/hostname}}",
        "lakes: {lake: {url: 's3://evil', endpoint: 'https://evil', access_key: secret://env/A, secret_key: x}}",
        "lakes: {lake: {url: 's3://evil', endpoint: 'https://evil'}}",
    ],
)
def test_a_project_can_not_send_secrets_of_the_machine_to_its_own_addresses(workplace, text: str) -> None:
    workplace.environ.update(SECRETS)
    workplace.write(f"contexts: {{evil: {{{text}}}}}")
    with pytest.raises(UntrustedSettingError) as caught:
        workplace.open()
    assert "SEAMARK_CONFIG=seamark.yaml" in caught.value.hint
    workplace.environ["SEAMARK_CONFIG"] = "seamark.yaml"
    workplace.open()


@pytest.mark.parametrize("dsn", ["host=evil user=u", "host=evil passfile=/srv/u/.pgpass", "service=prod host=evil"])
def test_a_project_dsn_gets_no_password_of_the_machine(workplace, dsn: str) -> None:
    workplace.write(f"contexts: {{dev: {{databases: {{g: {{jdbc_url: 'jdbc:postgresql://db/g', dsn: '{dsn}'}}}}}}}}")
    workplace.environ["PGPASSWORD"] = "canary"
    with pytest.raises(UntrustedSettingError, match=r"databases\.g\.dsn"):
        workplace.open()
    workplace.environ["SEAMARK_CONFIG"] = "seamark.yaml"
    assert workplace.open().databases["g"].dsn.reveal() == dsn


def test_a_project_dsn_in_a_file_of_the_repository_gets_no_password_of_the_machine(workplace) -> None:
    workplace.write("host=evil user=u", "evil.dsn")
    dsn = "{jdbc_url: 'jdbc:postgresql://db/g', dsn: secret://%s}"
    workplace.write(f"contexts: {{dev: {{databases: {{g: {dsn % 'file/evil.dsn'}}}}}}}")
    with pytest.raises(UntrustedSettingError, match=r"databases\.g\.dsn"):
        workplace.open()
    # The address and the password of a variable are both the user's.
    workplace.environ |= {"PGPASSWORD": "canary", "DSN": "host=db"}
    workplace.write(f"contexts: {{dev: {{databases: {{g: {dsn % 'env/DSN'}}}}}}}")
    assert workplace.open().databases["g"].dsn.reveal() == "host=db"


def test_a_region_can_not_name_another_host(workplace) -> None:
    workplace.write_user("contexts: {dev: {lakes: {lake: {url: 's3://lake', region: 'evil.example/#'}}}}")
    with pytest.raises(InvalidSettingError, match=r"lakes\.lake\.region"):
        workplace.open()


def test_credentials_and_addresses_of_one_place_open(workplace) -> None:
    text = f"kafka: {{bootstrap.servers: 'b:1', {SASL}, sasl.password: literal}}"
    workplace.write(f"contexts: {{dev: {{{text}}}}}")
    assert workplace.open().kafka.client_config()["sasl.password"] == "literal"


def test_a_more_trusted_address_takes_credentials_of_a_less_trusted_place(workplace) -> None:
    workplace.write_system(f"contexts: {{dev: {{kafka: {{bootstrap.servers: 'b:1', {SASL}}}}}}}")
    workplace.environ["SEAMARK_CONTEXTS__DEV__KAFKA__SASL_PASSWORD"] = "mine"
    assert workplace.open().kafka.client_config()["sasl.password"] == "mine"
    # A repository may name which of the user's secrets goes to the administrator's brokers.
    del workplace.environ["SEAMARK_CONTEXTS__DEV__KAFKA__SASL_PASSWORD"]
    workplace.environ["PW"] = "theirs"
    workplace.write("contexts: {dev: {kafka: {sasl.password: secret://env/PW}}}")
    assert workplace.open().kafka.client_config()["sasl.password"] == "theirs"


def test_a_repository_may_still_set_what_credentials_do_not_pass_through(prod) -> None:
    prod.write(project("connect: {main: {group_id: g, offsets_topic: o}}, journal_topic: j"))
    context = prod.open("prod")
    assert (context.connect["main"].group_id, context.journal.topic) == ("g", "j")


@pytest.mark.parametrize("key", ["protected", "read_only", "insecure"])
def test_the_most_trusted_place_decides(workplace, key: str) -> None:
    """A flag, a variable or a repository can't loosen what the user or the administrator wrote."""
    base = "kafka: {bootstrap.servers: 'b:1'}"
    variable = {f"SEAMARK_CONTEXTS__DEV__{key.upper()}": "project"}
    layers = [
        (workplace.write, "seamark.yaml"),
        (lambda text: workplace.environ.update(dict.fromkeys(variable, text)), key.upper()),
        (workplace.write_user, "~/.config/seamark/config.yaml"),
        (workplace.write_system, str(workplace.system)),
    ]
    for number, (write, place) in enumerate(layers):
        said = "true" if number % 2 else "false"
        is_variable = place == key.upper()
        write(said if is_variable else f"contexts: {{dev: {{{base}, {key}: {said}}}}}")
        context = workplace.open("dev")
        assert getattr(context, key) is bool(number % 2)
        assert place in workplace.origins("dev")[key]
    opposite = "false" if len(layers) % 2 == 0 else "true"
    assert getattr(workplace.open("dev", overrides={key: opposite}), key) is (opposite == "false")


def test_roles_come_whole_from_the_most_trusted_place(workplace) -> None:
    base = "kafka: {bootstrap.servers: 'b:1'}"
    own = "roles: {oncall: {principals: ['User:ana'], allow: [read, operate], connectors: 'log-*'}}"
    workplace.write(f"contexts: {{dev: {{{base}, roles: {{evil: {{principals: ['*'], allow: administer}}}}}}}}")
    assert dict(workplace.open().roles) == {"evil": {"principals": ("*",), "allow": ("administer",)}}
    workplace.write_user(f"contexts: {{dev: {{{own}}}}}")
    assert dict(workplace.open().roles) == {
        "oncall": {"principals": ("User:ana",), "allow": ("read", "operate"), "connectors": ("log-*",)}
    }
    assert workplace.values()["roles.oncall.allow"] == "read, operate"
    # An empty mapping is a statement: no roles.
    workplace.write_system("contexts: {dev: {roles: {}}}")
    assert dict(workplace.open().roles) == {}


def test_labels_of_a_role_are_a_table(workplace) -> None:
    role = "principals: ['User:ana'], allow: read, labels: {team: game, tier: 1, empty: ''}"
    workplace.write(f"contexts: {{dev: {{kafka: {{bootstrap.servers: 'b:1'}}, roles: {{a: {{{role}}}}}}}}}")
    assert workplace.open().roles["a"]["labels"] == ("team=game", "tier=1", "empty=")
    assert workplace.values()["roles.a.labels"] == "team=game, tier=1, empty="


@pytest.mark.parametrize("labels", ["{}", "", "null", "[team=game]", "team=game", "{team: [a]}", "{team: null}"])
def test_a_role_whose_labels_limit_nothing_is_fatal(workplace, labels: str) -> None:
    role = f"principals: ['User:ana'], allow: read, labels: {labels}"
    workplace.write(f"contexts: {{dev: {{kafka: {{bootstrap.servers: 'b:1'}}, roles: {{a: {{{role}}}}}}}}}")
    with pytest.raises(ConfigurationError):
        workplace.open()


@pytest.mark.parametrize("text", ["roles: {a: {permit: [x]}}", "roles: [a]", "roles: {a: b}", "read_only: yes"])
def test_a_misspelt_role_is_fatal(workplace, text: str) -> None:
    workplace.write_user(f"contexts: {{dev: {{kafka: {{bootstrap.servers: 'b:1'}}, {text}}}}}")
    with pytest.raises(ConfigurationError):
        workplace.open()


def test_roles_can_not_come_from_variables_or_flags(workplace) -> None:
    workplace.write("contexts: {dev: {kafka: {bootstrap.servers: 'b:1'}}}")
    with pytest.raises(UsageError):
        workplace.open("dev", overrides={"roles": "x"})
    workplace.environ["SEAMARK_CONTEXTS__DEV__ROLES"] = "x"
    with pytest.raises(ConfigurationError):
        workplace.open("dev")


def test_seamark_config_does_not_hide_the_system_file(workplace) -> None:
    workplace.write_system("contexts: {dev: {protected: true, policy: {files: []}}}")
    workplace.write("contexts: {dev: {kafka: {client.id: project}}}")
    workplace.write_user("contexts: {dev: {kafka: {client.id: user}}}")
    named = workplace.write(
        "contexts: {dev: {protected: false, kafka: {bootstrap.servers: 'b:1'}, policy: {files: [/**]}}}", "own.yaml"
    )
    workplace.environ["SEAMARK_CONFIG"] = str(named)
    context = workplace.open("dev")
    assert (context.protected, context.policy.files) == (True, ())
    assert "client.id" not in context.kafka.values
    assert [place.what for place in workplace.load().places] == ["SEAMARK_CONFIG file", "system file"]


def test_a_journal_key_of_the_repository_does_not_replace_the_users(workplace) -> None:
    base = "kafka: {bootstrap.servers: 'b:1'}"
    workplace.write_user(f"contexts: {{dev: {{{base}, journal_key: secret://env/KEY}}}}")
    workplace.write("contexts: {dev: {journal_key: known-to-the-attacker}}")
    workplace.environ["KEY"] = "the-team's-own-key"
    key = workplace.open().journal.key
    assert key is not None
    assert key.reveal() == "the-team's-own-key"
