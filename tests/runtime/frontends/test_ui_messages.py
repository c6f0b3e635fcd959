"""The UI message stream of the AI SDK. tests/examples/test_web_chat.py reads it with the SDK itself."""

import asyncio
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard import ModelRequest, Runtime, Session
from callboard.actors.protocol.value_types import ModelFailure
from callboard.errors import InvalidPrompt, MisuseError
from callboard.frontends import UIMessages
from callboard.runtime.frontends.ui_message_client import UIMessage
from tests.runtime.frontends.kit import (
    NO_SEQS,
    answer,
    ask,
    call,
    calls,
    chat_body,
    come_back,
    fail,
    host_of,
    opens,
    say,
    with_session,
)
from tests.runtime.sessions.streaming_kit import Typed
from tests.tables import table

FRONT_END = UIMessages()


def built(chunks: list[dict[str, Any]], message: UIMessage | None = None) -> UIMessage:
    """Return the message that chunks build. Each text is closed, and each chunk about a call has its call."""
    message = message or UIMessage(chunks[0]["messageId"], "assistant")
    for chunk in chunks:
        message.add(chunk)
    assert chunks[0]["type"] == "start"
    starts = [one["id"] for one in chunks if one["type"] == "text-start"]
    ends = [one["id"] for one in chunks if one["type"] == "text-end"]
    dropped = [one for one in chunks if one["type"] == "reset-step"]
    assert len(starts) == len(set(starts))
    assert len(starts) - len(ends) <= len(dropped)
    return message


def answered(message: UIMessage, **approval: object) -> bytes:
    """Return the body with which a client answers all questions in a message."""
    parts = [
        part | {"state": "approval-responded", "approval": {**part["approval"], **approval}}
        if part.get("state") == "approval-requested"
        else part
        for part in message.parts
    ]
    return json.dumps({"id": "t", "messages": [message.to_dict() | {"parts": parts}]}).encode()


def states(message: UIMessage) -> list[str]:
    return [part["state"] for part in message.parts if part["type"] == "dynamic-tool"]


@pytest.mark.parametrize(
    ("approved", "end", "told"), [(True, "output-available", "paid 3"), (False, "output-denied", "")]
)
def test_an_approval_is_answered_by_the_message_that_asks(approved: bool, end: str, told: str) -> None:
    async def body(session: Session) -> None:
        first = await ask(FRONT_END, session)
        assert first[-1]["finishReason"] == "tool-calls"
        message = built(first)
        assert states(message) == ["output-available", "approval-requested"]
        request = FRONT_END.read(answered(message, approved=approved, reason="because"))
        second = await answer(FRONT_END, session, request)
        assert second[-1]["finishReason"] == "stop"
        built(second, message)
        assert states(message) == ["output-available", end]
        assert told in str(message.parts)
        assert message.parts[-1]["text"] == "Done."
        again = await answer(FRONT_END, session, request)  # a second answer: the first one stays
        assert states(built(await answer(FRONT_END, session, come_back(FRONT_END))))[-1] == end
        assert again[-1]["type"] == "finish"

    with_session(body)


def test_sub_agents_and_state_are_parts_that_change() -> None:
    def policy(request: ModelRequest) -> Typed:
        if request.profile == "reader" or request.turn > 1:
            return say("Read.")
        return calls(call("task", agent="reader", prompt="Read"), call("note", text="n"))

    async def body(session: Session) -> None:
        parts = built(await ask(FRONT_END, session)).parts
        (agent,) = [part["data"] for part in parts if part["type"] == "data-agent"]
        assert (agent["profile"], agent["status"], agent["result"]) == ("reader", "ok", "Read.")
        assert [part["data"] for part in parts if part["type"] == "data-state"] == [{"notes/all": "n"}]

    with_session(body, policy, state={"notes/all": ""})


def test_a_call_of_a_sub_agent_is_shown_if_a_person_is_asked_about_it() -> None:
    def policy(request: ModelRequest) -> Typed:
        if request.turn > 1:
            return say("Done.")
        if request.profile == "reader":
            return calls(call("look", q="x"), call("pay", euros=5))
        return call("task", agent="reader", prompt="Pay")

    async def body(session: Session) -> None:
        message = built(await ask(FRONT_END, session))
        called = [part for part in message.parts if part["type"] == "dynamic-tool"]
        titles = [part.get("title", part["toolName"]) for part in called]
        assert titles == ["task", "pay (host.1)"]
        request = FRONT_END.read(answered(message, approved=True))
        assert states(built(await answer(FRONT_END, session, request), message))[0] == "output-available"

    with_session(body, policy)


def test_a_text_that_does_not_count_goes_with_its_step() -> None:
    gate = asyncio.Event()

    def policy(request: ModelRequest) -> Typed:
        return fail(after="Half a text") if request.attempt == 1 else say("A whole text.")

    async def body(session: Session) -> None:
        request = FRONT_END.read(chat_body())
        chunks = await answer(FRONT_END, session, request, opens(gate, b"Half"))
        assert "reset-step" in [chunk["type"] for chunk in chunks]
        assert [part["text"] for part in built(chunks).parts if part["type"] == "text"] == ["A whole text."]

    with_session(body, policy, gate=gate)


