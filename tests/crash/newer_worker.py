"""`callboard worker` of a later release: it has one more migration. NEWER_SINCE: the `since` of that one.

NEWER_SINCE=5 python -m tests.crash.newer_worker worker MODULE:AGENT ...
"""

import os

from callboard.cli.main import main
from callboard.runtime.log.postgres import migrating
from callboard.runtime.log.postgres.schema import MIGRATIONS, Migration

STATEMENTS = (
    "CREATE TABLE {s}.more(n bigint PRIMARY KEY)",
    "ALTER TABLE {s}.leases ADD COLUMN more text NOT NULL DEFAULT ''",
    "ALTER TABLE {s}.sessions ADD COLUMN more bigint NOT NULL DEFAULT 0",
)

if __name__ == "__main__":
    later = Migration(STATEMENTS, int(os.environ["NEWER_SINCE"]))
    setattr(migrating, "MIGRATIONS", (*MIGRATIONS, later))  # noqa: B010  # a constant of each release
    main()
