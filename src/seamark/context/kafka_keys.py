"""Which keys of a Kafka client a context may hold, and what becomes of the others.

The names are librdkafka's (its CONFIGURATION.md, those for producers and consumers alike) and
the Java client's where the two differ. The list is closed on purpose: a misspelt security key
that is silently dropped would open a connection without the security that the user configured.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LIBRDKAFKA_KEYS = _words(
    """
    api.version.fallback.ms api.version.request api.version.request.timeout.ms bootstrap.servers
    broker.address.family broker.address.ttl broker.version.fallback client.dns.lookup client.id client.rack
    connections.max.idle.ms debug enable.metrics.push enable.random.seed enable.sasl.oauthbearer.unsecure.jwt
    enable.ssl.certificate.verification https.ca.location https.ca.pem log.connection.close log.thread.name
    log_level message.copy.max.bytes message.max.bytes metadata.max.age.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy receive.message.max.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms sasl.mechanism
    sasl.mechanisms sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.jwt.template.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.private.key.pem
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.config
    sasl.oauthbearer.extensions sasl.oauthbearer.grant.type sasl.oauthbearer.metadata.authentication.type
    sasl.oauthbearer.method sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url sasl.password
    sasl.username security.protocol socket.blocking.max.ms socket.connection.setup.timeout.ms
    socket.keepalive.enable socket.max.fails socket.nagle.disable socket.receive.buffer.bytes
    socket.send.buffer.bytes socket.timeout.ms ssl.ca.location ssl.ca.pem
    ssl.certificate.location ssl.certificate.pem ssl.cipher.suites ssl.crl.location ssl.curves.list
    ssl.endpoint.identification.algorithm ssl.key.location ssl.key.password ssl.key.pem
    ssl.keystore.location ssl.keystore.password ssl.providers ssl.sigalgs.list statistics.interval.ms
    topic.metadata.propagation.max.ms topic.metadata.refresh.fast.interval.ms
    topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse
    """
)

# Translated for librdkafka by `java_client` before a client sees them.
JAVA_KEYS = _words(
    """
    sasl.jaas.config ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.type
    ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
    """
)

# Taken and left out: librdkafka has no such choice, and its own is not weaker.
IGNORED_KEYS = _words(
    """
    ssl.enabled.protocols ssl.keymanager.algorithm ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm
    """
)

_CODE = "it would run code that the file specifies"
_JAVA_CODE = "it names Java code, which the Kafka client of seamark can't run"
_KERBEROS = "Kerberos is not in the Kafka client that seamark brings"
_OURS = "seamark sets this for each client"

REFUSED_KEYS = MappingProxyType(
    {
        "plugin.library.paths": _CODE,
        "ssl.engine.location": _CODE,
        "ssl.engine.id": _CODE,
        "sasl.kerberos.kinit.cmd": _CODE,
        "sasl.kerberos.keytab": _KERBEROS,
        "sasl.kerberos.min.time.before.relogin": _KERBEROS,
        "sasl.kerberos.principal": _KERBEROS,
        "sasl.kerberos.service.name": _KERBEROS,
        "sasl.client.callback.handler.class": _JAVA_CODE,
        "sasl.login.callback.handler.class": _JAVA_CODE,
        "sasl.login.class": _JAVA_CODE,
        "security.providers": _JAVA_CODE,
        "ssl.engine.factory.class": _JAVA_CODE,
        "metadata.broker.list": "it is another name of bootstrap.servers; use that",
        "acks": _OURS,
        "allow.auto.create.topics": _OURS,
        "auto.offset.reset": _OURS,
        "compression.type": _OURS,
        "enable.auto.commit": _OURS,
        "enable.idempotence": _OURS,
        "group.id": _OURS,
        "group.instance.id": _OURS,
        "isolation.level": _OURS,
        "linger.ms": _OURS,
        "max.in.flight.requests.per.connection": _OURS,
        "partitioner": _OURS,
        "request.timeout.ms": _OURS,
        "transaction.timeout.ms": _OURS,
        "transactional.id": _OURS,
    }
)

KAFKA_KEYS = LIBRDKAFKA_KEYS | JAVA_KEYS | IGNORED_KEYS

# Values that name a file; a relative one stands beside the file that holds it.
PATH_KEYS = _words(
    """
    https.ca.location sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.jwt.template.file
    sasl.oauthbearer.assertion.private.key.file ssl.ca.location ssl.certificate.location ssl.crl.location
    ssl.key.location ssl.keystore.location ssl.truststore.location
    """
)
# librdkafka's word for "look in the usual places", where it otherwise wants a path.
PROBE = "probe"


@dataclass(frozen=True, slots=True)
class Piece:
    """Keys of a worker's file that only make sense together.

    A group of keys is taken completely or not at all: a user name of one source with a password of
    another would be invalid. It is skipped if the context sets one of `keys` or of their `rivals` itself.
    """

    keys: frozenset[str]
    rivals: tuple[str, ...] = ()

    def is_given_by(self, keys: Iterable[str]) -> bool:
        """Whether one of the keys stands for this piece. A rival ending in a dot is a prefix."""
        return any(key in self.keys or self._is_rival(key) for key in keys)

    def _is_rival(self, key: str) -> bool:
        return any(key.startswith(rival) if rival.endswith(".") else key == rival for rival in self.rivals)


WORKER_PIECES = (
    Piece(frozenset({"bootstrap.servers"})),
    Piece(frozenset({"security.protocol"})),
    Piece(frozenset({"ssl.endpoint.identification.algorithm"})),
    Piece(frozenset({"sasl.mechanism"}), rivals=("sasl.mechanisms",)),
    Piece(
        frozenset(
            {
                "sasl.jaas.config",
                "sasl.client.callback.handler.class",
                "sasl.login.callback.handler.class",
                "sasl.login.class",
            }
        ),
        rivals=("sasl.username", "sasl.password", "sasl.oauthbearer."),
    ),
    Piece(
        frozenset(
            {"ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type"}
        ),
        rivals=("ssl.ca.",),
    ),
    Piece(
        frozenset(
            {
                "ssl.key.password",
                "ssl.keystore.certificate.chain",
                "ssl.keystore.key",
                "ssl.keystore.location",
                "ssl.keystore.password",
                "ssl.keystore.type",
            }
        ),
        rivals=("ssl.certificate.", "ssl.key."),
    ),
    Piece(frozenset({"ssl.engine.factory.class"})),
)
