#!/usr/bin/env bash
# Shell lines with what the spec needs to know of a devstack, and the tables in its database:
#   eval "$(examples/lake/environment.sh)"
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
values = {
    "LAKE_DB_URL": f"jdbc:postgresql://{stack.postgres.host}:{stack.postgres.port}/{stack.postgres.database}",
    "LAKE_DB_USER": stack.postgres.user,
    "LAKE_FILES": f"{stack.folder}/secrets",
    # For psql. The password is one of this stack only, and reaches the shell without being printed.
    "PGHOST": stack.postgres.host,
    "PGPORT": str(stack.postgres.port),
    "PGDATABASE": stack.postgres.database,
    "PGUSER": stack.postgres.user,
    "PGPASSWORD": stack.postgres.password,
}
for name, value in values.items():
    print(f"export {name}={shlex.quote(value)}")
PYTHON
