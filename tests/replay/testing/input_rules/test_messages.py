"""The input rules of the Messages API about replies; the others are tested with the server that has them."""

from typing import Any

from callboard.replay.testing.input_rules.messages import problem_of
from tests.tables import table

CALL = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "ok"}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
TEXT = {"type": "text", "text": "x"}


def problem(*contents: list[Any]) -> str:
    """Return the problem of a conversation: a prompt, then replies and messages of the user in turn."""
    roles = ("assistant", "user")
    messages = [{"role": roles[at % 2], "content": content} for at, content in enumerate(contents)]
    return problem_of(
        {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "Go."}, *messages]}
    )


def test_a_conversation_with_reasoning_calls_and_server_tools_is_taken() -> None:
    assert problem([THOUGHT, CALL], [RESULT], [SEARCH, FOUND, TEXT], [TEXT]) == ""
    assert problem([TEXT, SEARCH]) == ""  # paused
    assert problem([SEARCH, CALL], [RESULT], [FOUND, TEXT], [TEXT]) == ""  # beside a call of ours


@table(
    ("contents", "told"),
    [
        ([[CALL], [RESULT], [CALL], [RESULT]], "must be unique"),
        ([[TEXT, THOUGHT], [TEXT]], "cannot be `thinking`"),
        ([[SEARCH], [TEXT]], "without a corresponding result"),
        ([[SEARCH, CALL], [RESULT, TEXT]], "without a corresponding result"),
        ([[FOUND, TEXT], [TEXT]], "unexpected `tool_use_id`"),
        ([[FOUND, SEARCH, FOUND], [TEXT]], "unexpected `tool_use_id`"),
        ([[{**CALL, "input": "{}"}], [RESULT]], "valid dictionary"),
    ],
)
def test_a_reply_that_the_service_refuses_is_named(contents: list[list[Any]], told: str) -> None:
    assert told in problem(*contents)
