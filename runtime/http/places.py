"""The place that a URL leads to, and the addresses that tools may be connected to.

Rules
  - A host has one reading: a name, an IPv4 address of four decimal numbers, or an IPv6 address in brackets.
    `0177.0.0.1`, `0x7f.1`, `2130706433`, zones and users are refused: programs read them in several ways.
  - An address of the own machine or network is refused, also inside of an IPv6 address that carries one.
"""

import ipaddress
from collections.abc import Sequence
from typing import Final, TypeAlias

import httpx2

from callboard.actors.protocol.bundle_entries import Place, place_of
from callboard.actors.protocol.errors import HttpError
from callboard.runtime.http.settings import Network

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

URL_CHARS_MAX: Final = 8_192
_PORTS: Final = {"http": 80, "https": 443}
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")


def place_of_url(url: httpx2.URL) -> Place:
    """Return the place of a URL. Raises HttpError for a URL with more than one reading."""
    if url.userinfo:
        raise HttpError("an address holds no user and no password; use headers=", "bad_url")
    if url.scheme not in _PORTS:
        raise HttpError(f"{url.scheme[:20]!r} is no scheme of an address; use http or https", "bad_url")
    host = url.raw_host.decode("ascii", "replace").lower()
    port = _PORTS[url.scheme] if url.port is None else url.port
    try:
        return place_of(f"{url.scheme}://{_single(host)}:{port}")
    except ValueError:
        raise HttpError(
            f"{host[:80]!r} is no host with one reading; use a name, four decimal numbers, or an IPv6 "
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
        raise HttpError("an address holds no space, no backslash and no control character", "bad_url")
    try:
        return httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError) as error:
        raise HttpError(f"this is no address: {str(error)[:200]}", "bad_url") from None


def is_public(address: Address) -> bool:
    """Return True for an address of the public internet that leads to no other address."""
    carried = _carried(address) if isinstance(address, ipaddress.IPv6Address) else None
    if carried is not None:
        return is_public(carried)
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _carried(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that an IPv6 address stands for, None for none."""
    if _ends_with_ipv4(address):
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


def _ends_with_ipv4(address: ipaddress.IPv6Address) -> bool:
    return address in _NAT64 or (address in _COMPATIBLE and int(address) > 1)


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
