"""Requests of tools against loopback servers, with resolvers that say where a name is."""

import asyncio
import functools
import gzip
import ssl
import zlib
from collections.abc import Callable, Coroutine
from typing import TypeAlias

import httpx2
import pytest

from callboard.actors.protocol.bundles import Allowed, LabelRule, Rights
from callboard.actors.protocol.errors import HttpError, MisuseError, ToolError, ToolInterrupted
from callboard.actors.protocol.layers import Layer
from callboard.actors.protocol.uses import Use
from callboard.runtime.http.call_http import CallHttp
from callboard.runtime.http.settings import Http
from callboard.runtime.tools.access import Access
from tests.runtime.http.servers import LOOPBACK, Served, answer, at_loopback, resolver, server, tls_contexts
from tests.tables import table

Contexts: TypeAlias = tuple[ssl.SSLContext, ssl.SSLContext]
HttpTest: TypeAlias = Callable[[], Coroutine[object, object, None]]


def on_loop(test: HttpTest) -> Callable[[], None]:
    """Run a test on a loop of its own."""

    @functools.wraps(test)
    def run_it() -> None:
        asyncio.run(test())

    return run_it


def allowing(*hosts: str) -> Access:
    """Return the access of an agent that may reach these places."""
    return Access((Layer("agent host", Rights(Allowed(hosts=hosts))),))


async def refusal(http: CallHttp, url: str, method: str = "GET", **options: object) -> HttpError:
    with pytest.raises(HttpError) as caught:
        await http.send(method, url, **options)  # type: ignore[arg-type]  # options of a request
    return caught.value


@on_loop
async def test_an_answer_has_status_headers_and_content() -> None:
    async with server(answer(b'{"a": 1}', "404 Not Found", X_Tag="t")) as at:
        found = await CallHttp(at_loopback(), Access()).send("GET", at.url("x?y"))
    assert (found.status, found.json(), found.headers["x-tag"]) == (404, {"a": 1}, "t")
    assert at.heads[0].startswith("GET /x?y HTTP/1.1\r\n")
    assert f"host: a.example:{at.port}" in at.heads[0].lower()
    assert found.url == at.url("x?y")


@on_loop
async def test_every_hop_is_named_in_the_log() -> None:
    async with server(answer()) as last, server(_moved(last)) as first:
        access = Access()
        await CallHttp(at_loopback(), access).send("GET", first.url(name="one.example"))
    assert access.uses == (
        Use("hosts", f"http://one.example:{first.port}"),
        Use("hosts", f"http://a.example:{last.port}"),
    )


def _moved(to: Served | str, status: str = "302 Found") -> bytes:
    return answer(b"", status, location=to if isinstance(to, str) else to.url())


@on_loop
async def test_scheme_host_and_port_are_checked_before_a_connection() -> None:
    async with server(answer()) as at:
        for entry in (f"https://a.example:{at.port}", "http://a.example", f"http://b.example:{at.port}"):
            error = await refusal(CallHttp(at_loopback(), allowing(entry)), at.url())
            assert error.reason == "denied"
            assert "is denied by agent host" in str(error)
        assert at.heads == []
        allowed = allowing(f"http://*.example:{at.port}")
        assert (await CallHttp(at_loopback(), allowed).send("GET", at.url())).text == "hello"


@on_loop
async def test_a_redirect_to_a_denied_host_is_refused_before_its_connection() -> None:
    async with server(answer()) as last, server(_moved(last)) as first:
        access = allowing(f"http://one.example:{first.port}")
        error = await refusal(CallHttp(at_loopback(), access), first.url(name="one.example"))
    assert error.reason == "denied"
    assert last.heads == []


@table(
    ("address", "reason"),
    [
        (["127.0.0.1"], "private"),
        (["10.0.0.1", "::1"], "private"),
        (["::ffff:127.0.0.1"], "private"),
        ([], "unresolved"),
        (["no address"], "unresolved"),
        (["fe80::1%eth0"], "unresolved"),
    ],
)
def test_a_name_is_refused_by_where_it_leads(address: list[str], reason: str) -> None:
    async def run() -> HttpError:
        async with server(answer()) as at:
            error = await refusal(CallHttp(Http(resolver=resolver(address)), Access()), at.url())
            assert at.heads == []
        return error

    assert asyncio.run(run()).reason == reason


