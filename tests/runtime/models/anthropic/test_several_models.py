"""Conversations with messages of other models, as AnthropicModel sends them."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.translation import messages_for
from callboard.actors.protocol.usage import ZERO
from callboard.replay.testing.input_rules.messages import problem_of
from callboard.runtime.models.anthropic.model import AnthropicModel
from callboard.runtime.models.anthropic.request import TAKES, Cache, body_of
from tests.messages_api import MessagesApi, json_answer, message
from tests.messages_api import text as answered
from tests.runtime.models.anthropic.kit import ask_at, content_of
from tests.several_models import (
    CHAT,
    CLAUDE,
    FILE,
    Said,
    as_json,
    conversations,
    hears,
    request_to,
    result,
    says,
    text,
    use,
)

THINKING = as_json({"thinking": {"type": "enabled", "budget_tokens": 1_024}})
PART = {"id": "fc_1", "provider_details": {"k": "v"}}


def body(said: list[Said], *, cache: Cache = False, thinks: bool = False) -> dict[str, Any]:
    request = request_to(CLAUDE, said)
    params = THINKING if thinks else NULL
    request.model = ModelSpec("claude-sonnet-4-5", 2_000, params, origin=CLAUDE)
    made = body_of(request, messages_for(request, rules=TAKES), stream=False, cache=cache, force_tools=None)
    found: dict[str, Any] = json.loads(made)
    return found


@given(conversations(), st.sampled_from([False, True, "1h"]), st.booleans())
def test_the_service_takes_every_conversation(said: list[Said], cache: Cache, thinks: bool) -> None:
    thinks = thinks and any(one.maker not in (None, CLAUDE) for one in said)  # alone it thinks before calls
    made = body(said, cache=cache, thinks=thinks)
    assert problem_of(made) == problem_of(made, "2026-10-21") == ""
    assert '"part"' not in json.dumps(made)


def test_a_model_does_not_think_over_results_of_calls_that_another_has_made() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    asked = [hears(text("Go.")), says(CHAT, use("1")), hears(result("1"))]
    assert body(asked, thinks=True)["thinking"] == {"type": "disabled"}
    own = [*asked, says(CLAUDE, use("2")), hears(result("2"))]
    assert body(own, thinks=True)["thinking"] == {"type": "disabled"}
    again = [*asked, says(CLAUDE, thought, use("2")), hears(result("2"))]
    assert body(again, thinks=True)["thinking"]["type"] == "enabled"
    assert (
        body([*asked, says(CLAUDE, text("Done.")), hears(text("?"))], thinks=True)["thinking"]["type"]
        == "enabled"
    )
    assert "thinking" not in body(asked)


def test_no_key_of_ours_reaches_the_service(api: MessagesApi) -> None:
    api.add(json_answer(message(answered("Hello."))))
    made = says(CHAT, text("Hi.", part=PART), use("fc:1", part=PART), {"type": "thinking", "part": PART})
    request = request_to(CLAUDE, [hears(text("Go.")), made, hears(result("fc:1"))])
    answer, _ = ask_at(api.url, request, stream=False, cache=False)
    assert content_of(answer) == [{"type": "text", "text": "Hello."}]
    (sent,) = [seen.body for seen in api.seen]
    said: Any = sent["messages"]
    assert [one.keys() for one in said] == [{"role", "content"}] * 3
    assert said[1]["content"][0] == text("Hi.")
    assert said[1]["content"][1]["id"] == said[2]["content"][0]["tool_use_id"] != "fc:1"
    assert len(said[1]["content"]) == 2
    assert not {b"part", b"origin", b"fc_1"} & {
        word for word in (b"part", b"origin", b"fc_1") if word in api.seen[0].raw
    }


def test_a_block_that_cannot_be_sent_fails_the_call_before_anything_is_sent(api: MessagesApi) -> None:
    request = request_to(CLAUDE, [hears(text("Go.")), says(CHAT, FILE), hears(text("Next."))])
    request.seq = 9
    answer, _ = ask_at(api.url, request, stream=False)
    assert answer.failure is not None
    assert (answer.failure.code, answer.failure.is_retryable) == ("unsayable", False)
    assert "message 2, block 1 (image with source file) of request 9" in answer.failure.message
    assert answer.usage == ZERO
    assert api.seen == []


def test_the_address_is_part_of_the_origin_without_its_password() -> None:
    assert AnthropicModel("claude-x").spec.made_by == Origin(model="claude-x")
    there = AnthropicModel("claude-x", base_url="https://me:secret@gateway.example:8443/claude/?key=1").spec
    assert there.origin == Origin("anthropic", "", "https://gateway.example:8443/claude", "claude-x")
