"""The bodies of requests that are kept: each as its difference to the one before it of the same agent."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard import Agent, Limits, Outcome, Runtime, Usage, tool
from callboard.actors.protocol.errors import StoreFailed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.kept_bodies import body_after
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import Sent
from callboard.models import ModelSpec
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.protocol import Append
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.ports import body_keeper
from callboard.runtime.ports.body_keeper import BodyKeeper
from callboard.runtime.secrets.registry import NO_SECRETS, Secrets

REPLY = ModelReplied(1, 1, "ok", sent=Sent("digest", "library"))
FIRST = b'{"messages":[{"role":"user","content":"go"}],"model":"m"}'
SECOND = b'{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":"ok"}],"model":"m"}'


def kept(
    keeper: BodyKeeper, body: bytes, address: str = "host", secrets: Secrets = NO_SECRETS
) -> ModelReplied:
    return keeper.with_body(address, REPLY, body, secrets)


def test_the_second_body_is_kept_as_its_difference_to_the_first() -> None:
    keeper = BodyKeeper(MemoryLog(), "s")
    one, two = kept(keeper, FIRST), kept(keeper, SECOND)
    assert one.sent is not None
    assert two.sent is not None
    assert (one.sent.head, one.sent.tail) == (0, 0)
    assert two.sent.head > 30
    assert two.sent.tail > 10
    assert body_after(body_after(b"", one), two) == SECOND


def test_each_agent_has_a_conversation_of_its_own() -> None:
    keeper = BodyKeeper(MemoryLog(), "s")
    kept(keeper, FIRST)
    other = kept(keeper, SECOND, "host.1")
    assert other.sent is not None
    assert other.sent.head == other.sent.tail == 0
    again = kept(keeper, FIRST)
    assert body_after(FIRST, again) == FIRST
    assert again.sent is not None
    assert again.sent.head + again.sent.tail == len(FIRST)


@pytest.mark.parametrize(("address", "is_forgotten"), [("host.1", True), ("host", False)])
def test_the_body_of_a_sub_agent_that_ended_is_let_go(address: str, is_forgotten: bool) -> None:
    keeper = BodyKeeper(MemoryLog(), "s")
    kept(keeper, FIRST, address)
    keeper.forget(address)
    keeper.forget("host.9")
    again = kept(keeper, SECOND, address)
    assert again.sent is not None
    assert (again.sent.head == 0) is is_forgotten


def test_secrets_are_taken_out_before_a_body_is_cut() -> None:
    secrets = Secrets({"KEY": "hunter2hunter2"})
    keeper = BodyKeeper(MemoryLog(), "s")
    made = kept(keeper, FIRST.replace(b"go", b"hunter2hunter2"), secrets=secrets)
    assert b"hunter2" not in body_after(b"", made)
    assert b"[secret:KEY]" in body_after(b"", made)


def test_a_body_that_is_no_text_is_left_out_and_said_so(caplog: pytest.LogCaptureFixture) -> None:
    keeper = BodyKeeper(MemoryLog(), "s")
    with caplog.at_level(logging.WARNING):
        assert kept(keeper, b'"\xff\xfe"') is REPLY
    assert "the body of a request of host is not text" in caplog.text
    after = kept(keeper, FIRST)
    assert body_after(b"", after) == FIRST
    assert kept(keeper, SECOND.replace(b"ok", b"ok\xff")) is REPLY
    assert body_after(FIRST, kept(keeper, SECOND)) == SECOND


async def written(keeper: BodyKeeper, log: MemoryLog) -> None:
    """Write a session with two agents whose bodies are kept."""
    await log.open()
    await log.create("s", 0, "")
    replies = [("host", kept(keeper, FIRST)), ("host.1", kept(keeper, SECOND, "host.1"))]
    replies += [("host", kept(keeper, SECOND)), ("host.2", ModelReplied(1))]
    events = [Event(seq, 0, "model", who, 0, body) for seq, (who, body) in enumerate(replies, 1)]
    await log.append([Append("s", 0, 1, events)])


@pytest.mark.parametrize("page", [1, 2, 1_000])
def test_another_process_goes_on_from_the_bodies_in_the_log(
    page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_keeper, "_PAGE", page)

    async def work() -> BodyKeeper:
        log = MemoryLog()
        await written(BodyKeeper(log, "s"), log)
        keeper = BodyKeeper(log, "s")
        await keeper.load()
        return keeper

    keeper = asyncio.run(work())
    assert keeper._last == {"host": SECOND, "host.1": SECOND}
    again = kept(keeper, SECOND)
    assert again.sent is not None
    assert again.sent.head + again.sent.tail == len(SECOND)


class Counted(MemoryLog):
    """A log that counts how often it is read, and may fail."""

    reads = 0
    error: Exception | None = None

    async def read(self, *place: Any) -> Any:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return await super().read(*place)


def test_the_log_is_read_once_for_callers_side_by_side() -> None:
    async def work() -> int:
        log = Counted()
        await written(BodyKeeper(log, "s"), log)
        keeper = BodyKeeper(log, "s")
        await asyncio.gather(keeper.load(), keeper.load())
        await keeper.load()
        return log.reads

    assert asyncio.run(work()) == 2  # the last page is empty


def test_a_caller_that_is_cancelled_does_not_end_the_reading() -> None:
    async def work() -> dict[str, bytes]:
        log = Counted()
        await written(BodyKeeper(log, "s"), log)
        keeper = BodyKeeper(log, "s")
        first = asyncio.ensure_future(keeper.load())
        await asyncio.sleep(0)
        first.cancel()
        await keeper.load()
        return keeper._last

    assert asyncio.run(work()).keys() == {"host", "host.1"}


def test_a_log_that_cannot_be_read_lets_the_next_body_be_whole(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> BodyKeeper:
        log = Counted()
        log.error = StoreFailed("the disk is gone")
        keeper = BodyKeeper(log, "s")
        await keeper.load()
        return keeper

    with caplog.at_level(logging.WARNING):
        keeper = asyncio.run(work())
    assert "the bodies that session s kept cannot be read: the disk is gone" in caplog.text
    assert body_after(b"", kept(keeper, SECOND)) == SECOND


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
