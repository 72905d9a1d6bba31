"""What was bought on each day, and by whom most: Spark over the tables of the lake.

    python examples/lake/query.py

The lake is that of the current context.
"""

import seamark
from seamark.fleet.lakes import open_lake
from seamark.spark import open_session
from seamark.spark.lake_conf import build_lake_conf, build_table_path


def main():
    with seamark.open() as fleet:
        lake = open_lake(fleet.context.lakes["lake"])
    spark = open_session(app="lake query", conf={**build_lake_conf(lake), "spark.log.level": "ERROR"})
    for name in ("player", "purchase"):
        spark.read.format("delta").load(build_table_path(lake, f"raw/{name}")).createOrReplaceTempView(name)
    spark.sql(
        """
        SELECT event_date, count(*) AS purchases, sum(price) AS spent, max_by(player.name, price) AS highest
        FROM purchase JOIN player ON player.id = purchase.player
        WHERE seamark_dead_letter IS NULL
        GROUP BY event_date ORDER BY event_date
        """
    ).show()
    spark.stop()


if __name__ == "__main__":
    main()
