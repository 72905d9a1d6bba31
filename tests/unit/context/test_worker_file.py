"""What a worker's properties file fills, and what of it is refused."""

from __future__ import annotations

import pytest

from seamark.errors import ConfigurationError, InvalidSettingError, SecretError


@pytest.fixture(autouse=True)
def _trusted(workplace):
    workplace.trust_project()


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PROVIDERS = "org.apache.kafka.common.config.provider"
CONTEXT = "contexts: {dev: {connect: {game: {urls: 'http://a:1', worker_config: conf/worker.properties}}}}"
WORKER = f"""\
# a distributed worker
bootstrap.servers=b1:9093,b2:9093
group.id=connect-cluster
offset.storage.topic=connect-offsets
config.storage.topic=connect-configs
status.storage.topic=connect-status
exactly.once.source.support=enabled
consumer.group.id=all-sinks
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={SCRAM} required \\
  username="connect" \\
  password="a \\\\"quoted\\\\" word";
ssl.cipher.suites=TLS_AES_128_GCM_SHA256
key.converter=org.apache.kafka.connect.json.JsonConverter
"""


def write(workplace, worker: str, context: str = CONTEXT) -> None:
    workplace.write(context)
    (workplace.project / "conf").mkdir(exist_ok=True)
    workplace.write(worker, "conf/worker.properties")


def test_the_worker_file_fills_what_the_context_does_not_give(workplace) -> None:
    write(workplace, WORKER)
    context = workplace.open()
    game = context.connect["game"]
    assert game.group_id == "connect-cluster"
    assert (game.offsets_topic, game.config_topic, game.status_topic) == (
        "connect-offsets",
        "connect-configs",
        "connect-status",
    )
    assert (game.exactly_once, game.consumer_group_id) == (True, "all-sinks")
    assert game.worker_config == workplace.project / "conf" / "worker.properties"
    assert context.kafka.bootstrap_servers == "b1:9093,b2:9093"
    assert context.kafka.client_config() == {
        "bootstrap.servers": "b1:9093,b2:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "connect",
        "sasl.password": 'a "quoted" word',
    }
    origins = workplace.origins()
    assert origins["connect.game.group_id"] == "conf/worker.properties:3"
    assert origins["kafka.sasl.jaas.config"] == "conf/worker.properties:11"
    assert workplace.values()["kafka.sasl.jaas.config"] == "(sensitive)"
    assert workplace.values()["connect.game.exactly_once"] == "true"


def test_the_context_wins_over_the_worker_file(workplace) -> None:
    write(
        workplace,
        WORKER,
        "contexts: {dev: {kafka: {bootstrap.servers: 'x:1', sasl.username: me, sasl.password: mine},"
        " connect: {game: {urls: 'http://a:1', worker_config: conf/worker.properties, group_id: g}}}}",
    )
    context = workplace.open()
    assert context.connect["game"].group_id == "g"
    assert context.kafka.client_config() == {
        "bootstrap.servers": "x:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": "mine",
    }


def test_half_a_login_is_never_mixed_with_the_worker_s(workplace) -> None:
    write(
        workplace,
        WORKER,
        "contexts: {dev: {kafka: {sasl.username: me},"
        " connect: {game: {urls: 'http://a:1', worker_config: conf/worker.properties}}}}",
    )
    with pytest.raises(InvalidSettingError, match=r"kafka\.sasl\.password is missing for SASL_SSL"):
        workplace.open().kafka.client_config()


def test_an_environment_variable_wins_over_the_worker_file(workplace) -> None:
    write(workplace, WORKER)
    workplace.environ["SEAMARK_CONTEXTS__DEV__CONNECT__GAME__CONSUMER_GROUP_ID"] = "mine"
    assert workplace.open().connect["game"].consumer_group_id == "mine"


@pytest.mark.parametrize(("word", "expected"), [("enabled", True), ("PREPARING", False), ("disabled", False)])
def test_exactly_once_is_on_only_when_enabled(workplace, word: str, expected: bool) -> None:
    write(workplace, f"exactly.once.source.support={word}\n")
    assert workplace.open().connect["game"].exactly_once is expected


def test_an_unknown_word_for_exactly_once_is_refused(workplace) -> None:
    write(workplace, "exactly.once.source.support=perhaps\n")
    with pytest.raises(InvalidSettingError, match="not a value that Connect supports"):
        workplace.open()


