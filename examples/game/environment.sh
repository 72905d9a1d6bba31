#!/usr/bin/env bash
# Shell lines with what the spec needs to know of a devstack, and the tables in its database:
#   eval "$(examples/game/environment.sh)"
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python - "${SEAMARK_DEVSTACK:?first: eval \"\$(python -m seamark.devstack env)\"}" "$here/tables.sql" <<'PYTHON'
import pathlib
import shlex
import sys

from seamark.devstack import load_stack
from seamark.devstack.seed import run_sql

stack = load_stack(sys.argv[1])
run_sql(stack.postgres, pathlib.Path(sys.argv[2]).read_text())
bucket = "game"
pathlib.Path(stack.s3.data, bucket).mkdir(exist_ok=True)
values = {
    "GAME_DB_URL": f"jdbc:postgresql://{stack.postgres.host}:{stack.postgres.port}/{stack.postgres.database}",
    "GAME_DB_USER": stack.postgres.user,
    "GAME_FILES": f"{stack.folder}/secrets",
    "GAME_BUCKET": bucket,
    "GAME_S3_URL": stack.s3.endpoint,
}
for name, value in values.items():
    print(f"export {name}={shlex.quote(value)}")
PYTHON
