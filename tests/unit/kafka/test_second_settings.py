"""Settings for the second client: the same connection, or none."""

import datetime as dt
import socket
import ssl
import subprocess
import sys
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from seamark.errors import InvalidSettingError, UnsupportedError
from seamark.kafka.kafka_python import build_second_settings, build_tls

ADDRESS = {"bootstrap.servers": "a:1, b:2"}
LOGIN = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "ops", "sasl.password": "hunter2"}


def build(**changes):
    return build_second_settings(
        ADDRESS | {key.replace("_", "."): value for key, value in changes.items()}, timeout_seconds=3
    )


def test_a_plain_connection():
    assert build() == {
        "bootstrap_servers": ["a:1", "b:2"],
        "client_id": "seamark",
        "security_protocol": "PLAINTEXT",
        "request_timeout_ms": 3000,
        "bootstrap_timeout_ms": 3000,
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "scram-sha-512"])
@pytest.mark.parametrize("key", ["sasl.mechanism", "sasl.mechanisms"])
def test_a_login(mechanism, key):
    config = {name: text for name, text in LOGIN.items() if name != "sasl.mechanism"} | {key: mechanism}
    settings = build_second_settings(ADDRESS | config | {"security.protocol": "sasl_plaintext"}, timeout_seconds=3)
    assert settings["security_protocol"] == "SASL_PLAINTEXT"
    assert settings["sasl_mechanism"] == mechanism.upper()
    assert settings["sasl_plain_username"] == "ops"
    assert settings["sasl_plain_password"] == "hunter2"
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"security.protocol": "SSPI"}, "security.protocol"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism"),
        ({"security.protocol": "SASL_SSL", **LOGIN, "sasl.kerberos.keytab": "x"}, "sasl.kerberos.keytab"),
        ({"security.protocol": "SSL", "ssl.sigalgs.list": "x"}, "ssl.sigalgs.list"),
        ({"security.protocol": "SSL", "ssl.curves.list": "x"}, "ssl.curves.list"),
        ({"security.protocol": "SSL", "ssl.engine.location": "x"}, "ssl.engine.location"),
        ({"security.protocol": "SSL", "ssl.providers": "fips"}, "ssl.providers"),
    ],
)
def test_what_can_not_be_turned_over_is_refused_and_named(config, key):
    with pytest.raises(UnsupportedError) as caught:
        build_second_settings(ADDRESS | config, timeout_seconds=3)
    assert caught.value.context == {"setting": f"kafka.{key}"}
    assert "hunter2" not in str(caught.value.as_dict())


def test_settings_of_a_security_that_is_not_used_are_left_alone():
    build_second_settings(ADDRESS | {"ssl.sigalgs.list": "x", "sasl.kerberos.keytab": "x"}, timeout_seconds=3)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority, a server's and a client's certificate, and the client's as a PKCS12 store."""
    folder = tmp_path_factory.mktemp("certificates")
    now = dt.datetime.now(dt.UTC)

    def make(name, issuer=None, *, authority=False):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer[1].subject if issuer else subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        )
        certificate = builder.sign(issuer[0] if issuer else key, hashes.SHA256())
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        for suffix, encryption in (
            ("key", serialization.NoEncryption()),
            ("locked", serialization.BestAvailableEncryption(b"hunter2")),
        ):
            (folder / f"{name}.{suffix}").write_bytes(
                key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
            )
        return key, certificate

    root = make("root", authority=True)
    make("localhost", root)
    key, certificate = make("client", root)
    store = pkcs12.serialize_key_and_certificates(
        b"client", key, certificate, None, serialization.BestAvailableEncryption(b"hunter2")
    )
    (folder / "client.p12").write_bytes(store)
    return folder


