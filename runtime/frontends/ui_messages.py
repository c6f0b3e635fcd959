"""The UI message stream of Vercel's AI SDK (version 7): a chat is a session, an ask is one assistant message.

Facts of the protocol: https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol and the schema of its chunks in `ai`.

Rules
  - A turn of the host is a step. The text of a turn that failed goes by `reset-step`.
  - The calls of the host are `dynamic-tool` parts. Those of sub-agents are shown only if a person is asked
    about them. A sub-agent is a `data-agent` part, which changes while it works; the state is `data-state`.
  - Each answer states the seq that it reached in `metadata.callboard.seq`. The client sends it back with an
    answered approval, so the next answer goes on from there.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.immutable import Json, JsonObject
from callboard.runtime.frontends.facts import (
    AgentBegan,
    AgentEnded,
    ApprovalAnswered,
    ApprovalAsked,
    Called,
    Fact,
    Heard,
    Prompted,
    Returned,
    RunEnded,
    StateChanged,
    TextAdded,
    TextDropped,
    TextEnded,
    Thought,
)
from callboard.runtime.frontends.fold import FactFold
from callboard.runtime.frontends.front_end import FrontEnd, FrontEndRequest, RunStream, past_facts
from callboard.runtime.frontends.ui_message_client import UIMessage, read_chat, shown_parts
from callboard.runtime.sessions.session import Session

Chunk: TypeAlias = JsonObject


class UIMessages(FrontEnd):
    """Answers clients of the AI SDK: `useChat`, `Chat` and `DefaultChatTransport`.

    thinking: show the thinking of models.
    """

    headers: ClassVar = {**FrontEnd.headers, "x-vercel-ai-ui-message-stream": "v1"}
    tail: ClassVar[bytes] = b"data: [DONE]\n\n"

    def __init__(self, *, thinking: bool = True) -> None:
        self.thinking = thinking

    def read(self, body: bytes) -> FrontEndRequest:
        """Read the body that `DefaultChatTransport` posts. Of its messages only the newest counts."""
        return read_chat(body)

    def back(self, chat: str) -> FrontEndRequest:
        """Return the request of a client that comes back to a chat, by `GET {api}/{chat}/stream`.

        The answer repeats the newest ask from its start, so the transport needs `resumeStreamIsReplay: true`.
        The SDK expects the status 204 instead while no ask runs (`session.activity`).
        """
        return FrontEndRequest(chat)

    def run_stream(self, request: FrontEndRequest) -> RunStream:
        """Return the chunks of one answer."""
        return _Answer(request, self)

    async def messages(self, session: Session) -> list[dict[str, object]]:
        """Return the messages of a chat so far, for a page that is loaded: `new Chat({messages})`."""
        found: list[UIMessage] = []
        answer = _Answer(FrontEndRequest(session.session_id), self)
        async for fact in past_facts(session):
            if isinstance(fact, Prompted):
                found.append(UIMessage(fact.request_id, "user", shown_parts(fact.content)))
                answer = _Answer(FrontEndRequest(session.session_id, request_id=fact.request_id), self)
                found.append(UIMessage(answer.message_id, "assistant"))
            for chunk in answer.chunks(fact):
                found[-1].add(chunk)
            if isinstance(fact, RunEnded):
                found[-1].add(answer.metadata(fact.seq))
        if found:
            found[-1].add(answer.metadata(session.seq))
        return [one.to_dict() for one in found if one.parts or one.role == "user"]


class _Answer(RunStream):
    """The chunks of one answer. message_id: of the assistant message that they build."""

    def __init__(self, request: FrontEndRequest, options: UIMessages) -> None:
        self.message_id = f"{request.request_id}.answer"
        self._request = request
        self._options = options
        self._repeats = request.prompt is None and request.after is None
        self._since: list[Fact] = []
        self._calls: dict[str, Called] = {}
        self._shown: set[str] = set()
        self._agents: dict[str, Chunk] = {}
        self._step = ""
        self._is_reset = False
        self._in_step: dict[str, Chunk] = {}

    def past(self, fact: Fact) -> None:
        if isinstance(fact, Prompted):
            self.message_id = f"{fact.request_id}.answer"
            self._since.clear()
        else:
            self._since.append(fact)

    def begin(self, fold: FactFold) -> Iterator[Chunk]:
        yield {"type": "start", "messageId": self.message_id, "messageMetadata": _metadata(fold.seq)}
        missed = [chunk for fact in self._since for chunk in self.chunks(fact)]
        if self._repeats:
            yield from missed
        else:  # the answer before this one has finished its step
            self._step = ""

    def live(self, fact: Fact, fold: FactFold) -> Iterator[Chunk]:
        yield from self.chunks(fact)
        if isinstance(fact, RunEnded):
            yield from self._finish("error" if fact.status == "failed" else "stop", fact.seq)

    def wait(self, fold: FactFold) -> Iterator[Chunk]:
        yield from self._finish("tool-calls", fold.seq)

    def end(self, fold: FactFold) -> Iterator[Chunk]:
        yield from self._finish("stop", fold.seq)

    def fail(self, error: str, code: str) -> Iterator[Chunk]:
        yield {"type": "error", "errorText": error}

    def _finish(self, reason: str, seq: int) -> Iterator[Chunk]:
        if self._step:
            self._step = ""
            yield {"type": "finish-step"}
        yield {"type": "finish", "finishReason": reason, "messageMetadata": _metadata(seq)}

    def metadata(self, seq: int) -> Chunk:
        """Return a chunk that states the seq that a client has seen."""
        return {"type": "message-metadata", "messageMetadata": _metadata(seq)}

    # --- facts --------------------------------------------------------------------

    def chunks(self, fact: Fact) -> Iterator[Chunk]:
        """Yield the chunks of a fact."""
        if handler := _HANDLERS.get(type(fact)):
            yield from handler(self, fact)

    def _enter(self, message: str) -> Iterator[Chunk]:
        """Begin the step of a turn."""
        if message == self._step:
            return
        if not self._is_reset:
            if self._step:
                yield {"type": "finish-step"}
            self._in_step.clear()
            yield {"type": "start-step"}
        self._step, self._is_reset = message, False

    def _data(self, kind: str, name: str, data: object) -> Iterator[Chunk]:
        chunk = {"type": f"data-{kind}", "id": name, "data": data}
        self._in_step[f"{kind}/{name}"] = chunk
        yield chunk

    def _text(self, fact: TextAdded) -> Iterator[Chunk]:
        if fact.agent == HOST:
            yield from self._enter(fact.message)
            if fact.is_first:
                yield {"type": "text-start", "id": fact.message}
            yield {"type": "text-delta", "id": fact.message, "delta": fact.text}

    def _text_ended(self, fact: TextEnded) -> Iterator[Chunk]:
        if fact.agent == HOST:
            yield {"type": "text-end", "id": fact.message}

    def _text_dropped(self, fact: TextDropped) -> Iterator[Chunk]:
        if fact.agent == HOST:
            self._is_reset = True  # the next attempt has this step
            yield {"type": "reset-step"}
            yield from self._in_step.values()

    def _thought(self, fact: Thought) -> Iterator[Chunk]:
        if fact.agent == HOST and self._options.thinking:
            yield from self._enter(fact.message)
            name = f"{fact.message}/thinking"
            yield {"type": "reasoning-start", "id": name}
            yield {"type": "reasoning-delta", "id": name, "delta": fact.text}
            yield {"type": "reasoning-end", "id": name}

    def _called(self, fact: Called) -> Iterator[Chunk]:
        self._calls[fact.call] = fact
        if fact.agent == HOST:
            yield from self._enter(fact.message)
            yield from self._show(fact)

    def _show(self, fact: Called) -> Iterator[Chunk]:
        """Show a call, once."""
        if fact.call not in self._shown:
            self._shown.add(fact.call)
            call = {"toolCallId": fact.call, "toolName": fact.tool, "dynamic": True}
            if fact.agent != HOST:
                call["title"] = f"{fact.tool} ({fact.agent})"
            yield {"type": "tool-input-start", **call}
            yield {"type": "tool-input-available", **call, "input": msgspec.json.decode(fact.arguments)}

    def _returned(self, fact: Returned) -> Iterator[Chunk]:
        called = self._calls.pop(fact.call, None)
        # A client that goes on from an earlier answer has the calls before it.
        is_shown = fact.call in self._shown or (fact.agent == HOST and called is None)
        if not is_shown:
            return
        output = msgspec.json.decode(fact.output)
        if fact.is_denied:
            yield {"type": "tool-output-denied", "toolCallId": fact.call}
        elif fact.is_error:
            text = output if isinstance(output, str) else bytes(fact.output).decode()
            yield {"type": "tool-output-error", "toolCallId": fact.call, "errorText": text}
        else:
            yield {"type": "tool-output-available", "toolCallId": fact.call, "output": output}

    def _asked(self, fact: ApprovalAsked) -> Iterator[Chunk]:
        arguments = Json(msgspec.json.encode(fact.arguments))
        yield from self._show(Called(fact.agent, "", fact.call, fact.tool, arguments))
        asked: Chunk = {"type": "tool-approval-request", "approvalId": str(fact.seq), "toolCallId": fact.call}
        if fact.forms is not None:
            asked["inputSchemaInput"] = fact.forms
        yield asked

    def _answered(self, fact: ApprovalAnswered) -> Iterator[Chunk]:
        if fact.verdict != "cancelled":
            is_approved = fact.verdict == "approved"
            answered = {
                "type": "tool-approval-response",
                "approvalId": str(fact.seq),
                "approved": is_approved,
            }
            yield answered | ({"reason": fact.note} if fact.note else {})

    def _began(self, fact: AgentBegan) -> Iterator[Chunk]:
        data = {"address": fact.agent, "parent": fact.parent, "profile": fact.profile, "task": fact.task}
        self._agents[fact.agent] = data
        yield from self._data("agent", fact.agent, {**data, "status": "running"})

    def _agent_ended(self, fact: AgentEnded) -> Iterator[Chunk]:
        data = self._agents.pop(fact.agent, {"address": fact.agent})
        ended = {"status": fact.status, "kind": fact.kind, "result": fact.result, "detail": fact.detail}
        yield from self._data("agent", fact.agent, {**data, **ended})

    def _state(self, fact: StateChanged) -> Iterator[Chunk]:
        yield from self._data("state", "state", fact.values)

    def _heard(self, fact: Heard) -> Iterator[Chunk]:
        parts = [{"type": "text", "text": fact.text}]
        yield {"type": "steering-message", "id": fact.request_id, "parts": parts}

    def _run_ended(self, fact: RunEnded) -> Iterator[Chunk]:
        if fact.value is not None:
            yield from self._data("result", "result", fact.value)
        if fact.status == "cancelled":
            yield {"type": "abort", "reason": fact.detail or "cancelled"}
        elif fact.status == "failed":
            yield {"type": "error", "errorText": f"{fact.kind}: {fact.detail}" if fact.detail else fact.kind}


def _metadata(seq: int) -> dict[str, object]:
    return {"callboard": {"seq": seq}}


_HANDLERS: Final[dict[type, Callable[[_Answer, Any], Iterable[Chunk]]]] = {
    TextAdded: _Answer._text,
    TextEnded: _Answer._text_ended,
    TextDropped: _Answer._text_dropped,
    Thought: _Answer._thought,
    Called: _Answer._called,
    Returned: _Answer._returned,
    AgentBegan: _Answer._began,
    AgentEnded: _Answer._agent_ended,
    StateChanged: _Answer._state,
    ApprovalAsked: _Answer._asked,
    ApprovalAnswered: _Answer._answered,
    Heard: _Answer._heard,
    RunEnded: _Answer._run_ended,
}
