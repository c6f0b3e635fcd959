"""The requests of the Claude client, without the client: what is left out, and what a user may say."""

from typing import Any

import msgspec
import pytest

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.runtime.brains.claude_requests import written_of

ENVIRONMENT = "# Environment\nPrimary working directory: /tmp/somewhere"
BILLING = "x-anthropic-billing-header: cc_version=2; cc_entrypoint=sdk-py;"


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words, "cache_control": {"type": "ephemeral"}}


def said(role: str, *words: str) -> dict[str, Any]:
    return {"role": role, "content": [text(one) for one in words]}


def texts(encoded: Any) -> list[str]:
    return [block["text"] for block in msgspec.json.decode(encoded)]


def test_what_the_client_says_of_itself_is_left_out() -> None:
    body = {
        "system": [text(BILLING), text("You are X.")],
        "messages": [said("user", "hello"), said("system", ENVIRONMENT), said("system", "be kind")],
    }
    found = written_of(body)
    (message,) = map(msgspec.json.decode, found.messages)
    assert texts(found.system) == ["You are X."]
    assert [block["text"] for block in message["content"]] == ["hello", "be kind"]
    assert b"cache_control" not in b"".join(map(bytes, found.messages))


@pytest.mark.parametrize("words", [ENVIRONMENT, BILLING, "# Environment"])
def test_a_user_and_a_model_may_say_what_the_client_says_of_itself(words: str) -> None:
    body = {"messages": [said("user", words), said("assistant", words), {"role": "user", "content": words}]}
    for message in map(msgspec.json.decode, written_of(body).messages):
        assert [block["text"] for block in message["content"]] == [words]


@pytest.mark.parametrize(
    "body",
    [
        {"messages": "hello"},
        {"messages": ["hello"]},
        {"messages": [{"role": "user", "content": 7}]},
        {"messages": [{"role": "user", "content": ["hello"]}]},
        {"messages": [said("user", "hello")], "tools": {"a": 1}},
        {"messages": [said("user", "hello")], "system": 7},
    ],
)
def test_a_body_of_another_form_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(InvalidPrompt, match="the client's"):
        written_of(body)