@table("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "localhost"])
def test_an_address_of_the_own_network_is_refused_also_where_a_bundle_names_it(host: str) -> None:
    access = allowing(f"http://{host}")
    assert asyncio.run(refusal(CallHttp(Http(), access), f"http://{host}/")).reason in ("private", "denied")
    assert asyncio.run(refusal(CallHttp(Http(), Access()), f"http://{host}/")).reason == "private"


@on_loop
async def test_a_redirect_to_the_own_network_is_refused() -> None:
    settings = Http(private=["127.0.0.1/32"], resolver=resolver(["127.0.0.1"]))
    async with server(_moved("http://127.0.0.2:1/")) as at:
        error = await refusal(CallHttp(settings, Access()), at.url())
    assert error.reason == "private"


@on_loop
async def test_a_name_is_resolved_once_and_the_checked_address_is_connected_to() -> None:
    asked: list[str] = []

    async def two_answers(name: str, port: int) -> list[str]:
        asked.append(name)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    async with server(answer()) as at:
        settings = Http(private=LOOPBACK, resolver=two_answers)
        assert (await CallHttp(settings, Access()).send("GET", at.url())).status == 200
        assert asked == ["a.example"]
        error = await refusal(CallHttp(settings, Access()), at.url())
    assert error.reason == "private"
    assert len(at.heads) == 1


@on_loop
async def test_of_several_addresses_only_allowed_ones_are_tried() -> None:
    async with server(answer()) as at:
        mixed = Http(private=LOOPBACK, resolver=resolver(["10.0.0.1", "127.0.0.3", "127.0.0.1"]))
        assert (await CallHttp(mixed, Access()).send("GET", at.url())).status == 200


def test_variables_for_proxies_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with server(answer(b"proxy")) as proxy, server(answer(b"direct")) as at:
            for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
                monkeypatch.setenv(name, proxy.url(name="127.0.0.1"))
            found = await CallHttp(at_loopback(), Access()).send("GET", at.url())
            assert (found.text, proxy.heads) == ("direct", [])

    asyncio.run(run())


async def _endless(head: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x" * 60_000)
        await writer.drain()


async def _slow(head: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


@on_loop
async def test_an_endless_answer_is_refused() -> None:
    async with server(_endless) as at:
        error = await refusal(CallHttp(at_loopback(max_bytes=300_000), Access()), at.url())
    assert (error.reason, "300,000" in str(error)) == ("large", True)


@on_loop
async def test_a_slow_answer_ends_at_the_time_limit_of_the_whole_request() -> None:
    async with server(_slow) as at:
        error = await refusal(CallHttp(at_loopback(timeout_s=0.1), Access()), at.url())
        assert error.reason == "timeout"
        assert (await refusal(CallHttp(at_loopback(), Access(), 0.05), at.url())).reason == "timeout"


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_packed_answer_is_refused_by_its_unpacked_size(pack: Callable[[bytes], bytes]) -> None:
    name = "gzip" if pack is gzip.compress else "deflate"
    bomb, small = (answer(pack(b"0" * size), content_encoding=name) for size in (5_000_000, 1_000))

    async def run() -> None:
        async with server(bomb) as large, server(small) as fine:
            http = CallHttp(at_loopback(max_bytes=100_000), Access())
            assert (await refusal(http, large.url())).reason == "large"
            assert len((await http.send("GET", fine.url())).content) == 1_000

    asyncio.run(run())


@pytest.mark.parametrize("packed", ["br", "gzip, gzip", "zstd", "x"])
def test_another_encoding_is_refused(packed: str) -> None:
    async def run() -> HttpError:
        async with server(answer(b"x", content_encoding=packed)) as at:
            return await refusal(CallHttp(at_loopback(), Access()), at.url())

    assert asyncio.run(run()).reason == "encoding"


@on_loop
async def test_credentials_go_to_their_own_place_only() -> None:
    async with server(answer()) as last, server(_moved(last)) as first:
        http = CallHttp(at_loopback(), Access())
        await http.send(
            "GET", first.url(), headers={"Authorization": "Bearer x", "X-Key": "y", "Accept": "z"}
        )
    assert "Bearer x" in first.heads[0]
    assert "Bearer x" not in last.heads[0]
    assert "x-key" not in last.heads[0].lower()
    assert "accept: z" in last.heads[0].lower()


@on_loop
async def test_redirects_have_an_end() -> None:
    async with server(_moved("/again")) as at:
        error = await refusal(CallHttp(at_loopback(max_redirects=3), Access()), at.url())
    assert error.reason == "redirect"
    assert len(at.heads) == 4


@pytest.mark.parametrize(("status", "method"), [("303 See Other", "GET"), ("307 Temporary Redirect", "POST")])
def test_a_redirect_keeps_or_changes_the_method_as_its_status_says(status: str, method: str) -> None:
    async def run() -> None:
        async with server(answer()) as last, server(_moved(last, status)) as first:
            await CallHttp(at_loopback(), Access()).send("POST", first.url(), json={"a": 1})
        assert last.heads[0].startswith(method)

    asyncio.run(run())


@pytest.mark.parametrize(
    "to", ["http://user@b.example/", "ftp://b.example/", "http://0177.0.0.1/", "http://[x"]
)
def test_a_redirect_to_an_odd_address_is_refused(to: str) -> None:
    async def run() -> HttpError:
        async with server(_moved(to)) as at:
            return await refusal(CallHttp(at_loopback(), Access()), at.url())

    assert asyncio.run(run()).reason in ("bad_url", "redirect")


@on_loop
async def test_a_change_that_fails_after_it_may_have_been_sent_is_interrupted() -> None:
    async def hang_up(head: str, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with server(hang_up) as at:
        http = CallHttp(at_loopback(), Access())
        with pytest.raises(ToolInterrupted, match="may have had its effect"):
            await http.send("POST", at.url(), content="x")
        assert (await refusal(http, at.url())).reason == "failed"


@pytest.mark.parametrize("name", ["Host", "Transfer-Encoding", "content-length"])
def test_headers_that_name_another_host_or_another_body_are_refused(name: str) -> None:
    error = asyncio.run(refusal(CallHttp(Http(), Access()), "https://a.example/", headers={name: "b"}))
    assert name.lower() in str(error)


def test_another_method_is_refused() -> None:
    assert "CONNECT" in str(asyncio.run(refusal(CallHttp(Http(), Access()), "https://a.example/", "CONNECT")))


@on_loop
async def test_a_label_that_was_read_closes_the_network() -> None:
    access = Access((Layer("agent host", Rights(rules=(LabelRule("secret", "network"),))),))
    async with server(answer()) as at:
        http = CallHttp(at_loopback(), access)
        await http.send("GET", at.url())
        access.took(("secret",))
        assert "once the label 'secret' was read" in str(await refusal(http, at.url()))


def test_a_tool_on_a_thread_needs_no_loop() -> None:
    async def run() -> None:
        async with server(answer()) as at:
            http = CallHttp(at_loopback(), Access())
            found = await asyncio.to_thread(http.request, "GET", at.url())
            assert found.text == "hello"
            with pytest.raises(MisuseError, match="awaits"):
                http.request("GET", at.url())

    asyncio.run(run())


@on_loop
async def test_an_answer_that_is_no_json_says_so() -> None:
    async with server(answer(b"<html>", content_type="text/html; charset=nonsense")) as at:
        found = await CallHttp(at_loopback(), Access()).send("GET", at.url())
    assert found.text == "<html>"
    with pytest.raises(ToolError, match="is not JSON"):
        found.json()


@pytest.fixture(scope="module")
def contexts() -> Contexts:
    """Return the TLS contexts of a server with a certificate for `a.example`, and of its clients."""
    return tls_contexts("a.example")


def test_tls_asks_for_the_name_and_not_for_the_address(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    served, client = contexts
    names: list[str] = []
    served.sni_callback = lambda sock, name, context: names.append(name)

    async def run() -> None:
        async with server(answer(), served) as at:
            http = CallHttp(at_loopback(verify=client), allowing(f"https://*.example:{at.port}"))
            assert (await http.send("GET", at.url(scheme="https"))).status == 200
            assert names == ["a.example"]
            error = await refusal(http, at.url(scheme="https", name="b.example"))
            assert error.reason == "failed"
            assert len(at.heads) == 1

    asyncio.run(run())


def test_a_redirect_from_https_to_http_is_refused(contexts: Contexts) -> None:
    served, client = contexts

    async def run() -> None:
        async with server(answer()) as last, server(_moved(last), served) as first:
            http = CallHttp(at_loopback(verify=client), Access())
            assert (await refusal(http, first.url(scheme="https"))).reason == "redirect"
            assert last.heads == []

    asyncio.run(run())


def test_all_requests_of_an_http_share_one_tls_context(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ssl.SSLContext] = []
    real = httpx2.create_ssl_context

    def create_ssl_context(*, trust_env: bool) -> ssl.SSLContext:
        made.append(real(trust_env=trust_env))
        return made[-1]

    monkeypatch.setattr(httpx2, "create_ssl_context", create_ssl_context)
    settings = at_loopback()

    async def main() -> None:
        async with server(answer(b"hello")) as at:
            for _ in range(3):
                await CallHttp(settings, Access()).send("GET", at.url())

    asyncio.run(main())
    assert len(made) == 1
    assert settings.tls_context() is made[0]


@on_loop
async def test_a_page_is_read_in_an_encoding_of_the_web_only() -> None:
    for stated, sent, text in (
        ("Windows-1252", b"caf\xe9", "café"),
        ('"shift_jis"', "日本".encode("cp932"), "日本"),
        ("punycode", b"caf-dma", "caf-dma"),
        ("unicode_escape", b"\\x41", "\\x41"),
        ("utf-7", b"+AGEAYg-", "+AGEAYg-"),
        ("utf-8; charset=latin1", "é".encode(), "é"),
    ):
        async with server(answer(sent, content_type=f"text/html; charset={stated}")) as at:
            found = await CallHttp(at_loopback(), Access()).send("GET", at.url())
        assert found.text == text, stated
