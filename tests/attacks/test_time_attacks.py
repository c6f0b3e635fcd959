"""Text that is meant to hold the event loop: every routine that reads it takes linear time.

Each case is a routine that strangers' text reaches on the event loop, with the text that is worst for it. For
four times the text it may make four times as many calls, not sixteen. The work within one call of C has no
count: of a mebibyte, the campaign waits for its end, which a routine of quadratic time does not reach within
the limit of a test. The milliseconds are measured by `benchmarks/loop_hold.py`; `docs/security.md` has the
table.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

import httpx2
import pytest

from callboard import AnthropicModel, ToolContext, tool
from callboard.actors.protocol.errors import CallboardError, MemoryFailed, ToolError
from callboard.actors.protocol.immutable import NULL, Json
from callboard.runtime.brief import tokens_of
from callboard.runtime.files.searching import Glob, LinePattern
from callboard.runtime.files.text import decoded
from callboard.runtime.http import web_encodings
from callboard.runtime.http.call_http import _CHARSET, _TYPE_CHARS_MAX
from callboard.runtime.http.places import url_of
from callboard.runtime.mcp import http as mcp_http
from callboard.runtime.memory.access import QUERY_CHARS_MAX, TEXT_CHARS_MAX, Memory, MemoryAccess
from callboard.runtime.memory.sqlite import words_of
from callboard.runtime.models.anthropic.answer import parsed
from callboard.runtime.models.protocol import ModelAnswer
from callboard.runtime.models.waits import wait_of
from callboard.runtime.outputs.encodings import yaml
from callboard.runtime.outputs.toon import toon
from callboard.runtime.sanitize import check_json, clean_json, clean_text, encoded, to_json
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.tools.context import LateContext
from callboard.runtime.tools.execution import ToolRunner
from callboard.runtime.tools.output import ToolOutcome, returned
from tests.effort import long_search
from tests.messages_api import Canned, MessagesApi
from tests.runtime.mcp.test_wire import waiting
from tests.runtime.models.anthropic.kit import KEY, request_with
from tests.runtime.models.layered.kit import DIALECTS, failure_of, serving
from tests.steps import counting
from tests.tables import table

Case: TypeAlias = tuple[str, Callable[[Any], object], Callable[[int], Any]]
"""A name, a routine, and a maker of its input of so many bytes."""

ROOT = Path(__file__).parent.parent.parent
SECRET = "hunter2-is-my-password"
LOOKING = Secrets([SECRET])
SMALL, LARGE = 12_288, 49_152  # both above the characters that a result of a tool keeps
FACTOR = LARGE // SMALL
SLACK = 2.5  # of a ratio of counts: 4 for linear routines, 16 for quadratic ones
FLOOR = 500  # calls that say nothing about the growth of a routine
WHOLE = 2**20


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


HEADER_UNITS = ["1 ", "Mon, ", "(", "+", ":", "9", "Jan "]


def wait_in(text: str) -> None:
    """Read the wait that headers of a model state."""
    headers = {"retry-after": text, "date": text, "x-ratelimit-reset-requests": text}
    wait_of(headers, {"retryDelay": text}, text, 0, is_limit=True)


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


def pages() -> Iterator[Case]:
    """Yield pages of each encoding of the web that its decoder takes longest for."""
    units = (b"\xff", b"\x81", b"\x00\xd8", b"\xd8\x00", b"\x00\xdc", b"\x1b", b"\x84\x31", b"\x1b$B")
    for name in sorted(set(web_encodings.names().values())):
        for unit in units:
            decode = partial(web_encodings.decode, name=name)
            yield f"{name}, {unit!r}", decode, partial(_bytes_of, unit)


def _bytes_of(unit: bytes, size: int) -> bytes:
    return unit * (size // len(unit))


def texts(*names: str) -> Iterator[Case]:
    """Yield texts of each unit for these routines."""
    for name in names:
        for unit, text in UNITS.items():
            yield f"{name}: {unit}", OF_TEXT[name], of(text)


def jsons(*names: str) -> Iterator[Case]:
    """Yield the texts of JSON for these readers."""
    for name in names:
        for text, made in OF_JSON.items():
            yield f"{name}: {text}", READERS[name], made


def numbers() -> Iterator[Case]:
    """Yield JSON of numbers."""
    words = ("exponents", "digits", "fraction", "beyond a float")
    return (case for case in jsons("check_json") if any(word in case[0] for word in words))


async def _result_of(value: object) -> None:
    """Take the result of an async tool; its time is that of the loop's thread."""

    @tool
    async def given() -> object:
        """Return the value."""
        return value

    runner = ToolRunner()
    made = runner.run(given, Json(b"{}"), LateContext(ToolContext), timeout_s=60, max_chars=10_000)
    assert not isinstance(made, ToolOutcome)
    await made
    await runner.aclose()


