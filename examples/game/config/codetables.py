"""Twelve small tables, read whole once a day: one SQL template over all of them."""

from seamark.specs import connector

TABLES = (
    "item",
    "quest",
    "npc",
    "skill",
    "zone",
    "class",
    "rank",
    "shop",
    "drop_rate",
    "achievement",
    "season",
    "server",
)
SELECT = "SELECT *, '{realm}' AS realm FROM \"{table}\""
DAY = 24 * 60 * 60 * 1000


def resources(env):
    realm = env.get("GAME_REALM", "kr-1")
    for table in TABLES:
        yield connector(
            f"code-{table}",
            {
                "query": SELECT.format(realm=realm, table=table),
                "mode": "bulk",
                "poll.interval.ms": str(DAY),
                "topic.prefix": f"code-{table}",
            },
            base="jdbc",
        )
