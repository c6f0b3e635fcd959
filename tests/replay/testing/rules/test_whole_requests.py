"""The rules of whole requests: logs that break one of them."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import Delegate, Finished
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.testing.rules.requests import check_requests, requests_of
from callboard.replay.testing.run import perform
from callboard.replay.testing.sessions.world import Worlds
from callboard.runtime.models.scripted import say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.testing import simulate
from tests.actors.harness import raw
from tests.mutants.scenarios_programs import whole_requests


def recorded() -> list[Event]:
    """Return the log of one run of the scenario."""
    world = Worlds(whole_requests())()
    perform(world, (), lambda offered: offered[0], lambda offered: offered[0])
    return list(world.log)


def changed(log: list[Event], change: Callable[[Any], Any]) -> list[Event]:
    found = []
    for event in log:
        body = change(event.body)
        found += [] if body is None else [event if body is event.body else replace(event, body=body)]
    return found


def without_asked(body: Any) -> Any:
    is_first = isinstance(body, Delegate) and body.asked is not None and body.asked.ask == "a"
    return None if is_first else body


def asks_nothing(body: Any) -> Any:
    return replace(body, asked=None) if isinstance(body, Delegate) and body.asked is not None else body


def ends_otherwise(body: Any) -> Any:
    is_reply = isinstance(body, Finished) and body.value != NULL
    return replace(body, kind="iteration_cap") if is_reply else body


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (without_asked, "whole-asked"),
        (asks_nothing, "whole-asked"),
        (ends_otherwise, "whole-reply"),
    ],
)
def test_a_log_that_breaks_a_rule_is_found(change: Callable[[Any], Any], rule: str) -> None:
    log = recorded()
    requests = requests_of(log)
    assert [one for one in check_requests(log, requests) if one.name.startswith("whole")] == []
    assert rule in {one.name for one in check_requests(changed(log, change), requests)}


def test_another_request_or_a_smaller_bound_is_found() -> None:
    log = recorded()
    requests = requests_of(log)
    for name, value in (("system", raw("Other.")), ("tools", ()), ("max", 10**6)):
        for request in requests.values():
            if request.profile != "ask_model" or not request.tools:
                continue
            if name == "max":
                request.model = replace(request.model, max_tokens=value)
            else:
                setattr(request, name, value)
            break
        found = {one.name for one in check_requests(log, requests)}
        assert ("whole-bounds" if name == "max" else "whole-request") in found
        requests = requests_of(log)


def test_a_step_that_is_not_made_of_blocks_asks_nothing() -> None:
    def garbage(body: Any) -> Any:
        is_step = isinstance(body, ModelReplied) and b"ask_model" in bytes(body.content)
        return replace(body, content=raw({"no": "list of blocks"})) if is_step else body

    log = recorded()
    asked = {one.detail for one in check_requests(changed(log, garbage), {}) if one.name == "whole-asked"}
    assert asked == set()


def test_an_agent_whose_reply_cannot_be_read_ends_otherwise() -> None:
    def unreadable(body: Any) -> Any:
        is_reply = isinstance(body, ModelReplied) and b"program_step" not in bytes(body.content)
        return replace(body, content=raw({"no": "list of blocks"})) if is_reply else ends_otherwise(body)

    log = recorded()
    assert "whole-reply" not in {one.name for one in check_requests(changed(log, unreadable), {})}


def test_a_reply_without_words_is_its_programs() -> None:
    @program
    async def asks(ctx: ProgramContext, prompt: str) -> str:
        """Ask a whole request."""
        reply = await ctx.ask_model(messages=[{"role": "user", "content": prompt}])
        return reply.text or "nothing"

    done = simulate(asks, lambda request: say(""), "go")
    assert (done.outcome.text, done.breaches) == ("nothing", [])
