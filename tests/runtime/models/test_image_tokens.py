"""The most tokens of an image: the documented figures, and none for a model that is not listed."""

from typing import Any

import pytest

from callboard import Agent, AnthropicModel, Limits, OpenAIModel, Runtime
from callboard.runtime.models.image_tokens import image_tokens_of
from callboard.runtime.models.layered.gemini import GeminiModel
from callboard.runtime.models.layered.openai import OpenAICompatibleModel
from tests.gemini_api import GeminiApi
from tests.openai_api import OpenAIApi, Reply

LINK: Any = [
    {"type": "text", "text": "See."},
    {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
]


@pytest.mark.parametrize(
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
