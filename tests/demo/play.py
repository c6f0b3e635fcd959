"""Plays the agents against real tools, without the runtime: a model's turn, its tool calls, and on."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

import msgspec
from jsonschema import Draft202012Validator

from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.demo.agents import CAST
from callboard.demo.inquiry import schema_of
from callboard.demo.inquiry import turn as next_turn
from callboard.demo.tools import ANSWER_CHARS_MAX
from callboard.runtime.models.scripted import Call

DEPTH_MAX = 3
Tools = Mapping[str, Callable[..., object]]


class Ending(NamedTuple):
    """How an agent ended: what its parent reads, whether that is an error, and its report, if any."""

    text: str
    is_error: bool = False
    report: dict[str, object] | None = None


class Play:
    """One performance on one folder. first: which racer is the faster one."""

    def __init__(self, tools: Tools, first: int = 0) -> None:
        self.tools = tools
        self.first = first
        self.turns: dict[str, int] = {}
        self.tool_calls: Counter[str] = Counter()
        self.errors: list[str] = []

    def run(self, name: str, prompt: str = "Go on.", schema: object = None, depth: int = 0) -> Ending:
        """Play one agent until it reports, answers, or has no turn left."""
        role = CAST[name]
        messages: list[dict[str, object]] = [{"role": "user", "content": prompt}]
        schema = schema or (schema_of(role.report) if role.report else None)
        for turn in range(1, (role.turns or 30) + 1):
            self.turns[name] = max(turn, self.turns.get(name, 0))
            reply = next_turn(role.inquiry, request_of(name, messages, turn))
            made = [
                (call.tool, msgspec.json.decode(call.input, type=dict[str, object])) for call in reply.calls
            ]
            if not made:
                return Ending(reply.text)
            if made[0][0] == "report_back":
                problems = [each.message for each in validator_of(schema).iter_errors(made[0][1])]
                assert not problems, f"{name} reports what its schema forbids: {problems}"
                return Ending(json.dumps(made[0][1]), report=made[0][1])
            results = [self._answer(name, tool, arguments, depth) for tool, arguments in made]
            messages += [_asked(reply.text, reply.calls), _answered(results)]
        return Ending("The delegation failed (iteration_cap): no turn was left.", is_error=True)

    def _answer(self, name: str, tool: str, arguments: dict[str, object], depth: int) -> Ending:
        self.tool_calls[tool] += 1
        if tool == "task":
            assert set(arguments) <= {"agent", "agents", "prompt", "output_schema", "copies"}
            return self._delegate(name, arguments, depth)
        assert tool in CAST[name].tools.split(), f"{name} has no tool {tool}"
        try:
            text = msgspec.json.encode(self.tools[tool](**arguments)).decode()
        except Exception as error:
            self.errors.append(f"{name}, {tool}{arguments}: {error}")
            return Ending(f"{type(error).__name__}: {error}", is_error=True)
        assert len(text) <= ANSWER_CHARS_MAX + 2, f"{tool} says {len(text)} characters"
        return Ending(text)

    def _delegate(self, name: str, task: dict[str, object], depth: int) -> Ending:
        known = CAST[name].agents.split()
        racers = task.get("agents") or [task.get("agent") or known[0]]
        assert isinstance(racers, list)
        assert set(racers) <= set(known)
        if depth == DEPTH_MAX:
            return Ending("The delegation failed (denied): the depth limit is 3.", is_error=True)
        return self.run(
            racers[self.first % len(racers)], str(task["prompt"]), task.get("output_schema"), depth + 1
        )


def validator_of(schema: object) -> Draft202012Validator:
    """Return a checker of reports; the schema itself is checked once."""
    return _validator_of(json.dumps(schema))


@cache
def _validator_of(schema: str) -> Draft202012Validator:
    Draft202012Validator.check_schema(json.loads(schema))
    return Draft202012Validator(json.loads(schema))


def request_of(name: str, messages: list[dict[str, object]], turn: int = 1) -> ModelRequest:
    """Build the request that a model gets with this conversation."""
    history: IntMap[Json] = IntMap()
    for place, message in enumerate(messages):
        history = history.put(place, Json(msgspec.json.encode(message)))
    return ModelRequest(
        address="host.1",
        profile=name,
        model=ModelSpec("scripted"),
        turn=turn,
        attempt=1,
        system=NULL,
        tools=(),
        history=history,
    )


def _asked(text: str, calls: tuple[Call, ...]) -> dict[str, object]:
    blocks: list[dict[str, object]] = [{"type": "text", "text": text}] if text else []
    for place, call in enumerate(calls):
        blocks.append({"type": "tool_use", "id": f"t{place}", "name": call.tool, "input": call.input})
    return {"role": "assistant", "content": blocks}


def _answered(results: list[Ending]) -> dict[str, object]:
    return {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": f"t{place}",
                "content": each.text,
                "is_error": each.is_error,
            }
            for place, each in enumerate(results)
        ],
    }
