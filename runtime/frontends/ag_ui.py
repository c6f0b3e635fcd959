"""AG-UI (protocol 1.0): a thread is a session, a run is one answer about it.

Facts of the protocol: https://docs.ag-ui.com/concepts/events and the schema in `ag-ui-protocol`.

Rules
  - The first event is `RUN_STARTED`, the last one `RUN_FINISHED` or `RUN_ERROR`. All texts and sub-agents are
    closed before it.
  - A run for a new prompt shows only the ask. Any other run begins with `MESSAGES_SNAPSHOT`.
  - A run that ends as an interrupt leaves the sub-agents `suspended`; the next one announces them again.
  - A text that does not count any more is taken back by a `MESSAGES_SNAPSHOT` without it.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import msgspec

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.usage import Usage
from callboard.runtime.frontends.ag_ui_client import Messages, read_run_input
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
from callboard.runtime.frontends.front_end import FrontEnd, FrontEndRequest, RunStream

AGUIEvent: TypeAlias = dict[str, object]
VERSION: Final = "1.0"

_RESPONSE: Final = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "note": {"type": "string"},
        "arguments": {"type": "object"},
        "values": {"type": "object"},
        "always": {"type": "boolean"},
    },
    "required": ["approved"],
}


class AGUI(FrontEnd):
    """Answers clients that speak AG-UI, such as CopilotKit and `@ag-ui/client`.

    thinking: show the thinking of models. sub_agents: show the texts and calls of sub-agents, too; else only
    their begin and end.
    """

    def __init__(self, *, thinking: bool = True, sub_agents: bool = True) -> None:
        self.thinking = thinking
        self.sub_agents = sub_agents

    def read(self, body: bytes) -> FrontEndRequest:
        """Read a `RunAgentInput`. Of its messages only the newest counts, if it is a user's."""
        return read_run_input(body)

    def run_stream(self, request: FrontEndRequest) -> RunStream:
        """Return the events of one run."""
        return _Run(request, self)


