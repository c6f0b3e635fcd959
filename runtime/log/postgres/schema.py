"""The tables of a log in PostgreSQL, and the numbered migrations that make them.

meta        key, value: the number of the last migration and that of the earliest callboard that can use the
            log (see `migrating`); its digest and encryption
sessions    one row for each session; `id` is its number in this log, never given twice. `head` and `digest`
            are those of its last event, so that an append compares them in the row that it locks. A fork has
            the id of its `parent`, and the seq of the last event that it shares with it in `base`
events      partitioned by the number of the session (`PARTITION_SESSIONS` in each); body is the JSON text in
            UTF-8, or encrypted; cuts is NULL or [[offset, digest in hex], ...]
blobs       large values that were cut out of bodies, once each, under the digest of their bytes
uses        the sessions that have a large value, so that the last one that is deleted takes it along
removals    deleted sessions, with the seq of the next event to remove
tags        the sessions of each tag; in an encrypted log its keyed digest stands for it
usage       the usage of each session by UTC day, model and profile
budgets, reservations, reserved, unlogged   the spending of budgets above sessions: see `spending`
workers, leases   the processes that run sessions, and the sessions that they share: see `leases`
capacity, places   the calls and tokens of models that workers share: see `places`
commands    the orders of clients to the owners of sessions: see `commands`
followers, followed   the clients that follow sessions, and which: see `followers`
log         a view for people, with ids, times and kinds spelled out

A migration is a tuple of statements. They run in one transaction, under an advisory lock, with `{s}` replaced
by the quoted name of the schema. Released migrations do not change: new tables go into the next one.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from callboard.actors.protocol.errors import StoreReadOnly, StoreUnreadable
from callboard.runtime.log.postgres.link import Row

SERVER_MIN: Final = 130_000  # pg_xact_status by pg_current_xact_id, and runtime pruning of partitions
PARTITION_SESSIONS: Final = 65_536

Execute = Callable[..., Sequence[Row]]
"""Runs a statement with its parameters, and returns its rows."""

# A function, because each of its queries sees what was committed before it: the sums are those behind the
# locks. In one query they would be those of before it waited.
RESERVE: Final = """CREATE FUNCTION {s}.reserve(
    its_call text, its_session text, its_epoch bigint, its_held text, its_tokens bigint, its_micro_usd bigint,
    scopes text[], periods text[], names text[], tokens_max bigint[], micro_usd_max bigint[])
RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
INSERT INTO {s}.budgets(scope, period, tokens, micro_usd, name)
    SELECT w.scope, w.period, 0, 0, w.name FROM unnest(scopes, periods, names) AS w(scope, period, name)
    ORDER BY 1, 2 ON CONFLICT DO NOTHING;
PERFORM 1 FROM {s}.budgets AS b JOIN unnest(scopes, periods) AS w(scope, period)
    ON b.scope = w.scope AND b.period = w.period ORDER BY b.scope, b.period FOR UPDATE OF b;
IF EXISTS (SELECT 1 FROM {s}.reservations WHERE call = its_call) THEN RETURN true; END IF;
IF EXISTS (
    SELECT 1 FROM unnest(scopes, periods, tokens_max, micro_usd_max) AS w(scope, period, tokens, micro_usd)
    JOIN {s}.budgets AS b ON b.scope = w.scope AND b.period = w.period
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(r.tokens), 0) AS tokens, coalesce(sum(r.micro_usd), 0) AS micro_usd
        FROM {s}.reserved AS r WHERE r.scope = w.scope AND r.period = w.period) AS held
    WHERE b.tokens + held.tokens + its_tokens > w.tokens
    OR b.micro_usd + held.micro_usd + its_micro_usd > w.micro_usd) THEN RETURN false; END IF;
INSERT INTO {s}.reservations(call, session, epoch, held)
    VALUES (its_call, its_session, its_epoch, its_held);
INSERT INTO {s}.reserved(call, scope, period, tokens, micro_usd)
    SELECT its_call, w.scope, w.period, its_tokens, its_micro_usd
    FROM unnest(scopes, periods) AS w(scope, period);
