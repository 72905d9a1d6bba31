"""What was spent on which items: SQL over the tables of the lake, without Spark.

    python examples/lake/query.py
    python examples/lake/query.py "SELECT count(*) FROM buy"

The lake is that of the current context. Its tables log/buy, code/item and code/price are called buy, item and price.
"""

import sys

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

import seamark
from seamark.tables.delta.technology import open_lake

PURCHASES = """
SELECT item.name, count(*) AS purchases, sum(buy.amount) AS spent, max(price.value) AS list_price
FROM buy JOIN item ON item.id = buy.item JOIN price ON price.id = buy.item
WHERE seamark_dead_letter IS NULL
GROUP BY item.name ORDER BY spent DESC, item.name LIMIT 3
"""


def main(query):
    with seamark.open() as fleet:
        lake = open_lake(fleet.context.lakes["lake"])
    builder = QueryBuilder()
    for view, table in (("buy", "log/buy"), ("item", "code/item"), ("price", "code/price")):
        location = lake.below(table)
        builder.register(view, DeltaTable(location.table_url, storage_options=location.build_options()))
    found = pa.table(builder.execute(query))
    rows = [found.column_names, *zip(*(column.to_pylist() for column in found.columns), strict=True)]
    for row in rows:
        print("  ".join(f"{'-' if value is None else value!s:<14}" for value in row).rstrip())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else PURCHASES)