class _Run(RunStream):
    """One run. Facts of sub-agents are attributed by their address, which names one invocation."""

    def __init__(self, request: FrontEndRequest, options: AGUI) -> None:
        self._request = request
        self._options = options
        self._messages = Messages()
        self._open: dict[str, str] = {}
        self._values: dict[str, object] = {}
        self._ended: RunEnded | None = None

    def past(self, fact: Fact) -> None:
        for event in self._of(fact):
            self._messages.add(event)

    def begin(self, fold: FactFold) -> Iterator[AGUIEvent]:
        yield _event("RUN_STARTED", **self._names(), protocolVersion=VERSION)
        if self._request.prompt is None:
            yield _event("MESSAGES_SNAPSHOT", messages=self._messages.all())
            for message, agent in self._open.items():
                yield from self._opened_again(message, agent)
            for began in fold.agents.values():
                yield from self._began(began)
        if self._values:
            yield _event("STATE_SNAPSHOT", snapshot=self._values)
        if self._request.prompt is None:
            for question in fold.approvals.values():
                yield from self._asked(question)

    def live(self, fact: Fact, fold: FactFold) -> Iterator[AGUIEvent]:
        for event in self._of(fact):
            self._messages.add(event)
            yield event
        if isinstance(fact, RunEnded):
            yield from self.end(fold)

    def wait(self, fold: FactFold) -> Iterator[AGUIEvent]:
        interrupts = [_interrupt(question) for question in fold.approvals.values()]
        yield from self._close_texts()
        for address in fold.agents:
            own = [one["id"] for one in interrupts if one.get("subagentRunId") == address]
            outcome = {"type": "suspended", **({"interruptIds": own} if own else {})}
            yield _event("SUBAGENT_FINISHED", subagentRunId=address, outcome=outcome)
        outcome = {"type": "interrupt", "interrupts": interrupts}
        yield _event("RUN_FINISHED", **self._names(), outcome=outcome)

    def end(self, fold: FactFold) -> Iterator[AGUIEvent]:
        yield from self._close_texts()
        ended = self._ended
        if ended is None or ended.status != "failed":
            outcome = {"type": "cancelled" if ended and ended.status == "cancelled" else "success"}
            result = {} if ended is None else {"result": ended.text if ended.value is None else ended.value}
            usage = {} if ended is None else {"usage": [_usage(ended.usage)]}
            yield _event("RUN_FINISHED", **self._names(), outcome=outcome, **result, **usage)
            return
        message = ended.detail or ended.kind
        yield _event("RUN_ERROR", message=message, code=ended.kind, usage=[_usage(ended.usage)])

    def fail(self, error: str, code: str) -> Iterator[AGUIEvent]:
        yield _event("RUN_ERROR", message=error, code=code)

    def _names(self) -> dict[str, str]:
        return {"threadId": self._request.thread, "runId": self._request.run}

    # --- facts --------------------------------------------------------------------

    def _of(self, fact: Fact) -> Iterator[AGUIEvent]:
        """Yield the events of a fact."""
        agent = getattr(fact, "agent", HOST)
        is_hidden = agent != HOST and not self._options.sub_agents
        if not is_hidden or isinstance(fact, _SHOWN):
            yield from _HANDLERS[type(fact)](self, fact)

    def _prompted(self, fact: Prompted) -> Iterator[AGUIEvent]:
        self._messages.prompt(fact.request_id, _content(fact.content))
        yield from ()

    def _text(self, fact: TextAdded) -> Iterator[AGUIEvent]:
        if fact.is_first:
            self._open[fact.message] = fact.agent
            yield _event("TEXT_MESSAGE_START", fact.agent, messageId=fact.message, role="assistant")
        yield _event("TEXT_MESSAGE_CONTENT", fact.agent, messageId=fact.message, delta=fact.text)

    def _text_ended(self, fact: TextEnded) -> Iterator[AGUIEvent]:
        self._open.pop(fact.message, None)
        yield _event("TEXT_MESSAGE_END", fact.agent, messageId=fact.message)

    def _text_dropped(self, fact: TextDropped) -> Iterator[AGUIEvent]:
        yield from self._text_ended(TextEnded(fact.agent, fact.message))
        self._messages.drop(fact.message)
        yield _event("MESSAGES_SNAPSHOT", messages=self._messages.all())

    def _close_texts(self) -> Iterator[AGUIEvent]:
        for message, agent in list(self._open.items()):
            yield from self._text_ended(TextEnded(agent, message))

    def _opened_again(self, message: str, agent: str) -> Iterator[AGUIEvent]:
        """Open a text again that another run has begun: the client has its first part by the snapshot."""
        yield _event("TEXT_MESSAGE_START", agent, messageId=message, role="assistant")

    def _thought(self, fact: Thought) -> Iterator[AGUIEvent]:
        if not self._options.thinking:
            return
        name = f"{fact.message}/thinking"
        yield _event("REASONING_START", fact.agent, messageId=name)
        yield _event("REASONING_MESSAGE_START", fact.agent, messageId=name, role="reasoning")
        yield _event("REASONING_MESSAGE_CONTENT", fact.agent, messageId=name, delta=fact.text)
        yield _event("REASONING_MESSAGE_END", fact.agent, messageId=name)
        yield _event("REASONING_END", fact.agent, messageId=name)

    def _called(self, fact: Called) -> Iterator[AGUIEvent]:
        names = {"toolCallName": fact.tool, "parentMessageId": fact.message}
        yield _event("TOOL_CALL_START", fact.agent, toolCallId=fact.call, **names)
        yield _event("TOOL_CALL_ARGS", fact.agent, toolCallId=fact.call, delta=bytes(fact.arguments).decode())
        yield _event("TOOL_CALL_END", fact.agent, toolCallId=fact.call)

    def _returned(self, fact: Returned) -> Iterator[AGUIEvent]:
        marks = {"metadata": {"callboard": {"isError": True}}} if fact.is_error else {}
        yield _event(
            "TOOL_CALL_RESULT",
            fact.agent,
            messageId=f"{fact.call}/result",
            toolCallId=fact.call,
            content=_output(fact.output),
            role="tool",
            **marks,
        )

    def _began(self, fact: AgentBegan) -> Iterator[AGUIEvent]:
        names: dict[str, str] = {"name": fact.profile, "description": fact.task}
        if fact.parent != HOST:
            names["parentSubagentRunId"] = fact.parent
        if fact.call:
            names["parentToolCallId"] = fact.call
        yield _event("SUBAGENT_STARTED", subagentRunId=fact.agent, **names)

    def _agent_ended(self, fact: AgentEnded) -> Iterator[AGUIEvent]:
        if fact.status == "ok":
            outcome = {"type": "success"}
            yield _event("SUBAGENT_FINISHED", subagentRunId=fact.agent, result=fact.result, outcome=outcome)
        else:
            message = fact.detail or fact.kind
            yield _event("SUBAGENT_ERROR", subagentRunId=fact.agent, message=message, code=fact.kind)

    def _state(self, fact: StateChanged) -> Iterator[AGUIEvent]:
        before, self._values = self._values, fact.values
        if not before:
            yield _event("STATE_SNAPSHOT", snapshot=fact.values)
            return
        changed = {
            key: value for key, value in fact.values.items() if key not in before or before[key] != value
        }
        if changed:
            delta = [{"op": "add", "path": _pointer(key), "value": value} for key, value in changed.items()]
            yield _event("STATE_DELTA", delta=delta)

    def _asked(self, fact: ApprovalAsked) -> Iterator[AGUIEvent]:
        value = {
            **_interrupt(fact),
            "tool": fact.tool,
            "arguments": fact.arguments,
            "isRepeat": fact.is_repeat,
        }
        if fact.forms is not None:
            value["forms"] = fact.forms
        yield _event("CUSTOM", fact.agent, name="callboard.approval", value=value)

    def _answered(self, fact: ApprovalAnswered) -> Iterator[AGUIEvent]:
        value = {"id": str(fact.seq), "verdict": fact.verdict, "note": fact.note}
        yield _event("CUSTOM", fact.agent, name="callboard.approval_answered", value=value)

    def _heard(self, fact: Heard) -> Iterator[AGUIEvent]:
        yield _event("TEXT_MESSAGE_START", messageId=fact.request_id, role="user")
        yield _event("TEXT_MESSAGE_CONTENT", messageId=fact.request_id, delta=fact.text)
        yield _event("TEXT_MESSAGE_END", messageId=fact.request_id)

    def _run_ended(self, fact: RunEnded) -> Iterator[AGUIEvent]:
        self._ended = fact
        yield from ()


