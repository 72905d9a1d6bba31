"""The command line of devstack."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from seamark.devstack.operate import (
    build_exports,
    default_file,
    end_stack,
    print_log,
    print_status,
    run_detached,
    run_foreground,
    running_stack,
    signal_server,
    start_detached,
)
from seamark.devstack.spec import KAFKA_VERSION, StackSpec
from seamark.errors import InterruptedRunError, SeamarkError

_ABOUT = """Real Kafka brokers, Connect workers, PostgreSQL, S3 and Spark, as child processes.

  python -m seamark.devstack up --brokers 3 --workers 2 --postgres --s3
  eval "$(python -m seamark.devstack env)"
  seamark status
  python -m seamark.devstack down
"""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and give its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except KeyboardInterrupt:
        return InterruptedRunError.exit_code
    except SeamarkError as error:
        for word, text in (("error", error.message), ("cause", error.cause), ("hint", error.hint)):
            if text:
                print(f"{word}: {text}", file=sys.stderr)
        return error.exit_code


def _run(options: argparse.Namespace) -> int:
    file = Path(options.file).absolute() if options.file else default_file(options.name)
    match options.command:
        case "up":
            spec = StackSpec.from_json(options.spec) if options.spec else _spec(options)
            up = run_foreground if options.foreground else start_detached
            up(spec, name=options.name, file=file)
        case "supervise":
            run_detached(StackSpec.from_json(options.spec), name=options.name, file=file)
        case "down":
            end_stack(file)
            print("the stack is down")
        case "status":
            return print_status(file)
        case "env":
            stack = running_stack(file)
            print(build_exports(stack, file))
        case "logs":
            print_log(file, options.server, lines=options.lines)
        case "seed":
            from seamark.devstack.seed import seed_stack  # noqa: PLC0415

            seed_stack(running_stack(file), rows=options.rows, say=print)
        case "lock-jars":
            from seamark.devstack.jars import lock_jars  # noqa: PLC0415

            lock_jars(options.sets)
        case _:
            print(signal_server(file, options.command, name=options.server))
    return 0


def _spec(options: argparse.Namespace) -> StackSpec:
    return StackSpec(
        brokers=options.brokers,
        workers=options.workers,
        connect_versions=tuple(options.connect_version or [KAFKA_VERSION]),
        standalone=options.standalone,
        postgres=options.postgres,
        s3=options.s3,
        spark=options.spark,
        spark_workers=options.spark_workers,
        exactly_once=options.exactly_once,
        toxiproxy=options.toxiproxy,
        broker_doors=options.broker_doors,
        proxied_worker=options.proxied_worker,
        authorizer=options.authorizer,
        full_jit=options.full_jit,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m seamark.devstack", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", default="default", help="the stack's name; several can run side by side")
    common.add_argument("--file", default=os.environ.get("SEAMARK_DEVSTACK"), help="the stack's JSON file")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    up = commands.add_parser("up", parents=[common], help="start a stack; returns when every server is ready")
    up.add_argument("--brokers", type=int, default=1, metavar="N")
    up.add_argument("--workers", type=int, default=1, metavar="N", help="workers of each Connect cluster")
    up.add_argument("--connect-version", action="append", metavar="V", help="may be given again: a cluster each")
    up.add_argument("--standalone", action="store_true", help="a standalone worker too")
    up.add_argument("--postgres", action="store_true")
    up.add_argument("--s3", action="store_true")
    up.add_argument("--spark", action="store_true", help="a standalone Spark master and worker; needs seamark[spark]")
    up.add_argument("--spark-workers", type=int, default=1, metavar="N", help="workers of Spark, each on its own host")
    up.add_argument("--exactly-once", action="store_true", help="exactly-once sources on")
    up.add_argument("--toxiproxy", action="store_true", help="a proxy before each worker that can break off answers")
    up.add_argument("--broker-doors", action="store_true", help="a proxy before a second listener of each broker")
    up.add_argument("--proxied-worker", action="store_true", help="proxies between the last worker and the brokers")
    up.add_argument("--authorizer", action="store_true", help="brokers with ACLs, and a listener with a login for them")
    up.add_argument("--full-jit", action="store_true", help="slower start, faster servers: for measuring")
    up.add_argument("--foreground", action="store_true", help="stay, and end with the caller")
    up.add_argument("--spec", help=argparse.SUPPRESS)

    supervise = commands.add_parser("supervise", parents=[common])
    supervise.add_argument("--spec", required=True)

    commands.add_parser("status", parents=[common], help="the servers, their processes and ports")
    commands.add_parser("env", parents=[common], help="shell lines that point seamark to the stack")
    commands.add_parser("down", parents=[common], help="end the stack and remove its data")
    seed = commands.add_parser("seed", parents=[common], help="a table, a bucket and connectors between them")
    seed.add_argument("--rows", type=int, default=1000, metavar="N")
    for word, what in (
        ("kill", "SIGKILL a server"),
        ("stop", "SIGSTOP a server: it hangs"),
        ("cont", "SIGCONT a server"),
        ("restart", "start a server anew and wait until it is ready"),
    ):
        commands.add_parser(word, parents=[common], help=what).add_argument("server", metavar="NAME")
    logs = commands.add_parser("logs", parents=[common], help="the end of a server's log")
    logs.add_argument("server", metavar="NAME")
    logs.add_argument("--lines", type=int, default=50, metavar="N")
    lock = commands.add_parser("lock-jars", parents=[common], help="write the checksums of jar sets anew")
    lock.add_argument("sets", nargs="+", metavar="SET", help="kafka-V, connect-V, plugin-jdbc-V, plugin-s3-V, spark-V")
    return parser
