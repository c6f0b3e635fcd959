"""CPU of an agent of another framework: alone, as a brain of a session, and executed again after a restart.

    python benchmarks/brains.py [--frameworks langgraph pydantic-ai] [--turns 50] [--rounds 5]

Each turn calls one tool. Prints one row of JSON for each framework: CPU milliseconds of a turn alone and in a
session with a log in memory, and of the re-execution of all turns beside all turns alone; the least of some
rounds, in which the ways take turns. The bounds: a turn of a brain 2 times the framework alone and 2 ms; a
re-execution 1.5 times.
"""

import argparse
import asyncio
import gc
import json
import logging
import time
from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from pydantic_ai import Agent as FrameworkAgent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import UsageLimits

from callboard import Limits, Runtime, ScriptedModel, call, say
from callboard.brains import SessionChatModel, langgraph_agent, pydantic_ai_agent
from callboard.runtime.programs.history import last_run
from callboard.runtime.programs.replaying import executed_again

TEXT = "x" * 200
FREE = Limits(max_iterations=10_000)


class Fake(BaseChatModel):
    """A chat model that calls the tool until it has answered often enough."""

    turns: int

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Any, **given: Any) -> Any:
        """Return this model with tools."""
        return self.bind(tools=tools)

    def _generate(self, messages: Any, *args: Any, **given: Any) -> ChatResult:
        turn = sum(isinstance(one, AIMessage) for one in messages)
        calls: Any = [{"id": f"c{turn}", "name": "look", "args": {"at": turn}}] if turn < self.turns else []
        message = AIMessage(f"{TEXT}{turn}", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: Any, *args: Any, **given: Any) -> ChatResult:
        return self._generate(messages)


@tool
async def look(at: int) -> str:
    """Look."""
    return f"{TEXT} {at}"


def langgraph(turns: int) -> tuple[Callable[[], Any], Any]:
    """Return a run of the framework alone, and the brain."""
    alone = create_agent(Fake(turns=turns), [look], name="agent")
    graph = create_agent(SessionChatModel(), [look], name="agent")
    brain = langgraph_agent(graph, effects={"look": "read"})
    return lambda: alone.ainvoke({"messages": [("user", "go")]}, {"recursion_limit": 10_000}), brain


def pydantic_ai(turns: int) -> tuple[Callable[[], Any], Any]:
    """Return a run of the framework alone, and the brain."""

    def says(messages: Any, info: Any) -> ModelResponse:
        turn = sum(isinstance(one, ModelResponse) for one in messages)
        parts: list[Any] = [TextPart(f"{TEXT}{turn}")]
        if turn < turns:
            parts.append(ToolCallPart("look", {"at": turn}, f"c{turn}"))
        return ModelResponse(parts=parts)

    agent: FrameworkAgent[None, str] = FrameworkAgent(name="agent")

    @agent.tool_plain(name="look")
    async def look_at(at: int) -> str:
        """Look."""
        return f"{TEXT} {at}"

    model, unlimited = FunctionModel(says), UsageLimits(request_limit=None)
    brain = pydantic_ai_agent(agent, effects={"look": "read"})
    return lambda: agent.run("go", model=model, usage_limits=unlimited), brain


FRAMEWORKS = {"langgraph": langgraph, "pydantic-ai": pydantic_ai}


def cpu_ms(work: Callable[[], object]) -> float:
    """Return the CPU milliseconds of some work, without the collections of garbage."""
    gc.collect()
    gc.disable()
    started = time.process_time()
    try:
        work()
        return (time.process_time() - started) * 1_000
    finally:
        gc.enable()


def row(framework: str, turns: int, rounds: int) -> dict[str, Any]:
    """Measure one framework."""
    alone, brain = FRAMEWORKS[framework](turns)
    requests: list[Any] = []

    def answers(request: Any) -> Any:
        turn = sum(said["role"] == "assistant" for said in request.conversation)
        return call("look", at=turn) if turn < turns else say(TEXT)

    answer = brain.model.call

    def kept(request: Any, on_text: Any) -> Any:
        requests.append(request)
        return answer(request, on_text)

    brain.model.call = kept

    def in_session() -> None:
        requests.clear()
        outcome = Runtime(":memory:", model=ScriptedModel(answers), limits=FREE).run_sync(brain, "go")
        assert outcome.usage.calls == turns + 1, outcome

    def again() -> None:
        executed_again(brain.model.main_of(recorded.prompt, lambda most: ()), run_name, recorded).stop()

    async def once() -> None:
        await alone()

    in_session()
    last = requests[-1]
    recorded, run_name = last_run(last.length, last.message), "1-" + brain.name
    times = [(cpu_ms(lambda: asyncio.run(once())), cpu_ms(in_session), cpu_ms(again)) for _ in range(rounds)]
    framework_ms, brain_ms, again_ms = (min(column) for column in zip(*times, strict=True))
    return {
        "framework": framework,
        "turns": turns,
        "alone_ms_a_turn": round(framework_ms / turns, 2),
        "brain_ms_a_turn": round(brain_ms / turns, 2),
        "bound_ms_a_turn": round(2 * framework_ms / turns + 2, 2),
        "again_to_alone": round(again_ms / framework_ms, 2),
    }


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frameworks", nargs="+", choices=FRAMEWORKS, default=list(FRAMEWORKS))
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    for framework in args.frameworks:
        print(json.dumps(row(framework, args.turns, args.rounds)), flush=True)


if __name__ == "__main__":
    main()
