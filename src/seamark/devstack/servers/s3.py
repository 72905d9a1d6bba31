"""S3: the Versity gateway over a folder. Built once by Go into the cache."""

from __future__ import annotations

import secrets
from pathlib import Path

from seamark.devstack.downloads import cache_folder, fill, run_tool
from seamark.devstack.process import PortReservation, Server, answers
from seamark.devstack.stack import S3Endpoint

LAKE_BUCKET = "lake"
VERSION = "1.8.0"
_MODULE = f"github.com/versity/versitygw/cmd/versitygw@v{VERSION}"


def read_gateway() -> Path:
    """Return the gateway's program, built if it is not cached. Go verifies the module with its checksum database."""
    folder = fill(cache_folder() / "bin" / f"versitygw-{VERSION}", _build)
    return folder / "versitygw"


def _build(target: Path) -> None:
    run_tool(["go", "install", _MODULE], "build the S3 server", env={"GOBIN": str(target), "GOFLAGS": "-trimpath"})


def build_s3(*, folder: Path, ports: PortReservation, program: Path) -> tuple[S3Endpoint, Server]:
    """Return how the S3 server starts."""
    data = folder / "s3"
    buckets = data / "buckets"
    # A bucket is a folder. This one is the lake of the stack's context.
    (buckets / LAKE_BUCKET).mkdir(parents=True)
    port = ports.take()
    access, secret = f"dev{secrets.token_hex(4)}", secrets.token_urlsafe(18)
    server = Server(
        name="s3",
        kind="s3",
        command=(str(program), "--port", f"127.0.0.1:{port}", "posix", str(buckets)),
        log=folder / "logs" / "s3.log",
        data=data,
        port=port,
        version=VERSION,
        env={"ROOT_ACCESS_KEY": access, "ROOT_SECRET_KEY": secret},
        is_ready=lambda _running: answers(port),
    )
    endpoint = S3Endpoint(
        f"http://127.0.0.1:{port}", access_key=access, secret_key=secret, region="us-east-1", data=str(buckets)
    )
    return endpoint, server