RETURN true; END $$"""

_FIRST: Final = (
    'CREATE TABLE {s}.meta(key text COLLATE "C" PRIMARY KEY, value text NOT NULL)',
    """CREATE TABLE {s}.sessions(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL UNIQUE,
    epoch bigint NOT NULL,
    head bigint NOT NULL,
    digest bytea NOT NULL,
    origin bytea NOT NULL,
    base bigint NOT NULL DEFAULT 0,
    created_ms bigint NOT NULL,
    last_ms bigint NOT NULL DEFAULT 0,
    failures bigint NOT NULL DEFAULT 0,
    status text COLLATE "C" NOT NULL DEFAULT 'open',
    kind text COLLATE "C" NOT NULL DEFAULT '',
    host text COLLATE "C" NOT NULL DEFAULT '',
    title text COLLATE "C" NOT NULL,
    parent text COLLATE "C" NOT NULL DEFAULT '',
    details text COLLATE "C" NOT NULL DEFAULT '') WITH (fillfactor = 70)""",
    # No index has a column that each append changes, so that its new row version stays on the page.
    "CREATE INDEX sessions_by_age ON {s}.sessions(created_ms, id)",
    "CREATE INDEX sessions_unfinished ON {s}.sessions(id) WHERE status = 'unfinished'",
    "CREATE INDEX sessions_by_parent ON {s}.sessions(parent) WHERE parent <> ''",
    """CREATE TABLE {s}.events(
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at bigint NOT NULL,
    cause bigint NOT NULL,
    sender text COLLATE "C" NOT NULL,
    recipient text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    body bytea NOT NULL,
    cuts text COLLATE "C",
    PRIMARY KEY (session, seq)) PARTITION BY RANGE (session)""",
    "CREATE TABLE {s}.blobs(digest bytea PRIMARY KEY, data bytea NOT NULL)",
    # The reference keeps a value that an append uses from being removed with another session meanwhile.
    """CREATE TABLE {s}.uses(
    blob bytea REFERENCES {s}.blobs(digest), session bigint, PRIMARY KEY (blob, session))""",
    "CREATE INDEX uses_by_session ON {s}.uses(session)",
    "CREATE TABLE {s}.removals(session bigint PRIMARY KEY, next bigint NOT NULL)",
    'CREATE TABLE {s}.tags(tag text COLLATE "C", session bigint, PRIMARY KEY (tag, session))',
    "CREATE INDEX tags_by_session ON {s}.tags(session)",
    """CREATE TABLE {s}.usage(
    session bigint,
    day text COLLATE "C",
    model text COLLATE "C",
    profile text COLLATE "C",
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cache_read_tokens bigint NOT NULL,
    cache_write_tokens bigint NOT NULL,
    charged_tokens bigint NOT NULL,
    micro_usd bigint NOT NULL,
    calls bigint NOT NULL,
    unknown_calls bigint NOT NULL,
    PRIMARY KEY (session, day, model, profile))""",
    """CREATE TABLE {s}.budgets(
    scope text COLLATE "C",
    period text COLLATE "C",
    tokens bigint NOT NULL,
    micro_usd bigint NOT NULL,
    name text NOT NULL,
    PRIMARY KEY (scope, period)) WITH (fillfactor = 50)""",
    """CREATE TABLE {s}.reservations(
    call text COLLATE "C" PRIMARY KEY,
    session text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    held text NOT NULL)""",
    "CREATE INDEX reservations_by_session ON {s}.reservations(session)",
    """CREATE TABLE {s}.reserved(
    call text COLLATE "C" REFERENCES {s}.reservations(call) ON DELETE CASCADE,
    scope text COLLATE "C",
    period text COLLATE "C",
    tokens bigint NOT NULL,
    micro_usd bigint NOT NULL,
    PRIMARY KEY (call, scope, period))""",
    "CREATE INDEX reserved_by_scope ON {s}.reserved(scope, period)",
    RESERVE,
    """CREATE TABLE {s}.unlogged(
    call text COLLATE "C" PRIMARY KEY, held text NOT NULL, at_ms bigint NOT NULL)""",
)

_SECOND: Final = (
    """CREATE TABLE {s}.workers(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    hosts text[] NOT NULL,
    slots bigint NOT NULL,
    running bigint NOT NULL DEFAULT 0,
    is_draining boolean NOT NULL DEFAULT false,
    lease_ms bigint NOT NULL,
    began_ms bigint NOT NULL,
    ends_ms bigint NOT NULL) WITH (fillfactor = 50)""",
    """CREATE TABLE {s}.leases(
    session text COLLATE "C" PRIMARY KEY,
    host text COLLATE "C" NOT NULL,
    request_id text COLLATE "C" NOT NULL,
    prompt text NOT NULL,
    since_ms bigint NOT NULL,
    worker bigint REFERENCES {s}.workers(id) ON DELETE SET NULL,
    claimed_ms bigint NOT NULL DEFAULT 0,
    losses bigint NOT NULL DEFAULT 0,
    refused_by bigint[] NOT NULL DEFAULT '{}',
    why text NOT NULL DEFAULT '') WITH (fillfactor = 70)""",
    "CREATE INDEX leases_by_worker ON {s}.leases(worker)",
)

_PLACES: Final = (
    """CREATE TABLE {s}.capacity(
    model text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL DEFAULT 0,
    level bigint,
    at_ms bigint) WITH (fillfactor = 50)""",
    # Without a reference to the worker: the places of a lost one are held longer than its row.
    """CREATE TABLE {s}.places(
    model text COLLATE "C",
    worker bigint,
    number bigint NOT NULL,
    share bigint NOT NULL,
    in_flight bigint NOT NULL,
    waiting bigint NOT NULL,
    ends_ms bigint NOT NULL,
    sessions bigint NOT NULL,
    lacks bigint NOT NULL,
    held bigint NOT NULL,
    used bigint NOT NULL,
    at_ms bigint NOT NULL,
    calls bigint,
    tokens_per_minute bigint,
    timeout_ms bigint NOT NULL,
    PRIMARY KEY (model, worker)) WITH (fillfactor = 50)""",
)

_COMMANDS: Final = (
    """CREATE TABLE {s}.commands(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session text COLLATE "C" NOT NULL,
    request_id text COLLATE "C" NOT NULL,
    body text NOT NULL,
    at_ms bigint NOT NULL,
    seq bigint NOT NULL DEFAULT 0,
    answer text NOT NULL DEFAULT '',
    UNIQUE (session, request_id)) WITH (fillfactor = 70)""",
    "CREATE INDEX commands_waiting ON {s}.commands(session, id) WHERE seq = 0 AND answer = ''",
)

# Unlogged: both change often, and clients that find them empty after a crash of the server fill them again.
_FOLLOWERS: Final = (
    """CREATE UNLOGGED TABLE {s}.followers(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    channel text COLLATE "C" NOT NULL DEFAULT 'callboard_' || replace(gen_random_uuid()::text, '-', ''),
    ends_ms bigint NOT NULL) WITH (fillfactor = 50)""",
    """CREATE UNLOGGED TABLE {s}.followed(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    follower bigint NOT NULL REFERENCES {s}.followers(id) ON DELETE CASCADE,
    session text COLLATE "C" NOT NULL,
    wish bigint NOT NULL)""",
    "CREATE INDEX followed_by_session ON {s}.followed(session)",
    "CREATE INDEX followed_by_follower ON {s}.followed(follower)",
)

_TAGS: Final = (
    # The number of the callboard of each worker: see `migrating`. Those that run have 4.
    "ALTER TABLE {s}.workers ADD COLUMN schema bigint NOT NULL DEFAULT 4",
    """ALTER TABLE {s}.places ADD COLUMN tag text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN tag_used bigint NOT NULL DEFAULT 0,
    DROP CONSTRAINT places_pkey, ADD PRIMARY KEY (model, worker, tag)""",
    """ALTER TABLE {s}.leases ADD COLUMN tags text NOT NULL DEFAULT '',
    ADD COLUMN scopes text[] COLLATE "C" NOT NULL DEFAULT '{}'""",
)


class Migration(NamedTuple):
    """A change of the tables. since: see `migrating`."""

    statements: tuple[str, ...]
    since: int


MIGRATIONS: Final[tuple[Migration, ...]] = (
    Migration(_FIRST, 1),
    Migration(_SECOND, 2),
    Migration(_PLACES, 3),
    Migration(_COMMANDS, 4),
    Migration(_TAGS, 5),
    Migration(_FOLLOWERS, 5),
)
"""The number of the first is 1."""

VIEW: Final = """CREATE VIEW {s}.log AS
    SELECT s.session_id AS session, e.seq, to_timestamp(e.at / 1000.0) AS time, e.sender, e.recipient,
           e.cause, substring(convert_from(e.body, 'UTF8') FROM '^{"type":"([A-Za-z]+)"') AS kind,
           convert_from(e.body, 'UTF8') AS body, e.cuts
    FROM {s}.sessions AS s JOIN {s}.events AS e ON e.session = s.id"""
"""Only of a log in plain text. Each body begins with its type; the operators of JSON would refuse a whole
body for one escaped NUL in any of its texts.
"""


def quoted(schema: str) -> str:
    """Return a schema's name for a statement."""
    return f'"{schema}"'  # `address` has refused every other character than letters, digits and `_`


