"""Text that is meant to hold the event loop: every routine that reads it takes linear time.

Each case is a routine that strangers' text reaches on the event loop, with the text that is worst for it. Its
CPU time for four times the text may be four times as much, not sixteen; and a 64th part of a mebibyte takes
a small part of the 50 ms that are allowed for a mebibyte. `docs/security.md` has the table.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

import httpx2
import pytest

from callboard import AnthropicModel, ToolContext
from callboard.actors.protocol.errors import CallboardError, MemoryFailed, ToolError
from callboard.runtime.brief import tokens_of
from callboard.runtime.files.text import decoded
from callboard.runtime.http import web_encodings
from callboard.runtime.http.call_http import _CHARSET, _TYPE_CHARS_MAX
from callboard.runtime.mcp import http as mcp_http
from callboard.runtime.memory.access import MemoryAccess
from callboard.runtime.memory.protocol import QUERY_CHARS_MAX, TEXT_CHARS_MAX, Memory
from callboard.runtime.memory.words import words_of
from callboard.runtime.models.anthropic.answer import parsed
from callboard.runtime.models.protocol import ModelAnswer
from callboard.runtime.models.waits import wait_of
from callboard.runtime.outputs.toon import toon
from callboard.runtime.outputs.yaml import yaml
from callboard.runtime.sanitize import check_json, clean_json, clean_text, encoded, to_json
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.tools.output import returned
from tests.messages_api import Canned, MessagesApi
from tests.runtime.mcp.test_wire import waiting
from tests.runtime.models.anthropic.kit import KEY, request_with
from tests.runtime.models.layered.kit import DIALECTS, failure_of, serving

SECRET = "hunter2-is-my-password"
LOOKING = Secrets([SECRET])
SMALL, LARGE = 8_192, 32_768
FACTOR = LARGE // SMALL
SLACK = 2.5  # of a ratio of CPU times: 4 for linear routines, 16 for quadratic ones
FLOOR_S = 0.003  # below it a clock tells nothing
LARGE_S = 0.05 * LARGE / 2**20 * 8  # eight times the part of 50 ms: machines differ, quadratic routines more


def of(unit: str) -> Callable[[int], str]:
    """Return a maker of texts of this unit, with about so many bytes."""
    return lambda size: unit * (size // len(unit.encode("utf-8", "surrogatepass")))


def in_list(unit: str) -> Callable[[int], bytes]:
    return lambda size: b"[" + unit.encode() * (size // len(unit)) + b"0]"


def streamed(text: str) -> None:
    """Show a text in pieces, each of which has a search of its own."""
    stream = LOOKING.stream(lambda shown: None)
    for at in range(0, len(text), 50):
        stream.take(text[at : at + 50])
    stream.end()


UNITS = {
    "lone surrogates": "\ud800",
    "every second one lone": "a\udc00",
    "NUL": "\0",
    "control characters": "\x1b",
    "combining characters": "e\u0301\u0323",
    "line separators": "\u2028",
    "line breaks": "\n",
    "quotes": '"',
    "backslashes": "\\",
    "brackets": "[",
    "letters": "a",
    "digits": "9",
    "ampersands": "&#",
    "per cents": "%4",
    "begins of a key": "sk-ant-",
    "begins of a block": "-----BEGIN ",
    "ends of a block": "-----END A",
    "begins of the secret": "hunter2-is-my-passwor ",
    "the secret": f"{SECRET} ",
}


def message_of_mcp(text: str) -> None:
    """Read a line of a server that is a result with this text, and one that is nothing but it."""
    wire, _ = waiting()
    with suppress(ValueError):
        wire.read(text.encode("utf-8", "surrogatepass"))
    wire.read(json.dumps({"id": 3, "result": {"content": text}}).encode())


OF_TEXT: dict[str, Callable[[str], object]] = {
    "clean_text": clean_text,
    "to_json": to_json,
    "to_json of a list": lambda text: to_json([text, {text: 1}]),
    "encoded": lambda text: encoded([text]),
    "check_json of text": lambda text: check_json(json.dumps(text)[:LARGE] + '"'),
    "clean_json": lambda text: clean_json(text.encode("utf-8", "surrogatepass")),
    "a message of MCP": message_of_mcp,
    "the result of a tool": lambda text: returned(text, 10_000, LOOKING.redactor),
    "secrets in text": LOOKING.redactor.text,
    "secrets in JSON": lambda text: LOOKING.redactor.json(to_json([text])),
    "live text": streamed,
    "toon": lambda text: toon({"a": clean_text(text)}),
    "yaml": lambda text: yaml({"a": clean_text(text)}),
    "tokens of a brief": tokens_of,
    "a text file": lambda text: decoded(text.encode("utf-8", "replace"), "a.txt"),
    "the encoding of a page": lambda text: _CHARSET.search(f"text/html; {text}"[:_TYPE_CHARS_MAX]),
}
OF_JSON: dict[str, Callable[[int], bytes]] = {
    "brackets without an end": lambda size: b"[" * size,
    "brackets that match": lambda size: b"[" * (size // 2) + b"]" * (size // 2),
    "empty lists": in_list("[],"),
    "one deep list among empty ones": lambda size: b"[" + b"[" * 40 + b"]" * 40 + b",[]" * (size // 3) + b"]",
    "lists in lists": in_list("[[[[[]]]]],"),
    "objects with spaces": in_list('{"a" :1},'),
    "a key twice, last": lambda size: b"[" + b'{"a" :1},' * (size // 9) + b'{"a":1,"a":2}]',
    "one object": lambda size: b"{" + b",".join(b'"%06d" :1' % n for n in range(size // 12)) + b"}",
    "large exponents": in_list("1e308,"),
    "small exponents": in_list("4.9e-324,"),
    "numbers beyond a float": in_list("1e999,"),
    "one number of digits": lambda size: b"9" * size,
    "one fraction": lambda size: b"0." + b"9" * size,
    "numbers of 300 digits": in_list("9" * 300 + ","),
    "escapes of NUL": lambda size: b'"' + b"\\u0000" * (size // 6) + b'"',
    "escapes of lone surrogates": lambda size: b'"' + b"\\ud800" * (size // 6) + b'"',
    "escapes of pairs, and one half": lambda size: b'"' + b"\\ud83d\\ude00" * (size // 12) + b'\\ud800"',
    "two backslashes": lambda size: b'"' + b"\\\\" * (size // 2) + b'\\u0000"',
    "quotes": lambda size: b'"' * size,
    "the secret in many places": in_list(f'"{SECRET}",'),
}
READERS: dict[str, Callable[[bytes], object]] = {
    "check_json": check_json,
    "clean_json": clean_json,
    "an answer of Messages": parsed,
    "secrets in JSON": lambda data: LOOKING.redactor.json(check_json(data)),
}


def cpu_s(work: Callable[[Any], object], given: object) -> float:
    """Return the least CPU time of three runs. A refusal is an end like any other."""
    times = []
    for _ in range(3):
        start = time.thread_time()
        with contextlib.suppress(ValueError, CallboardError, ToolError):
            work(given)
        times.append(time.thread_time() - start)
    return min(times)


def assert_linear(
    work: Callable[[Any], object], made: Callable[[int], Any], large_s: float = LARGE_S
) -> None:
    small, large = cpu_s(work, made(SMALL)), cpu_s(work, made(LARGE))
    assert large <= max(FLOOR_S, small * FACTOR * SLACK), (small, large)
    assert large <= large_s, large


@pytest.mark.parametrize("name", OF_TEXT)
def test_text_is_read_in_linear_time(name: str) -> None:
    # Each piece of live text is an event of its own, and a hold of its own.
    large_s = 8 * LARGE_S if name == "live text" else LARGE_S
    for made in map(of, UNITS.values()):
        assert_linear(OF_TEXT[name], made, large_s)


@pytest.mark.parametrize("name", OF_JSON)
def test_json_is_read_in_linear_time(name: str) -> None:
    for read in READERS.values():
        assert_linear(read, OF_JSON[name])


@pytest.mark.parametrize(
    "encoding", ["utf-8", "windows-874", "windows-1252", "utf-16le", "gb18030", "iso-2022-jp"]
)
def test_a_page_is_decoded_in_linear_time(encoding: str) -> None:
    for unit in (b"\xff", b"\x81", b"\x00\xd8", b"\x1b", b"\x84\x31", b"\x1b$B"):
        pages = {size: unit * (size // len(unit)) for size in (SMALL, LARGE)}
        assert_linear(partial(web_encodings.decode, name=encoding), pages.__getitem__)


def test_a_quadratic_routine_is_noticed() -> None:
    with pytest.raises(AssertionError):
        assert_linear(lambda text: [text.count("ab", at) for at in range(0, len(text), 64)], of("a"))


def test_a_text_of_combining_characters_is_taken_in_bounded_time() -> None:
    # Python sorts them in quadratic time, so the bound of a memory's text is what holds.
    assert cpu_s(words_of, "e" + "\u0301\u0323" * (TEXT_CHARS_MAX // 2)) <= LARGE_S * 8
    with pytest.raises(MemoryFailed):
        memories().remember("\u0301" * (TEXT_CHARS_MAX + 1))
    with pytest.raises(MemoryFailed):
        memories().recall("\u0301" * (QUERY_CHARS_MAX + 1))


def memories() -> MemoryAccess:
    """Return the access of a call to a memory that is never reached."""
    made = ToolContext(memories=cast(Memory, object())).memory
    assert isinstance(made, MemoryAccess)
    return made


@pytest.mark.parametrize("unit", ["1 ", "Mon, ", "(", "+", ":", "9", "Jan "])
def test_a_wait_in_a_header_is_read_in_linear_time(unit: str) -> None:
    def wait(text: str) -> None:
        headers = {"retry-after": text, "date": text, "x-ratelimit-reset-requests": text}
        wait_of(headers, {"retryDelay": text}, text, 0, is_limit=True)

    assert_linear(wait, of(unit))


TRAP = rb"a \x41 b \u0042"


def test_the_charset_of_an_error_is_not_used() -> None:
    """The codec of the trap would read its escapes; UTF-8 has none."""
    trap = Canned(TRAP, 400, {"content-type": "text/plain; charset=unicode_escape"})
    with serving() as service:
        for dialect in DIALECTS:
            message = failure_of(service.failure(trap, dialect=dialect)).message
            assert "a A b" not in message, dialect
    with MessagesApi([trap]) as api:

        async def main() -> ModelAnswer:
            model = AnthropicModel("claude-test", base_url=api.url, api_key=KEY)
            try:
                return await model.call(request_with(), lambda piece: None)
            finally:
                await model.aclose()

        assert TRAP.decode() in failure_of(asyncio.run(main())).message
    asked, (wire, sending) = httpx2.Request("POST", "http://a.org"), waiting()
    packed = httpx2.Response(400, headers=trap.headers, stream=httpx2.ByteStream(TRAP), request=asked)
    failed = asyncio.run(mcp_http._Body(packed, sending, wire, 3).failed(asked))
    assert failed.text == TRAP.decode()
