"""Secrets in every place a context can hold one; none of them may come out but to the client."""

from __future__ import annotations

import copy
import dataclasses
import pprint
import traceback

import pytest

from seamark.context import Context, load_contexts
from seamark.errors import SeamarkError


@pytest.fixture(autouse=True)
def _trusted(workplace):
    workplace.trust_project()


CANARIES = [f"canary{number:02d}feather" for number in range(24)]
C = CANARIES
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
FILE = """\
current: dev
contexts:
  dev:
    insecure: true
    kafka:
      bootstrap.servers: b:1
      security.protocol: SASL_SSL
      sasl.mechanism: PLAIN
      sasl.username: u
      sasl.password: {0}
      ssl.key.password: "{1}"
      ssl.key.pem: '{2}'
      sasl.oauthbearer.client.secret: {3}
      sasl.oauthbearer.config: principal={4}
      sasl.oauthbearer.token.endpoint.url: https://u:{5}@idp/token
      sasl.oauthbearer.assertion.private.key.passphrase: {6}
      ssl.keystore.password: {7}
      ssl.truststore.password: {8}
      ssl.keystore.key: {9}
      https.ca.location: secret://env/CA_CANARY
    connect:
      one:
        urls: ["http://u:{10}@a:1", "http://u:{10}@b:1/x"]
      two:
        urls: http://c:1
        username: u
        password: {11}
      three:
        urls: http://d:1
        username: u
        password: secret://env/ENV_CANARY
      four:
        urls: http://e:1
        username: u
        password: secret://file/four.properties#password
      five:
        urls: http://f:1
        username: u
        password: secret://file/five.json#password
      six:
        urls: http://g:1
        username: u
        password: secret://file/six
  worker:
    insecure: true
    connect:
      seven:
        urls: http://h:1
        worker_config: worker.properties
"""
WORKER = """\
bootstrap.servers=b:1
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config={module} required username="u" password="{0}" extra="${{file:refs.properties:jaas}}";
ssl.truststore.password={1}
ssl.keystore.password=${{env:WORKER_CANARY}}
ssl.key.password={2}
ssl.keystore.key=-----BEGIN PRIVATE KEY-----{3}-----END PRIVATE KEY-----
config.providers=file,env
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
"""


@pytest.fixture
def planted(workplace):
    workplace.write(FILE.format(*C[:12]))
    workplace.write(f"password={C[12]}\n", "four.properties")
    workplace.write(f'{{"password": "{C[13]}"}}', "five.json")
    workplace.write(C[14], "six")
    workplace.write(WORKER.format(*C[15:19], module=PLAIN), "worker.properties")
    workplace.write(f"jaas={C[19]}\n", "refs.properties")
    workplace.environ |= {
        "ENV_CANARY": C[20],
        "CA_CANARY": f"/{C[21]}",
        "WORKER_CANARY": C[22],
        "SEAMARK_CONTEXTS__DEV__KAFKA__SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_PEM": C[23],
    }
    return workplace


def leaks(*texts: str) -> list[str]:
    return [canary for canary in CANARIES for text in texts if canary in text]


def render(value: object) -> list[str]:
    return [str(value), repr(value), f"{value}", pprint.pformat(value)]


def render_context(context: Context) -> list[str]:
    parts: list[object] = [context, context.kafka, context.settings(), context.values, context.lookup]
    parts += [*context.connect.values(), *(cluster.password for cluster in context.connect.values())]
    parts += [dataclasses.asdict(context), dataclasses.asdict(context.kafka)]
    parts += [str(dataclasses.asdict(cluster)) for cluster in context.connect.values()]
    texts = [text for part in parts for text in render(part)]
    texts += [f"{setting.key} {setting.value} {setting.origin} {setting.note}" for setting in context.settings()]
    return texts + render(copy.copy(context.kafka))


def test_all_secrets_reach_the_client_and_nobody_else(planted) -> None:
    contexts = load_contexts(**planted.where)
    dev, worker = contexts.open("dev"), contexts.open("worker")
    shown = [*render(contexts), *render_context(dev), *render_context(worker)]
    assert leaks(*shown) == []
    revealed = [*dev.kafka.client_config().values()]
    revealed += [cluster.password.reveal() for cluster in dev.connect.values()]
    revealed += [*worker.kafka.client_config().values()]
    revealed += [value.reveal() for value in worker.kafka.values.values()]
    # What nothing here needs, such as the password of no trust store, goes no further than its value.
    revealed += [value.reveal() for value in dev.kafka.values.values()]
    assert set(leaks(*revealed)) == set(CANARIES)


