"""Faults of models, programs and callers come to an outcome or a typed error, never to a hang."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from callboard import Agent, Limits, Runtime, ScriptedModel, Usage, call, say, tool
from callboard.actors.protocol.errors import (
    InvalidAgent,
    InvalidPrompt,
    MisuseError,
    SessionDetached,
    SessionFailed,
)
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.sessions.outcomes import Outcome
from callboard.runtime.sessions.session import Session
from tests.poison import poison_supervisor
from tests.tables import table

GOOD = ModelAnswer(Json(b'[{"type":"text","text":"fine"}]'), "end_turn", Usage(1, 1))


class Model:
    """A model as a user would write it."""

    spec = ModelSpec("own", 100)

    def __init__(self, answers: Callable[[ModelRequest], object]) -> None:
        self.answers = answers

    def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer | Awaitable[ModelAnswer]:
        return self.answers(request)  # type: ignore[return-value]  # a wrong value on purpose

    async def aclose(self) -> None:
        pass


async def asked(model: Model, limits: Limits | None = None) -> Outcome:
    async with asyncio.timeout(5), Runtime(":memory:", model=model, limits=limits) as runtime:
        return await runtime.run(Agent("host"), "go")


WRONG = {
    "a list as content": lambda: ModelAnswer([{"type": "text"}], "end_turn", Usage(1, 1)),  # type: ignore[arg-type]  # a wrong value on purpose
    "text": lambda: "hello",
    "nothing": lambda: None,
    "no stop reason": lambda: ModelAnswer(GOOD.content, None, Usage(1, 1)),  # type: ignore[arg-type]  # a wrong value on purpose
    "a dict as usage": lambda: ModelAnswer(GOOD.content, "end_turn", {"input": 1}),  # type: ignore[arg-type]  # a wrong value on purpose
    "negative usage": lambda: ModelAnswer(GOOD.content, "end_turn", Usage(-5, 1)),
    "endless usage": lambda: ModelAnswer(GOOD.content, "end_turn", Usage(2**70, 1)),
    "an error as failure": lambda: ModelAnswer(failure=ValueError("x")),  # type: ignore[arg-type]  # a wrong value on purpose
    "a surrogate": lambda: ModelAnswer(failure=ModelFailure("x", "bad \ud800"), model="\ud800"),
}


@table("wrong", WRONG.values(), ids=WRONG.keys())
def test_a_model_that_answers_nonsense_is_a_model_error_at_once_or_later(wrong: Callable[[], object]) -> None:
    async def later(request: ModelRequest) -> object:
        await asyncio.sleep(0.001)
        return wrong()

    for model in (Model(lambda request: wrong()), Model(later)):
        assert asyncio.run(asked(model)).kind == "model_error"


class Odd(BaseException):
    pass


@pytest.mark.parametrize("error", [Odd("odd"), GeneratorExit(), asyncio.CancelledError()])
def test_a_model_that_raises_an_unexpected_exception_is_a_model_error(error: BaseException) -> None:
    async def later(request: ModelRequest) -> object:
        await asyncio.sleep(0.001)
        raise error

    def at_once(request: ModelRequest) -> object:
        raise error

    for model in (Model(at_once), Model(later)):
        assert asyncio.run(asked(model)).kind == "model_error"


def test_a_model_that_ignores_being_cancelled_holds_up_neither_the_ask_nor_the_runtime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callboard.runtime.ports.tasks.GRACE_S", 0.05)
    monkeypatch.setattr("callboard.runtime.ports.tasks.GRACE_S", 0.05)

    async def run() -> None:
        may_end, has_ended = asyncio.Event(), asyncio.Event()
        cancels: list[str] = []

        async def stubborn(request: ModelRequest) -> object:
            while not may_end.is_set():
                try:
                    await may_end.wait()
                except asyncio.CancelledError:
                    cancels.append("ignored")
            has_ended.set()
            return GOOD

        outcome = await asked(Model(stubborn), Limits(model_timeout_s=0.02, max_model_attempts=1))
        assert outcome.kind == "model_error"
        assert "timeout" in outcome.detail
        assert cancels
        assert not has_ended.is_set(), "it still runs: neither outcome nor runtime waited for it"
        may_end.set()
        async with asyncio.timeout(5):
            await has_ended.wait()

    asyncio.run(run())


def test_a_tool_that_raises_generator_exit_is_an_error_for_the_model() -> None:
    @tool(effect="read")
    async def odd() -> str:
        """Raise an unusual exception."""
        await asyncio.sleep(0)
        raise GeneratorExit

    async def run() -> Outcome:
        model = ScriptedModel([call("odd"), say("went on")])
        async with asyncio.timeout(5), Runtime(":memory:", model=model) as runtime:
            return await runtime.run(Agent("host", tools=[odd]), "go")

    assert asyncio.run(run()).text == "went on"


def test_after_a_supervisor_failed_everything_closes_and_the_file_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        for _ in range(2):
            async with (
                asyncio.timeout(5),
                Runtime(tmp_path / "log.db", model=Model(lambda r: GOOD)) as runtime,
            ):
                with monkeypatch.context() as patch:
                    poison_supervisor(patch, object, ValueError("broken"))
                    with pytest.raises(SessionFailed, match="broken"):
                        await runtime.run(Agent("host"), "go")

    asyncio.run(run())


def test_a_model_whose_aclose_raises_does_not_keep_the_file(tmp_path: Path) -> None:
    class Bad(Model):
        async def aclose(self) -> None:
            raise RuntimeError("close fails")

    async def once() -> None:
        async with Runtime(tmp_path / "log.db", model=Bad(lambda r: GOOD)) as runtime:
            await runtime.run(Agent("host"), "go")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="close fails"):
            asyncio.run(once())


def test_a_run_that_comes_while_the_runtime_closes_is_refused() -> None:
    async def run() -> None:
        asked, may_answer = asyncio.Event(), asyncio.Event()

        async def slow(request: ModelRequest) -> object:
            asked.set()
            await may_answer.wait()
            return GOOD

        runtime = Runtime(":memory:", model=Model(slow))
        await runtime.__aenter__()
        first = asyncio.create_task(runtime.run(Agent("host"), "x"))
        await asked.wait()
        closing = asyncio.create_task(runtime.aclose())
        await asyncio.sleep(0)
        with pytest.raises(MisuseError, match="not open"):
            await runtime.run(Agent("host"), "x")
        may_answer.set()
        await closing
        with pytest.raises(SessionDetached, match="resume"):
            await first

    asyncio.run(asyncio.wait_for(run(), 5))


def test_no_call_hangs_when_every_task_is_cancelled(tmp_path: Path) -> None:
    async def run() -> None:
        async with asyncio.timeout(5), Runtime(tmp_path / "log.db", model=Model(lambda r: GOOD)) as runtime:
            session = await runtime.open(Agent("host"))
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            assert (await session.ask("x")).is_ok
            await session.close()
            await session.close()

    asyncio.run(run())


def test_a_watcher_sees_the_first_event_although_it_is_not_durable_yet() -> None:
    async def run() -> None:
        async with Runtime(MemoryLog(), model=Model(lambda r: GOOD)) as runtime:
            session = await runtime.open(Agent("host"))
            async for event in session.events():
                assert event.seq == 1
                break

    asyncio.run(run())


def test_a_runtime_can_be_used_again_with_everything_it_was_given() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "array", "uniqueItems": True}}}
    model = ScriptedModel(lambda request: call("report_back", n=[[k] for k in range(5_000)]))
    runtime = Runtime(":memory:", model=model)
    for _ in range(2):
        assert runtime.run_sync(Agent("host"), "x", output_schema=schema).kind == "reported"


def test_a_run_that_is_cancelled_again_and_again_leaves_nothing_open() -> None:
    @tool(effect="read")
    async def clean_up_slowly() -> str:
        """Wait."""
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.03)
        return "never"

    async def run() -> None:
        model = ScriptedModel(lambda request: call("clean_up_slowly"))
        async with Runtime(":memory:", model=model, cancel_delay_s=0.01) as runtime:
            running = asyncio.create_task(runtime.run(Agent("host", tools=[clean_up_slowly]), "x"))
            for _ in range(4):
                await asyncio.sleep(0.005)
                running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await asyncio.sleep(0.1)
            assert not runtime._live.of(runtime._life)

    asyncio.run(asyncio.wait_for(run(), 5))


BAD_AGENTS: dict[str, Mapping[str, object]] = {
    "description": {"description": None},
    "instructions": {"instructions": 5},
    "model": {"model": 5},
    "agents": {"agents": ["x"]},
    "tools": {"tools": None},
    "limits": {"limits": {"tokens": 1}},
    "server tool": {"server_tools": [5]},
}


@table("arguments", BAD_AGENTS.values(), ids=BAD_AGENTS.keys())
def test_an_agent_that_cannot_work_is_refused_when_it_is_made(arguments: Mapping[str, object]) -> None:
    with pytest.raises(InvalidAgent, match="agent 'a'"):
        Agent("a", **arguments)  # type: ignore[arg-type]  # a wrong value on purpose


def test_tools_may_come_from_a_generator() -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return ""

    assert list(Agent("a", tools=(one for one in [look])).tools) == ["look"]  # type: ignore[arg-type]  # an iterator on purpose


@table("prompt", [None, 5, [], [1], "", {"a": 1}, "  ", "\n", [{"type": "text", "text": " "}]])
def test_an_invalid_prompt_is_refused_before_a_session_is_created(prompt: object) -> None:
    async def run() -> None:
        async with Runtime(log := MemoryLog(), model=Model(lambda r: GOOD)) as runtime:
            with pytest.raises(InvalidPrompt, match="a prompt is"):
                await runtime.run(Agent("host"), prompt)  # type: ignore[call-overload]  # a wrong value on purpose
            assert await log.sessions() == []

    asyncio.run(run())


def test_blank_texts_of_a_prompt_and_blank_instructions_are_not_sent() -> None:
    seen = []

    def policy(request: ModelRequest) -> ModelAnswer:
        seen.append((bytes(request.system), [one["content"] for one in request.conversation]))
        return GOOD

    blocks = [{"type": "text", "text": text} for text in (" ", "look", "\n")]
    for host in (
        Agent("host", instructions=" \n"),
        Agent("host", instructions="x").with_instructions("host", " "),
    ):
        assert Runtime(":memory:", model=Model(policy)).run_sync(host, blocks).text == "fine"
    assert seen == [(b"null", [blocks[1:2]])] * 2


@pytest.mark.parametrize(
    "arguments", [{"session_id": "a\nb"}, {"session_id": 5}, {"limits": 5}, {"request_id": 7}]
)
def test_ids_and_limits_of_the_wrong_kind_are_refused(arguments: Mapping[str, object]) -> None:
    async def run() -> None:
        async with Runtime(":memory:", model=Model(lambda r: GOOD)) as runtime:
            with pytest.raises(MisuseError):
                await runtime.run(Agent("host"), "x", **arguments)  # type: ignore[call-overload]  # a wrong value on purpose

    asyncio.run(run())


@pytest.mark.parametrize("schema", [[], True, "x"])
def test_a_schema_that_is_neither_a_dict_nor_a_type_is_refused(schema: object) -> None:
    async def run() -> None:
        async with Runtime(":memory:", model=Model(lambda r: GOOD)) as runtime:
            with pytest.raises(InvalidPrompt, match="output_schema"):
                await runtime.run(Agent("host"), "x", output_schema=schema)  # type: ignore[call-overload]  # what is refused

    asyncio.run(run())


def test_a_surrogate_in_a_prompt_reaches_neither_title_nor_log(tmp_path: Path) -> None:
    outcome = Runtime(tmp_path / "log.db", model=Model(lambda r: GOOD)).run_sync(Agent("host"), "a \ud800 b")
    assert outcome.text == "fine"


def _ask(session: Session) -> Awaitable[object]:
    return session.ask("x")


def _run_elsewhere(use: Callable[[], Awaitable[object]]) -> None:
    """Run a method on an event loop of its own."""

    async def bounded() -> None:
        async with asyncio.timeout(2):
            await use()

    asyncio.run(bounded())


@pytest.mark.parametrize("use", [_ask, Session.cancel, Session.close], ids=["ask", "cancel", "close"])
def test_a_session_is_used_on_its_own_loop(use: Callable[[Session], Awaitable[object]]) -> None:
    async def run() -> None:
        async with Runtime(":memory:", model=Model(lambda r: GOOD)) as runtime:
            session = await runtime.open(Agent("host"))
            with pytest.raises(MisuseError, match="belongs to the event loop"):
                await asyncio.to_thread(_run_elsewhere, lambda: use(session))
            assert (await session.ask("x")).text == "fine"
            assert (await session.close()).seq

    asyncio.run(run())


def test_a_running_ask_is_not_cancelled_from_another_loop() -> None:
    async def run() -> None:
        is_asked, may_answer = asyncio.Event(), asyncio.Event()

        async def later(request: ModelRequest) -> object:
            is_asked.set()
            await may_answer.wait()
            return GOOD

        async with Runtime(":memory:", model=Model(later)) as runtime:
            session = await runtime.open(Agent("host"))
            asking = asyncio.create_task(session.ask("x"))
            await is_asked.wait()
            for use in (session.cancel, session.close, runtime.aclose):
                with pytest.raises(MisuseError, match="belongs to the event loop"):
                    await asyncio.to_thread(_run_elsewhere, use)
            may_answer.set()
            assert (await asking).text == "fine"

    asyncio.run(asyncio.wait_for(run(), 5))
