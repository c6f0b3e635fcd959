"""Addresses of logs on a PostgreSQL server. Imports no driver.

    postgresql://USER:PASSWORD@HOST:PORT/DATABASE?schema=callboard&sslmode=require

An address is taken apart here and never given to libpq as text, because libpq quotes parts of an address that
it cannot read, and then the password would be in its message. `Address` shows itself without password.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from callboard.actors.protocol.errors import MisuseError

SCHEMES: Final = ("postgresql", "postgres")
SCHEMA: Final = "callboard"
"""The schema of a log whose address names none."""

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}", re.ASCII)
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]/@\s]*)(?::(\d{1,5}))?", re.ASCII)
_PARAMETERS: Final = frozenset(
    (
        *("host", "hostaddr", "port", "dbname", "user", "password", "passfile", "service", "require_auth"),
        *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslcrl", "sslsni", "gssencmode"),
        *("channel_binding", "krbsrvname", "target_session_attrs", "load_balance_hosts", "connect_timeout"),
        *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"),
        "application_name",
    )
)
"""The parameters of libpq that an address may have."""

_SECRETS: Final = ("password", "sslpassword")


class Address:
    """A log on a server. parameters: those of libpq. schema: the schema that has the log's tables.

    can_prepare: False behind a pooler that gives each transaction another connection (`prepare=off`).
    """

    def __init__(
        self, parameters: Mapping[str, str], schema: str = SCHEMA, *, can_prepare: bool = True
    ) -> None:
        self.parameters = dict(parameters)
        self.schema = schema
        self.can_prepare = can_prepare

    def __repr__(self) -> str:
        # Printed commands name the log by this text, so all but the passwords is in it, as it is read again.
        left = {name: value for name, value in self.parameters.items() if name not in _SECRETS}
        user = f"{quote(left.pop('user'), safe='')}@" if left.get("user") else ""
        database = quote(left.pop("dbname"), safe="") if left.get("dbname") else ""
        if place := _place(left.get("host", ""), left.get("port", "")):
            left.pop("host", None)
            left.pop("port", None)
        query = {"schema": self.schema} | ({} if self.can_prepare else {"prepare": "off"}) | left
        return f"postgresql://{user}{place}/{database}?{urlencode(query, safe='/,:', quote_via=quote)}"

    def without_secrets(self, text: str) -> str:
        """Return a text of the driver without the passwords of this address."""
        for name in _SECRETS:
            if secret := self.parameters.get(name):
                text = text.replace(secret, "***")
        return text


def address_of(url: str) -> Address:
    """Take the address of a log apart. Raises MisuseError, which quotes nothing of it."""
    scheme, _, rest = url.partition("://")
    if scheme.lower() not in SCHEMES:
        raise MisuseError(f"{scheme[:20]}:// is not the address of a PostgreSQL server")
    rest, _, query = rest.partition("?")
    # The last `@`, as browsers do it: a password may hold one without an escape.
    credentials, at, place = rest.rpartition("@")
    if "/" in credentials:
        raise _unreadable("user name and password come before `@`, and a `/` in them is written %2F")
    hosts, _, database = place.partition("/")
    parameters: dict[str, str] = {}
    if at:
        user, colon, password = credentials.partition(":")
        parameters |= {"user": _plain(user, "user name")} if user else {}
        parameters |= {"password": _plain(password, "password")} if colon else {}
    parameters |= _hosts(hosts)
    if database:
        parameters["dbname"] = _plain(database, "name of the database")
    return _with_query(parameters, query)


def _hosts(hosts: str) -> dict[str, str]:
    found = [_HOST.fullmatch(one) for one in unquote(hosts).split(",")] if hosts else []
    if any(one is None or int(one[2] or 1) not in range(1, 65_536) for one in found):
        raise _unreadable("behind the user stands HOST or HOST:PORT, several with commas between them")
    if not found:
        return {}
    sound = [one for one in found if one is not None]
    parameters = {"host": ",".join(one[1].strip("[]") for one in sound)}
    if any(one[2] for one in sound):
        parameters["port"] = ",".join(one[2] or "5432" for one in sound)
    return parameters


def _place(host: str, port: str) -> str:
    """Return hosts and ports as written before the database; empty for those that can only be parameters."""
    places = [f"[{one}]" if ":" in one else one for one in host.split(",")]
    ports = port.split(",") if "," in port else [port] * len(places)
    text = ",".join(one + (f":{it}" if it else "") for one, it in zip(places, ports, strict=False))
    try:
        is_same = (
            bool(host) and "%" not in text and len(ports) == len(places) and _hosts(text)["host"] == host
        )
        return text if is_same else ""
    except (MisuseError, KeyError):
        return ""


def _with_query(parameters: dict[str, str], query: str) -> Address:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise _unreadable("behind `?` stand NAME=VALUE with `&` between them") from None
    schema, can_prepare = SCHEMA, True
    for name, value in pairs:
        if "\0" in value:
            raise _unreadable(f"the value of {name[:40]!r} holds NUL")
        if name == "schema":
            schema = value
        elif name == "prepare" and value in ("on", "off"):
            can_prepare = value == "on"
        elif name in _PARAMETERS:
            parameters[name] = value
        else:
            known = "schema=NAME, prepare=off, and those of libpq such as sslmode=require"
            raise MisuseError(f"{name[:40]!r} is not a parameter of a PostgreSQL address; it takes {known}")
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise MisuseError(
            f"schema={schema[:60]!r}: a schema's name has up to 40 small letters, digits and underscores, "
            "and begins with no digit and not with pg_"
        )
    return Address(parameters, schema, can_prepare=can_prepare)


def _plain(text: str, what: str) -> str:
    try:
        if re.search(r"%(?![0-9A-Fa-f]{2})", text):
            raise ValueError
        plain = unquote(text, errors="strict")
    except ValueError:  # as of UTF-8, too
        raise _unreadable(f"in the {what}, `%` is written %25, and bytes are those of UTF-8") from None
    if "\0" in plain:
        raise _unreadable(f"the {what} holds NUL")
    return plain


def _unreadable(why: str) -> MisuseError:
    return MisuseError(
        f"the address of the PostgreSQL server cannot be read: {why}; "
        "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
    )
