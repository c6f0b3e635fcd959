"""Lines typed while an ask runs: told to the host, or kept as the next prompts. None is lost."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from callboard import Agent, Runtime, ScriptedModel, say
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.request import ModelRequest
from callboard.cli.typing_ahead import InputEnded, TypingAhead, choices_of, filled, value_of
from callboard.runtime.models.scripted import Step
from callboard.runtime.sanitize import to_json
from callboard.runtime.sessions.session import Session
from callboard.runtime.tools.input_forms import Form, forms_of
from tests.cli.agents import Terminal
from tests.cli.test_run_command import needs_terminals
from tests.tables import table


class Keyboard:
    """A pipe in place of the terminal."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()

    def fileno(self) -> int:
        return self.reading

    def types(self, data: bytes) -> None:
        os.write(self._writing, data)

    def ends(self) -> None:
        os.close(self._writing)


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Keyboard:
    made = Keyboard()
    monkeypatch.setattr("sys.stdin", made)
    return made


def typing(
    keyboard: Keyboard, body: Callable[[Session, TypingAhead, asyncio.Event], Awaitable[None]]
) -> tuple[list[str], list[str]]:
    """Ask a host, let the body type while its model works, and return its requests and the kept lines."""
    read: list[str] = []
    kept: list[str] = []

    async def scene() -> None:
        asked, may_answer = asyncio.Event(), asyncio.Event()

        async def policy(request: ModelRequest) -> Step:
            read.append(b"".join(map(bytes, request.messages)).decode())
            asked.set()
            await may_answer.wait()
            return say("done")

        async with Runtime(":memory:", model=ScriptedModel(policy)) as runtime:
            session: Any = await runtime.open(Agent("host"))
            asking = asyncio.create_task(session.ask("go"))
            await asked.wait()
            async with TypingAhead(session, kept) as typed:
                await body(session, typed, may_answer)
                may_answer.set()
                await asking

    asyncio.run(scene())
    return read, kept


async def told(session: Session, count: int) -> None:
    async for event in session.events():
        count -= event.kind == "Told"
        if not count:
            return


def test_typed_lines_are_told_to_the_host(keyboard: Keyboard, capsys: pytest.CaptureFixture[str]) -> None:
    async def body(session: Session, typed: TypingAhead, may_answer: asyncio.Event) -> None:
        keyboard.types(b"leave the te")
        await asyncio.sleep(0)
        keyboard.types(b"sts out\n\n  and the docs\n")
        await told(session, 2)

    read, kept = typing(keyboard, body)
    assert "leave the tests out" in read[1]
    assert "and the docs" in read[1]
    assert not kept
    assert "the host reads it in turn 2" in capsys.readouterr().err


def test_a_line_that_the_host_cannot_hear_is_kept(
    keyboard: Keyboard, capsys: pytest.CaptureFixture[str]
) -> None:
    async def body(session: Session, typed: TypingAhead, may_answer: asyncio.Event) -> None:
        may_answer.set()
        await session.outcome
        typed.take("too late")
        typed.take("x" * 20_000)

    _, kept = typing(keyboard, body)
    assert kept == ["too late"]
    said = capsys.readouterr().err
    assert "kept as the next prompt" in said
    assert "at most 16,000 characters" in said


def test_commands_and_a_line_without_its_end_wait_for_the_end_of_the_ask(
    keyboard: Keyboard, capsys: pytest.CaptureFixture[str]
) -> None:
    async def body(session: Session, typed: TypingAhead, may_answer: asyncio.Event) -> None:
        keyboard.types(b"/tree\n/quit\nand th")
        while len(typed.kept) < 2:  # noqa: ASYNC110  # the loop reads the pipe, and tells no one
            await asyncio.sleep(0)

    read, kept = typing(keyboard, body)
    assert kept == ["/tree", "/quit", "and th"]
    assert len(read) == 1
    assert "/quit waits for the end of this ask" in capsys.readouterr().err


def test_the_end_of_the_input_stops_the_reader(keyboard: Keyboard) -> None:
    async def body(session: Session, typed: TypingAhead, may_answer: asyncio.Event) -> None:
        keyboard.ends()
        await asyncio.sleep(0.01)

    assert typing(keyboard, body)[1] == []


FIELDS: dict[str, Any] = {
    "city": {"type": "string", "title": "Your city", "description": "Where to?"},
    "nights": {"type": "integer", "default": 2},
    "room": {"type": "string", "enum": ["s", "d"], "enumNames": ["single", "double"]},
    "quiet": {"type": "boolean"},
    "extras": {"type": "array", "items": {"anyOf": [{"const": "b", "title": "breakfast"}, {"const": "w"}]}},
    "pin": {"type": "string", "format": "password"},
}


def form(fields: dict[str, Any], *required: str) -> Form:
    schema = {"type": "object", "properties": fields, "required": list(required)}
    return forms_of(Json(bytes(to_json({"trip": {"message": "Go?", "schema": schema}}))))[0]


