"""A chat model of LangChain as a model of a session, and the model of a session as a chat model."""

from typing import Any

import pytest
from langchain_core.exceptions import (
    ContextOverflowError,
    ModelAPIError,
    ModelConnectionError,
    ModelInvalidRequestError,
    ModelRateLimitError,
)
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.limits import Limits
from callboard.brains import LangChainModel, SessionChatModel
from callboard.runtime.agent import Agent
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool
from tests.runtime.brains.graphs import OwnChat

USED: Any = {
    "input_tokens": 10,
    "output_tokens": 5,
    "total_tokens": 15,
    "input_token_details": {"cache_read": 4},
}


@tool(effect="read")
def look(at: str) -> str:
    """Look."""
    return f"saw {at}"


class Scripted(OwnChat):
    """A chat model that gives one message after the other, or raises."""

    says_next: list[Any]

    def _generate(self, messages: Any, *args: Any, **given: Any) -> ChatResult:
        self.asked.append((messages, given))
        found = self.says_next[min(len(self.asked), len(self.says_next)) - 1]
        if isinstance(found, Exception):
            raise found
        return ChatResult(generations=[ChatGeneration(message=found)])


class StatusError(Exception):
    """An error of a client that is no class of the framework."""

    def __init__(self, status_code: int) -> None:
        super().__init__("no")
        self.status_code = status_code


def run(*says: Any, **limits: Any) -> Any:
    chat = Scripted(says_next=list(says))
    model = LangChainModel(chat, max_tokens=77)
    agent = Agent("host", instructions="Be brief.", tools=[look])
    return Runtime(":memory:", model=model, limits=Limits(**limits)).run_sync(agent, "go"), chat.asked


def test_it_answers_an_agent_with_its_tools_its_bound_and_its_usage() -> None:
    calling = AIMessage(
        "so", tool_calls=[{"name": "look", "args": {"at": "x"}, "id": "c1"}], usage_metadata=USED
    )
    outcome, asked = run(calling, AIMessage("done", usage_metadata=USED))
    assert (outcome.text, outcome.usage.input_tokens, outcome.usage.cache_read_tokens) == ("done", 12, 8)
    (first, given), (second, _) = asked
    assert [(one.type, one.text) for one in first] == [("system", "Be brief."), ("human", "go")]
    assert (given["max_tokens"], given["tools"][0]["function"]["name"]) == (77, "look")
    assert [one.type for one in second] == ["system", "human", "ai", "tool"]
    assert (second[2].tool_calls[0]["args"], second[3].text) == ({"at": "x"}, "saw x")


def test_thoughts_go_back_as_they_came() -> None:
    thoughts: list[Any] = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
    ]
    use: Any = {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "x"}}
    calling = AIMessage(
        [*thoughts, {"type": "text", "text": "so"}, use],
        tool_calls=[{"name": "look", "args": {"at": "x"}, "id": "c1"}],
        usage_metadata=USED,
    )
    outcome, asked = run(calling, AIMessage("done", usage_metadata=USED))
    assert outcome.text == "done"
    again = asked[1][0][2]
    assert again.content == [*thoughts, {"type": "text", "text": "so"}]
    assert again.tool_calls[0]["name"] == "look"


@pytest.mark.parametrize(
    ("error", "calls", "word"),
    [
        (ModelInvalidRequestError("no"), 1, "invalid_request_error"),
        (ModelAPIError("no"), 2, "api_error"),
        (ModelRateLimitError("no"), 2, "rate_limit_error"),
        (ModelConnectionError("gone"), 2, "connection"),
        (ConnectionResetError("gone"), 2, "connection"),
        (StatusError(400), 1, "invalid_request_error"),
        (StatusError(503), 2, "api_error"),
    ],
)
def test_its_failures_are_tried_again_where_that_may_help(error: Exception, calls: int, word: str) -> None:
    outcome, asked = run(error, max_model_attempts=2)
    assert (outcome.kind, len(asked)) == ("model_error", calls)
    assert word in outcome.detail


def test_a_full_context_and_a_refusal_are_ends_of_their_own() -> None:
    assert run(ContextOverflowError("too long"))[0].kind == "context_full"
    refused = AIMessage("no", usage_metadata=USED, response_metadata={"stop_reason": "refusal"})
    assert run(refused)[0].kind == "model_refused"


def test_the_chat_model_of_a_session_answers_only_inside_a_brain() -> None:
    with pytest.raises(MisuseError, match="answers only inside a brain"):
        SessionChatModel().invoke("x")
    assert repr(LangChainModel(OwnChat())) == "LangChainModel('langchain:fake:own')"
