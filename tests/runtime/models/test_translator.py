"""The translations of an adapter: each message once, and the same as from the beginning."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard import Agent, AnthropicModel, Limits, OpenAIModel, Runtime
from callboard.actors.protocol.translation import Unsayable, messages_for
from callboard.runtime.models.layered.gemini import GeminiModel
from callboard.runtime.models.layered.openai import OpenAICompatibleModel
from callboard.runtime.models.translator import Translator, image_tokens_of, unsayable
from tests.gemini_api import GeminiApi
from tests.openai_api import OpenAIApi, Reply
from tests.several_models import (
    CHAT,
    CLAUDE,
    FILE,
    ORIGINS,
    Said,
    conversations,
    ends_of,
    hears,
    request_to,
    says,
    text,
)
from tests.tables import table

MIXED = [hears(text("Go.")), says(CHAT, text("a")), hears(text("b"))]
MIXED += [says(CLAUDE, text("c")), hears(text("d"))]
CASES = ("taken back", "other model", "lossy", "other session", "forgotten", "too many")


def test_a_conversation_that_is_all_the_models_own_is_sent_as_it_is() -> None:
    request = request_to(CHAT, MIXED[:3])
    assert Translator().messages_for(request) is request.messages


@given(conversations(), st.sampled_from(ORIGINS))
def test_turn_after_turn_the_messages_are_the_same_as_from_the_beginning(
    said: list[Said], target: object
) -> None:
    translator = Translator()
    assert isinstance(target, type(CLAUDE))
    for length in ends_of(said):
        request = request_to(target, said[:length], session_id="s")
        assert translator.messages_for(request) == messages_for(request)


def test_a_message_that_was_sent_before_is_the_same_object() -> None:
    translator = Translator()
    sent = [translator.messages_for(request_to(CLAUDE, MIXED[:end], session_id="s")) for end in (3, 5, 5)]
    for before, after in itertools.pairwise(sent):
        assert all(one is other for one, other in zip(before, after, strict=False))
    assert sent[0][1] is not MIXED[1].body


@table("case", ["taken back", "other model", "lossy", "other session", "forgotten", "too many"])
def test_another_conversation_is_translated_from_the_beginning(case: str) -> None:
    translator = Translator(conversations_max=1)
    request = request_to(CLAUDE, MIXED, session_id="s")
    before = translator.messages_for(request)
    other = [*MIXED[:4], hears(text("e"))]
    if case == "other model":
        translator.messages_for(request_to(ORIGINS[2], MIXED, session_id="s"))
    if case == "lossy":
        translator.messages_for(request_to(CLAUDE, MIXED, is_lossy=True, session_id="s"))
    if case == "too many":
        translator.messages_for(request_to(CLAUDE, MIXED, session_id="t"))
    if case == "forgotten":
        translator.forget("t")
        assert translator.messages_for(request)[1] is before[1]
        translator.forget("s", "host")
    said, where = other if case == "taken back" else MIXED, "t" if case == "other session" else "s"
    asked = request_to(CLAUDE, said, session_id=where)
    after = translator.messages_for(asked)
    assert after == messages_for(asked)
    assert after[1] is not before[1]


def test_a_block_that_cannot_be_said_is_refused_each_time_and_named() -> None:
    translator = Translator()
    said = [hears(text("Go.")), says(CHAT, text("a"), FILE), hears(text("b"))]
    request = request_to(CLAUDE, said, session_id="s")
    with pytest.raises(Unsayable):
        translator.messages_for(request)
    with pytest.raises(Unsayable) as caught:
        translator.messages_for(request)
    request.seq = 17
    failure = unsayable(request, caught.value)
    assert (failure.code, failure.is_retryable) == ("unsayable", False)
    assert failure.message.startswith(
        "message 2, block 2 (image with source file) of request 17 cannot be sent"
    )
    request.seq = 0
    assert "request" not in unsayable(request, caught.value).message


LINK: Any = [
    {"type": "text", "text": "See."},
    {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
]


@table(
    ("provider", "name", "tokens"),
    [
        ("openai", "gpt-4o", 1_445),
        ("openai", "gpt-4o-mini-2024-07-18", 48_169),
        ("openai", "o3", 1_275),
        ("openai", "gpt-5", 1_190),
        ("openai", "gpt-5-mini", 2_489),
        ("openai", "gpt-5-nano-2025-08-07", 3_779),
        ("openai", "o4-mini", 2_642),
        ("openai", "gpt-5.4-mini", 2_489),
        ("openai", "gpt-5.4-nano", 3_779),
        ("openai", "gpt-5.4", 0),
        ("openai", "gpt-5.6", 0),
        ("anthropic", "claude-opus-5", 4_784),
        ("anthropic", "other", 0),
        ("google", "gemini-3-pro-preview", 1_120),
        ("google", "gemini-2.5-pro", 0),
        ("compatible", "gpt-4o", 0),
    ],
)
def test_the_most_of_an_image_is_the_documented_one(provider: str, name: str, tokens: int) -> None:
    assert image_tokens_of(provider, name) == tokens


def test_the_spec_of_a_model_states_it() -> None:
    assert AnthropicModel("claude-opus-5").spec.image_tokens == 4_784
    assert OpenAIModel("gpt-4o").spec.image_tokens == 1_445
    assert GeminiModel("gemini-3-flash-preview").spec.image_tokens == 1_120
    assert OpenAIModel("gpt-of-nobody", image_tokens=7, file_tokens=8).spec.image_tokens == 7
    assert OpenAIModel("gpt-of-nobody", image_tokens=7, file_tokens=8).spec.file_tokens == 8
    assert AnthropicModel("claude-opus-5", image_tokens=7, file_tokens=8).spec.file_tokens == 8


@pytest.mark.parametrize(("stated", "requests"), [(0, 0), (1_445, 1), (90_000, 0)])
def test_an_image_by_its_address_is_sent_within_a_budget_that_has_room_for_its_most(
    stated: int, requests: int
) -> None:
    with OpenAIApi([Reply(("A cat.",))]) as api:
        model = OpenAICompatibleModel("m", base_url=f"{api.url}/v1", image_tokens=stated, max_tokens=100)
        outcome = Runtime(":memory:", model=model).run_sync(Agent("host"), LINK, limits=Limits(tokens=20_000))
    assert len(api.seen) == requests
    assert outcome.status == ("ok" if requests else "failed")


@pytest.mark.parametrize(("stated", "requests"), [(0, 0), (9_000, 1), (90_000, 0)])
def test_a_pdf_by_its_address_is_sent_within_a_budget_that_has_room_for_what_was_stated(
    stated: int, requests: int
) -> None:
    source = {"type": "url", "url": "https://example.org/paper.pdf"}
    prompt: Any = [{"type": "document", "source": source}, {"type": "text", "text": "What does it say?"}]
    with GeminiApi([Reply(("Much.",))]) as api:
        where: Any = {"base_url": api.url, "api_key": "key-of-tests", "max_tokens": 100}
        model = GeminiModel("gemini-3-pro", file_tokens=stated, **where)
        outcome = Runtime(":memory:", model=model).run_sync(
            Agent("host"), prompt, limits=Limits(tokens=20_000)
        )
    assert len(api.seen) == requests
    assert outcome.status == ("ok" if requests else "failed")
    assert stated or "file" in outcome.detail, outcome.detail
