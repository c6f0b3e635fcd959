"""Calls that ask a person for input: in rounds, each with a question, over restarts too."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp.types as types
import pytest
from mcp.server import MCPServer as SdkServer
from mcp.server.mcpserver import Context
from mcp.server.request_state import RequestStateSecurity

from callboard import Agent, Approval, ApprovalAnswer, Limits, MCPServer, ProgramContext, Runtime, program
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallTool,
    RequestApproval,
    ToolReturned,
    ToolStarted,
)
from callboard.errors import InvalidPrompt, MisuseError
from callboard.log import MemoryLog
from callboard.replay import Recording
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.log.protocol import Append
from callboard.runtime.mcp import calls
from callboard.runtime.sessions.snapshots import SnapshotBuilder
from tests.pages import ROOT
from tests.runtime.mcp.kit import NAME, asking, events_of, played, raw, returned
from tests.runtime.mcp.test_http import serving

Asked = types.CallToolResult | types.InputRequiredResult
Tool = Callable[[Context[Any, Any]], Asked]
CITY = {"type": "object", "properties": {"city": {"type": "string", "minLength": 2}}, "required": ["city"]}
TOKEN = {
    "type": "object",
    "properties": {"token": {"type": "string", "format": "password"}},
    "required": ["token"],
}


def form(message: str = "Where to?", schema: dict[str, Any] | None = None) -> types.ElicitRequest:
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema or CITY)
    return types.ElicitRequest(params=params)


def wants(state: str | None, **forms: types.InputRequest) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=forms or None, request_state=state)


def text(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=words)])


def actions(ctx: Context[Any, Any]) -> dict[str, str]:
    found = ctx.input_responses or {}
    return {name: one.action for name, one in found.items() if isinstance(one, types.ElicitResult)}


def answers(ctx: Context[Any, Any]) -> dict[str, Any]:
    found = ctx.input_responses or {}
    return {name: one.content for name, one in found.items() if isinstance(one, types.ElicitResult)}


class Desk:
    """A server whose one tool, `book`, does what the test says. calls: the state and answers of each."""

    def __init__(self, book: Callable[[Context[Any, Any], "Desk"], Asked]) -> None:
        self.calls: list[tuple[str | None, dict[str, Any]]] = []
        # One key for all: a server that starts again must know the states that it gave away before.
        self.sdk = SdkServer("desk", request_state_security=RequestStateSecurity(keys=["k" * 32]))

        @self.sdk.tool(name="book")
        async def called(ctx: Context[Any, Any]) -> Asked:
            """Book a journey."""
            self.calls.append((ctx.request_state, answers(ctx)))
            return book(ctx, self)

    def server(self, **options: Any) -> MCPServer:
        return MCPServer(self.sdk, elicit=True, **options)


def in_two_rounds(ctx: Context[Any, Any], desk: Desk) -> Asked:
    match ctx.request_state:
        case None:
            return wants("asked where", where=form())
        case "asked where":
            city = answers(ctx)["where"]["city"]
            pay = types.ElicitRequestURLParams(message="Pay.", url="https://pay.example/1")
            return wants(f"to {city}", pay=types.ElicitRequest(params=pay))
        case state:
            return text(f"booked {state}")


def bodies(events: list[Event], *kinds: type) -> list[Any]:
    return [event.body for event in events if isinstance(event.body, kinds)]


def booked(desk: Desk, approve: Any, **options: Any) -> tuple[list[tuple[str, Any]], list[Event]]:
    """Return what a call of `book` came to, and the events."""
    found: list[Any] = []

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        host = Agent("host", tools=[desk.server(**options)])
        await runtime.run(host, "go", session_id=NAME)
        found.extend((await returned(log), await events_of(log)))
        assert Recording.open(MemoryReader(log), NAME).verify().is_ok

    played(scene, asking("book"), approve=approve)
    return found[0], found[1]


def filled_in(question: Approval) -> ApprovalAnswer:
    """Answer a form as a person who wants to go to Oslo."""
    return ApprovalAnswer(True, by="ann", values={"city": "Oslo"} if "where" in question.forms else None)


def test_a_call_goes_on_in_rounds_with_the_values_of_a_person() -> None:
    desk = Desk(in_two_rounds)
    seen: list[dict[str, Any]] = []

    def person(question: Approval) -> ApprovalAnswer:
        seen.append(question.forms)
        return filled_in(question)

    found, events = booked(desk, person)
    assert [status for status, _ in found] == ["input_required", "input_required", "ok"]
    assert found[-1][1] == "booked to Oslo"
    assert seen == [
        {"where": {"message": "Where to?", "schema": CITY}},
        {"pay": {"message": "Pay.", "url": "https://pay.example/1"}},
    ]
    assert desk.calls == [
        (None, {}),
        ("asked where", {"where": {"city": "Oslo"}}),
        ("to Oslo", {"pay": None}),
    ]
    calls = bodies(events, CallTool)
    assert [call.given and call.given.round for call in calls] == [None, 1, 2]
    assert len(bodies(events, ToolStarted)) == 3  # a write: each round has a start of its own
    assert [asked.round for asked in bodies(events, RequestApproval)] == [1, 2]
    assert [given.round for given in bodies(events, ApprovalGiven)] == [1, 2]


def test_the_state_of_the_server_is_never_shown_to_the_model() -> None:
    _, events = booked(Desk(in_two_rounds), filled_in)
    kept = [body.asked.kept for body in bodies(events, ToolReturned) if body.asked]
    asked = [event.seq for event in events if isinstance(event.body, TurnRequested)]
    assert len(kept) == len(asked) == 2

    async def main() -> None:
        log = await log_of(events)
        for seq in asked:
            conversation = str(Recording.open(MemoryReader(log), NAME).request(seq).conversation)
            assert not any(state in conversation for state in kept)

    asyncio.run(main())


def test_the_rounds_of_a_call_go_over_http_too() -> None:
    desk = Desk(in_two_rounds)
    found: list[Any] = []

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        async with serving(desk.sdk.streamable_http_app()) as port:
            await _run(runtime, MCPServer(f"http://127.0.0.1:{port}/mcp", elicit=True))
            found.extend(await returned(log))
            await runtime.aclose()

    played(scene, asking("book"), approve=filled_in)
    assert found[-1] == ("ok", "booked to Oslo")
    assert [state for state, _ in desk.calls] == [None, "asked where", "to Oslo"]


def test_the_rounds_of_a_call_go_over_stdio_too() -> None:
    found: list[Any] = []

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        code = "from tests.runtime.mcp.test_eliciting import *\nDesk(in_two_rounds).sdk.run('stdio')"
        server = MCPServer([sys.executable, "-c", code], cwd=str(ROOT), elicit=True)
        await _run(runtime, server)
        found.extend(await returned(log))

    played(scene, asking("book"), approve=filled_in)
    assert found[-1] == ("ok", "booked to Oslo")


def test_a_snapshot_of_the_stream_shows_the_form() -> None:
    _, events = booked(Desk(in_two_rounds), filled_in)
    builder = SnapshotBuilder()
    shown = []
    for event in events:
        builder.add(event)
        if isinstance(event.body, RequestApproval):
            shown.append(builder.approvals()[0].forms)
    assert shown[0] == {"where": {"message": "Where to?", "schema": CITY}}
    assert builder.approvals() == ()


def test_a_run_without_an_approver_is_refused() -> None:
    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        with pytest.raises(MisuseError, match="wants a person asked"):
            await _run(runtime, Desk(in_two_rounds).server())

    played(scene, asking("book"))


def if_wanted(ctx: Context[Any, Any], desk: Desk) -> Asked:
    """Book, with or without the wish of a person."""
    if ctx.request_state is None:
        return wants("asked", where=form())
    return text(f"a person said {actions(ctx)['where']}: {answers(ctx)['where']}")


def test_the_server_is_told_that_a_person_declines_and_the_model_reads_both() -> None:
    desk = Desk(if_wanted)
    found, events = booked(desk, lambda question: "not today")
    assert desk.calls[1] == ("asked", {"where": None})
    assert found[-1] == ("ok", "a person said decline: None")
    last = [event.seq for event in events if isinstance(event.body, TurnRequested)][-1]

    async def main() -> None:
        asked = Recording.open(MemoryReader(await log_of(events)), NAME).request(last)
        assert "before it went on, and did not get it: not today" in str(asked.conversation)
        assert "a person said decline" in str(asked.conversation)

    asyncio.run(main())


def test_the_server_is_told_that_nobody_answered_in_time() -> None:
    desk = Desk(if_wanted)
    limits = Limits(approval_timeout_s=0.02)
    found: list[Any] = []

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        session = await runtime.open(Agent("host", tools=[desk.server()], limits=limits), session_id=NAME)
        await session.ask("go")
        found.extend(await returned(log))

    played(scene, asking("book"))
    assert found[-1] == ("ok", "a person said cancel: None")


def test_values_that_do_not_fit_the_form_are_refused_and_the_question_stays() -> None:
    desk = Desk(in_two_rounds)

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        session = await runtime.open(Agent("host", tools=[desk.server()]), session_id=NAME)
        asking_it = asyncio.create_task(session.ask("go"))
        question = await anext(aiter(session.approvals()))
        for values in ({"city": "O"}, {"town": "Oslo"}, {}, None, {"city": 5}, {"other": {"city": "Oslo"}}):
            with pytest.raises(InvalidPrompt):
                question.approve(values=values)
        with pytest.raises(InvalidPrompt, match="not arguments="):
            question.approve(arguments={}, values={"city": "Oslo"})
        with pytest.raises(MisuseError, match="asks for input"):
            question.approve(always=True, values={"city": "Oslo"})
        assert question.is_open
        assert question.approve(values={"where": {"city": "Oslo"}})
        assert not question.approve(values={"city": "Bergen"})
        async for pay in session.approvals():
            assert pay.approve()
            break
        await asking_it
        assert (await returned(log))[-1] == ("ok", "booked to Oslo")

    played(scene, asking("book"))


def test_a_call_ends_after_ten_rounds() -> None:
    desk = Desk(lambda ctx, desk: wants(str(len(desk.calls)), where=form()))
    found, events = booked(desk, filled_in)
    assert len(desk.calls) == 11
    assert [status for status, _ in found] == ["input_required"] * 11
    assert len(bodies(events, RequestApproval)) == 10


def test_a_server_that_only_wants_to_be_asked_again_is() -> None:
    def soon(ctx: Context[Any, Any], desk: Desk) -> Asked:
        return text("done") if len(desk.calls) == 3 else wants(f"state {len(desk.calls)}")

    desk = Desk(soon)
    found, _ = booked(desk, filled_in)
    assert found == [("ok", "done")]
    assert [state for state, _ in desk.calls] == [None, "state 1", "state 2"]


@pytest.mark.slow
def test_a_server_that_is_never_ready_is_asked_ten_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_POLLS_S", tuple(wait / 20 for wait in calls._POLLS_S))
    desk = Desk(lambda ctx, desk: wants("again"))
    ((status, words),), _ = booked(desk, filled_in)
    assert status == "error"
    assert "not ready after 10 tries" in words


def test_without_elicit_the_call_is_an_error_and_the_capability_is_not_announced() -> None:
    desk = Desk(in_two_rounds)
    found: list[Any] = []

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        await runtime.run(Agent("host", tools=[MCPServer(desk.sdk)]), "go", session_id=NAME)
        found.extend(await returned(log))

    played(scene, asking("book"))
    ((status, words),) = found
    assert status == "error"
    assert "elicit" in words


@pytest.mark.parametrize("elicits", [True, False])
def test_only_the_chosen_capability_is_announced(elicits: bool) -> None:
    seen: list[types.ClientCapabilities | None] = []

    def look(ctx: Context[Any, Any], desk: Desk) -> Asked:
        seen.append(ctx.client_capabilities)
        return text("done")

    server = MCPServer(Desk(look).sdk, elicit=elicits)
    played(lambda runtime, log: _run(runtime, server), asking("book"), approve=lambda question: True)
    (able,) = seen
    assert able is not None
    assert (able.sampling, able.roots) == (None, None)
    assert (able.elicitation is not None) == elicits


async def _run(runtime: Runtime, server: MCPServer) -> None:
    await runtime.run(Agent("host", tools=[server]), "go", session_id=NAME)


@pytest.mark.parametrize("elicits", [True, False])
def test_a_request_for_input_in_the_middle_of_a_call_is_refused(tmp_path: Path, elicits: bool) -> None:
    found: list[Any] = []

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        await _run(runtime, raw(tmp_path / "notes", elicit=elicits))
        found.extend(await returned(log))

    played(scene, asking("asks"), approve=lambda question: True)
    ((status, words),) = found
    assert status == "ok"
    assert json.loads(words)["code"] == types.INVALID_REQUEST


@pytest.mark.parametrize(
    "request_of",
    [
        lambda: types.ListRootsRequest(),
        lambda: types.CreateMessageRequest(
            params=types.CreateMessageRequestParams(messages=[], max_tokens=9)
        ),
    ],
)
def test_sampling_and_roots_are_refused(request_of: Callable[[], types.InputRequest]) -> None:
    ((status, words),), events = booked(Desk(lambda ctx, desk: wants("s", other=request_of())), filled_in)
    assert status == "error"
    assert bodies(events, RequestApproval) == []
    assert words


def test_a_form_that_no_person_can_answer_is_an_error() -> None:
    broken = {"type": "object", "properties": {"a": {"$ref": "https://example.com/schema"}}}
    ((status, words),), _ = booked(Desk(lambda ctx, desk: wants("s", a=form(schema=broken))), filled_in)
    assert status == "error"
    assert "no person can answer" in words
    ((status, words),), _ = booked(Desk(lambda ctx, desk: wants("s", a=form("x" * 70_000))), filled_in)
    assert (status, "at most 65,536" in words) == ("error", True)
    ((status, words),), _ = booked(Desk(lambda ctx, desk: wants("s" * 1_000_001, a=form())), filled_in)
    assert (status, "cannot be kept" in words) == ("error", True)


def test_secret_values_reach_the_server_and_not_the_log() -> None:
    def login(ctx: Context[Any, Any], desk: Desk) -> Asked:
        if ctx.request_state is None:
            return wants("login", login=form("Your token?", TOKEN))
        return text(f"logged in with {answers(ctx)['login']['token']}")

    desk = Desk(login)
    found, events = booked(desk, lambda question: ApprovalAnswer(True, values={"token": "swordfish-42"}))
    assert desk.calls[1] == ("login", {"login": {"token": "swordfish-42"}})
    assert "swordfish-42" not in "".join(str(event.body.to_dict()) for event in events)
    (given,) = bodies(events, ApprovalGiven)
    assert json.loads(bytes(given.values)) == {"login": {"token": "[secret:token]"}}
    assert found[-1][0] == "ok"


def test_a_program_asks_a_person_by_its_calls() -> None:
    desk = Desk(if_wanted)

    @program(tools=[desk.server()])
    async def work(ctx: ProgramContext, prompt: str) -> str:
        """Work."""
        both = await asyncio.gather(ctx.call("book"), ctx.call("book"))
        return " and ".join(map(str, both))

    asked: list[int] = []

    def person(question: Approval) -> ApprovalAnswer:
        asked.append(question.round)
        return ApprovalAnswer(False, "no") if len(asked) == 2 else filled_in(question)

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        outcome = await runtime.run(work, "go", session_id=NAME)
        said = "a person said accept: {'city': 'Oslo'} and a person said decline: None"
        assert outcome.text == said, outcome
        assert Recording.open(MemoryReader(log), NAME).verify().is_ok

    played(scene, asking(), approve=person)


# --- over restarts --------------------------------------------------------------------------


async def log_of(events: list[Event]) -> MemoryLog:
    """Return a log with these events, as a crash leaves it."""
    log = MemoryLog()
    await log.open()
    await log.create(NAME, 1, "")
    epoch, head = await log.take_over(NAME)
    await log.append([Append(NAME, head.seq, epoch, events)])
    return log


def resumed_at(events: list[Event], cut: int, desk: Desk, approve: Any) -> list[Event]:
    """Return the events of a session that a crash cut after this seq, once it has gone on."""
    found: list[Event] = []

    async def main() -> None:
        log = await log_of(events[:cut])
        async with asyncio.timeout(60), Runtime(log, model=asking("book"), approve=approve) as runtime:
            session = await runtime.resume(NAME, Agent("host", tools=[desk.server()]))
            outcome = await session.outcome
            assert outcome.text == "done", outcome
            found.extend(await events_of(log))
            await session.close()
            assert Recording.open(MemoryReader(log), NAME).verify().is_ok

    asyncio.run(main())
    return found


@pytest.mark.parametrize(
    ("book", "person"),
    [(in_two_rounds, filled_in), (if_wanted, lambda question: ApprovalAnswer(False, "no"))],
)
def test_a_crash_between_the_rounds_loses_nothing_wherever_it_comes(book: Any, person: Any) -> None:
    _, events = booked(Desk(book), person)
    first = next(event.seq for event in events if isinstance(event.body, ToolReturned))
    last = next(event.seq for event in reversed(events) if isinstance(event.body, ToolReturned))
    ends = set()
    for cut in range(first, last):
        desk = Desk(book)
        after = resumed_at(events, cut, desk, person)
        results = [body.status for body in bodies(after, ToolReturned)]
        ends.add(results[-1])
        started = isinstance(events[cut - 1].body, ToolStarted)
        assert results[-1] == ("interrupted" if started else "ok"), (cut, events[cut - 1])
        rounds = [call.given.round if call.given else 0 for call in bodies(after, CallTool)]
        assert rounds == sorted(set(rounds))  # no round is asked for twice
        assert len(desk.calls) == len([state for state, _ in desk.calls if state is not None])
    assert ends == {"ok", "interrupted"}


def test_a_secret_value_that_went_with_its_process_is_asked_for_again() -> None:
    def login(ctx: Context[Any, Any], desk: Desk) -> Asked:
        if ctx.request_state is None:
            return wants("login", login=form("Your token?", TOKEN))
        return text(f"logged in with {len(answers(ctx)['login']['token'])} letters")

    def person(question: Approval) -> ApprovalAnswer:
        return ApprovalAnswer(True, values={"token": "swordfish-42"})

    _, events = booked(Desk(login), person)
    cut = next(event.seq for event in events if isinstance(event.body, ApprovalGiven))
    desk = Desk(login)
    after = resumed_at(events, cut, desk, person)
    assert [body.status for body in bodies(after, ToolReturned)] == ["input_required", "input_required", "ok"]
    assert desk.calls == [("login", {"login": {"token": "swordfish-42"}})]
    assert len(bodies(after, RequestApproval)) == 2
