"""Addresses of logs on a server: their parts, and passwords that are shown nowhere."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.log.opening import open_log
from callboard.runtime.log.postgres.address import address_of
from callboard.runtime.log.postgres.link import Link
from tests.tables import table


@table(
    ("url", "parameters"),
    [
        ("postgresql://", {}),
        ("postgres://h/db", {"host": "h", "dbname": "db"}),
        ("POSTGRESQL://u@h:5/db", {"user": "u", "host": "h", "port": "5", "dbname": "db"}),
        ("postgresql://u:p%40s@h", {"user": "u", "password": "p@s", "host": "h"}),
        ("postgresql://u:p@s:t@h/db", {"user": "u", "password": "p@s:t", "host": "h", "dbname": "db"}),
        ("postgresql://u:@h", {"user": "u", "password": "", "host": "h"}),
        ("postgresql://a,b:6/db", {"host": "a,b", "port": "5432,6", "dbname": "db"}),
        ("postgresql://[::1]:7/db", {"host": "::1", "port": "7", "dbname": "db"}),
        (
            "postgresql:///db?host=/tmp&sslmode=require",
            {"dbname": "db", "host": "/tmp", "sslmode": "require"},
        ),
        ("postgresql://h/d%20b", {"host": "h", "dbname": "d b"}),
    ],
)
def test_an_address_has_the_parts_that_libpq_gets(url: str, parameters: dict[str, str]) -> None:
    found = address_of(url)
    assert found.parameters == parameters
    assert (found.schema, found.can_prepare) == ("callboard", True)


def test_schema_and_prepare_are_callboards_own_parameters() -> None:
    found = address_of("postgresql://h/db?schema=two&prepare=off")
    assert (found.schema, found.can_prepare, found.parameters) == (
        "two",
        False,
        {"host": "h", "dbname": "db"},
    )


@table(
    ("url", "said"),
    [
        ("postgresql://u:s3cret@h:port/db", "HOST:PORT"),
        ("postgresql://u:s3cret@h:70000/db", "HOST:PORT"),
        ("postgresql://u:s3cret/@h/db", "%2F"),
        ("postgresql://u:s3cret%zz@h/db", "%25"),
        ("postgresql://u:s3cret%00@h/db", "NUL"),
        ("postgresql://u:s3cret%ff@h/db", "UTF-8"),
        ("postgresql://u:s3cret@h/db?sslmode", "NAME=VALUE"),
        ("postgresql://u:s3cret@h/db?colour=red", "'colour' is not a parameter"),
        ("postgresql://u:s3cret@h/db?options=-c%20x", "'options' is not a parameter"),
        ("postgresql://u:s3cret@h/db?schema=A-B", "schema="),
        ("postgresql://u:s3cret@h/db?schema=pg_x", "schema="),
        ("postgresql://u:s3cret@h/db?schema=", "schema="),
        ("postgresql://u:s3cret@h/db?prepare=maybe", "'prepare' is not a parameter"),
        ("mysql://u:s3cret@h/db", "mysql:// is not a store"),
        ("postgresql+psycopg://u:s3cret@h/db", "is not a store"),
    ],
)
def test_an_address_that_cannot_be_read_is_refused_and_not_quoted(url: str, said: str) -> None:
    with pytest.raises(MisuseError, match=re.escape(said)) as caught:
        open_log(url)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


@given(st.text(st.characters(codec="utf-8", exclude_characters="%/?\0"), min_size=1, max_size=12))
def test_no_text_of_an_address_shows_its_password(password: str) -> None:
    secret = f"q{password}q"
    found = address_of(f"postgresql://user:{secret}@host:1/db?sslpassword=other")
    assert found.parameters["password"] == secret
    assert secret not in f"{found!r} {found!s} {Link(found)!r} {open_log(f'postgresql://u:{secret}@h')!r}"
    assert found.without_secrets(f"failed for {secret} and other") == "failed for *** and ***"