def test_a_standalone_worker_s_offsets_file_is_taken(workplace) -> None:
    write(workplace, "offset.storage.file.filename=/var/lib/connect.offsets\nbootstrap.servers=b:1\n")
    assert str(workplace.open().connect["game"].offsets_file) == "/var/lib/connect.offsets"
    write(workplace, "offset.storage.file.filename=connect.offsets\n")
    assert workplace.open().connect["game"].offsets_file == workplace.project / "conf" / "connect.offsets"


def test_a_worker_file_that_is_not_there_is_named(workplace) -> None:
    workplace.write(CONTEXT)
    with pytest.raises(ConfigurationError, match=r"conf/worker\.properties can't be read"):
        workplace.open()


TWO = (
    "contexts: {dev: {connect: {a: {urls: 'http://a:1', worker_config: a.properties},"
    " b: {urls: 'http://b:1', worker_config: b.properties}}}}"
)


def test_two_worker_files_give_one_whole_kafka_connection(workplace) -> None:
    workplace.write(TWO)
    workplace.write("bootstrap.servers=b1:1,b2:1\ngroup.id=a\n", "a.properties")
    workplace.write("bootstrap.servers=b2:1\ngroup.id=b\nsecurity.protocol=SSL\n", "b.properties")
    context = workplace.open()
    assert context.kafka.client_config() == {"bootstrap.servers": "b1:1,b2:1"}
    assert [cluster.group_id for cluster in context.connect.values()] == ["a", "b"]


def test_two_worker_files_of_different_kafka_clusters_are_refused(workplace) -> None:
    workplace.write(TWO)
    workplace.write("bootstrap.servers=b1:1\n", "a.properties")
    workplace.write("bootstrap.servers=x1:1\n", "b.properties")
    with pytest.raises(InvalidSettingError, match="different Kafka clusters") as caught:
        workplace.open()
    assert "a.properties:1 and b.properties:1" in caught.value.cause


# --- references ---


def declare(**classes: str) -> str:
    lines = [f"config.providers={','.join(classes)}"]
    return "\n".join(lines + [f"config.providers.{name}.class={value}" for name, value in classes.items()]) + "\n"


def test_the_three_providers_of_kafka_are_resolved(workplace) -> None:
    write(
        workplace,
        declare(
            file=f"{PROVIDERS}.FileConfigProvider",
            env=f"{PROVIDERS}.EnvVarConfigProvider",
            dir=f"{PROVIDERS}.DirectoryConfigProvider",
        )
        + "bootstrap.servers=${env:HOST}:9093\ngroup.id=${file:names.properties:group}\n"
        + "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        + f'sasl.jaas.config={PLAIN} required username="${{dir:secrets:user}}" \\\n'
        + 'password="${file:names.properties:pw}";\n',
    )
    workplace.environ["HOST"] = "broker"
    workplace.write("group=g1\npw=p1\n", "conf/names.properties")
    (workplace.project / "conf" / "secrets").mkdir()
    workplace.write("u1", "conf/secrets/user")
    context = workplace.open()
    assert context.connect["game"].group_id == "g1"
    config = context.kafka.client_config()
    assert (config["bootstrap.servers"], config["sasl.username"], config["sasl.password"]) == (
        "broker:9093",
        "u1",
        "p1",
    )
    jaas = next(setting for setting in context.settings() if setting.key == "kafka.sasl.jaas.config")
    assert (jaas.value, jaas.is_sensitive, jaas.is_literal) == ("(sensitive)", True, False)


def test_another_provider_is_refused_by_name_only_when_it_is_needed(workplace) -> None:
    write(workplace, declare(vault="com.example.VaultConfigProvider") + "group.id=g\nbootstrap.servers=b:1\n")
    assert workplace.open().connect["game"].group_id == "g"
    write(workplace, declare(vault="com.example.VaultConfigProvider") + "group.id=${vault:kv/connect:group}\n")
    with pytest.raises(SecretError, match=r"connect\.game\.group_id") as caught:
        workplace.open()
    assert "com.example.VaultConfigProvider is Java code" in caught.value.cause


def test_a_reference_without_a_declared_provider_stays_as_it_is(workplace) -> None:
    write(workplace, "group.id=${file:/x:y}\n")
    assert workplace.open().connect["game"].group_id == "${file:/x:y}"


