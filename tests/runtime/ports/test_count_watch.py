"""Counts that cannot be right: budgets hold, and each model is warned of once."""

import logging
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard import Agent, Limits, Outcome, Runtime, Usage, tool
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.request import ModelRequest
from callboard.models import ModelSpec
from callboard.runtime.models.protocol import ModelAnswer, OnText

BYTES_OF_A_TOKEN = 3
MAX_TOKENS = 200

Report = Callable[[Usage], Usage | None]

REPORTS: dict[str, Report] = {
    "nothing": lambda true: None,
    "zero": lambda true: Usage(),
    "one": lambda true: Usage(input_tokens=1),
    "half": lambda true: Usage(true.input_tokens // 2, true.output_tokens // 2),
    "true": lambda true: true,
    "double": lambda true: Usage(2 * true.input_tokens, 2 * true.output_tokens),
    "negative": lambda true: Usage(-true.input_tokens, -true.output_tokens),
    "uncached": lambda true: Usage(min(20, true.input_tokens), true.output_tokens),
}


class Service:
    """A model service that uses tokens as it must, and reports them as it likes."""

    def __init__(self, report: Report, turns: int = 5) -> None:
        self.spec = ModelSpec("service", MAX_TOKENS, checks_usage=True)
        self.report = report
        self.turns = turns
        self.largest = 0

    def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        size = sum(map(len, (*request.messages, *request.tools, request.system)))
        true = Usage(size // BYTES_OF_A_TOKEN, 60)
        told = self.report(true)
        self.largest = max(self.largest, told.tokens if told else size + MAX_TOKENS + 1_000)
        use = {"type": "tool_use", "id": f"c{request.turn}", "name": "look", "input": {}}
        last = {"type": "text", "text": "done"}
        content = [use if request.turn < self.turns else last]
        return ModelAnswer(Json(msgspec.json.encode(content)), "end_turn", told)

    async def aclose(self) -> None:
        """Nothing is held."""


@tool(effect="read")
def look() -> str:
    """Return something to read."""
    return "something to read, " * 20


def run(service: Service, tokens: int | None) -> Outcome[object]:
    host = Agent("host", tools=[look], model=service)
    return Runtime(":memory:").run_sync(host, "go", limits=Limits(tokens=tokens))


@pytest.mark.parametrize("name", REPORTS)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(tokens=st.integers(1_000, 20_000))
def test_no_budget_is_exceeded_by_more_than_one_call(name: str, tokens: int) -> None:
    service = Service(REPORTS[name])
    outcome = run(service, tokens)
    assert outcome.usage.tokens <= tokens + service.largest
    if name not in ("double",):
        assert outcome.usage.tokens <= tokens


@pytest.mark.parametrize(("name", "is_doubted"), [("zero", True), ("one", True), ("uncached", True)])
def test_a_model_is_warned_of_once(name: str, is_doubted: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "callboard.models")
    run(Service(REPORTS[name]), None)
    told = [one.message for one in caplog.records if "a count of tokens" in one.message]
    assert len(told) == is_doubted


@pytest.mark.parametrize("name", ["nothing", "true", "half"])
def test_a_count_that_is_plausible_or_missing_is_no_reason_to_warn(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "callboard.models")
    assert run(Service(REPORTS[name]), None).text == "done"
    assert not [one for one in caplog.records if "a count of tokens" in one.message]


def test_an_answer_above_its_need_is_charged_as_it_says() -> None:
    service = Service(lambda true: Usage(50_000, 60), turns=1)
    outcome = run(service, 5_000)
    assert outcome.usage.tokens == 50_060
