"""A world for programs without a session: it answers asks in an order that a seed chooses, and records."""

import json
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.conversation import message, user_message
from callboard.actors.protocol.immutable import Json
from callboard.runtime.agent import Agent
from callboard.runtime.models.fallback import ModelChoice
from callboard.runtime.programs.asks import Answer, Ask, Step, run_name
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.run import Main, ProgramRun
from callboard.runtime.sanitize import to_json
from callboard.runtime.tools.sources import ToolSource
from callboard.runtime.tools.tool import Tool, tool

Function: TypeAlias = Callable[[ProgramContext, str], Coroutine[Any, Any, object]]

T0 = 1_700_000_000_000


@tool(effect="read")
def work(n: int = 0, slow: bool = False) -> int:
    """Return the number."""
    return n


@tool
def fail(n: int = 0) -> int:
    """Fail."""
    raise ValueError(n)


WORKER = Agent("worker", description="Works.")


class Roster:
    """The tools and agents of the programs under test."""

    name = "under_test"
    sources: tuple[ToolSource, ...] = ()
    tools: dict[str, Tool] = {"work": work, "fail": fail}  # noqa: RUF012  # never changed
    later_tools: dict[str, Tool] = {}  # noqa: RUF012  # never changed
    agents: tuple[Agent, ...] = (WORKER,)
    default_model: ModelChoice | None = None
    models: tuple[ModelChoice, ...] = ()


def main_of(function: Function) -> Main:
    def main(run: ProgramRun) -> Coroutine[Any, Any, object]:
        return function(ProgramContext(run, Roster(), Json(b'"go"')), "go")

    return main


def started(function: Function, number: int = 1, session: str = "s") -> ProgramRun:
    return ProgramRun(main_of(function), run_name(number, session, "host"))


def answer(ask: Ask | str, value: object = 0, status: str = "ok") -> Answer:
    text = value if isinstance(value, str) else json.dumps(value)
    use = ask if isinstance(ask, str) else ask.id
    return Answer(use, to_json(text), status != "ok", status)


def reply_to(ask: Ask) -> Answer:
    """Answer as the tool or agent would, by its name and input."""
    given = msgspec.json.decode(ask.input, type=dict[str, Any])
    if ask.name == "fail":
        return answer(ask, f"no {given['n']}", "error")
    if ask.name == "task":
        return answer(ask, f"did {given['prompt']}")
    return answer(ask, given.get("n", 0))


class Record(NamedTuple):
    """A step as it was: its input and its output."""

    answers: tuple[Answer, ...]
    at: int
    step: Step


def by_id(ask: Ask) -> str:
    return ask.id


def played(run: ProgramRun, order: Random, steps_max: int = 500) -> list[Record]:
    """Run a program to its end. order: chooses which answers come, when, and together with which."""
    at, records = T0, [Record((), T0, run.step((), T0))]
    open_asks = sorted(records[0].step.asks, key=by_id)
    while (step := records[-1].step).ending is None:
        assert len(records) < steps_max, "the program does not end"
        came: tuple[Answer, ...] = ()
        wake = step.head.wake
        if open_asks and (wake is None or order.random() < 0.7):
            order.shuffle(open_asks)
            count = order.choice([1, 1, 1, 2, len(open_asks)])
            came = tuple(map(reply_to, open_asks[:count]))
            del open_asks[:count]
            at += order.choice([0, 1, 50, 400])
        else:
            assert wake is not None
            at = max(at, wake) + order.choice([0, 0, 3])
        step = run.step(came, at)
        open_asks = sorted([*open_asks, *step.asks], key=by_id)
        records.append(Record(came, at, step))
    return records


def content_of(records: list[Record]) -> list[str]:
    return [bytes(record.step.content()).decode() for record in records]


def result_block(one: Answer) -> Json:
    """Write an answer as it stands in the conversation."""
    block = {
        "type": "tool_result",
        "tool_use_id": one.tool_use_id,
        "content": one.content,
        "is_error": one.is_error,
        "status": one.status,
    }
    return Json(msgspec.json.encode(block))


def conversation(records: list[Record], prompt: str = "go") -> list[Json]:
    """Write a run as the messages of a conversation."""
    said = [message("user", to_json(prompt))]
    for record in records:
        if record.answers:
            said.append(user_message(tuple(map(result_block, record.answers))))
        said.append(message("assistant", record.step.content()))
    return said
