"""The REST transport on loopback sockets: where a request goes, and which certificate counts."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import threading
from contextlib import contextmanager, suppress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from seamark.connect import requests
from seamark.connect.answers import HttpResponse, Phase, RequestFailure
from seamark.connect.transport import Transport

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]"
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")


class Server:
    """Answers every request with an empty list, and stores the first line of each."""

    def __init__(self, context=None):
        self.lines = []
        self._context = context
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def port(self):
        return self._socket.getsockname()[1]

    def close(self):
        # A close alone does not wake a thread that is in accept().
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)

    def _serve(self):
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            # A client that refuses the certificate ends the handshake.
            with client, suppress(OSError):
                self._answer(client)

    def _answer(self, client):
        client.settimeout(10)
        if self._context is not None:
            client = self._context.wrap_socket(client, server_side=True)
        self.lines.append(client.recv(65536).split(b"\r\n")[0].decode())
        client.sendall(ANSWER)
        client.close()


@contextmanager
def serve(context=None):
    server = Server(context)
    try:
        yield server
    finally:
        server.close()


def send(url, **settings):
    with Transport((url,), **settings) as transport:
        return transport.send(url, requests.names(), connect_seconds=10, read_seconds=10)


def write_certificate(folder, name):
    """Write a certificate for a host name, signed by itself, with its key. Return its path."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


def build_server_context(path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


def test_proxy_of_the_environment_is_not_used(monkeypatch):
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with serve() as worker, serve() as proxy:
        for variable in PROXY_VARIABLES:
            monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.port}")
            monkeypatch.setenv(variable.upper(), f"http://127.0.0.1:{proxy.port}")
        answer = send(f"http://127.0.0.1:{worker.port}", username="ana", password="canary")
    assert isinstance(answer, HttpResponse)
    assert len(worker.lines) == 1
    # A proxy of the environment would see the password and every config.
    assert proxy.lines == []


def test_certificate_of_another_host_is_refused(tmp_path):
    path = write_certificate(tmp_path, "other.example")
    with serve(build_server_context(path)) as worker:
        outcome = send(f"https://localhost:{worker.port}", ca_file=str(path))
    assert isinstance(outcome, RequestFailure)
    assert outcome.phase is Phase.CONNECTING
    assert "Hostname mismatch" in outcome.reason
    assert worker.lines == []


def test_certificate_of_the_host_is_accepted(tmp_path):
    path = write_certificate(tmp_path, "localhost")
    with serve(build_server_context(path)) as worker:
        outcome = send(f"https://localhost:{worker.port}", ca_file=str(path))
    assert isinstance(outcome, HttpResponse)
    assert len(worker.lines) == 1


@pytest.mark.parametrize("verify", [True, False])
def test_certificate_of_an_unknown_authority_is_refused_unless_verification_is_off(tmp_path, verify):
    path = write_certificate(tmp_path, "localhost")
    with serve(build_server_context(path)) as worker:
        outcome = send(f"https://localhost:{worker.port}", verify=verify)
    assert isinstance(outcome, RequestFailure if verify else HttpResponse)
