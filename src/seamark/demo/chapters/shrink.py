"""Chapter: a topic gets fewer partitions, and its reader goes on where it was."""

from __future__ import annotations

from seamark.demo.chapter import Act, Chapter, Moment, Need
from seamark.demo.chapters.files import make_journal, runs
from seamark.demo.stage import Stage

RECORDS, MORE = 20_000, 500
_SINK = "write-click"
_SPEC = """\
connectors:
  write-click:
    config:
      connector.class: org.apache.kafka.connect.file.FileStreamSinkConnector
      tasks.max: 1
      topics: game-click
      file: ${{ env.DEMO }}/shrink/clicks.txt
      key.converter: org.apache.kafka.connect.storage.StringConverter
      value.converter: org.apache.kafka.connect.storage.StringConverter
"""
_FILL = '''\
"""Clicks of some players, keyed by player, as a Java producer would place them: clicks.py TOPIC FIRST COUNT."""
import sys

from confluent_kafka import Producer

import seamark

topic, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
producer = Producer({**seamark.open().context.kafka.client_config(), "partitioner": "murmur2_random"})
for number in range(first, first + count):
    producer.produce(topic, key=f"player-{number % 997}", value=f"click {number}")
    producer.poll(0)
producer.flush(60)
'''
# Spark starts anew for each command, on a machine that the servers keep busy.
_SPARK_SECONDS = 120.0


def _set_up_shrink(stage: Stage) -> None:
    folder = stage.folder / "shrink"
    folder.mkdir(exist_ok=True)
    (folder / "click.yaml").write_text(_SPEC)
    (stage.folder / "clicks.py").write_text(_FILL)
    make_journal(stage)
    stage.use_spark()


def _build_moment(count: int) -> Moment:
    def has_come(stage: Stage) -> bool:
        file = stage.folder / "shrink" / "clicks.txt"
        return file.exists() and len(set(file.read_text().splitlines())) >= count and runs(stage, _SINK)

    return Moment(f"{count} clicks were in the file", has_come, _SPARK_SECONDS)


SHRINK = Chapter(
    name="shrink",
    title="Twelve partitions become six",
    needs=(Need.SPARK,),
    set_up=_set_up_shrink,
    acts=(
        Act(
            "A topic with twelve partitions, where six would do.",
            "seamark topics create game-click --partitions 12 --yes",
        ),
        Act("Players click: each one's clicks are in order.", f"python clicks.py game-click 0 {RECORDS}"),
        Act("A sink writes them into a file.", "seamark apply -f shrink --yes", until=_build_moment(RECORDS)),
        Act(
            "Kafka takes no partition away from a topic.",
            "seamark topics grow game-click --to 6 --yes",
            codes=(5,),
            look="But it says what would help.",
        ),
        Act(
            "A copy, then. What would it be?",
            "seamark copy plan game-click --partitions 12:6 --out plan.json",
            look="How keys are placed was found out from the records. Nothing was changed.",
        ),
        Act(
            "Spark copies it: each record once, in order, with its key and its time.",
            "seamark copy run plan.json --yes",
        ),
        Act("Is everything there?", "seamark copy verify plan.json --level full"),
        Act(
            "Now its reader shall use the copy. What will be done?",
            "seamark copy cutover plan.json --read-committed --dry-run",
            look="The sink's place in six partitions is told from that in twelve.",
        ),
        Act(
            "Do it.",
            "seamark copy cutover plan.json --read-committed --yes",
            look="Stopped, caught up, compared, carried over, turned, running; one change, with a way back.",
        ),
        Act(
            "Players click on, in the new topic.",
            f"python clicks.py game-click-6 {RECORDS} {MORE}",
            until=_build_moment(RECORDS + MORE),
            look="Every click is in the file.",
        ),
        Act("Nobody needs the old topic any more.", "seamark copy finish plan.json --yes"),
    ),
)