BREAKS = [
    ("contexts:", "contexts: ["),
    ("    kafka:", "    kafka: !tag"),
    ("sasl.username: u", "sasl.username: u\n      sasl.username: v"),
    ("      sasl.mechanism: PLAIN", "      sasl.mechanizm: PLAIN"),
    ("username: u\n        password: {11}", "username: u\n        passwort: {11}"),
    ("sasl.password: {0}", "sasl.password: *{0}"),
    ("sasl.password: {0}", "sasl.password: !{0} x"),
    ("sasl.password: {0}", "sasl.password: &{0}"),
    ("sasl.password: {0}", "sasl.password: @{0}"),
    ("sasl.password: {0}", "sasl.password: %{0}"),
    ("sasl.password: {0}", "sasl.password: [{0}]"),
    ("sasl.password: {0}", 'sasl.password: "{0}\\q"'),
    ("sasl.password: {0}", "sasl.password: '{0}"),
    ("sasl.password: {0}", "sasl.password: {0}: x"),
    ('urls: ["http://u:{10}@a:1"', 'urls: ["ftp://u:{10}@a:1"'),
    ('urls: ["http://u:{10}@a:1"', 'urls: ["http://u:{10}/x@a:1"'),
    ('urls: ["http://u:{10}@a:1"', 'urls: ["http://u:{10}#@a:1"'),
    ('urls: ["http://u:{10}@a:1"', 'urls: ["http://w:{11}@a:1"'),
    ("password: {11}", "password: {11}\n        tls_verify: {11}"),
    ("protocol: SASL_SSL", "protocol: {1}"),
    ("mechanism: PLAIN", "mechanism: {2}"),
    ("insecure: true", "insecure: {3}"),
    ("secret://env/ENV_CANARY", "secret://env/NOT_SET"),
    ("four.properties#password", "four.properties#nothing"),
    ("five.json#password", "four.properties#nothing"),
    ("five.json#password", "five.broken.json#password"),
    ("secret://file/six", "secret://file/six#key"),
    (
        "      ssl.keystore.password: {7}",
        "      ssl.keystore.location: four.properties\n      ssl.keystore.password: {7}",
    ),
    (
        "      ssl.truststore.password: {8}",
        "      ssl.truststore.location: five.json\n      ssl.truststore.password: {8}",
    ),
    ("sasl.username: u", "sasl.jaas.config: {0} {1} {2};"),
    ("sasl.username: u", "sasl.jaas.config: '" + PLAIN + " required username={0} password=\"{1};'"),
    ("secret://env/CA_CANARY", "secret://nokind/x"),
]


def use_everything(workplace) -> None:
    dev = workplace.open("dev")
    dev.kafka.client_config()
    for cluster in dev.connect.values():
        if cluster.password is not None:
            cluster.password.reveal()


@pytest.mark.parametrize(("old", "new"), BREAKS)
def test_no_error_carries_a_secret(planted, old: str, new: str) -> None:
    assert old in FILE
    planted.write(FILE.replace(old, new, 1).format(*C[:12]))
    planted.write(f'{{"password": "{C[13]}"', "five.broken.json")
    with pytest.raises(SeamarkError) as caught:
        use_everything(planted)
    error = caught.value
    assert leaks(str(error), repr(error), str(error.as_dict()), error.cause, error.hint) == []
    assert leaks(*traceback.format_exception_only(error)) == []
    chain: BaseException | None = error.__context__ or error.__cause__
    assert chain is None


def test_errors_of_the_worker_file_carry_no_secret(planted) -> None:
    for broken in (
        WORKER.replace("required", "perhaps"),
        WORKER.replace(PLAIN, "x").replace("{module}", "com.example.Other"),
        WORKER.replace("refs.properties:jaas", "refs.properties:nothing"),
        WORKER.replace("sasl.mechanism=PLAIN", "sasl.mechanism={0}"),
        WORKER + "\nbad=\\uzz{0}\n",
        WORKER.replace("FileConfigProvider", "OtherProvider"),
    ):
        planted.write(broken.format(*C[15:19], module=PLAIN), "worker.properties")
        with pytest.raises(SeamarkError) as caught:
            planted.open("worker").kafka.client_config()
        assert leaks(str(caught.value.as_dict()), repr(caught.value)) == []
        assert caught.value.__context__ is None