VALUES: dict[str, Callable[[int], object]] = {
    "floats": lambda size: [0.5] * (size // 4),
    "floats, and one that is not finite": lambda size: [*[0.5] * (size // 4), float("nan")],
    "empty lists": lambda size: [[] for _ in range(size // 3)],
    "empty lists, and a set": lambda size: [*([] for _ in range(size // 3)), {1}],
    "deep lists": lambda size: [[[[[[]]]]] for _ in range(size // 11)],
    "keys that are numbers": lambda size: dict.fromkeys(range(size // 10), 0.5),
    "lone surrogates": lambda size: ["\ud800"] * (size // 6),
    "one text of NUL": lambda size: "\0" * size,
}


def values() -> Iterator[Case]:
    """Yield Python values for the result of an async tool."""
    for name, made in VALUES.items():
        yield name, lambda value: asyncio.run(_result_of(value)), made


def secrets() -> Iterator[Case]:
    """Yield texts with secrets, and those that look as if they had some."""
    yield from texts("secrets in text")
    yield from escapes()
    yield from parts()
    for name, made in OF_JSON.items():
        yield f"secrets in JSON: {name}", LOOKING.redactor.json, partial(_checked, made)


def escapes() -> Iterator[Case]:
    """Yield texts with escapes near what a secret has, and texts of nothing but secrets."""
    for escape in ("\\u0041", "%41", "&lt;", "\\\\", '\\"', "\\101"):
        text = LOOKING.redactor.text
        yield f"a run and {escape}", text, partial(_behind_a_run, escape)
        yield f"runs between {escape}", text, of(f"password {escape}")
        yield f"all runs between {escape}", text, of(f"hunter2 password {escape}")
        yield f"all runs between hundreds of {escape}", text, of(f"hunter2 password {400 * escape}")
        yield f"lines of base64 between {escape}", text, of(f"{'A' * 60}\n{400 * escape}")
        yield f"almost the secret with {escape}", text, of(f"hunter2{escape}is-my-password")
    for unit in ("hunter2%2dis-my-password ", "AKIAABCDEFGHIJKLMNOP ", "hunter2%2dis-my-passwore "):
        yield f"nothing but {unit}", LOOKING.redactor.text, of(unit)


def parts() -> Iterator[Case]:
    """Yield JSON of many parts, of which one or many have secrets."""
    one = f'"{SECRET}"'
    for part in ("1", '""', '"a"', '{"a":1}', '"abcdefgh"', '"a\\n"'):
        yield f"many of {part}", LOOKING.redactor.json, partial(_list_of, f"{part},", one)
        yield (
            f"secrets between {part}",
            LOOKING.redactor.json,
            partial(_list_of, f"{one},{9 * (part + ',')}", one),
        )
    for key in (SECRET, "hunter2%2dis-my-password", f"[secret:1]{SECRET}"):
        yield f"keys with {key}", LOOKING.redactor.json, partial(_keys_of, key)


def _checked(made: Callable[[int], bytes], size: int) -> Json:
    """Return JSON that was checked before (checks have their own row); null for refused input."""
    try:
        return check_json(made(size))
    except CallboardError:
        return NULL


def _list_of(unit: str, last: str, size: int) -> Json:
    return Json(f"[{unit * (size // len(unit))}{last}]".encode())


def _keys_of(key: str, size: int) -> Json:
    return Json(json.dumps({f"{key}{at}": at for at in range(size // (len(key) + 16))}).encode())


def _behind_a_run(unit: str, size: int) -> str:
    return "password " + of(unit)(size)


def _in_a_header(unit: str, size: int) -> str:
    return of(unit)(min(size, 100_000))


def in_headers() -> Iterator[Case]:
    """Yield headers with waits, of at most 100 KB."""
    for unit in HEADER_UNITS:
        yield unit, wait_in, partial(_in_a_header, unit)


def globs() -> Iterator[Case]:
    """Yield patterns for paths and for lines."""
    for unit in ("*a", "**/", "[!a", "{a,", "(a*)*"):
        yield unit, lambda text: Glob(text).matches("a" * 4_000), of(unit)
        yield f"{unit} for lines", lambda text: [*LinePattern(text).lines(b"a" * 100_000)], of(unit)


ROWS: dict[str, Callable[[], Iterable[Case]]] = {
    "a page's bytes, decoded by `ctx.http`": pages,
    "answers and errors of models and MCP servers": lambda: [
        *texts("a message of MCP", "clean_json"),
        ("bytes that are not UTF-8", clean_json, partial(_bytes_of, b"\xff")),
    ],
    "JSON of models, tools, MCP servers, people": lambda: jsons(
        "check_json", "clean_json", "an answer of Messages"
    ),
    "numbers: a million digits, exponents of three digits": numbers,
    "lone surrogates and NUL": lambda: texts("clean_text", "to_json"),
    "results of tools: Python values of any depth": values,
    "secrets in text, JSON and live text": secrets,
    "tool output as TOON and YAML": lambda: texts("toon", "yaml"),
    "texts of a memory, in Unicode normal forms": lambda: [
        ("combining characters", words_of, lambda size: ("e" + "\u0301\u0323" * size)[:TEXT_CHARS_MAX])
    ],
    "dates and waits in headers of models": in_headers,
    "the content type of a page": lambda: texts("the encoding of a page"),
    "addresses": lambda: [(unit, url_of, of(unit)) for unit in ("a.", "http://a@", "%41", "[", "xn--")],
    "patterns of `glob` and `grep` over files": globs,
}
"""The rows of the table in `docs/security.md` that `benchmarks/loop_hold.py` measures for a megabyte."""


def steps(work: Callable[[Any], object], given: object) -> int:
    """Count the calls of one run. A refusal is an end like any other."""
    with counting() as found, contextlib.suppress(ValueError, CallboardError, ToolError):
        work(given)
    return found.made


def assert_linear(work: Callable[[Any], object], made: Callable[[int], Any]) -> None:
    small, large = steps(work, made(SMALL)), steps(work, made(LARGE))
    bound = max(FLOOR, small * FACTOR * SLACK)
    if large > bound:  # its first use may have compiled a pattern or imported a module
        large = steps(work, made(LARGE))
    assert large <= bound, (small, large)


@pytest.mark.slow
@long_search
@pytest.mark.parametrize("name", ROWS)
def test_a_mebibyte_of_the_worst_input_is_read_to_its_end(name: str) -> None:
    for _, work, made in ROWS[name]():
        steps(work, made(WHOLE))


@pytest.mark.parametrize("name", OF_TEXT)
def test_text_is_read_in_linear_time(name: str) -> None:
    for made in map(of, UNITS.values()):
        assert_linear(OF_TEXT[name], made)


@table("name", OF_JSON)
def test_json_is_read_in_linear_time(name: str) -> None:
    for read in READERS.values():
        assert_linear(read, OF_JSON[name])


@table("encoding", ["utf-8", "windows-874", "windows-1252", "utf-16le", "gb18030", "iso-2022-jp"])
def test_a_page_is_decoded_in_linear_time(encoding: str) -> None:
    for unit in (b"\xff", b"\x81", b"\x00\xd8", b"\x1b", b"\x84\x31", b"\x1b$B"):
        pages = {size: unit * (size // len(unit)) for size in (SMALL, LARGE)}
        assert_linear(partial(web_encodings.decode, name=encoding), pages.__getitem__)


def test_a_quadratic_routine_is_noticed() -> None:
    with pytest.raises(AssertionError):
        assert_linear(lambda text: [len(text) for at in range(len(text)) for _ in text[:at:2048]], of("a"))


def test_a_text_of_combining_characters_is_taken_in_bounded_time() -> None:
    # Python sorts them in quadratic time, so the bound of a memory's text is what holds.
    words_of("e" + "\u0301\u0323" * (TEXT_CHARS_MAX // 2))
    with pytest.raises(MemoryFailed):
        memories().remember("\u0301" * (TEXT_CHARS_MAX + 1))
    with pytest.raises(MemoryFailed):
        memories().recall("\u0301" * (QUERY_CHARS_MAX + 1))


def memories() -> MemoryAccess:
    """Return the access of a call to a memory that is never reached."""
    made = ToolContext(memories=cast("Memory", object())).memory
    assert isinstance(made, MemoryAccess)
    return made


@table("unit", HEADER_UNITS)
def test_a_wait_in_a_header_is_read_in_linear_time(unit: str) -> None:
    assert_linear(wait_in, of(unit))


@table("name", VALUES)
def test_the_result_of_an_async_tool_is_taken_in_linear_time(name: str) -> None:
    def taken(value: object) -> None:
        asyncio.run(_result_of(value))

    assert_linear(taken, VALUES[name])


def test_secrets_and_what_looks_like_them_are_searched_in_linear_time() -> None:
    for _, work, made in (*escapes(), *parts()):
        assert_linear(work, made)  # of a longer text the rest is replaced as a whole


def test_a_pattern_of_a_stranger_is_refused_or_matched_in_linear_time() -> None:
    for _, work, made in globs():
        assert_linear(work, made)


# Modules of the standard library with routines of quadratic time. None of these uses reads a stranger's text.
SUPERLINEAR = {
    "difflib": {
        "actors/protocol/near_names.py",  # names that a program gives: a limit, a model, a capability
        "replay/changed/replaying.py",  # a person's command
        "replay/diff.py",  # a person's command
        "replay/file_diffs.py",  # at most 5,000 lines, which took 0.5 s at worst
    },
    "html": set[str](),
    "textwrap": {"callboard/demo/agents.py"},
    "shlex": {  # `quote`, which is linear
        "callboard/cli/events_command.py",
        "callboard/cli/explore_command.py",
        "callboard/cli/mcp_asks.py",
        "callboard/cli/options.py",
        "callboard/pytest_fixtures.py",
        "replay/diagnosis/copies.py",
        "runtime/brains/claude_client.py",
    },
    "unicodedata": {
        "replay/testing/findings.py",  # `east_asian_width`, of one character
        "runtime/files/restoring.py",  # of names, which a file system bounds
        "runtime/memory/sqlite.py",  # bounded, see the table
    },
}


@table("name", SUPERLINEAR)
def test_routines_of_quadratic_time_are_used_where_no_stranger_writes(name: str) -> None:
    imported = re.compile(rf"^\s*(?:import {name}\b|from {name} import)", re.MULTILINE)
    found = {
        str(path.relative_to(ROOT))
        for folder in ("actors", "runtime", "replay", "callboard")
        for path in (ROOT / folder).rglob("*.py")
        if not any(part.is_symlink() for part in path.parents) and imported.search(path.read_text())
    }
    assert found == SUPERLINEAR[name]


def test_the_table_has_each_place_with_its_bound_and_its_test() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    part = page.partition("## Know how long foreign text takes")[2].partition("\n## ")[0]
    head, *rows = re.findall(r"^\| (.+?) \| (.+?) \| (.*?) \|$", part, re.MULTILINE)
    assert head == ("place", "bound", "test")
    assert set(ROWS) <= {place.rstrip("*") for place, _, _ in rows}
    for place, bound, tests in rows:
        assert bound, place
        assert re.fullmatch(r"`test_\w+`(?:, `test_\w+`)*", tests), place


@table("row", ROWS)
def test_each_row_has_cases_that_its_routine_takes_or_refuses(row: str) -> None:
    cases = list(ROWS[row]())
    assert cases
    assert len({name for name, _, _ in cases}) == len(cases)
    for _, work, made in cases[:: max(1, len(cases) // 5)]:
        steps(work, made(1_000))


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
