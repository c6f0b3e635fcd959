"""Replies without words, as services of five dialects send them, and the outcomes of their agents."""

import asyncio
from collections.abc import Iterator

import pytest

from callboard import Agent, AnthropicModel, Outcome, Runtime, tool
from callboard.runtime.models.protocol import Model
from tests.messages_api import Canned, MessagesApi, message, sse_answer, text, tool_use
from tests.openai_api import Answer, Call, ProviderApi, Reply, Thought
from tests.runtime.models.layered.kit import DIALECTS, WIRES, Api, model_at

KEY = "sk-ant-test-0123456789"
STREAM = {"content-type": "text/event-stream"}


@tool(effect="read")
def look(path: str) -> str:
    """Look at a file."""
    return path


@pytest.fixture(scope="module")
def service() -> Iterator[ProviderApi]:
    with ProviderApi(wires=WIRES) as api:
        yield api


def asked(model: Model, prompts: tuple[str, ...]) -> list[Outcome]:
    """Return the outcomes of these asks of one host."""

    async def main() -> list[Outcome]:
        async with Runtime(":memory:") as runtime:
            session = await runtime.open(Agent("host", tools=[look], model=model))
            return [await session.ask(prompt) for prompt in prompts]

    return asyncio.run(main())


def outcomes(
    api: ProviderApi, dialect: Api, *replies: Answer, prompts: tuple[str, ...] = ("Go.",)
) -> list[Outcome]:
    api.forget()
    api.reply(*replies)
    return asked(model_at(api.url, dialect, max_tokens=100), prompts)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("silence", [(), (Thought("Hm."),), (" \n",)], ids=["nothing", "a thought", "blanks"])
def test_a_silent_reply_is_asked_for_once_more_and_then_ends_as_empty(
    service: ProviderApi, dialect: Api, silence: tuple[str | Thought, ...]
) -> None:
    replies = [*[Reply(silence)] * 3, Reply(("Paris.",))]
    first, second = outcomes(service, dialect, *replies, prompts=("Go.", "And?"))
    assert (first.kind, first.status, first.text) == ("empty", "failed", "")
    assert (second.kind, second.text) == ("answered", "Paris.")  # the strict server takes the conversation
    assert len(service.seen) == 4


@pytest.mark.parametrize("dialect", DIALECTS)
def test_words_beside_the_last_call_are_the_answer_of_an_agent_that_then_is_silent(
    service: ProviderApi, dialect: Api
) -> None:
    said = Reply(("All is well.", Call("look", '{"path": "a"}')))
    (found,) = outcomes(service, dialect, said, Reply(()))
    assert (found.kind, found.text, len(service.seen)) == ("answered", "All is well.", 2)


def test_an_end_of_gemini_without_content_is_silence(service: ProviderApi) -> None:
    for candidate in (b'{"content":{"role":"model"},"finishReason":"STOP"}', b'{"finishReason":"STOP"}'):
        end = b'data: {"candidates":[%b],"usageMetadata":{"promptTokenCount":40,"totalTokenCount":40}}\n\n'
        (found,) = outcomes(
            service, "generate-content", Canned(end % candidate, headers=STREAM), Reply(("Paris.",))
        )
        assert (found.text, len(service.seen)) == ("Paris.", 2)


def test_a_message_that_begins_and_ends_without_content_is_silence() -> None:
    nothing = sse_answer({**message(), "usage": {"input_tokens": 0, "output_tokens": 0}})
    said = sse_answer(message(text("All is well."), tool_use("look", {"path": "a"})))
    with MessagesApi([nothing, nothing, said, nothing]) as api:
        model = AnthropicModel("claude-sonnet-4-5", base_url=api.url, api_key=KEY, max_tokens=100)
        first, second = asked(model, ("Go.", "And?"))
    assert (first.kind, len(api.seen)) == ("empty", 4)
    assert (second.kind, second.text) == ("answered", "All is well.")
