"""Addresses of logs on a server: their parts, and passwords that are shown nowhere."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import pq

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.log.opening import open_log
from callboard.runtime.log.postgres.address import Address, address_of
from callboard.runtime.log.postgres.link import Link
from tests.tables import table

NEWER_OR_RARE = re.compile(
    "gss(delegation|lib)|m.._protocol_version|oauth_.*|scram_.*|requirepeer|"
    "ssl(_.*|certmode|compression|crldir|keylogfile|negotiation)"
)
"""Parameters that the libpq at hand may have or lack, and that an address does without."""


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
        ("postgresql://h:1,h:65535/", {"host": "h,h", "port": "1,65535"}),
        ("postgresql://h/?sslsni=off&prepare=on", {"host": "h", "sslsni": "off"}),
    ],
)
def test_an_address_has_the_parts_that_libpq_gets(url: str, parameters: dict[str, str]) -> None:
    found = address_of(url)
    assert found.parameters == parameters
    assert (found.schema, found.can_prepare) == ("callboard", True)


def test_an_address_takes_the_parameters_of_libpq_that_leave_its_sessions_as_they_are() -> None:
    known = {one.keyword.decode() for one in pq.Conninfo.get_defaults()}
    refused = []
    for name in sorted(known):
        try:
            assert address_of(f"postgresql://?{name}=1").parameters == {name: "1"}
        except MisuseError:
            refused.append(name)
    assert [one for one in refused if not NEWER_OR_RARE.fullmatch(one)] == [
        *("client_encoding", "fallback_application_name", "options", "replication"),
    ]


@table(
    ("url", "shown"),
    [
        ("postgresql://", "postgresql:///?schema=callboard"),
        ("postgresql://u:p@h:5/db?schema=two", "postgresql://u@h:5/db?schema=two"),
        ("postgresql://a:6,b/db", "postgresql://a:6,b:5432/db?schema=callboard"),
        ("postgresql:///db?host=a,b&port=7", "postgresql://a:7,b:7/db?schema=callboard"),
        ("postgresql:///db?host=/tmp&port=7", "postgresql:///db?schema=callboard&host=/tmp&port=7"),
        ("postgresql://[::1]:7/db", "postgresql://[::1]:7/db?schema=callboard"),
        (
            "postgresql://h/?password=p&sslpassword=q&prepare=off",
            "postgresql://h/?schema=callboard&prepare=off",
        ),
    ],
)
def test_an_address_shows_where_its_log_is(url: str, shown: str) -> None:
    assert repr(address_of(url)) == shown


_NAMED = st.sampled_from(("host", "port", "user", "dbname", "password", "sslmode", "target_session_attrs"))
_HOSTS = st.sampled_from(("h", "a,b", "/tmp/p g", "::1", "::1,b", "fe80::1%eth0", "a,,b", "@x", "", "/a,b"))
_VALUES = st.sampled_from(("7", "1,2", "70000", "a b", "u@x/:%&=", "ü", "")) | _HOSTS


def _reached(parameters: dict[str, str]) -> dict[str, object]:
    """Return the parameters as libpq reads them: one port is that of all hosts, an empty one is 5432."""
    ports = parameters.get("port", "").split(",")
    count = parameters.get("host", "").count(",") + 1
    spread = [one or "5432" for one in (ports * count if len(ports) == 1 else ports)]
    return {**parameters, "port": spread, "password": None}


@given(st.dictionaries(_NAMED, _VALUES), st.booleans())
def test_a_printed_address_names_the_same_log_again(parameters: dict[str, str], can_prepare: bool) -> None:
    shown = repr(Address(parameters, "two", can_prepare=can_prepare))
    found = address_of(shown)
    assert _reached(found.parameters) == _reached(parameters)
    assert (found.schema, found.can_prepare, repr(found)) == ("two", can_prepare, shown)


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
        ("postgresql://u:s3cret@h:0/db", "HOST:PORT"),
        ("postgresql://u:s3cret@h:65536/db", "HOST:PORT"),
        ("postgresql://u:s3cret/@h/db", "%2F"),
        ("postgresql://u:s3cret%zz@h/db", "%25"),
        ("postgresql://u:s3cret%00@h/db", "NUL"),
        ("postgresql://u:s3cret%ff@h/db", "UTF-8"),
        ("postgresql://u:s3cret@h/db?sslmode", "NAME=VALUE"),
        ("postgresql://u:s3cret@h/db?passfile=a%00b", "'passfile' holds NUL"),
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


def test_the_address_of_another_server_is_refused() -> None:
    with pytest.raises(MisuseError, match="mysql:// is not the address of a PostgreSQL server"):
        address_of("mysql://u:s3cret@h/db")


@given(st.text(st.characters(codec="utf-8", exclude_characters="%/?\0"), min_size=1, max_size=12))
def test_no_text_of_an_address_shows_its_password(password: str) -> None:
    secret = f"q{password}q"
    found = address_of(f"postgresql://user:{secret}@host:1/db?sslpassword=other")
    assert found.parameters["password"] == secret
    assert secret not in f"{found!r} {found!s} {Link(found)!r} {open_log(f'postgresql://u:{secret}@h')!r}"
    assert found.without_secrets(f"failed for {secret} and other") == "failed for *** and ***"
