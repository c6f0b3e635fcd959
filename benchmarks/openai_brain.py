"""CPU time of a brain's turns beside those of its framework alone, and of the re-execution of its run.

    python benchmarks/openai_brain.py [--turns 50] [--rounds 5]

An agent of the OpenAI Agents SDK calls one tool in each turn, and its model is a script. Rounds of both ways
alternate, so that the ratios hold on a shared machine.
"""

import argparse
import asyncio
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import agents
from agents import function_tool
from agents.items import ModelResponse
from agents.testing import assistant_message, function_call
from agents.usage import Usage

from callboard import Limits, Runtime, ScriptedModel, call, say
from callboard.brains import openai_agent
from callboard.replay.recording import Recording
from callboard.runtime.programs.checking import RecordedAgent, check_run, programs_of

TEXT = "x" * 200
LIMITS = Limits(max_iterations=10_000, max_steps=100_000, max_tool_calls=10_000)


@function_tool
async def look(at: int) -> str:
    """Look at a place."""
    return f"{at} {TEXT}"


class Script(agents.Model):
    """A model of the framework that calls the tool, turn for turn."""

    def __init__(self, turns: int) -> None:
        self._left = turns

    async def get_response(self, *args: Any, **more: Any) -> ModelResponse:
        """Answer with one call, at last with a text."""
        self._left -= 1
        step = function_call("look", {"at": self._left}, call_id=f"c{self._left}")
        output = [step if self._left else assistant_message("done")]
        usage = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
        return ModelResponse(output=output, usage=usage, response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> Any:
        """Refuse: no brain streams."""
        raise NotImplementedError


def cpu_ms(work: Callable[[], object]) -> float:
    """Return the CPU milliseconds of some work."""
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1_000


def alone(turns: int) -> None:
    """Run the agent by its framework."""
    agent = agents.Agent("looker", instructions="Look.", tools=[look], model=Script(turns))
    config = agents.RunConfig(tracing_disabled=True)
    asyncio.run(agents.Runner.run(agent, "go", max_turns=None, run_config=config))


def brain(turns: int, log: str = ":memory:") -> None:
    """Run the agent as a brain."""

    def answers(request: Any) -> Any:
        done = sum(said["role"] == "assistant" for said in request.conversation)
        return call("look", at=done) if done < turns - 1 else say("done")

    agent = agents.Agent("looker", instructions="Look.", tools=[look])
    runtime = Runtime(log, model=ScriptedModel(answers), limits=LIMITS)
    outcome = runtime.run_sync(openai_agent(agent, effects={"look": "read"}), "go", session_id="s")
    assert (outcome.text, outcome.usage.calls) == ("done", turns), outcome


def recorded(log: str) -> RecordedAgent:
    """Return the host of the recorded run."""
    with Recording.open(Path(log), "s") as recording:
        (found,) = programs_of(recording.states(recording.head.seq))
    return found


def executed_again(run: RecordedAgent) -> None:
    """Execute the recorded run of a brain again, from its start."""
    agent = agents.Agent("looker", instructions="Look.", tools=[look])
    program = openai_agent(agent, effects={"look": "read"})
    checked = check_run(program, run.program, run.address, run.messages)
    assert checked.result == "ok", checked.line()


def main() -> None:
    """Print the medians, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with TemporaryDirectory() as folder:
        log = f"{folder}/log.db"
        brain(given.turns, log)
        run = recorded(log)
        alone(given.turns)
        rounds = [
            (
                cpu_ms(lambda: alone(given.turns)),
                cpu_ms(lambda: brain(given.turns)),
                cpu_ms(lambda: executed_again(run)),
            )
            for _ in range(given.rounds)
        ]
    framework, ours, again = (median(column) for column in zip(*rounds, strict=True))
    print(f"{given.turns} turns: framework alone {framework:.0f} ms, {framework / given.turns:.2f} a turn")
    print(f"brain {ours:.0f} ms, {ours / given.turns:.2f} a turn: {ours / framework:.2f} times")
    print(f"executed again {again:.0f} ms: {again / framework:.2f} times")


if __name__ == "__main__":
    main()
