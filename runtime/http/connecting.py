"""Connections to checked addresses: a name is resolved once, and the checked address is connected to.

A library that is given the name would resolve it again, and could be told another address then. TLS and the
`Host` header keep the name.
"""

from collections.abc import Iterable
from typing import Final

import httpcore2
import httpx2
from httpcore2 import AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream

from callboard.actors.protocol.errors import HttpError
from callboard.runtime.http.places import Address, address_of, is_allowed
from callboard.runtime.http.settings import Http

TRIES_MAX: Final = 4
"""Addresses of one name that are tried."""


class CheckedBackend(AsyncNetworkBackend):
    """A network backend that connects to allowed addresses only."""

    def __init__(self, settings: Http) -> None:
        self._settings = settings
        self._inner = AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # the signature of the library
        local_address: str | None = None,
        socket_options: Iterable[object] | None = None,
    ) -> AsyncNetworkStream:
        """Connect to the first allowed address of a host that answers. Raises HttpError."""
        failure: Exception | None = None
        for address in (await self.addresses(host, port))[:TRIES_MAX]:
            try:
                return await self._inner.connect_tcp(str(address), port, timeout=timeout)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure or HttpError(f"{host} has no address", "unresolved")

    async def addresses(self, host: str, port: int) -> list[Address]:
        """Return the allowed addresses of a host. Raises HttpError if no address is allowed."""
        found = await self._found(host, port)
        allowed = [one for one in dict.fromkeys(found) if is_allowed(one, self._settings.private)]
        if found and not allowed:
            raise HttpError(
                f"{host[:200]!r} is a machine of the own network, which tools may not reach; "
                "Runtime(http=Http(private=[...])) names networks that they may",
                "private",
            )
        if not allowed:
            raise _unresolved(host)
        return allowed

    async def _found(self, host: str, port: int) -> list[Address]:
        """Return the addresses of a host, allowed or not."""
        try:
            texts = [host] if address_of(host) else await self._settings.resolver(host, port)
        except (OSError, UnicodeError):
            raise _unresolved(host) from None
        return [one for one in map(address_of, texts) if one is not None]


def _unresolved(host: str) -> HttpError:
    return HttpError(f"the name {host[:200]!r} has no address", "unresolved")


class CheckedTransport(httpx2.AsyncHTTPTransport):
    """A transport without proxies, whose connections go to checked addresses. Each request has its own."""

    def __init__(self, settings: Http) -> None:
        # Not the constructor of the base: its pool has a backend of its own, which no argument replaces.
        verify = settings.tls_context()
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=verify, http1=True, http2=False, retries=0, network_backend=CheckedBackend(settings)
        )
