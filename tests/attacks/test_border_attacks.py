"""Ten hostile texts at every border: each is cleaned before a parser or an encoder can refuse it.

A border that encodes first crashes its call, loses a whole answer for one letter, or leaves half of a pair
for a later encoder. The same texts come in everywhere; behind each border stands the cleaned text.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import click
import httpx2
import mcp.types
import pytest
from click.testing import CliRunner

from callboard import (
    Agent,
    AnthropicModel,
    Files,
    ModelRequest,
    Runtime,
    ScriptedModel,
    ToolContext,
    say,
    tool,
)
from callboard import Reply as Said
from callboard import call as scripted_call
from callboard.actors.protocol.errors import CallboardError
from callboard.actors.protocol.immutable import Json
from callboard.cli.main import cli
from callboard.cli.owner_client import NoOwner
from callboard.replay.exports.jsonl import ExportReader
from callboard.runtime.contexts import made_context
from callboard.runtime.control import server as control
from callboard.runtime.control.wire import TellAgent
from callboard.runtime.histories.history import History
from callboard.runtime.http.call_http import HttpAnswer
from callboard.runtime.mcp import http as mcp_http
from callboard.runtime.mcp.content import read_result
from callboard.runtime.mcp.specs import listed
from callboard.runtime.memory.sqlite import SQLiteMemory
from callboard.runtime.models.protocol import ModelAnswer
from callboard.runtime.sanitize import check_json, clean_text, encoded
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.tools.output import Blocks, describe, returned
from tests.messages_api import MessagesApi, json_answer, message, sse_answer, text, tool_use
from tests.openai_api import Call, Reply, Thought
from tests.runtime.mcp.test_wire import waiting
from tests.runtime.models.anthropic.kit import KEY
from tests.runtime.models.anthropic.kit import request_with as asked_messages
from tests.runtime.models.layered.kit import DIALECTS, OPENAI_DIALECTS, Api, Service, blocks_of, serving

HOSTILE = {
    "a high half": "a\ud83d b",
    "a low half": "a\ude00 b",
    "bytes that are not UTF-8": b"caf\xe9 \xff\xfe".decode("utf-8", "surrogateescape"),
    "NUL": "a\0b",
    "noncharacters": "a\ufffe\uffff\U0001ffffb",
    "bidirectional controls": "a\u202egnp.exe\u2066\u200fb",
    "combining characters": "e" + "\u0301" * 500,
    "terminal commands": "a\x1b[2J\x1b]52;c;aGk=\x07b",
    "marks and breaks": "\ufeffa\u2028b\u2029c\x85d",
    "a long text with half a pair": "\U0001f600" * 300 + "\ud83d",
}
EACH = pytest.mark.parametrize("hostile", HOSTILE.values(), ids=list(HOSTILE))


def is_clean(found: object, hostile: str) -> bool:
    """Return True if the cleaned text stands in a value, and the value can be encoded."""
    written = json.dumps(found, ensure_ascii=False)
    written.encode()
    return json.dumps(clean_text(hostile), ensure_ascii=False)[1:-1] in written


# --- models -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with serving() as running:
        yield running


def answered(
    service: Service, dialect: Api, part: str | Call | Thought, *, stream: bool
) -> list[dict[str, object]]:
    service.api.forget()
    service.api.reply(Reply((part,), piece_chars=900))
    answer, _ = service.ask(dialect=dialect, stream=stream)
    return [block for block in blocks_of(answer) if bytes(answer.content).decode()]


@EACH
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_reply_of_every_dialect_is_cleaned(
    service: Service, dialect: Api, stream: bool, hostile: str
) -> None:
    (words,) = answered(service, dialect, hostile, stream=stream)
    assert is_clean(clean_text(str(words["text"])), hostile)
    (called,) = answered(service, dialect, Call("look", json.dumps({"path": hostile})), stream=stream)
    assert is_clean(called["input"], hostile)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", OPENAI_DIALECTS)
def test_line_breaks_that_a_model_writes_into_arguments_are_read(
    service: Service, dialect: Api, stream: bool
) -> None:
    (called,) = answered(service, dialect, Call("look", '{"path": "a\n\tb"}'), stream=stream)
    assert called["input"] == {"path": "a\n\tb"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_half_a_pair_is_cleaned_in_every_part_of_a_reply(service: Service, dialect: Api) -> None:
    half = HOSTILE["a high half"]
    for stream in (True, False):
        thought = answered(service, dialect, Thought(half), stream=stream)
        name = answered(service, dialect, Call(half, "{}"), stream=stream)
        given_id = answered(service, dialect, Call("look", "{}", half), stream=stream)
        assert all(is_clean(one, half) for one in (thought, name)), stream
        assert given_id


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_pair_that_a_service_cuts_in_two_events_is_whole_again(service: Service, dialect: Api) -> None:
    service.api.forget()
    service.api.reply(Reply(("a\ud83d\ude00b",), piece_chars=2))
    answer, _ = service.ask(dialect=dialect)
    assert blocks_of(answer)[0]["text"] == "a\U0001f600b"


def test_ids_that_are_one_once_they_are_cleaned_name_two_calls(service: Service) -> None:
    service.api.forget()
    service.api.reply(Reply((Call("look", "{}", "c\ud800"), Call("look", "{}", "c\udc00"))))
    answer, _ = service.ask()
    first, second = blocks_of(answer)
    assert first["id"] != second["id"]


@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_of_the_messages_api_is_cleaned(stream: bool) -> None:
    bodies = [message(text(each), tool_use("look", {"path": each})) for each in HOSTILE.values()]

    async def main(url: str) -> list[ModelAnswer]:
        model = AnthropicModel("claude-test", base_url=url, api_key=KEY, stream=stream)
        try:
            return [await model.call(asked_messages(), lambda piece: None) for _ in bodies]
        finally:
            await model.aclose()

    with MessagesApi(map(sse_answer if stream else json_answer, bodies)) as api:
        answers = asyncio.run(main(api.url))
    for answer, hostile in zip(answers, HOSTILE.values(), strict=True):
        assert answer.failure is None
        found = json.loads(bytes(check_json(bytes(answer.content))))  # as the port does
        assert is_clean(found[0]["text"], hostile)
        assert is_clean(found[1]["input"], hostile)


# --- MCP --------------------------------------------------------------------------


def result_line(hostile: str) -> bytes:
    result = {"content": [{"type": "text", "text": hostile}], "structuredContent": {"value": hostile}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()


@EACH
def test_a_message_of_an_mcp_server_is_cleaned_before_it_is_parsed(hostile: str) -> None:
    line = result_line(hostile)
    raw = line.replace(json.dumps(hostile)[1:-1].encode(), b"a\xffb")
    for sent, wanted in ((line, hostile), (raw, "a\udcffb")):
        wire, sending = waiting(request=1)
        assert wire.read(sent)
        assert sending.answer is not None
        value = read_result(sending.answer.value).value
        assert is_clean(json.loads(bytes(returned(value, 100_000).output)), wanted)


@EACH
def test_an_answer_of_an_mcp_server_by_http_is_cleaned_wherever_it_is_cut(hostile: str) -> None:
    line = result_line(hostile)
    event = b"event: message\r\ndata: " + line + b"\r\n\r\n"

    async def read(body: bytes, size: int) -> object:
        class Cut(httpx2.AsyncByteStream):
            async def __aiter__(self) -> AsyncIterator[bytes]:
                for at in range(0, len(body), size):
                    yield body[at : at + size]

        asked, (wire, sending) = httpx2.Request("GET", "http://a.org"), waiting(request=1)
        packed = httpx2.Response(200, headers={"content-length": str(len(body))}, stream=Cut(), request=asked)
        assert [piece async for piece in mcp_http._Body(packed, sending, wire, 1)]
        assert sending.answer is not None
        return read_result(sending.answer.value).value

    for body in (line, event):
        for size in (1, 7, 4_096):
            if size * 4_000 > len(body):
                value = asyncio.run(read(body, size))
                assert is_clean(json.loads(bytes(returned(value, 100_000).output)), hostile)


def test_the_description_of_an_mcp_tool_is_cleaned_and_a_name_is_left_out() -> None:
    for hostile in HOSTILE.values():
        schema = {"type": "object", "properties": {"a": {"description": hostile}}}
        one = listed(mcp.types.Tool(name="look", description=hostile, input_schema=schema))
        assert one is not None
        assert is_clean([one.description, json.loads(bytes(one.schema))], hostile)
    assert listed(mcp.types.Tool(name="a\ud800", input_schema={"type": "object"})) is None


# --- tools and HTTP ---------------------------------------------------------------


@EACH
def test_the_value_and_the_error_of_a_tool_are_cleaned(hostile: str) -> None:
    blocks = Blocks([{"type": "document", "title": hostile}])
    for value in (hostile, [hostile], {"key": hostile}, {hostile: 1}, blocks):
        outcome = returned(value, 100_000)
        assert outcome.status == "ok"
        assert "\ufffd" in (found := bytes(outcome.output).decode()) or "\ud83d" not in hostile, found
    assert clean_text(describe(ValueError(hostile))) == describe(ValueError(hostile))


@EACH
def test_an_http_answer_becomes_a_result_and_a_request_has_clean_text(hostile: str) -> None:
    page = HttpAnswer(200, "http://a.org", {}, json.dumps(hostile).encode())
    assert is_clean(json.loads(bytes(returned(page.json(), 100_000).output)), hostile)
    raw = HttpAnswer(200, "http://a.org", {}, hostile.encode("utf-8", "surrogatepass"))
    bytes(returned(raw.text, 100_000).output).decode()


# --- a whole session: prompt, tools, memory, files, live text, log, exports --------


@tool
def keep(ctx: ToolContext, words: str) -> str:
    """Keep words, and return them."""
    ctx.progress(words)
    ctx.memory.remember(f"it was {words}")
    ctx.files.write_text("kept.txt", words)
    return words


@EACH
def test_a_session_of_hostile_texts_is_recorded_exported_and_read_again(hostile: str, tmp_path: Path) -> None:
    def policy(request: ModelRequest) -> Said:
        if len(request.conversation) > 1:
            return say(hostile)
        return Said(text=hostile, calls=[scripted_call("keep", words=hostile)])

    log = tmp_path / "a.db"

    async def main() -> str:
        files = Files(tmp_path, write=["."])
        options = {"memory": SQLiteMemory(tmp_path / "m.db"), "files": files, "secrets": [hostile + "secret"]}
        async with Runtime(log, model=ScriptedModel(policy), **options) as runtime:  # type: ignore[arg-type]  # of three options
            session = await runtime.open(Agent("host", tools=[keep]), session_id="s", title=hostile)
            outcome = await session.ask(hostile)
            return outcome.text

    assert asyncio.run(main()) == clean_text(hostile)
    run = CliRunner()
    out = tmp_path / "s.jsonl"
    for extra in (["--format", "json"], ["--format", "markdown"], ["--format", "html"], ["-o", str(out)]):
        done = run.invoke(cli, ["export", "s", "--log", str(log), *extra])
        assert done.exit_code == 0, done.output
    assert is_clean(out.read_text(), hostile) or "\\u" in out.read_text()
    done = run.invoke(cli, ["import", str(out), "--log", str(tmp_path / "b.db")])
    assert done.exit_code == 0, done.output
    done = run.invoke(cli, ["verify", "s", "--log", str(tmp_path / "b.db")])
    assert done.exit_code == 0, done.output


@EACH
def test_an_export_of_a_stranger_is_refused_with_an_error_of_ours(hostile: str) -> None:
    for line in (hostile.encode("utf-8", "surrogatepass"), json.dumps({"callboard": hostile}).encode()):
        with pytest.raises(CallboardError), ExportReader([line + b"\n"], None, "it") as reader:
            list(reader.items())


@EACH
def test_a_history_of_another_program_is_cleaned_before_it_is_judged(hostile: str) -> None:
    said = [{"role": "user", "content": hostile}, {"role": "assistant", "content": hostile}]
    messages = tuple(Json(json.dumps(one, separators=(",", ":")).encode()) for one in said)
    found = made_context(History(messages, note=hostile))
    for one in (*found.messages, found.note):
        assert is_clean(json.loads(bytes(one)), hostile)


# --- the control socket, the command line, secrets --------------------------------


@EACH
def test_a_command_on_the_control_socket_is_cleaned_before_it_is_read(hostile: str) -> None:
    line = json.dumps({"command": "tell", "session": "s", "address": "host", "text": hostile}).encode()
    found = control._command(line + b"\n")
    assert isinstance(found, TellAgent)
    assert found.text == clean_text(hostile)


@EACH
def test_words_of_a_command_line_are_cleaned(
    hostile: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[object] = []

    def ask_owner(log: str, command: object, kind: type) -> object:
        told.append(command)
        raise NoOwner

    monkeypatch.setattr("callboard.cli.approvals_command.ask_owner", ask_owner)
    log = str(tmp_path / "a.db")
    done = CliRunner().invoke(cli, ["tell", "s", "host", hostile, "--log", log])
    assert (done.exit_code, [one.text for one in told if isinstance(one, TellAgent)]) == (
        3,
        [clean_text(hostile)],
    )
    done = CliRunner().invoke(cli, ["search", hostile, "--log", log])
    assert done.exit_code == 3
    assert not isinstance(done.exception, UnicodeError)


def test_every_command_cleans_its_words_and_keeps_the_bytes_of_file_names() -> None:
    group = click.Context(cli)
    kept = set()
    for name in cli.list_commands(group):
        command = cli.get_command(group, name)
        assert command is not None
        for one in command.params:
            if one.type is click.STRING:
                kept.add(one.name)
    files = {
        "log",
        "key_file",
        "encryption_key_file",
        "servers",
        "schema",
        "folder",
        "may_read",
        "may_write",
        "save",
        "also",
        "file",
        "memory",
    }
    assert kept == files | {"sets", "prompts", "other_log", "output", "files", "path", "target", "files_to"}


@EACH
def test_a_secret_is_found_in_its_cleaned_form(hostile: str) -> None:
    given = hostile + " secret"
    redactor = Secrets([given]).redactor
    assert redactor.text(clean_text(f"it is {given}.")) == "it is [secret:1]."
    assert "secret:1" in redactor.text(f"it is {given}.")


def test_live_text_keeps_a_pair_that_comes_in_two_pieces() -> None:
    for given in ([], ["a value that never comes"]):
        shown: list[str] = []
        stream = Secrets(given).stream(shown.append)
        for piece in ("a\ud83d", "\ude00b ", "c\ud83d", " d\ud83d"):
            stream.take(piece)
        stream.end()
        assert clean_text("".join(shown)) == "a\U0001f600b c\ufffd d\ufffd"


@EACH
def test_a_parsed_value_is_encoded_clean_and_its_json_keeps_its_bytes(hostile: str) -> None:
    kept = encoded([{"k": 1}])
    found = encoded({"a": [hostile, None, 1.5, True], "kept": kept})
    assert is_clean(json.loads(bytes(found))["a"], hostile)
    assert bytes(kept) in bytes(found)
