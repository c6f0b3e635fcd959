"""Errors of the server: each has a type, says what to do, and shows no password."""

import sys
from types import SimpleNamespace

import psycopg
import pytest

from callboard.actors.protocol.errors import (
    MissingExtra,
    StoreError,
    StoreFailed,
    StoreLocked,
    StoreReadOnly,
    StoreUnreadable,
)
from callboard.runtime.log.postgres.address import address_of
from callboard.runtime.log.postgres.store_errors import (
    is_of_pooler,
    is_passing,
    is_repeatable,
    is_starting,
    store_error,
)
from callboard.runtime.log.reading import open_reader
from tests.tables import table

ADDRESS = address_of("postgresql://user:s3cret@host/db")


def failure(state: str, words: str = "it failed") -> Exception:
    """Return an error as the server raises it."""
    error = psycopg.errors.lookup(state)(words) if state else psycopg.OperationalError(words)
    assert error.sqlstate == (state or None)
    return error


@table(
    ("state", "kind", "step"),
    [
        ("28P01", StoreUnreadable, "password"),
        ("28000", StoreUnreadable, "pg_hba.conf"),
        ("3D000", StoreUnreadable, "createdb"),
        ("42501", StoreReadOnly, "GRANT"),
        ("25006", StoreReadOnly, "primary"),
        ("42P01", StoreUnreadable, "the log's tables were removed: restore"),
        ("3F000", StoreUnreadable, "the log's schema was removed: restore"),
        ("42703", StoreUnreadable, "the log's tables were changed: restore"),
        ("53200", StoreFailed, "out of memory"),
        ("53100", StoreFailed, "make room"),
        ("53300", StoreFailed, "max_connections"),
        ("53400", StoreFailed, "resources"),
        ("55P03", StoreLocked, "try again"),
        ("57014", StoreFailed, "time limit"),
        ("XX001", StoreUnreadable, "damaged"),
        ("XX002", StoreUnreadable, "REINDEX"),
        ("XX000", StoreFailed, "look into its log"),  # as of a file that grew too large
        ("58030", StoreFailed, "its log"),
        ("22003", StoreFailed, "resume"),
    ],
)
def test_each_error_has_a_type_and_a_next_step(state: str, kind: type[StoreError], step: str) -> None:
    found = store_error(failure(state, "no: s3cret\nDETAIL: a row"), ADDRESS, "append")
    assert type(found) is kind
    assert step in str(found)
    assert f"({state})" in str(found)
    assert "s3cret" not in str(found)
    assert "a row" not in str(found)


@pytest.mark.parametrize(
    ("words", "step"),
    [
        ("password authentication failed", "check the user name and the password"),
        ('database "db" does not exist', "createdb"),
        ("sorry, too many clients already", "max_connections"),
        ("remaining connection slots are reserved", "max_connections"),
        ("no password supplied", "check the user name and the password"),
        ("LDAP authentication failed", "check the user name and the password"),
        ('role "u" does not exist', "check that the server runs"),
        ("Connection refused", "check that the server runs"),
    ],
)
def test_errors_before_the_server_answers_have_no_code(words: str, step: str) -> None:
    found = store_error(failure("", words), ADDRESS, "opening")
    assert isinstance(found, StoreUnreadable)
    assert step in str(found)


def test_an_error_without_a_code_is_one_of_connecting_only_while_the_log_is_opened() -> None:
    found = store_error(failure("", "password authentication failed"), ADDRESS, "append")
    assert type(found) is StoreFailed
    assert "()" not in str(found)
    assert "resume" in str(found)
    assert type(store_error(failure("53100"), ADDRESS, "opening")) is StoreFailed


def test_a_prepared_statement_that_a_pooler_lost_or_knows_has_done_nothing() -> None:
    states = ("26000", "42P05", "40001", "")
    assert [is_of_pooler(failure(state)) for state in states] == [True, True, False, False]


@table(
    "words",
    [
        "wrong PASSWORD",
        "GSSAPI authentication was refused",
        "no pg_hba.conf entry for host",
        'database "d" does not exist',
        "could not translate host name",
        "SSL is not on",
        "the certificate has expired",
        "socket: Permission denied",
    ],
)
def test_what_time_does_not_change_is_not_tried_again(words: str) -> None:
    assert not is_passing(failure("", words))


def test_only_conflicts_may_be_sent_again() -> None:
    assert [one for one in ("40001", "40P01", "23505", "57P01") if is_repeatable(failure(one))] == [
        "40001",
        "40P01",
    ]


def test_connecting_is_tried_again_while_the_server_starts_and_not_with_a_wrong_password() -> None:
    passing = ("57P01", "57P02", "57P03", "57P05", "25P03", "53300", "08006")
    assert all(is_passing(failure(one)) for one in passing)
    assert not any(is_passing(failure(one)) for one in ("28P01", "3D000", "42501"))
    assert is_passing(failure("", "Connection refused"))
    assert not is_passing(failure("", 'FATAL: password authentication failed for user "u"'))
    assert not is_passing(ValueError("other"))


def test_a_server_that_starts_is_waited_for_also_at_the_first_connection() -> None:
    assert is_starting(failure("57P03"))
    assert is_starting(failure("", "FATAL:  the database system is in recovery mode"))
    assert not is_starting(failure("", "Connection refused"))


def test_an_error_without_words_is_named() -> None:
    assert "OperationalError" in str(store_error(failure("", ""), ADDRESS, "append"))
    with_primary = SimpleNamespace(diag=SimpleNamespace(message_primary="first\nsecond"), sqlstate=None)
    assert "second" not in str(store_error(with_primary, ADDRESS, "append"))  # type: ignore[arg-type]  # like one


def test_a_missing_driver_is_named_with_the_extra_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"callboard\[postgres\]"):
        open_reader("postgresql://u:s3cret@h/db")
