"""The checks of a request to the page server, before anything is read or done.

The address holds a random token. A request with another Host or Origin is refused, so a page of another site
cannot read this one, also if its name leads to 127.0.0.1. An act also names the exact Origin, its type is
JSON, which no form of another site can send, and a second token stands in a header. That token is in the page
alone: an address that somebody has seen allows to look, and a page of a server that has ended to do nothing.
"""

import hmac
from collections.abc import Sequence
from typing import Final, NamedTuple

HOST: Final = "127.0.0.1"
ACT_HEADER: Final = b"x-callboard-act"
_JSON: Final = (b"application/json", b"application/json;charset=utf-8")

NOT_FOUND: Final = 404
FORBIDDEN: Final = 403
NO_METHOD: Final = 405
NO_JSON: Final = 415

Headers = Sequence[tuple[bytes, bytes]]


class Guard(NamedTuple):
    """The checks of one server. token: of its address. act_token: of acts; empty if it only shows."""

    port: int
    token: str
    act_token: str = ""

    @property
    def hosts(self) -> frozenset[bytes]:
        """Return the values of Host that name this server."""
        return frozenset(f"{name}:{self.port}".encode() for name in (HOST, "localhost"))

    def refusal(self, method: str, headers: Headers) -> int:
        """Return the status with which any request is refused; 0 for none."""
        if method != "GET" and not (method == "POST" and self.act_token):
            return NO_METHOD
        given = [(name.lower(), value) for name, value in headers]
        hosts = _values(given, b"host")
        is_here = len(hosts) == 1 and hosts[0] in self.hosts
        return 0 if is_here and all(self._is_own(*one) for one in given) else FORBIDDEN

    def refusal_of_act(self, headers: Headers) -> int:
        """Return the status with which an act is refused; 0 for none. `refusal` has passed it."""
        given = [(name.lower(), value) for name, value in headers]
        (host,) = _values(given, b"host")
        if _values(given, b"origin") != [b"http://" + host]:
            return FORBIDDEN
        kinds = [one.replace(b" ", b"").lower() for one in _values(given, b"content-type")]
        if len(kinds) != 1 or kinds[0] not in _JSON:
            return NO_JSON
        tokens = _values(given, ACT_HEADER)
        is_known = len(tokens) == 1 and hmac.compare_digest(tokens[0], self.act_token.encode())
        return 0 if is_known else FORBIDDEN

    def name(self, path: bytes) -> str | None:
        """Return the name below the token of the address; None for another path."""
        own = f"/{self.token}/".encode()
        head, name = path[: len(own)], path[len(own) :]
        return name.decode("utf-8", "replace") if hmac.compare_digest(head, own) else None

    def _is_own(self, name: bytes, value: bytes) -> bool:
        """Return False for a header that tells of another site."""
        if name == b"origin":
            return value in {b"http://" + host for host in self.hosts}
        return name != b"sec-fetch-site" or value in (b"same-origin", b"none")


def _values(headers: Headers, name: bytes) -> list[bytes]:
    return [value for given, value in headers if given == name]
