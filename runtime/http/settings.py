"""`Http`: how the tools of a runtime reach the network by `ctx.http`."""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from callboard.actors.protocol.errors import MisuseError

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a name, for a port. Raises OSError."""

BODY_BYTES_MAX: Final = 5_000_000
REQUEST_S_MAX: Final = 30.0
REDIRECTS_MAX: Final = 5


class Http:
    """The settings of `ctx.http`.

    private: networks of the own machine or company that tools may reach, such as `["127.0.0.0/8"]` in tests.
        All others that are not public are refused, under any name.
    max_bytes: of a body, after it was unpacked. timeout_s: seconds for a request with all its redirects.
    max_redirects: that are followed. verify: the TLS context, None for the certificates that are shipped.
    resolver: an async function of a name and a port that returns addresses; None for the system's.

    Raises MisuseError for a text that is not a network, or a limit that is not above zero.

    >>> Http(private=["127.0.0.0/8"])
    Http(private=['127.0.0.0/8'])
    """

    def __init__(
        self,
        *,
        private: Sequence[str] = (),
        max_bytes: int = BODY_BYTES_MAX,
        timeout_s: float = REQUEST_S_MAX,
        max_redirects: int = REDIRECTS_MAX,
        verify: ssl.SSLContext | None = None,
        resolver: Resolver | None = None,
    ) -> None:
        self.private = _networks(private)
        if max_bytes <= 0 or timeout_s <= 0 or max_redirects < 0:
            raise MisuseError(
                "max_bytes and timeout_s must be above 0, and max_redirects must not be negative"
            )
        self.max_bytes, self.timeout_s, self.max_redirects = max_bytes, timeout_s, max_redirects
        self._verify = verify
        self.resolver: Resolver = resolver or resolved_by_system

    def tls_context(self) -> ssl.SSLContext:
        """Return the one TLS context of all requests; creating it blocks for some 20 ms."""
        # Not for each request: it reads all certificates. Two threads may make two, and one is kept.
        if self._verify is None:
            import httpx2  # of an extra

            self._verify = httpx2.create_ssl_context(trust_env=False)
        return self._verify

    def __repr__(self) -> str:
        return f"Http(private={[str(one) for one in self.private]})"


def _networks(private: Sequence[str]) -> "tuple[Network, ...]":
    if isinstance(private, str):
        raise MisuseError("private is a list of networks, such as ['127.0.0.0/8']")
    try:
        return tuple(map(ipaddress.ip_network, private))
    except ValueError as error:
        raise MisuseError(f"private={private!r:.100}: {error}") from None


async def resolved_by_system(name: str, port: int) -> Sequence[str]:
    """Return the addresses that the system has for a name. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [str(one[4][0]) for one in found]


DEFAULT_HTTP: Final = Http()


def checked_http(given: object) -> Http:
    """Return settings, those by default for None. Raises MisuseError for any other object."""
    if given is not None and not isinstance(given, Http):
        raise MisuseError(f"http={given!r:.80}: use Http(private=['127.0.0.0/8'])")
    return given or DEFAULT_HTTP
