"""What Spark must be told to read the tables of a lake with Delta's own reader. Landing itself needs none of it."""

from __future__ import annotations

from urllib.parse import urlsplit

from seamark.lake.place import LakePlace

DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""As Delta's documents ask for. Its jars must be on Spark's path."""


def build_lake_conf(lake: LakePlace) -> dict[str, str]:
    """Return the settings for a session that reads a lake. Those of S3 apply to the lake's bucket only.

    They hold the keys of S3: give them to `open_session`, which keeps secrets off the command line of Spark's JVM.
    """
    if not lake.is_s3:
        return dict(DELTA_CONF)
    bucket = f"spark.hadoop.fs.s3a.bucket.{urlsplit(lake.url).netloc}"
    found = {
        f"{bucket}.endpoint": lake.endpoint,
        f"{bucket}.endpoint.region": lake.region or "us-east-1",
        # A server that is not AWS has no host name for each bucket.
        f"{bucket}.path.style.access": "true" if lake.endpoint else "",
        f"{bucket}.access.key": lake.access_key,
        f"{bucket}.secret.key": lake.secret_key,
    }
    return {**DELTA_CONF, **{key: value for key, value in found.items() if value}}


def build_table_path(lake: LakePlace, table: str) -> str:
    """A table of it, as Spark's readers take it: spark.read.format("delta").load(PATH)."""
    place = lake.below(table)
    return f"s3a://{place.path}" if place.is_s3 else place.path
