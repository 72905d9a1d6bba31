"""What was bought on each day, and which item most: Spark over the tables of the lake.

    python examples/lake/query.py
    python examples/lake/query.py "SELECT count(*) FROM buy"

The lake is that of the current context. Its tables log/buy, code/item and code/price are called buy, item and price.
"""

import sys
from urllib.parse import urlsplit

import seamark
from seamark.spark import open_session
from seamark.tables.delta.technology import open_lake

# Delta's own reader needs these, and its jars on Spark's class path. Landing needs neither.
DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # By default 200 and 50 tasks, which take most of the time of a query over small tables.
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def build_conf(lake):
    """Return what Spark needs to read the lake. The settings of S3 apply to the lake's bucket only."""
    if not lake.is_s3:
        return DELTA_CONF
    bucket = f"spark.hadoop.fs.s3a.bucket.{urlsplit(lake.url).netloc}"
    found = {
        f"{bucket}.endpoint": lake.endpoint,
        f"{bucket}.endpoint.region": lake.region or "us-east-1",
        # A server that isn't AWS has no host name for each bucket.
        f"{bucket}.path.style.access": "true" if lake.endpoint else "",
        f"{bucket}.access.key": lake.access_key,
        f"{bucket}.secret.key": lake.secret_key,
    }
    return {**DELTA_CONF, **{key: value for key, value in found.items() if value}}


def build_path(lake, table):
    """Return the path of a table as Spark's readers take it."""
    place = lake.below(table)
    return f"s3a://{place.path}" if place.is_s3 else place.path


PURCHASES = """
SELECT event_date, count(*) AS purchases, sum(amount) AS spent, max_by(item.name, amount) AS highest,
       max(price.value) AS list_price
FROM buy JOIN item ON item.id = buy.item JOIN price ON price.id = buy.item
WHERE seamark_dead_letter IS NULL
GROUP BY event_date ORDER BY event_date
"""


def main(query):
    with seamark.open() as fleet:
        lake = open_lake(fleet.context.lakes["lake"])
    # open_session keeps the keys of S3 off the command line of Spark's JVM.
    spark = open_session(app="lake query", conf={**build_conf(lake), "spark.log.level": "ERROR"})
    for view, table in (("buy", "log/buy"), ("item", "code/item"), ("price", "code/price")):
        spark.read.format("delta").load(build_path(lake, table)).createOrReplaceTempView(view)
    spark.sql(query).show()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else PURCHASES)