def fill(one: Form, *typed: str) -> tuple[dict[str, object], list[tuple[str, bool]]]:
    asked: list[tuple[str, bool]] = []
    lines = iter(typed)

    async def ask(prompt: str, is_secret: bool) -> str:
        asked.append((prompt.strip(), is_secret))
        return next(lines)

    return asyncio.run(filled([one], ask)), asked


def test_fields_are_asked_one_by_one_with_type_choices_and_default(
    capsys: pytest.CaptureFixture[str],
) -> None:
    values, asked = fill(form(FIELDS, "city"), "Oslo\n", "\n", "2\n", "yes\n", "breakfast, w\n", "1234\n")
    trip = {"city": "Oslo", "nights": 2, "room": "d", "quiet": True, "extras": ["b", "w"], "pin": "1234"}
    assert values == {"trip": trip}
    assert asked[-1] == ("pin:", True)
    assert not any(is_secret for _, is_secret in asked[:-1])
    shown = capsys.readouterr().err
    for words in ("Your city (string, required): Where to?", "default 2", "2 = double", "1 = breakfast"):
        assert words in shown


def test_a_wrong_answer_is_asked_again_and_an_empty_one_leaves_a_field_out() -> None:
    some = {name: FIELDS[name] for name in ("quiet", "room", "pin")}
    values, asked = fill(form(some, "quiet"), "\n", "maybe\n", "n\n", "3\n", "single\n", "\n")
    assert values == {"trip": {"quiet": False, "room": "s"}}
    assert [prompt for prompt, _ in asked] == ["quiet:"] * 3 + ["room:"] * 2 + ["pin:"]


def test_the_end_of_input_ends_the_form() -> None:
    with pytest.raises(InputEnded):
        fill(form(FIELDS), "")


@table(
    ("text", "field", "value"),
    [
        ("5", {"type": "integer"}, 5),
        ("5.5", {"type": "number"}, 5.5),
        ("5", {"type": "string"}, "5"),
        ("x", {}, "x"),
        ("NO", {"type": "boolean"}, False),
        ("1, 2", {"type": "array", "items": {"type": "integer"}}, [1, 2]),
        ('["a,b"]', {"type": "array", "items": {"type": "string"}}, ["a,b"]),
        ('{"a": 1}', {"type": "object"}, {"a": 1}),
        ("2", {"enum": ["2", "1"]}, "2"),
        ("1", {"oneOf": [{"const": 7, "title": "seven"}]}, 7),
    ],
)
def test_a_typed_value_has_the_type_of_its_field(text: str, field: dict[str, Any], value: object) -> None:
    assert value_of(text, field) == value


@pytest.mark.parametrize(
    ("text", "kind"), [("5.5", "integer"), ("true", "number"), ("x", "integer"), ("perhaps", "boolean")]
)
def test_a_value_of_another_type_is_refused(text: str, kind: str) -> None:
    with pytest.raises(ValueError, match="yes or no" if kind == "boolean" else "is no"):
        value_of(text, {"type": kind})


def test_a_field_without_choices_has_none() -> None:
    assert choices_of({"type": "array"}) == choices_of({"oneOf": [{"type": "null"}]}) == []


DESK = """
import mcp.types as types
from mcp.server import MCPServer as SdkServer
from mcp.server.mcpserver import Context
from callboard import Agent, MCPServer, ScriptedModel, call, say

FORM = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "pin": {"type": "string", "format": "password"}},
    "required": ["city", "pin"],
}
sdk = SdkServer("desk")


@sdk.tool()
async def book(ctx: Context) -> types.CallToolResult | types.InputRequiredResult:
    \"\"\"Book a journey.\"\"\"
    if not ctx.input_responses:
        params = types.ElicitRequestFormParams(message="Where to?", requested_schema=FORM)
        return types.InputRequiredResult(input_requests={"go": types.ElicitRequest(params=params)})
    given = ctx.input_responses["go"].content
    text = f"booked {given['city']} with {len(given['pin'])} digits"
    return types.CallToolResult(content=[types.TextContent(text=text)])


def last(request):
    return say(str(request.conversation[-1]))


host = Agent("host", tools=[MCPServer(sdk, elicit=True)], model=ScriptedModel([call("book"), last]))
"""


@pytest.mark.slow
@needs_terminals
def test_a_person_fills_in_a_form_and_no_secret_is_shown(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(DESK)
    with Terminal(tmp_path, "run", "desk:host", "Book.") as terminal:
        terminal.until("y = yes, field by field", 30)
        terminal.until("why not]")
        terminal.type("y\n")
        terminal.until("city: ")
        terminal.type("Oslo\n")
        terminal.until("secret, not shown")
        terminal.until("pin: ")
        terminal.type("98765\n")
        terminal.until("booked Oslo with 5 digits")
        assert terminal.end() == 0
    assert "98765" not in terminal.shown
    assert b"98765" not in (tmp_path / "callboard.db").read_bytes()