def has_table(execute: Execute, schema: str, table: str) -> bool:
    """Return whether a log has a table."""
    # Not `to_regclass`: it may answer from a cache, and then does not see a table that another process has
    # made while this one waited for the lock.
    query = (
        "SELECT 1 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = %s"
    )
    return bool(execute(query, (schema, table)))


def check_server(execute: Execute, number: int, where: str) -> None:
    """Refuse a server that cannot keep a log. Raises StoreUnreadable, StoreReadOnly."""
    check_age(number, where)
    query = (
        "SELECT current_setting('server_encoding'), pg_is_in_recovery(), "
        "current_setting('transaction_read_only'), current_setting('default_transaction_isolation')"
    )
    ((encoding, is_replica, is_read_only, isolation),) = execute(query)
    if encoding != "UTF8":
        raise StoreUnreadable(
            f"{where}: the database has the encoding {encoding}; make one with "
            "`createdb --template=template0 --encoding=UTF8`"
        )
    if is_replica:
        raise StoreReadOnly(
            f"{where} is a read-only replica: write to the primary (with several hosts in the address, "
            "`target_session_attrs=read-write` finds it), and use replicas for reading"
        )
    if is_read_only == "on":
        raise StoreReadOnly(
            f"{where}: transactions of this role are read-only (default_transaction_read_only); "
            "change that, or use the log for reading only"
        )
    if isolation != "read committed":
        # Under another level a statement that has waited for a row does not see what it waited for.
        raise StoreUnreadable(
            f"{where}: transactions of this role are {isolation}, and callboard needs read committed: "
            "ALTER ROLE ... SET default_transaction_isolation = 'read committed'"
        )


def check_age(number: int, where: str) -> None:
    """Refuse a server that is too old. Raises StoreUnreadable."""
    if number < SERVER_MIN:
        major, least = number // 10_000, SERVER_MIN // 10_000
        raise StoreUnreadable(
            f"{where} is PostgreSQL {major}: callboard needs {least} or later; update the server"
        )


def partition_of(number: int) -> int:
    """Return the partition that has the events of a session."""
    return number // PARTITION_SESSIONS


def make_partition(execute: Execute, schema: str, at: int) -> None:
    """Make a partition of the events, if it is missing, inside a transaction."""
    name = quoted(schema)
    if has_table(execute, schema, f"events_{at}"):
        return
    execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"callboard {schema} events",))
    if not has_table(execute, schema, f"events_{at}"):
        # Made and then attached: CREATE TABLE ... PARTITION OF would wait for all appends, and stop them.
        execute(f"CREATE TABLE {name}.events_{at} (LIKE {name}.events INCLUDING ALL)")
        first, last = at * PARTITION_SESSIONS, (at + 1) * PARTITION_SESSIONS
        execute(
            f"ALTER TABLE {name}.events ATTACH PARTITION {name}.events_{at} "
            f"FOR VALUES FROM ({first}) TO ({last})"
        )
