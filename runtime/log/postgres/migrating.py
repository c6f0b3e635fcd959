"""Bringing the tables of a log up to date, while workers of two releases may run.

The number of a callboard is that of its newest migration. Each migration names, as `since`, the earliest
callboard that can use the tables after it: an earlier one, if that can ignore the new parts, such as a table
or a column with a default. A migration is refused while a worker that could not use its tables has a live
lease.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from callboard.actors.protocol.errors import StoreLocked, StoreTooNew, StoreUnreadable
from callboard.runtime.log.postgres.schema import MIGRATIONS, Execute, has_table, make_partition, quoted

_LOCK: Final = "hashtextextended('callboard ' || %s, 0)"


class Version(NamedTuple):
    """The schema of a log, 0 without a log. since: see `Migration`."""

    number: int
    since: int


def newest() -> int:
    """Return the number of this callboard."""
    return len(MIGRATIONS)


def version(execute: Execute, schema: str) -> Version:
    """Return the version of a log."""
    if not has_table(execute, schema, "meta"):
        return Version(0, 0)
    rows = execute(f"SELECT key, value FROM {quoted(schema)}.meta WHERE key IN ('schema', 'since')")
    kept: dict[str, str] = dict(rows)
    try:
        return Version(int(kept["schema"]), int(kept.get("since", kept["schema"])))
    except (KeyError, ValueError):
        raise StoreUnreadable(
            f"the schema {schema} has a table `meta` that is not callboard's; "
            "choose another one with ?schema=NAME"
        ) from None


def check_version(found: Version, where: str) -> None:
    """Refuse a log that only a newer callboard can use. Raises StoreTooNew."""
    if found.since > newest():
        raise StoreTooNew(
            f"{where} has schema {found.number}, which needs a callboard that knows schema {found.since}, "
            f"and this one knows up to {newest()}; use the newer callboard that made it"
        )


def migrate(execute: Execute, schema: str, begin: Callable[[], None], where: str) -> int:
    """Bring a log up to the newest migration, inside a transaction. Return the number that it had.

    begin: fills the table `meta` of a new log, after its first migration.
    Raises StoreLocked while workers run that could not use the tables afterwards.
    """
    name = quoted(schema)
    # Two processes that open a new log at once: the second waits, and then finds it made.
    execute(f"SELECT pg_advisory_xact_lock({_LOCK})", (schema,))
    found = version(execute, schema)
    check_version(found, where)
    # Asked, because IF NOT EXISTS needs the right to make a schema even where it is there.
    query = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s"
    if not found.number and not execute(query, (schema,)):
        execute(f"CREATE SCHEMA {name}")
    missing = MIGRATIONS[found.number :]
    since = max([found.since, *(one.since for one in missing)])
    if since > found.since:
        _refuse_while_used(execute, schema, since, where)
    for number, migration in enumerate(missing, found.number + 1):
        for statement in migration.statements:
            execute(statement.replace("{s}", name))
        if number == 1:
            begin()
            make_partition(execute, schema, 0)
    for key, value in (("schema", max(newest(), found.number)), ("since", since)):
        execute(
            f"INSERT INTO {name}.meta VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, str(value)),
        )
    return found.number


def check_usable(execute: Execute, schema: str, where: str) -> None:
    """Refuse a log that only a newer callboard can use, inside the transaction that registers a worker.

    Until its end no migration begins, so that none overlooks the worker. Raises StoreTooNew.
    """
    execute(f"SELECT pg_advisory_xact_lock_shared({_LOCK})", (schema,))
    check_version(version(execute, schema), where)


def _refuse_while_used(execute: Execute, schema: str, since: int, where: str) -> None:
    if not has_table(execute, schema, "workers"):
        return
    # By way of JSON, because the column is missing before the fifth migration.
    query = (
        f"SELECT w.name FROM {quoted(schema)}.workers AS w WHERE w.ends_ms > "
        "extract(epoch FROM clock_timestamp()) * 1000 "
        "AND coalesce((to_jsonb(w) ->> 'schema')::bigint, 0) < %s ORDER BY w.id LIMIT 5"
    )
    if names := [name for (name,) in execute(query, (since,))]:
        raise StoreLocked(
            f"{where}: this callboard changes the tables in a way that workers of earlier releases cannot "
            f"use, and some run: {', '.join(names)}; stop them with SIGTERM, then start this one again"
        )