def _event(kind: str, agent: str = HOST, /, **fields: object) -> AGUIEvent:
    """Return an event; one about a sub-agent names it."""
    return {"type": kind, **fields, **({} if agent == HOST else {"subagentRunId": agent})}


def _interrupt(question: ApprovalAsked) -> dict[str, object]:
    """Return an `Interrupt`. A run whose `resume` has its id answers it."""
    found: dict[str, object] = {
        "id": str(question.seq),
        "reason": "input_required" if question.forms is not None else "tool_call",
        "message": f"May {question.tool} run?"
        if question.forms is None
        else f"{question.tool} asks for input.",
        "toolCallId": question.call,
        "responseSchema": _RESPONSE,
    }
    if question.expires_at_ms is not None:
        found["expiresAt"] = datetime.fromtimestamp(question.expires_at_ms / 1000, UTC).isoformat()
    if question.agent != HOST:
        found["subagentRunId"] = question.agent
    return found


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "inputTokens": usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
        "outputTokens": usage.output_tokens,
        "cachedInputTokens": usage.cache_read_tokens,
        "cacheWriteInputTokens": usage.cache_write_tokens,
    }


def _pointer(key: str) -> str:
    """Return the JSON pointer of a key (RFC 6901)."""
    return "/" + key.replace("~", "~0").replace("/", "~1")


def _content(prompt: object) -> object:
    """Return a prompt as the content of a message: a text, or parts."""
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list):
        return [_shown(block) for block in prompt]
    return msgspec.json.encode(prompt).decode()


def _output(output: Json) -> object:
    """Return the output of a tool as the content of a message."""
    value = msgspec.json.decode(output)
    if isinstance(value, list) and value and all(isinstance(one, dict) and "type" in one for one in value):
        return [_shown(block) for block in value]
    return value if isinstance(value, str) else bytes(output).decode()


def _shown(block: Any) -> dict[str, object]:
    """Return a content block as a part: texts, images and documents, and anything else as its JSON."""
    source = block.get("source")
    if block["type"] in ("image", "document") and isinstance(source, dict):
        if source.get("type") == "base64":
            data = {"type": "data", "value": source["data"], "mimeType": source["media_type"]}
            return {"type": block["type"], "source": data}
        if source.get("type") == "url":
            return {"type": block["type"], "source": {"type": "url", "value": source["url"]}}
    text = block.get("text")
    return {"type": "text", "text": text if isinstance(text, str) else msgspec.json.encode(block).decode()}


_SHOWN: Final = (AgentBegan, AgentEnded, ApprovalAsked, ApprovalAnswered)
"""The facts about sub-agents that a client gets in any case."""

_HANDLERS: Final[dict[type, Callable[[_Run, Any], Iterable[AGUIEvent]]]] = {
    Prompted: _Run._prompted,
    TextAdded: _Run._text,
    TextEnded: _Run._text_ended,
    TextDropped: _Run._text_dropped,
    Thought: _Run._thought,
    Called: _Run._called,
    Returned: _Run._returned,
    AgentBegan: _Run._began,
    AgentEnded: _Run._agent_ended,
    StateChanged: _Run._state,
    ApprovalAsked: _Run._asked,
    ApprovalAnswered: _Run._answered,
    Heard: _Run._heard,
    RunEnded: _Run._run_ended,
}