@pytest.mark.parametrize(
    ("ending", "kinds"),
    [
        (fail("Well", ModelFailure("authentication_error", "no key")), ["error", "finish"]),
        (say("Fine."), ["finish-step", "finish"]),
    ],
)
def test_an_answer_ends_as_the_ask_does(ending: Typed, kinds: list[str]) -> None:
    async def body(session: Session) -> None:
        chunks = await ask(FRONT_END, session)
        assert [chunk["type"] for chunk in chunks][-2:] == kinds

    with_session(body, lambda request: ending)


def test_an_error_of_callboard_is_a_chunk() -> None:
    async def body(session: Session) -> None:
        await ask(FRONT_END, session)  # waits for an approval
        (error,) = await ask(FRONT_END, session, "And another thing", "m2")
        assert "working on another ask" in error["errorText"]
        ahead = b'{"id": "t", "messages": [{"id": "a", "role": "assistant", "parts": [], "metadata": %b}]}'
        ahead %= b'{"callboard": {"seq": 99}}'
        (error,) = await answer(FRONT_END, session, FRONT_END.read(ahead))
        assert "event 99" in error["errorText"]

    with_session(body)


TURNS = st.lists(st.sampled_from(["say", "look", "task", "pay", "fail", "nope", "both"]), max_size=4)


@settings(max_examples=20, deadline=None)
@given(host=TURNS, reader=TURNS, approves=st.booleans())
def test_a_client_that_stays_one_that_comes_back_and_one_that_loads_hold_the_same(
    host: list[str], reader: list[str], approves: bool
) -> None:
    turns = {"host": host, "reader": reader}

    def policy(request: ModelRequest) -> Typed:
        plan = turns[request.profile]
        step = plan[request.turn - 1] if request.turn <= len(plan) else "end"
        name = f"{request.address} {request.turn}"
        match step:
            case "look" | "nope":
                return calls(call(step, q=name), text=name)
            case "task" | "both" if request.profile == "host":
                pays = [call("pay", euros=1)] if step == "both" else []
                return calls(call("task", agent="reader", prompt=name), *pays, text=name)
            case "pay":
                return call("pay", euros=request.turn)
            case "fail" if request.attempt == 1:
                return fail(after=name)
            case _:
                return say(name)

    async def main() -> None:
        async with Runtime(":memory:") as runtime:
            session = await runtime.open(host_of(policy), session_id="t")
            chunks = await ask(FRONT_END, session)
            stays = built(chunks)
            for _ in range(40):
                if chunks[-1]["finishReason"] != "tool-calls":
                    break
                request = FRONT_END.read(answered(stays, approved=approves))
                chunks = await answer(FRONT_END, session, request)
                built(chunks, stays)
            assert session.activity == "idle"
            comes_back = built(await answer(FRONT_END, session, come_back(FRONT_END)))
            user, loads = await FRONT_END.messages(session)
            assert user["parts"] == [{"type": "text", "text": "Go"}]
            assert stays.to_dict() == comes_back.to_dict() == loads

    asyncio.run(main())


def file_body(url: str) -> bytes:
    return chat_body({"type": "file", "mediaType": "image/png", "url": url})


def seen(seq: int) -> bytes:
    """Return the body of a client that comes back and has seen this event."""
    message = {"id": "a", "role": "assistant", "parts": [], "metadata": {"callboard": {"seq": seq}}}
    return json.dumps({"id": "t", "messages": [message]}).encode()


def asks(approval: str) -> dict[str, Any]:
    """Return a part that asks for an approval."""
    return {"type": "dynamic-tool", "state": "approval-requested", "approval": {"id": approval}}


@table(
    ("body", "told"),
    [
        (b"nonsense", "chat transport"),
        (chat_body(message=""), "empty id"),
        (chat_body(trigger="regenerate-message"), "cannot be regenerated"),
        (chat_body(tools={"alert": {}}), "'alert'"),
        (b'{"id": "t", "messages": []}', "no message"),
        (chat_body({"type": "text", "text": ""}), "no text"),
        (file_body("data:video/mp4;base64,aGk="), "video/mp4"),
        (file_body("data:image/png,aGk"), "base64"),
        (file_body("data:image/png;base64,"), "empty file"),
        (file_body("javascript:alert(1)"), "https"),
        (chat_body(id=""), "no thread"),
        (chat_body(id="\0"), "the thread='\\x00'"),
        (chat_body(message="m" * 100_000), f"the id of the newest message='{'m' * 79}: use"),
        (seen(-1), "events count from 1"),
        (answered(UIMessage("a", "assistant", [asks("8")]), approved=True), "metadata"),
        (answered(UIMessage("a", "assistant", [asks("q")]), approved=True), "no approval 'q'"),
        *[
            (answered(UIMessage("a", "assistant", [asks(one)]), approved=True), "no approval")
            for one in NO_SEQS
        ],
    ],
)
def test_a_body_that_cannot_be_used_is_refused_in_words(body: bytes, told: str) -> None:
    with pytest.raises((MisuseError, InvalidPrompt), match=re.escape(told)):
        FRONT_END.read(body)


def test_files_of_a_message_reach_the_agent_and_come_back() -> None:
    async def body(session: Session) -> None:
        image = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,aGk="}
        linked = {"type": "file", "mediaType": "image/*", "url": "https://a/b.png"}
        sent = chat_body({"type": "text", "text": "See"}, image, linked)
        await answer(FRONT_END, session, FRONT_END.read(sent))
        (user, _) = await FRONT_END.messages(session)
        assert user["parts"] == [{"type": "text", "text": "See"}, image, linked]

    with_session(body, lambda request: say("Seen."))