@pytest.mark.parametrize(
    ("reference", "cause"),
    [
        ("${env:NOT_HERE}", "NOT_HERE is not set here"),
        ("${file:nowhere.properties:k}", "nowhere.properties"),
        ("${file:worker.properties:nokey}", "nokey is not in"),
        ("${dir:.:../escape}", "it doesn't name a file in that folder"),
        ("${dir:.:nofile}", "nofile"),
    ],
)
def test_a_reference_that_can_not_be_resolved_names_itself(workplace, reference: str, cause: str) -> None:
    write(
        workplace,
        declare(
            file=f"{PROVIDERS}.FileConfigProvider",
            env=f"{PROVIDERS}.EnvVarConfigProvider",
            dir=f"{PROVIDERS}.DirectoryConfigProvider",
        )
        + f"group.id={reference}\n",
    )
    with pytest.raises(SecretError) as caught:
        workplace.open()
    assert reference in caught.value.message
    assert cause in caught.value.cause
    assert caught.value.hint


# --- logins ---


def login(workplace, jaas: str, mechanism: str = "PLAIN") -> dict[str, str]:
    lines = ["bootstrap.servers=b:1", "security.protocol=SASL_SSL", f"sasl.jaas.config={jaas}"]
    write(workplace, "\n".join([*lines, f"sasl.mechanism={mechanism}" if mechanism else ""]) + "\n")
    return workplace.open().kafka.client_config()


@pytest.mark.parametrize(
    "jaas",
    [
        f"{PLAIN} required username='u' password='p';",
        f"{PLAIN} REQUIRED username=u password=p ;",
        f'{PLAIN} required  password = "p"\\\n   username="\\\\165" ;',
        f'{PLAIN} optional username="u" password="p" serviceName=x;',
    ],
)
def test_a_login_is_taken_apart(workplace, jaas: str) -> None:
    config = login(workplace, jaas, mechanism="")
    assert (config["sasl.username"], config["sasl.password"], config["sasl.mechanism"]) == ("u", "p", "PLAIN")
    assert "sasl.jaas.config" not in config


@pytest.mark.parametrize(
    ("jaas", "problem"),
    [
        ("com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;", "Krb5LoginModule"),
        ("org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;", "OAuthBearerLoginModule"),
        (f"{SCRAM} required username=u password=p tokenauth=true;", "delegation tokens"),
        (f"{PLAIN} required username=u;", "username and password must both be given"),
        (f"{PLAIN} perhaps username=u password=p;", "must be required"),
        (f"{PLAIN} required username=u password=p", "it must be MODULE required"),
        (f'{PLAIN} required username="u password=p;', "a quotation mark is not closed"),
        (f"{PLAIN} required username=u password=p; {PLAIN} required username=u password=p;", "of one module"),
        (f"{PLAIN} required username u;", "name=value"),
        ("hunter2;", "it must be MODULE required"),
        ("hunter2 required;", "its login module"),
        ("", "sasl.password is missing"),
    ],
)
def test_another_login_is_refused_with_its_reason(workplace, jaas: str, problem: str) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        login(workplace, jaas)
    assert problem in caught.value.message
    assert "hunter2" not in str(caught.value.as_dict())
    assert caught.value.__context__ is None


def test_a_scram_login_needs_its_mechanism(workplace) -> None:
    with pytest.raises(InvalidSettingError, match=r"kafka\.sasl\.mechanism is not set"):
        login(workplace, f"{SCRAM} required username=u password=p;", mechanism="")


@pytest.mark.parametrize("mechanism", ["GSSAPI", "AWS_MSK_IAM"])
def test_a_mechanism_that_the_client_lacks_is_refused(workplace, mechanism: str) -> None:
    with pytest.raises(InvalidSettingError, match="is not supported") as caught:
        login(workplace, f"{PLAIN} required username=u password=p;", mechanism=mechanism)
    assert "SCRAM-SHA-512" in caught.value.hint


@pytest.mark.parametrize("key", ["sasl.login.callback.handler.class", "ssl.engine.factory.class"])
def test_java_classes_in_the_worker_s_connection_are_refused_by_name(workplace, key: str) -> None:
    write(workplace, f"bootstrap.servers=b:1\n{key}=com.example.Thing\n")
    with pytest.raises(InvalidSettingError, match=key):
        workplace.open().kafka.client_config()


def test_stores_and_logins_that_the_protocol_does_not_use_are_left_out(workplace) -> None:
    write(
        workplace, "bootstrap.servers=b:1\nssl.truststore.location=/no/such.jks\nssl.keystore.location=/no/such.jks\n"
    )
    assert workplace.open().kafka.client_config() == {"bootstrap.servers": "b:1"}
