"""Errors of the server and of psycopg as errors of callboard, each with the user's next step."""

from types import ModuleType
from typing import Final

from callboard.actors.protocol.errors import (
    MissingExtra,
    StoreError,
    StoreFailed,
    StoreLocked,
    StoreReadOnly,
    StoreUnreadable,
)
from callboard.runtime.log.postgres.address import Address

_RESUME: Final = "acknowledged events are stored: when the server works again, resume"
_GRANT: Final = (
    "grant it (`GRANT CREATE ON DATABASE ... TO ...` for a new log, or make the role the owner of the schema)"
)
_NEXT_STEPS: Final[dict[str, tuple[type[StoreError], str]]] = {
    "28P01": (StoreUnreadable, "check the user name and the password (PGPASSWORD and ~/.pgpass work, too)"),
    "28000": (StoreUnreadable, "check the user name, and the server's pg_hba.conf"),
    "3D000": (StoreUnreadable, "make the database with `createdb`, or name another one"),
    "42501": (StoreReadOnly, _GRANT),
    "25006": (StoreReadOnly, "this server or role only reads: give the address of the primary"),
    "42P01": (StoreUnreadable, "the log's tables were removed: restore a copy of the database"),
    "3F000": (StoreUnreadable, "the log's schema was removed: restore a copy of the database"),
    "42703": (StoreUnreadable, "the log's tables were changed: restore a copy of the database"),
    "53100": (StoreFailed, "nothing of this batch was stored: make room on the server's disk, then resume"),
    "53200": (StoreFailed, "nothing of this batch was stored: the server is out of memory"),
    "53300": (StoreFailed, "the server has no connection left: raise max_connections, or use a pooler"),
    "55P03": (StoreLocked, "another process is in the middle of a write to this session; try again"),
    "XX001": (StoreUnreadable, "the server says that the database is damaged: restore a backup"),
    "XX002": (StoreUnreadable, "the server says that an index is damaged: REINDEX, or restore a backup"),
    "57014": (StoreFailed, "nothing of it was stored: a time limit of the role or of the server ended it"),
}
_BY_CLASS: Final[dict[str, tuple[type[StoreError], str]]] = {
    "XX": (StoreFailed, "the server has met a fault of its own; look into its log"),
    "58": (StoreFailed, "the server cannot read or write its files; look into its log"),
    "53": (StoreFailed, "nothing of this batch was stored: the server lacks resources"),
}
_REPEATABLE: Final = ("40001", "40P01")  # a conflict of isolation levels, a deadlock: nothing was stored
_PASSING: Final = ("57P01", "57P02", "57P03", "57P05", "25P03", "53300")
"""Of a server that stops or starts, of limits of idle connections, and of one without a free connection."""


def driver() -> ModuleType:
    """Return psycopg. Raises MissingExtra."""
    try:
        import psycopg
    except ImportError:
        raise MissingExtra(
            "a log on PostgreSQL needs the library `psycopg`: pip install 'callboard[postgres]'"
        ) from None
    return psycopg


def state_of(error: Exception) -> str:
    """Return the server's code of an error; empty if the server did not raise it."""
    return getattr(error, "sqlstate", None) or ""


def is_repeatable(error: Exception) -> bool:
    """Return whether the statement has stored nothing and may be sent again."""
    return state_of(error) in _REPEATABLE


def is_of_pooler(error: Exception) -> bool:
    """Return whether a prepared statement is unknown or known already. The statement has done nothing."""
    return state_of(error) in ("26000", "42P05")


def is_passing(error: Exception) -> bool:
    """Return whether a connection may be possible a little later."""
    state = state_of(error)
    if not state and isinstance(error, driver().OperationalError):
        # libpq gives no code for what happened before the server answered, except in words.
        text = str(error).lower()
        return not any(word in text for word in _LASTING)
    return state in _PASSING or state[:2] == "08"


def is_starting(error: Exception) -> bool:
    """Return whether the server says that it is starting, recovering or stopping."""
    return state_of(error) == "57P03" or "the database system is " in str(error)


_LASTING: Final = (
    "password",
    "authentication",
    "no pg_hba.conf",
    "does not exist",
    "could not translate host name",
    "ssl",
    "certificate",
    "permission denied",
)


def store_error(error: Exception, address: Address, doing: str) -> StoreError:
    """Return the error of callboard for an error of psycopg. doing: the operation that raised it."""
    state = state_of(error)
    words = address.without_secrets(_first_line(error))
    kind, step = _NEXT_STEPS.get(state) or _BY_CLASS.get(state[:2]) or (StoreFailed, _RESUME)
    if not state and doing == "opening":
        kind, step = StoreUnreadable, _step_without_code(words)
    code = f" ({state})" if state else ""
    return kind(f"{address}: {doing} failed: {words}{code}; {step}")


def _step_without_code(words: str) -> str:
    if "password" in words or "authentication" in words:
        return _NEXT_STEPS["28P01"][1]
    if "does not exist" in words and "role" not in words:
        return _NEXT_STEPS["3D000"][1]
    if "too many clients" in words or "connection slots" in words:
        return _NEXT_STEPS["53300"][1]
    return "check that the server runs, and host and port of the address"


def _first_line(error: Exception) -> str:
    # Only the first: the others quote values of rows and the text of the statement.
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    lines = (primary or str(error)).strip().splitlines()
    return lines[0] if lines else type(error).__name__
