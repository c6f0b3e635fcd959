"""Facts that follow from an agent's state without a message."""

from typing import Any

import pytest
from msgspec.structs import replace

from callboard.actors.agent.fallback import Fallback
from callboard.actors.agent.program_state import BEGUN, ProgramState
from callboard.actors.agent.state import (
    AgentState,
    closing_need,
    has_turns_left,
    initial_agent,
    need_of,
    prefix_of,
    request_of,
    turns_left,
)
from callboard.actors.protocol.conversation import rolled
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Stop
from callboard.actors.protocol.profiles import ModelSpec, Prices
from callboard.actors.protocol.usage import NOTHING, Need
from callboard.replay.testing.sessions.scenario import profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from tests.actors.harness import SCHEMA, AgentHarness
from tests.tables import table


def test_a_new_agent_knows_its_address_and_nothing_else() -> None:
    state = initial_agent("host.1")
    assert (state.address, state.phase, state.prefix, len(state.history)) == ("host.1", "new", None, 0)


def test_the_need_of_a_call_follows_from_the_context_and_the_prices() -> None:
    agent = AgentHarness()
    agent.begins(who=profile("dear", prices=Prices(2, 10, 0, 5), max_tokens=50))
    tokens = agent.state.context_tokens
    assert need_of(agent.state) == Need(tokens + 50, tokens * 5 + 50 * 10)


def test_turns_are_left_until_the_limit_is_used() -> None:
    agent = AgentHarness()
    agent.begins(limits=Limits(max_iterations=2))
    assert has_turns_left(agent.state)
    agent.calls("look")
    agent.hears(agent.returned(0))
    assert not has_turns_left(agent.state)


def test_the_request_is_the_conversation_as_it_was_when_the_turn_was_asked_for() -> None:
    agent = AgentHarness()
    agent.begins(SCHEMA)
    asked = request_of(agent.state)
    agent.reads(calls(("look", {}), text="hm"))
    assert (asked.turn, asked.attempt, asked.length) == (1, 1, 1)
    assert asked.digest == rolled(_fixed_digest(agent), Json(asked.messages[0]))


def _fixed_digest(agent: AgentHarness) -> str:
    assert agent.state.prefix is not None
    return rolled(agent.state.prefix.digest)


def test_old_requests_do_not_change_while_the_conversation_grows() -> None:
    agent = AgentHarness()
    agent.begins()
    first = request_of(agent.state)
    agent.reads(Reply("on", stop_reason="pause_turn"))
    second = request_of(agent.state)
    agent.hears(Stop("cancelled"))
    assert (first.length, second.length) == (1, 2)
    assert second.messages[:1] == first.messages


def test_a_new_agent_has_no_request() -> None:
    with pytest.raises(ValueError, match=r"host\.1 has not begun"):
        request_of(initial_agent("host.1"))


def test_a_programs_step_needs_nothing() -> None:
    program = ModelSpec("code", kind="program", prices=Prices(1, 1))
    assert need_of(AgentState("host", context_tokens=9, model=program)) == NOTHING


@pytest.mark.parametrize(("steps", "used", "is_left"), [(2, 1, True), (2, 2, False), (None, 0, False)])
def test_a_program_has_turns_up_to_its_steps(steps: int | None, used: int, is_left: bool) -> None:
    program = ModelSpec("code", kind="program")
    state = AgentState("host", turns_used=used, limits=Limits(max_steps=steps), model=program)
    assert has_turns_left(state) == is_left


@pytest.mark.parametrize(
    ("most", "used", "questions", "left"),
    [(9, 2, None, 7), (9, 2, 3, 4), (None, 0, None, 0), (None, 1, 1, -2)],
)
def test_the_questions_of_a_brain_count_among_its_turns(
    most: int | None, used: int, questions: int | None, left: int
) -> None:
    books = None if questions is None else replace(BEGUN, questions=questions)
    state = AgentState("host", turns_used=used, limits=Limits(max_iterations=most), program=books)
    assert turns_left(state) == left


@table(
    ("others", "size", "tokens"),
    [
        ((), 900, 100 + 50),
        ((ModelSpec("m", 70),), 900, 100 + 70),  # of one origin: its counts hold
        ((ModelSpec("other", 70),), 900, 100 + (900 - 400) + 70),
        ((ModelSpec("other", 70),), 400, 100 + 70),
        ((ModelSpec("other", 70),), 10, 100 + 70),
    ],
)
def test_a_later_call_is_bound_for_whichever_model_is_asked_then(
    others: tuple[ModelSpec, ...], size: int, tokens: int
) -> None:
    model = ModelSpec("m", 50)
    books = Fallback((model, *others), (), input_bytes=size) if others else None
    state = AgentState("host", context_tokens=400, model=model, fallback=books)
    assert closing_need(state, 100) == Need(tokens)


@pytest.mark.parametrize(("is_forced", "tool"), [(False, ""), (True, "report_back")])
def test_a_request_forces_a_report_of_an_agent_that_owes_it(is_forced: bool, tool: str) -> None:
    agent = AgentHarness()
    agent.begins(SCHEMA)
    assert request_of(replace(agent.state, is_forced=is_forced)).force_tool == tool


def test_tools_that_changed_are_those_of_the_request_to_a_model_that_reads_no_change() -> None:
    agent = AgentHarness()
    agent.begins(SCHEMA)
    prefix = prefix_of(agent.state)
    assert len(prefix.own) > 1
    assert len(prefix.others) > 1
    changed = replace(agent.state, prefix=replace(prefix, is_changed=True, tools=()))
    assert request_of(changed).tools == (*prefix.own.values(), *prefix.others)
    reads = replace(changed, model=replace(changed.model, inline_tools=True))
    assert request_of(reads).tools == ()


@table(
    ("fields", "left", "has_left"),
    [
        ({"turns_used": 4}, 1, True),
        ({"turns_used": 5}, 0, False),
        ({"turns_used": 2, "program": ProgramState(questions=2)}, 1, True),
        ({"turns_used": 2, "program": ProgramState(questions=3)}, 0, False),
        ({"turns_used": 8, "model": ModelSpec("p", kind="program")}, -3, True),
        ({"turns_used": 9, "model": ModelSpec("p", kind="program")}, -4, False),
        ({"limits": Limits()}, 0, False),
        ({"limits": Limits(), "model": ModelSpec("p", kind="program")}, 0, False),
    ],
)
def test_the_turns_that_are_left(fields: dict[str, Any], left: int, has_left: bool) -> None:
    state = replace(AgentState("host", limits=Limits(max_iterations=5, max_steps=9)), **fields)
    assert (turns_left(state), has_turns_left(state)) == (left, has_left)