def shake_hands(context, certificates, *, host="localhost"):
    """Connect to a server that wants a client certificate. Gives the client's name as the server saw it."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates / "localhost.pem", certificates / "localhost.key")
    server.load_verify_locations(certificates / "root.pem")
    server.verify_mode = ssl.CERT_OPTIONAL
    seen = []
    ours, theirs = socket.socketpair()

    def serve():
        try:
            with server.wrap_socket(theirs, server_side=True) as accepted:
                seen.append(accepted.getpeercert())
                accepted.sendall(b"x")
        except (ssl.SSLError, OSError):
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with context.wrap_socket(ours, server_hostname=host) as connected:
            assert connected.recv(1) == b"x"
    finally:
        ours.close()
        thread.join(10)
    (found,) = seen
    return dict(pair[0] for pair in found["subject"])["commonName"] if found else None


class TestTls:
    def build(self, certificates, **changes):
        config = {"ssl.ca.location": str(certificates / "root.pem")}
        return build_tls(config | {key.replace("_", "."): value for key, value in changes.items()})

    def test_a_server_of_the_authority_is_trusted(self, certificates):
        assert shake_hands(self.build(certificates), certificates) is None

    def test_the_authority_may_be_a_text(self, certificates):
        context = build_tls({"ssl.ca.pem": (certificates / "root.pem").read_text()})
        assert shake_hands(context, certificates) is None

    def test_a_stranger_is_not_trusted(self, certificates):
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(build_tls({}), certificates)

    def test_another_host_name_is_not_trusted(self, certificates):
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            shake_hands(self.build(certificates), certificates, host="elsewhere")

    def test_the_name_is_not_compared_where_the_context_says_so(self, certificates):
        context = self.build(certificates, **{"ssl.endpoint.identification.algorithm": "none"})
        assert shake_hands(context, certificates, host="elsewhere") is None
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(build_tls({"ssl.endpoint.identification.algorithm": "none"}), certificates)

    def test_nothing_is_verified_where_the_context_says_so(self, certificates):
        context = build_tls({"enable.ssl.certificate.verification": "false"})
        assert shake_hands(context, certificates, host="elsewhere") is None

    @pytest.mark.parametrize(
        "own",
        [
            {"ssl.certificate.location": "client.pem", "ssl.key.location": "client.key"},
            {
                "ssl.certificate.location": "client.pem",
                "ssl.key.location": "client.locked",
                "ssl.key.password": "hunter2",
            },
            {"ssl.keystore.location": "client.p12", "ssl.keystore.password": "hunter2"},
        ],
        ids=["files", "locked", "store"],
    )
    def test_the_own_certificate_is_shown(self, certificates, own):
        placed = {key: str(certificates / text) if key.endswith("location") else text for key, text in own.items()}
        assert shake_hands(self.build(certificates, **placed), certificates) == "client"

    @pytest.mark.parametrize("locked", [False, True])
    def test_the_own_certificate_may_be_texts(self, certificates, locked):
        config = {
            "ssl.certificate.pem": (certificates / "client.pem").read_text(),
            "ssl.key.pem": (certificates / ("client.locked" if locked else "client.key")).read_text(),
        } | ({"ssl.key.password": "hunter2"} if locked else {})
        assert shake_hands(self.build(certificates, **config), certificates) == "client"

    @pytest.mark.parametrize(
        "config",
        [
            {"ssl.ca.location": "/nowhere/at/all.pem"},
            {"ssl.cipher.suites": "NONSENSE"},
            {"ssl.certificate.pem": "nonsense", "ssl.key.pem": "nonsense"},
        ],
    )
    def test_what_can_not_be_used_is_our_error(self, certificates, config):
        with pytest.raises(InvalidSettingError):
            self.build(certificates, **config)

    def test_a_wrong_password_is_our_error_without_it(self, certificates):
        own = {"ssl.keystore.location": str(certificates / "client.p12"), "ssl.keystore.password": "wrong-hunter"}
        with pytest.raises(InvalidSettingError) as caught:
            self.build(certificates, **own)
        assert "hunter" not in str(caught.value.as_dict())

    def test_old_versions_are_not_spoken(self, certificates):
        assert self.build(certificates).minimum_version >= ssl.TLSVersion.TLSv1_2

    def test_a_list_of_revoked_certificates_is_looked_at(self, certificates):
        # No list of this authority is in the file, so nothing of it can be trusted.
        context = self.build(certificates, **{"ssl.crl.location": str(certificates / "root.pem")})
        with pytest.raises(ssl.SSLCertVerificationError, match="CRL"):
            shake_hands(context, certificates)


# kafka-python does not close the socket of a connection that was refused before Python's collector does. So these run
# in a process of their own.

REFUSED = """
import sys, threading
from seamark.errors import DeadlineError
from seamark.kafka.kafka_python import KafkaPythonClient
client = KafkaPythonClient({"bootstrap.servers": sys.argv[1]}, timeout_seconds=0.5)
try:
    client.read_share_groups()
except DeadlineError as error:
    assert "list the share groups" in error.message, error.message
    assert not [found.name for found in threading.enumerate() if found.name.startswith("kafka-io")]
    sys.exit(3)
"""

LOGGED = """
import logging, sys
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
from seamark.errors import DeadlineError
from seamark.kafka.kafka_python import KafkaPythonClient, load
login = {"sasl.mechanism": "PLAIN", "sasl.username": "ops", "sasl.password": "hunter2"}
client = KafkaPythonClient(
    {"bootstrap.servers": sys.argv[1], "security.protocol": "SASL_PLAINTEXT", **login}, timeout_seconds=0.2
)
try:
    client.read_share_groups()
except DeadlineError:
    request = load("kafka.protocol.sasl").SaslAuthenticateRequest(auth_bytes=b"hunter2")
    log = logging.getLogger("kafka.net.connection")
    log.debug("%s Request %d: %s", "c", 1, request)
    log.debug("%s Request %d: %s", "c", 1, "another")
    print(client)
    sys.exit(3)
"""


def run(code, port):
    command = [sys.executable, "-W", "ignore", "-c", code, f"127.0.0.1:{port}"]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_a_refused_connection_is_our_error_and_leaves_no_thread_and_no_word(free_port):
    ended = run(REFUSED, free_port)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "", "")


def test_no_login_is_logged_at_the_finest_level(free_port):
    ended = run(LOGGED, free_port)
    assert ended.returncode == 3
    assert "Starting KafkaAdminClient" in ended.stderr
    assert "Request 1: another" in ended.stderr
    assert "hunter2" not in ended.stderr
    assert ended.stdout == f"KafkaPythonClient('127.0.0.1:{free_port}')\n"
