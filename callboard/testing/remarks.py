"""Remarks on a scenario: calls that callboard's own tools refuse, which break no rule.

A model may do anything, so a refused call is not a bug of a session. In a policy it is nearly always a
mistake of its author, because the run then tests something other than it seems to.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final

import msgspec

from callboard.actors.protocol import prompts
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.sessions.faults import NO_FAULTS
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.scripted_replies import Reply
from callboard.replay.testing.sessions.world import SessionWorld

_REFUSALS: Final = (
    prompts.NOT_DELEGATED,
    prompts.WRONG_NAMES,
    prompts.UNUSABLE_TASK_WAIT,
    prompts.UNUSABLE_TASK_CANCEL,
)
_SHOWN_CHARS: Final = 200
_STEPS: Final = 5_000


def remarks_on(scenario: Scenario) -> list[str]:
    """Make one run without faults, and return a line for each refusal, once for each agent."""
    found: dict[str, None] = {}

    def policy(request: ModelRequest) -> Reply:
        for text in _results(request):
            if text.startswith(_REFUSALS):
                found[f"refused to {request.profile}: {text:.{_SHOWN_CHARS}}"] = None
        return scenario.policy(request)

    with suppress(AssertionError):  # without an end, which the campaign tells
        SessionWorld(replace(scenario, policy=policy, faults=NO_FAULTS)).run(steps=_STEPS)
    return list(found)


def _results(request: ModelRequest) -> Iterator[str]:
    """Yield the texts of the results in the last message of a request."""
    content = msgspec.json.decode(request.message(request.length - 1)).get("content")
    for block in content if isinstance(content, list) else ():
        if block.get("type") == "tool_result" and isinstance(block.get("content"), str):
            yield block["content"]
