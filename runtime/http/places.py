"""The places that a URL may lead to: resolved once, checked, and connected to."""

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import httpcore2
import httpx2
from httpcore2 import AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream

from callboard.actors.protocol.bundle_entries import Place, place_of
from callboard.actors.protocol.errors import HttpError
from callboard.runtime.http.settings import Http, Network

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
URL_CHARS_MAX: Final = 8_192
_PORTS: Final = {"http": 80, "https": 443}
# https://www.iana.org/assignments/iana-ipv4-special-registry: the networks that are not reachable from
# everywhere, and those of no single machine. 192.0.0.0/24 as a whole: the few public addresses in it
# (RFC 7723, 8155) serve no pages.
_PRIVATE4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # RFC 791: this network
            "10.0.0.0/8",  # RFC 1918
            "100.64.0.0/10",  # RFC 6598: shared by carriers
            "127.0.0.0/8",  # RFC 1122: loopback
            "169.254.0.0/16",  # RFC 3927: link-local, with the metadata of clouds
            "172.16.0.0/12",  # RFC 1918
            "192.0.0.0/24",  # RFC 6890: protocol assignments
            "192.0.2.0/24",  # RFC 5737: documentation
            "192.88.99.0/24",  # RFC 7526: relays of 6to4
            "192.168.0.0/16",  # RFC 1918
            "198.18.0.0/15",  # RFC 2544: benchmarks
            "198.51.100.0/24",  # RFC 5737
            "203.0.113.0/24",  # RFC 5737
            "224.0.0.0/4",  # RFC 5771: multicast
            "240.0.0.0/4",  # RFC 1112: reserved, with the broadcast
        ),
    )
)
# https://www.iana.org/assignments/ipv6-address-space: only 2000::/3 is global unicast. So site-local
# addresses (fec0::/10), unique local ones (fc00::/7), 64:ff9b:1::/48 (RFC 8215), 100::/64 and ::/96 are not.
_GLOBAL6: Final = ipaddress.IPv6Network("2000::/3")
# https://www.iana.org/assignments/iana-ipv6-special-registry, inside of 2000::/3.
_PRIVATE6: Final = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # RFC 2928: protocol assignments, with Teredo (RFC 4380) and ORCHID (RFC 7343)
            "2001:db8::/32",  # RFC 3849: documentation
            "3ffe::/16",  # RFC 3701: the 6bone, given back
            "3fff::/20",  # RFC 9637: documentation
        ),
    )
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052
_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")  # RFC 4291
_6TO4: Final = ipaddress.IPv6Network("2002::/16")  # RFC 3056
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)  # RFC 5214: in the upper half of the interface's identifier
TRIES_MAX: Final = 4
"""Addresses of one name that are tried."""


def place_of_url(url: httpx2.URL) -> Place:
    """Return the place of a URL. Raises HttpError for a URL with more than one reading."""
    if url.userinfo:
        raise HttpError("an address may not contain a user or a password; use headers=", "bad_url")
    if url.scheme not in _PORTS:
        raise HttpError(f"{url.scheme[:20]!r} is not a supported scheme; use http or https", "bad_url")
    host = url.raw_host.decode("ascii", "replace").lower()
    port = _PORTS[url.scheme] if url.port is None else url.port
    try:
        return place_of(f"{url.scheme}://{_single(host)}:{port}")
    except ValueError:
        raise HttpError(
            f"{host[:80]!r} is not an unambiguous host; use a name, four decimal numbers, or an IPv6 "
            "address in brackets without a zone",
            "bad_url",
        ) from None


def _single(host: str) -> str:
    """Return one host in its one form. Raises ValueError for a pattern of hosts, and for a zone."""
    if "*" in host or "%" in host:
        raise ValueError(host)
    return f"[{ipaddress.IPv6Address(host).compressed}]" if ":" in host else host


def url_of(text: object) -> httpx2.URL:
    """Read the text of a URL. Raises HttpError."""
    if not isinstance(text, str) or len(text) > URL_CHARS_MAX:
        raise HttpError(f"an address is a text of up to {URL_CHARS_MAX:,} characters", "bad_url")
    # Browsers and libraries read these characters in different ways, or drop them.
    if not text.isprintable() or " " in text or "\\" in text:
        raise HttpError("an address may not contain a space, a backslash or a control character", "bad_url")
    try:
        return httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError) as error:
        raise HttpError(f"this is not an address: {str(error)[:200]}", "bad_url") from None


def is_public(address: Address) -> bool:
    """Return True for an address of the public internet that leads to no address of another kind."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _PRIVATE4)
    carried = _carried(address)
    if carried is not None and not is_public(carried):
        return False
    # These two are mere forms of an address of IPv4.
    if carried is not None and (address in _NAT64 or address in _MAPPED):
        return True
    return address in _GLOBAL6 and not any(address in network for network in _PRIVATE6)


def _carried(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that an IPv6 address stands for or leads through, None for none."""
    number = int(address)
    if address in _NAT64 or address in _MAPPED or number >> 32 & 0xFFFF_FFFF in _ISATAP:
        return ipaddress.IPv4Address(number & 0xFFFF_FFFF)
    if address in _6TO4:
        return ipaddress.IPv4Address(number >> 80 & 0xFFFF_FFFF)
    return None


def is_allowed(address: Address, private: Sequence[Network]) -> bool:
    """Return True if tools may be connected to an address. private: networks that are allowed too."""
    return is_public(address) or any(
        address.version == network.version and address in network for network in private
    )


def address_of(text: str) -> Address | None:
    """Return the address that a text of a resolver is; None for any other text, also for one with a zone."""
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


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
                f"{host[:200]!r} is not a public address, so tools may not reach it; "
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
