import ipaddress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.errors import HttpError
from callboard.runtime.http import places
from callboard.runtime.http.places import address_of, is_allowed, is_public, place_of_url, url_of
from tests.tables import table


@table(
    "url",
    [
        "http://user:pw@a.example/",
        "http://user@a.example/",
        "http://a\\@b.example/",
        "http://0177.0.0.1/",
        "http://0x7f.0.0.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://127.1/",
        "http://127.0.0.1.:80/",
        "http://[fe80::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://[::1/",
        "http://a.example.:80/",
        "http://a b/",
        "http://a.example%00.b.example/",
        "http://*.example/",
        "http://\uff11\uff12\uff17.0.0.1/",
        "http:///x",
        "//a.example/",
        "a.example",
        "file:///etc/passwd",
        "ftp://a.example/",
        "http://a.example:99999/",
        "http://a.example\r\nhost: b/",
        "http://" + "a" * 9_000,
        "",
        None,
    ],
)
def test_an_address_with_more_than_one_reading_is_refused(url: str) -> None:
    with pytest.raises(HttpError) as caught:
        place_of_url(url_of(url))
    assert caught.value.reason == "bad_url"
    assert "pw" not in str(caught.value)


@table(
    ("url", "place"),
    [
        ("https://A.Example/x?y#z", "https://a.example:443"),
        ("http://a.example:8080", "http://a.example:8080"),
        ("http://[::FFFF:7f00:1]/", "http://[::ffff:127.0.0.1]:80"),
        ("http://[0:0::1]:81/", "http://[::1]:81"),
        ("https://bücher.example/", "https://xn--bcher-kva.example:443"),
        ("https://a.example#@b.example/", "https://a.example:443"),
    ],
)
def test_an_address_leads_to_one_place(url: str, place: str) -> None:
    assert str(place_of_url(url_of(url))).replace("::ffff:7f00:1", "::ffff:127.0.0.1") == place


@table(
    "text",
    [
        "127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0",
        "100.64.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1",
        "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a00:1::1", "2001:db8::1", "240.0.0.1",
        "192.0.0.0", "192.0.0.9", "192.0.0.170", "192.0.0.255", "192.88.99.1", "fec0::1", "feff::1", "100::1",
        "64:ff9b:1::1", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "3fff::1", "3fff:fff::1", "3ffe::1", "5f00::1",
        "fe80::5efe:8.8.8.8", "2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:127.0.0.1", "4000::1",
        "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:10::1", "2001:20::1", "::8.8.8.8",
    ],
)  # fmt: skip
def test_an_address_of_the_own_network_is_not_public(text: str) -> None:
    address = address_of(text)
    assert address is not None
    assert not is_public(address)


@table(
    "text",
    [
        *("8.8.8.8", "1.1.1.1", "192.0.1.1", "2606:4700::1111", "2a00:1450:4001:81b::200e", "2001:4860::1"),
        *("::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1", "2606:4700::5efe:8.8.8.8", "3ffd::1"),
    ],
)
def test_an_address_of_the_internet_is_public(text: str) -> None:
    address = address_of(text)
    assert address is not None
    assert is_public(address)


@given(st.ip_addresses())
def test_no_address_that_any_python_calls_private_is_public(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    # The tables decide; those of a Python are a subset that grows from one version to the next.
    is_listed = address.is_private and not address.is_global
    carries = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped
    assert not (is_listed and is_public(address)) or carries


@table("part", ["is_global", "is_private", "is_reserved", "is_site_local", "teredo"])
def test_the_version_of_python_decides_nothing(part: str) -> None:
    assert f".{part}" not in Path(places.__file__).read_text()


@given(st.ip_addresses(v=4))
def test_an_address_inside_of_another_one_is_no_more_public(inner: ipaddress.IPv4Address) -> None:
    number = int(inner)
    for outer in (0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80, number):
        assert not is_public(ipaddress.IPv6Address(outer)) or is_public(inner)


def test_a_network_may_be_allowed_by_name() -> None:
    private = (ipaddress.ip_network("127.0.0.0/8"),)
    assert is_allowed(ipaddress.ip_address("127.0.0.1"), private)
    assert not is_allowed(ipaddress.ip_address("10.0.0.1"), private)
    assert not is_allowed(ipaddress.ip_address("::1"), private)


@table("text", ["fe80::1%eth0", "a.example", "0177.0.0.1", "127.1", ""])
def test_another_text_is_no_address(text: str) -> None:
    assert address_of(text) is None
