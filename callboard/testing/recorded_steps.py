"""The steps of recorded programs in another order: each ask is made once the answers before it have come."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.sessions.replies import Reply

Step = tuple[Sequence[str], Mapping[str, Any]]
"""The ids of the answers that a step had, and its reply."""

Block = Mapping[str, Any]

_NO_RUN: Final = ModelFailure("not_recorded", "no run of this program was recorded for the ask")


def next_step(runs: Sequence[Sequence[Step]], conversation: Sequence[Block]) -> Reply:
    """Return the next reply of a recorded program. runs: those of the recording, in order."""
    number, said, heard = _run_so_far(conversation)
    steps = runs[number - 1] if 0 < number <= len(runs) else ()
    if not steps:
        return Reply(failure=_NO_RUN, usage=ZERO)
    asked = {block["id"] for block in said if block.get("type") == "tool_use"}
    due = len([after for after, _ in steps if set(after) <= heard])
    while not (new := _new_asks(steps[:due], asked)) and asked <= heard and due < len(steps):
        due += 1  # an answer never came: a lost race, a cancel
    if due == len(steps) and not new:
        return _last(steps[-1][1], _count(said))
    open_ids = asked - heard - {*_cancels(said)}
    cancels = [one for _, reply in steps[:due] for one in _cancels(_blocks(reply)) if one in open_ids]
    return _reply([_head(_count(said), cancels), *new], "tool_use")


def _run_so_far(conversation: Sequence[Block]) -> tuple[int, list[Block], set[str]]:
    """Return the number of the run, the blocks that it has said, and the ids of the answers that it has."""
    number, said, heard = 0, list[Block](), set[str]()
    for message in conversation:
        content = message["content"]
        blocks = content if isinstance(content, list) else ()
        results = [str(one["tool_use_id"]) for one in blocks if one.get("type") == "tool_result"]
        if message["role"] == "assistant":
            said += blocks
        elif results:
            heard.update(results)
        else:
            number, said, heard = number + 1, [], set()
    return number, said, heard


def _blocks(reply: Mapping[str, Any]) -> Sequence[Block]:
    return reply.get("content") or ()


def _new_asks(steps: Sequence[Step], asked: set[str]) -> list[Block]:
    """Return the asks of these steps that were not made yet, in their recorded order."""
    blocks = [one for _, reply in steps for one in _blocks(reply) if one.get("type") == "tool_use"]
    return [one for one in blocks if one["id"] not in asked]


def _cancels(blocks: Sequence[Block]) -> list[str]:
    return [id for one in blocks for id in one.get("cancels") or ()]


def _count(said: Sequence[Block]) -> int:
    return 1 + len([one for one in said if one.get("type") == "program_step"])


def _head(number: int, cancels: Sequence[str] = ()) -> Block:
    step = {"run": "recorded", "step": number, "at": number, "wake": None, "cancels": cancels, "marks": {}}
    return {"type": "program_step", **step}


def _last(reply: Mapping[str, Any], number: int) -> Reply:
    """Return the end of a program: its result, or its error."""
    if failure := reply.get("failure"):
        return Reply(failure=msgspec.convert(failure, ModelFailure), usage=ZERO)
    rest = [one for one in _blocks(reply) if one.get("type") not in ("program_step", "tool_use")]
    return _reply([_head(number), *rest], str(reply.get("stop_reason", "end_turn")))


def _reply(blocks: Sequence[Block], stop_reason: str) -> Reply:
    return Reply(stop_reason=stop_reason, usage=ZERO, content=msgspec.json.encode(blocks))
