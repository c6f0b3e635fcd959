"""Scripted replies: of models, and of programs, as pure stand-ins for `@program`."""

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.endings import OwnKind
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.prompts import ASK_MODEL, REPORT_BACK, TASK
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import NOTHING, ZERO, Need, Usage
from callboard.actors.protocol.value_types import ModelFailure

Block: TypeAlias = dict[str, object]
Answers: TypeAlias = Mapping[str, Block]
"""The results that came with a step, by the id of their ask."""
Use: TypeAlias = tuple[str, object]
"""A tool call: the tool's name and its arguments, anything that can be JSON."""
NOMINAL = Usage(input_tokens=10, output_tokens=5)
"""The usage of a reply that states none."""
_encode = msgspec.json.Encoder().encode


class Reply(msgspec.Struct, frozen=True):
    """One reply."""

    text: str = ""
    calls: tuple[Use, ...] = ()
    stop_reason: str = "end_turn"
    usage: Usage | None = NOMINAL  # an unknown one is charged in full
    failure: ModelFailure | None = None
    content: bytes | None = None  # the blocks as they are, instead of text and calls
    percent: int | None = None  # instead of usage, so much of what the call may use at most
    is_lost: bool = False  # to a crash

    def used(self, need: Need, max_tokens: int) -> Usage | None:
        """Return the usage of a call whose bound is `need`, of which max_tokens are the answer's."""
        if need == NOTHING:  # a program's step
            return ZERO
        if self.percent is None:
            return self.usage
        return Usage((need.tokens - max_tokens) * self.percent // 100, max_tokens * self.percent // 100)

    def blocks(self, turn: int) -> Json:
        """Return the content blocks, as in the Messages API; ids of calls are unique in an agent's life."""
        if self.content is not None:
            return Json(self.content)
        parts: list[dict[str, object]] = [{"type": "text", "text": self.text}] if self.text else []
        for index, (name, arguments) in enumerate(self.calls):
            parts.append({"type": "tool_use", "id": f"c{turn}.{index}", "name": name, "input": arguments})
        return Json(_encode(parts))


Policy: TypeAlias = Callable[[ModelRequest], Reply]
"""Returns a model's reply to a request."""


def calls(*uses: Use, text: str = "") -> Reply:
    """Make a reply with these tool calls."""
    return Reply(text, uses, "tool_use")


def report(value: object) -> Reply:
    """Make a reply that reports: an object as it is, any other value under `value`."""
    return calls((REPORT_BACK, value if isinstance(value, dict) else {"value": value}))


def task(agent: str, prompt: str = "work", **more: object) -> Use:
    """Make a delegation. more: `output_schema`, `copies`, `agents`."""
    return TASK, {"agent": agent, "prompt": prompt, **more}


class Asked(NamedTuple):
    """One ask of a script. id: unique in its run."""

    id: str
    name: str
    input: Mapping[str, object]


class Step(NamedTuple):
    """One step. wake: in milliseconds since 1970 UTC, None for no deadline. cancels: ids of open asks."""

    asks: tuple[Asked, ...] = ()
    wake: int | None = None
    cancels: tuple[str, ...] = ()


class Failed(Exception):
    """The end that a script chooses for itself."""

    def __init__(self, text: str, kind: OwnKind = "failed") -> None:
        super().__init__(text)
        self.kind = kind


Script: TypeAlias = Callable[[object], Generator[Step, Answers, object]]
"""Is called with the prompt."""

NO_ANSWERS: Final[Answers] = {}


def tool(id: str, name: str, **arguments: object) -> Asked:  # as in the block
    """Ask for a tool call."""
    return Asked(id, name, arguments)


def delegate(id: str, agent: str, prompt: str = "work", **more: object) -> Asked:
    """Ask for a delegation. more: `output_schema`, `copies`."""
    return Asked(id, TASK, {"agent": agent, "prompt": prompt, **more})


def question(id: str, prompt: str = "what?", **more: object) -> Asked:
    """Ask a model. more: `schema`, `system`, `model`."""
    return Asked(id, ASK_MODEL, {"prompt": prompt, **more})


def request(id: str, *messages: object, **more: object) -> Asked:
    """Ask a model with a whole request. messages: new ones, texts of a user for short, and references."""
    said = [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages]
    return Asked(id, ASK_MODEL, {"messages": said, **more})


def reply_of(step: Step, number: int) -> Reply:
    """Make the reply of a step that is not the last."""
    uses: list[Block] = [
        {"type": "tool_use", "id": one.id, "name": one.name, "input": one.input} for one in step.asks
    ]
    return _reply([_head(step, number), *uses], "tool_use")


def last_reply(value: object, number: int) -> Reply:
    """Make the reply of a program that returned: a text, or any other JSON value."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    blocks: list[Block] = [_head(Step(), number), {"type": "text", "text": text}]
    if not isinstance(value, str):
        blocks.append({"type": "program_result", "value": value})
    return _reply(blocks, "end_turn")


def failed_reply(failure: Failed, number: int) -> Reply:
    """Make the reply of a program that ended itself."""
    block: Block = {"type": "program_failure", "kind": failure.kind, "text": str(failure)}
    return _reply([_head(Step(), number), block], "end_turn")


def crash(message: str) -> Reply:
    """Make the answer of a program that raised."""
    return Reply(failure=ModelFailure("crashed", message), usage=ZERO)


def program(script: Script) -> Policy:
    """Make a policy that executes a script again for each step."""

    def policy(request: ModelRequest) -> Reply:
        prompt, steps = _run_so_far(request.conversation)
        running = script(prompt)
        try:
            step = next(running)
            for answers in steps:
                step = running.send(answers)
        except StopIteration as returned:
            return last_reply(returned.value, len(steps) + 1)
        except Failed as failure:
            return failed_reply(failure, len(steps) + 1)
        except Exception as error:
            return crash(f"{type(error).__name__}: {error}")
        return reply_of(step, len(steps) + 1)

    return policy


def _run_so_far(conversation: list[Block]) -> tuple[object, list[Answers]]:
    """Return the last prompt, and the answers that each step after the first had."""
    prompt: object = None
    steps: list[Answers] = []
    for message in conversation:
        content = message["content"]
        if message["role"] == "assistant":
            steps.append(NO_ANSWERS)
        elif results := dict(_results(content)):
            steps[-1] = results
        else:
            prompt, steps = content, []
    return prompt, steps


def _results(content: object) -> Iterator[tuple[str, Block]]:
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "tool_result":
            yield str(block["tool_use_id"]), block


def _head(step: Step, number: int) -> Block:
    return {
        "type": "program_step",
        "run": "r",
        "step": number,
        "at": number,
        "wake": step.wake,
        "cancels": step.cancels,
        "marks": {},
    }


def _reply(blocks: list[Block], stop_reason: str) -> Reply:
    return Reply(stop_reason=stop_reason, usage=ZERO, content=msgspec.json.encode(blocks))
