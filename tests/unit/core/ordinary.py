"""Configs as people write them every day. The default policy must let each of them through."""

from __future__ import annotations

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_REGISTRY = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter.schema.registry.url": "http://registry:8081",
    "value.converter.basic.auth.credentials.source": "USER_INFO",
    "value.converter.basic.auth.user.info": "${file:/etc/kafka/r:user}:${file:/etc/kafka/r:password}",
}
_STICKY = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
_DLQ = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dlq", "errors.log.enable": "true"}


def _source(url: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector",
        "connection.url": url,
        "connection.user": "${file:/etc/kafka/db.properties:user}",
        "connection.password": "${file:/etc/kafka/db.properties:password}",
        "mode": "timestamp+incrementing",
        "incrementing.column.name": "seq",
        "timestamp.column.name": "logged_at",
        "topic.prefix": "game-",
        "tasks.max": "1",
        "poll.interval.ms": "5000",
    } | more


def _sink(class_name: str, **more: str) -> dict[str, str]:
    return {"connector.class": class_name, "topics": "orders,purchases", "tasks.max": "4"} | more


ORDINARY: list[tuple[str, dict[str, str]]] = [
    (
        "jdbc-postgresql",
        _source("jdbc:postgresql://db.internal:5432/game?sslmode=verify-full&sslrootcert=/etc/ssl/ca.pem"),
    ),
    (
        "jdbc-postgresql-literal-login",
        _source("jdbc:postgresql://app:secret@db/game?currentSchema=public&ApplicationName=connect"),
    ),
    ("jdbc-postgresql-failover", _source("jdbc:postgresql://a:5432,b:5432/game?targetServerType=primary")),
    ("jdbc-mysql", _source("jdbc:mysql://db:3306/game?useSSL=true&serverTimezone=UTC&characterEncoding=utf8")),
    ("jdbc-mariadb", _source("jdbc:mariadb://db/game?sslMode=trust")),
    ("jdbc-sqlserver", _source("jdbc:sqlserver://db:1433;databaseName=game;encrypt=true;trustServerCertificate=false")),
    ("jdbc-oracle", _source("jdbc:oracle:thin:@//db:1521/ORCLPDB1")),
    ("jdbc-oracle-sid", _source("jdbc:oracle:thin:@db:1521:ORCL")),
    ("jdbc-db2", _source("jdbc:db2://db:50000/GAME:currentSchema=PUBLIC;")),
    ("jdbc-url-from-a-file", _source("${file:/etc/kafka-connect/db.properties:url}")),
    ("jdbc-query", _source("jdbc:postgresql://db/game", query="SELECT *, 'a=b' AS x FROM t WHERE url LIKE 'http://%'")),
    (
        "jdbc-confluent",
        _source("jdbc:postgresql://db/game") | {"connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector"},
    ),
    (
        "jdbc-sink",
        _sink(
            "io.aiven.connect.jdbc.JdbcSinkConnector",
            **{
                "connection.url": "jdbc:postgresql://db/lake",
                "table.name.format": "kafka_${topic}",
                "insert.mode": "upsert",
            },
            **_DLQ,
        ),
    ),
    (
        "s3-confluent",
        _sink(
            "io.confluent.connect.s3.S3SinkConnector",
            **{
                "s3.bucket.name": "lake",
                "s3.region": "eu-central-1",
                "store.url": "http://minio:9000",
                "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
                "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
                "path.format": "'year'=YYYY/'month'=MM/'day'=dd",
                "s3.credentials.provider.class": "com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
                "aws.secret.access.key": "${dir:/run/secrets/s3:secret_key}",
                "flush.size": "1000",
            },
        ),
    ),
    (
        "s3-aiven",
        _sink(
            "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
            **{
                "aws.s3.bucket.name": "lake",
                "aws.access.key.id": "${file:/etc/kafka/s3.properties:access_key}",
                "aws.secret.access.key": "${file:/etc/kafka/s3.properties:secret_key}",
                "file.name.template": "{{topic}}/{{timestamp:unit=yyyy}}/{{partition:padding=true}}-{{start_offset}}",
                "file.compression.type": "gzip",
            },
        ),
    ),
    (
        "debezium-postgresql",
        {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "database.hostname": "db",
            "database.port": "5432",
            "database.user": "debezium",
            "database.password": "${secrets:kafka/db:password}",
            "database.dbname": "game",
            "database.sslmode": "require",
            "slot.name": "seamark",
            "table.include.list": "public.orders,public.items",
            "topic.prefix": "game",
            "snapshot.mode": "initial",
            "heartbeat.action.query": "INSERT INTO heartbeat (ts) VALUES (now())",
        },
    ),
    (
        "debezium-mysql",
        {
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "database.hostname": "db",
            "database.user": "debezium",
            "database.password": "${vault:secret/data/db:password}",
            "database.server.id": "184054",
            "topic.prefix": "game",
            "schema.history.internal.kafka.bootstrap.servers": "kafka:9092",
            "schema.history.internal.kafka.topic": "history",
            "schema.history.internal.producer.security.protocol": "SASL_SSL",
            "schema.history.internal.producer.sasl.mechanism": "SCRAM-SHA-512",
            "schema.history.internal.producer.sasl.jaas.config": f'{_SCRAM} required username="u" password="p;/=";',
            "schema.history.internal.consumer.sasl.jaas.config": "${file:/etc/kafka/client.properties:jaas}",
            "schema.history.internal.producer.ssl.truststore.location": "/etc/kafka/truststore.p12",
        },
    ),
    (
        "debezium-unwrap",
        {
            "connector.class": "io.debezium.connector.sqlserver.SqlServerConnector",
            "database.hostname": "db",
            "database.names": "game",
            "transforms": "unwrap,route",
            "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
            "transforms.unwrap.delete.tombstone.handling.mode": "rewrite",
            "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
            "transforms.route.regex": "([^.]+)\\.([^.]+)\\.([^.]+)",
            "transforms.route.replacement": "$3",
        },
    ),
    (
        "debezium-outbox",
        {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "transforms": "outbox",
            "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
            "transforms.outbox.route.topic.replacement": "${routedByValue}",
        },
    ),
    (
        "debezium-mongodb",
        {
            "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
            "mongodb.connection.string": "mongodb://u:p@m1:27017,m2:27017/?replicaSet=rs0&authSource=admin",
        },
    ),
    (
        "mirror-source",
        {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.alias": "eu",
            "target.cluster.alias": "us",
            "source.cluster.bootstrap.servers": "eu-1:9093,eu-2:9093",
            "target.cluster.bootstrap.servers": "us-1:9093",
            "source.cluster.security.protocol": "SASL_SSL",
            "source.cluster.sasl.jaas.config": f'{_SCRAM} required username="m" password="${{file:/etc/kafka/m:p}}";',
            "source.cluster.ssl.truststore.location": "/etc/kafka/truststore.jks",
            "topics": "orders.*",
            "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        },
    ),
    (
        "mirror-heartbeat",
        {"connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector", "source.cluster.alias": "eu"},
    ),
    (
        "http-sink",
        _sink(
            "io.aiven.kafka.connect.http.HttpSinkConnector",
            **{
                "http.url": "https://api.example.com/v1/orders?source=kafka",
                "http.authorization.type": "oauth2",
                "oauth2.access.token.url": "https://idp.example.com/token",
                "oauth2.client.secret": "${file:/etc/kafka-connect/http.properties:secret}",
                "http.headers.additional": "X-Team: orders",
            },
            **_DLQ,
        ),
    ),
    (
        "elasticsearch",
        _sink(
            "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
            **{"connection.url": "https://es:9200", "connection.password": "p"},
        ),
    ),
    (
        "opensearch",
        _sink("io.aiven.kafka.connect.opensearch.OpensearchSinkConnector", **{"connection.url": "https://os:9200"}),
    ),
    (
        "iceberg",
        _sink(
            "org.apache.iceberg.connect.IcebergSinkConnector",
            **{
                "iceberg.catalog.type": "rest",
                "iceberg.catalog.uri": "http://catalog:8181",
                "iceberg.tables": "db.orders",
                "consumer.override.group.id": "iceberg-orders",
                "consumer.override.auto.offset.reset": "latest",
            },
        ),
    ),
    (
        "clickhouse",
        _sink(
            "com.clickhouse.kafka.connect.ClickHouseSinkConnector",
            hostname="ch",
            database="d",
            jdbcConnectionProperties="?socket_timeout=1",
        ),
    ),
    (
        "mongodb-sink",
        _sink("com.mongodb.kafka.connect.MongoSinkConnector", **{"connection.uri": "mongodb+srv://u:p@cluster/db"}),
    ),
    (
        "bigquery",
        _sink("com.wepay.kafka.connect.bigquery.BigQuerySinkConnector", project="p", keyfile="/run/secrets/gcp.json"),
    ),
    (
        "snowflake",
        _sink(
            "com.snowflake.kafka.connector.SnowflakeSinkConnector",
            **{"snowflake.url.name": "x.snowflakecomputing.com:443", "snowflake.private.key": "k"},
        ),
    ),
    (
        "tuned-clients",
        _sink(
            "io.confluent.connect.s3.S3SinkConnector",
            **{
                "consumer.override.max.poll.records": "5000",
                "x.interceptor.classes": "",
                "consumer.override.fetch.max.bytes": "52428800",
                "consumer.override.isolation.level": "read_committed",
                "consumer.override.partition.assignment.strategy": _STICKY,
                "producer.override.compression.type": "zstd",
                "producer.override.linger.ms": "50",
                "producer.override.client.id": "s3-dlq",
                "admin.override.request.timeout.ms": "60000",
            },
        ),
    ),
    (
        "transforms-and-predicates",
        _sink(
            "io.confluent.connect.s3.S3SinkConnector",
            **{
                "transforms": "drop,stamp,cast",
                "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
                "transforms.drop.predicate": "tombstone",
                "predicates": "tombstone",
                "predicates.tombstone.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
                "transforms.stamp.type": "org.apache.kafka.connect.transforms.InsertField$Value",
                "transforms.stamp.timestamp.field": "at",
                "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
                "transforms.cast.spec": "id:int64,price:float64",
            },
        ),
    ),
    ("avro", _sink("io.confluent.connect.s3.S3SinkConnector", **_REGISTRY)),
    (
        "datagen",
        {
            "connector.class": "io.confluent.kafka.connect.datagen.DatagenConnector",
            "kafka.topic": "t",
            "quickstart": "users",
        },
    ),
    (
        "mqtt",
        {
            "connector.class": "io.confluent.connect.mqtt.MqttSourceConnector",
            "mqtt.server.uri": "tcp://broker:1883",
            "mqtt.topics": "a/#",
        },
    ),
    (
        "a-password-of-percent-signs",
        _source("jdbc:postgresql://u:p%40ss%25@db/game", **{"connection.password": "100%=sure:yes"}),
    ),
    (
        "a-placeholder-of-the-connector",
        _sink("x.y.Sink", pattern="${topic}-${partition}", note="ratio 1:2, a=b; file under x"),
    ),
]
