"""Scripted programs, and sessions of them under faults, crashes at every event and replay."""

from collections.abc import Generator

import msgspec
import pytest

from callboard.actors.protocol.client_messages import AskEnded
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.resumes import check_resumes
from callboard.replay.testing.sessions.scenario import Scenario, ask, program_profile
from callboard.replay.testing.sessions.scripted_replies import (
    Answers,
    Step,
    crash,
    last_reply,
    program,
    question,
    reply_of,
    tool,
)
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from callboard.replay.verify import Verifier
from tests.effort import effort
from tests.mutants.campaign import without_faults
from tests.mutants.scenarios_programs import PROGRAMS
from tests.tables import table


def two_asks(prompt: object) -> Generator[Step, Answers, object]:
    answers = yield Step((tool("a", "look", path="x"),), wake=7)
    if "a" not in answers:
        return "late"
    answers = yield Step((question("b"),), cancels=("a",))
    return [prompt, answers["b"]["status"]]


def world_of(script: object) -> SessionWorld:
    people = [program_profile("host", tools=["look"])]
    return SessionWorld(Scenario(people, program(script), [ask("one"), ask("two", request_id="r2")]))  # type: ignore[arg-type]  # a script is a policy


def test_a_step_is_a_block_and_its_asks() -> None:
    blocks = msgspec.json.decode(reply_of(Step((question("q"),), 7, ("a",)), 3).blocks(1))
    assert blocks[0] == {
        "type": "program_step", "run": "r", "step": 3, "at": 3, "wake": 7, "cancels": ["a"], "marks": {}
    }  # fmt: skip
    assert blocks[1] == {"type": "tool_use", "id": "q", "name": "ask_model", "input": {"prompt": "what?"}}


def test_a_result_is_a_text_and_perhaps_a_value() -> None:
    text = msgspec.json.decode(last_reply("hi", 2).blocks(1))
    value = msgspec.json.decode(last_reply([1], 2).blocks(1))
    assert [block["type"] for block in text] == ["program_step", "text"]
    assert value[1:] == [{"type": "text", "text": "[1]"}, {"type": "program_result", "value": [1]}]
    assert crash("no").failure is not None


def test_each_ask_runs_the_script_from_its_own_prompt() -> None:
    world = world_of(two_asks).run()
    values = [msgspec.json.decode(ended.value) for ended in world.of(AskEnded)]
    # The policy answers the question with the script, too, whose calls end it.
    assert values == [["one", "iteration_cap"], ["two", "iteration_cap"]]
    assert breaches_of(world) == []


def test_what_a_script_raises_ends_the_program() -> None:
    def fails(prompt: object) -> Generator[Step, Answers, object]:
        yield Step((tool("a", "look"),))
        raise ValueError("no")

    assert [(one.kind, one.detail) for one in world_of(fails).run().of(AskEnded)] == [
        ("crashed", "ValueError: no")
    ] * 2


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", range(12))
def test_every_order_and_every_fault_keeps_the_rules(name: str, seed: int) -> None:
    world = SessionWorld(PROGRAMS[name]).run(in_random_order(seed))
    assert breaches_of(world) == []


@table("name", PROGRAMS)
def test_logs_of_programs_are_verified(name: str) -> None:
    world = SessionWorld(without_faults(PROGRAMS[name])).run(in_random_order(5))
    assert Verifier(world.log).run() is None


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_prefix_of_a_session_of_programs_resumes_to_a_good_end(name: str) -> None:
    scenario = without_faults(PROGRAMS[name])
    log = SessionWorld(scenario).run(in_random_order(3)).log
    # Every ninth prefix in the suite, for each takes a whole session; all of them in the campaign.
    for length in range(0, len(log) + 1, effort(suite=9, campaign=1)):
        assert check_resumes(scenario, log[:length], in_random_order(1), start=length) == []
