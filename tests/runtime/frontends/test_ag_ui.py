"""AG-UI: each event is one of the protocol's package, and their order is the one that clients check."""

import asyncio
import re
from collections.abc import Iterable
from typing import Any

import pytest
from ag_ui.core import Event, RunAgentInput
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from callboard import ModelRequest, Runtime, Session
from callboard.actors.protocol.value_types import ModelFailure
from callboard.errors import InvalidPrompt, MisuseError
from callboard.frontends import AGUI
from tests.runtime.frontends.kit import (
    NO_SEQS,
    agui_body,
    answer,
    ask,
    call,
    calls,
    come_back,
    fail,
    host_of,
    opens,
    resumed,
    say,
    with_session,
)
from tests.runtime.sessions.streaming_kit import Typed
from tests.tables import table

EVENTS: TypeAdapter[Any] = TypeAdapter(Event)


def kinds(events: Iterable[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def check(events: list[dict[str, Any]]) -> None:
    """Check a run as a client does: known events, one start, one end, and nothing left open."""
    for event in events:
        EVENTS.validate_python(event)
    assert events[0]["type"] == "RUN_STARTED"
    assert [kind for kind in kinds(events) if kind in ("RUN_FINISHED", "RUN_ERROR")] == [events[-1]["type"]]
    opened: set[tuple[str, str]] = set()
    for event in events:
        kind, _, what = event["type"].rpartition("_")
        name = next((event[key] for key in ("messageId", "toolCallId", "subagentRunId") if key in event), "")
        match what:
            case "STARTED" | "START" if kind != "RUN":
                assert (kind, name) not in opened
                opened.add((kind, name))
            case "CONTENT" | "ARGS":
                assert (kind, name) in opened
            case "END" | "FINISHED" | "ERROR" if kind != "RUN":
                opened.remove((kind, name))
            case _:
                pass
    assert opened == set()


def test_a_run_ends_as_an_interrupt_and_the_answer_goes_on() -> None:
    async def body(session: Session) -> None:
        front_end = AGUI()
        first = await ask(front_end, session)
        check(first)
        assert first[-1]["outcome"]["type"] == "interrupt"
        (interrupt,) = first[-1]["outcome"]["interrupts"]
        assert interrupt["reason"] == "tool_call"
        assert "SUBAGENT_FINISHED" in kinds(first)
        request = front_end.read(resumed(int(interrupt["id"])))
        second = await answer(front_end, session, request)
        check(second)
        assert kinds(second)[:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
        assert second[-1]["outcome"] == {"type": "success"}
        assert second[-1]["result"] == "Done."
        assert [one["content"] for one in second if one["type"] == "TOOL_CALL_RESULT"] == ["paid 3"]

    with_session(body)


def test_an_interrupt_that_is_answered_twice_keeps_its_first_answer() -> None:
    async def body(session: Session) -> None:
        front_end = AGUI()
        seq = int((await ask(front_end, session))[-1]["outcome"]["interrupts"][0]["id"])
        await answer(front_end, session, front_end.read(resumed(seq, approved=False, note="too much")))
        again = await answer(front_end, session, front_end.read(resumed(seq)))
        check(again)
        results = [one for one in again[1]["messages"] if one["role"] == "tool"]
        assert "too much" in [one["content"] for one in results]
        assert again[-1]["type"] == "RUN_FINISHED"

    with_session(body)


def test_sub_agents_at_work_are_suspended_by_an_interrupt_and_announced_again() -> None:
    def policy(request: ModelRequest) -> Typed:
        if request.turn > 1:
            return say("Done.")
        return (
            call("pay", euros=5)
            if request.profile == "reader"
            else call("task", agent="reader", prompt="Pay")
        )

    async def body(session: Session) -> None:
        front_end = AGUI()
        first = await ask(front_end, session)
        check(first)
        (interrupt,) = first[-1]["outcome"]["interrupts"]
        assert interrupt["subagentRunId"] == "host.1"
        suspended = {"type": "suspended", "interruptIds": [interrupt["id"]]}
        assert [one["outcome"] for one in first if one["type"] == "SUBAGENT_FINISHED"] == [suspended]
        second = await answer(front_end, session, front_end.read(resumed(int(interrupt["id"]))))
        check(second)
        assert kinds(second).count("SUBAGENT_STARTED") == 1

    with_session(body, policy)


def test_a_prompt_that_comes_twice_is_asked_once() -> None:
    async def body(session: Session) -> None:
        front_end = AGUI()
        first, second = await ask(front_end, session), await ask(front_end, session)
        assert [one["type"] for one in second] == [one["type"] for one in first]
        assert len([event async for event in _asks(session)]) == 1

    with_session(body, lambda request: say("Hello."))


async def _asks(session: Session) -> Any:
    last = session.seq
    async for event in session.events():
        if event.kind == "Ask":
            yield event
        if event.seq == last:
            return


def test_shared_state_comes_whole_and_then_by_changes() -> None:
    def policy(request: ModelRequest) -> Typed:
        return call("note", text=f"n{request.turn}") if request.turn < 3 else say("Done.")

    async def body(session: Session) -> None:
        events = await ask(AGUI(), session)
        check(events)
        assert [one["snapshot"] for one in events if one["type"] == "STATE_SNAPSHOT"] == [{"notes/all": ""}]
        deltas = [one["delta"] for one in events if one["type"] == "STATE_DELTA"]
        assert deltas == [[{"op": "add", "path": "/notes~1all", "value": f"n{n}"}] for n in (1, 2)]

    with_session(body, policy, state={"notes/all": ""})


def test_a_text_that_does_not_count_is_taken_back() -> None:
    gate = asyncio.Event()

    def policy(request: ModelRequest) -> Typed:
        return fail(after="Half a text") if request.attempt == 1 else say("A whole text.")

    async def body(session: Session) -> None:
        request = AGUI().read(agui_body())
        events = await answer(AGUI(), session, request, opens(gate, b"Half"))
        check(events)
        (snapshot,) = [one for one in events if one["type"] == "MESSAGES_SNAPSHOT"]
        assert [one["content"] for one in snapshot["messages"]] == ["Go"]
        back = await answer(AGUI(), session, come_back(AGUI()))
        assert [one["content"] for one in back[1]["messages"]] == ["Go", "A whole text."]

    with_session(body, policy, gate=gate)


@pytest.mark.parametrize(
    ("ending", "kind", "told"),
    [
        (fail("Well", ModelFailure("authentication_error", "no key")), "RUN_ERROR", "no key"),
        (say("Fine."), "RUN_FINISHED", "Fine."),
    ],
)
def test_a_run_ends_as_the_ask_does(ending: Typed, kind: str, told: str) -> None:
    async def body(session: Session) -> None:
        events = await ask(AGUI(), session)
        check(events)
        assert events[-1]["type"] == kind
        assert told in str(events[-1].get("message", events[-1].get("result")))

    with_session(body, lambda request: ending)


def test_a_cancelled_ask_is_a_cancelled_run() -> None:
    async def body(session: Session) -> None:
        front_end = AGUI()
        running = asyncio.create_task(ask(front_end, session))
        async for _ in session.approvals():
            break
        await session.cancel("enough")
        await running
        back = await answer(front_end, session, come_back(front_end))
        check(back)
        assert back[-1]["outcome"] == {"type": "cancelled"}

    with_session(body)


def test_an_error_of_callboard_is_an_event() -> None:
    async def body(session: Session) -> None:
        await ask(AGUI(), session)  # waits for an approval
        events = await ask(AGUI(), session, "And another thing", "m2")
        assert kinds(events) == ["RUN_ERROR"]
        assert events[0]["code"] == "SessionBusy"
        EVENTS.validate_python(events[0])
        unknown = await answer(AGUI(), session, AGUI().read(resumed(3)))
        assert unknown[-1]["code"] == "UnknownName"

    with_session(body)


def test_a_session_without_an_ask_has_an_empty_run() -> None:
    async def body(session: Session) -> None:
        events = await answer(AGUI(), session, come_back(AGUI()))
        check(events)
        assert events[1] == {"type": "MESSAGES_SNAPSHOT", "messages": []}

    with_session(body)


@pytest.mark.parametrize("is_shown", [True, False])
def test_the_texts_of_sub_agents_can_be_left_out(is_shown: bool) -> None:
    async def body(session: Session) -> None:
        events = await ask(AGUI(sub_agents=is_shown), session)
        check(events)
        assert ("reading" in str(events)) == is_shown
        assert "SUBAGENT_STARTED" in kinds(events)

    with_session(body)


def test_an_input_of_the_package_itself_is_read() -> None:
    message = {"id": "m9", "role": "user", "content": [{"type": "text", "text": "Look"}]}
    made = RunAgentInput.model_validate({"threadId": "t", "runId": "r", "messages": [message]})
    request = AGUI().read(made.model_dump_json(by_alias=True).encode())
    assert (request.thread, request.request_id, request.prompt) == ("t", "m9", "Look")


# --- any session ------------------------------------------------------------------

TURNS = st.lists(st.sampled_from(["say", "look", "task", "pay", "fail", "nope", "both"]), max_size=4)


@settings(max_examples=25, deadline=None)
@given(host=TURNS, reader=TURNS, approves=st.booleans())
def test_any_run_is_in_order_and_a_client_that_comes_back_holds_the_same(
    host: list[str], reader: list[str], approves: bool
) -> None:
    turns = {"host": host, "reader": reader}

    def policy(request: ModelRequest) -> Typed:
        plan = turns[request.profile]
        step = plan[request.turn - 1] if request.turn <= len(plan) else "end"
        name = f"{request.address} {request.turn}"
        match step:
            case "look":
                return calls(
                    call("look" if request.profile == "reader" else "note", q=name, text=name), text=name
                )
            case "task" if request.profile == "host":
                return calls(call("task", agent="reader", prompt=name), text=name)
            case "both" if request.profile == "host":
                return calls(call("task", agent="reader", prompt=name), call("pay", euros=1), text=name)
            case "pay":
                return call("pay", euros=request.turn)
            case "fail" if request.attempt == 1:
                return fail(after=name)
            case "nope":
                return call("nope")
            case _:
                return say(name)

    async def main() -> None:
        front_end = AGUI()
        async with Runtime(":memory:") as runtime:
            session = await runtime.open(host_of(policy), session_id="t")
            events = await ask(front_end, session)
            check(events)
            for _ in range(40):
                if (outcome := events[-1].get("outcome", {"type": "error"}))["type"] != "interrupt":
                    break
                entries = [
                    {"interruptId": one["id"], "status": "resolved", "payload": {"approved": approves}}
                    for one in outcome["interrupts"]
                ]
                request = front_end.read(agui_body(resume=entries))
                events = await answer(front_end, session, request)
                check(events)
            assert session.activity == "idle"
            first, second = [await answer(front_end, session, come_back(front_end)) for _ in range(2)]
            check(first)
            assert first == second
            replayed = await ask(front_end, session)
            check(replayed)
            texts = {one["id"]: one["content"] for one in first[1]["messages"] if one.get("content")}
            shown: dict[str, str] = {}
            for event in replayed:
                if event["type"] == "TEXT_MESSAGE_CONTENT":
                    shown[event["messageId"]] = shown.get(event["messageId"], "") + event["delta"]
            assert shown.items() <= texts.items()
            calls_made = [
                one["id"] for message in first[1]["messages"] for one in message.get("toolCalls", [])
            ]
            answered = [one["toolCallId"] for one in first[1]["messages"] if one["role"] == "tool"]
            assert sorted(calls_made) == sorted(answered)

    asyncio.run(main())


# --- bad input --------------------------------------------------------------------


def media(kind: str, value: str, source: str = "data") -> bytes:
    """Return the body of a message with one medium."""
    return agui_body([{"type": kind, "source": {"type": source, "value": value, "mimeType": f"{kind}/png"}}])


@table(
    ("body", "told"),
    [
        (b"{", "RunAgentInput"),
        (b"[]", "RunAgentInput"),
        (b'{"threadId": "t"}', "runId"),
        (agui_body(tools=[{"name": "alert", "description": "", "parameters": {}}]), "'alert'"),
        (agui_body(" "), "no text"),
        (agui_body(message=""), "empty id"),
        (agui_body([]), "no text"),
        (agui_body(threadId=""), "no thread"),
        *[(resumed(8).replace(b'"8"', f'"{one}"'.encode()), "no interrupt") for one in NO_SEQS],
        (media("audio", "aGk="), "audio/png"),
        (media("image", "?"), "base64"),
        (media("image", "file:///etc/passwd", "url"), "https"),
    ],
)
def test_a_body_that_cannot_be_used_is_refused_in_words(body: bytes, told: str) -> None:
    with pytest.raises((MisuseError, InvalidPrompt), match=re.escape(told)):
        AGUI().read(body)


def test_images_of_a_message_reach_the_agent() -> None:
    image = {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}}
    address = {"type": "url", "value": "https://a/b.pdf", "mimeType": "application/pdf"}
    linked = {"type": "document", "source": address}
    request = AGUI().read(agui_body([{"type": "text", "text": "See"}, image, linked]))
    assert request.prompt == [
        {"type": "text", "text": "See"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}},
    ]
