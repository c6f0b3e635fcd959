"""Ends that latch: the last step of a program, its news, and the asks that are not posted."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from callboard.actors.protocol import prompts
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import DelegationEnded, Finished
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.step_messages import RunStep
from callboard.replay.testing.sessions.scenario import program_profile
from callboard.replay.testing.sessions.scripted_replies import (
    Asked,
    Failed,
    Reply,
    Step,
    crash,
    delegate,
    failed_reply,
    last_reply,
    question,
    reply_of,
    tool,
)
from tests.actors.harness import SCHEMA, AgentHarness, kinds
from tests.tables import table

WHO = program_profile("p", ["kid"], ["look"], writes=["save"], models=[ModelSpec("big")])
ASK, LOOK, SAVE, KID = question("q"), tool("t", "look"), tool("s", "save"), delegate("k", "kid")
REFUSED = DelegationEnded(1, 0, "budget", "host.1.1", detail="too small", latch="nothing is left")


def begun(
    *asks: Asked, most: int | None = None, rules: int = 2, schema: object = None, steps: int = 99
) -> AgentHarness:
    agent = AgentHarness(rules=rules)
    begin = agent.begin(schema, WHO, Limits(max_iterations=most, max_steps=steps))
    agent.hears(replace(begin, bounds_questions=most is not None))
    if asks:
        agent.reads(reply_of(Step(asks), 1))
    return agent


def heard(agent: AgentHarness, name: str = "status") -> dict[object, object]:
    content = agent.conversation()[-1]["content"]
    assert isinstance(content, list)
    return {block["tool_use_id"]: block.get(name, "") for block in content}


def ended(posts: Sequence[object]) -> tuple[str, str, str]:
    (finished,) = posts
    assert isinstance(finished, Finished)
    return finished.kind, finished.detail, finished.text


def test_a_refusal_that_latches_gives_up_all_calls_and_is_heard_in_one_more_step() -> None:
    agent = begun(ASK, LOOK, SAVE, KID)
    assert kinds(agent.hears(REFUSED)) == ["CancelCall", "CancelCall", "CancelTask", "RunStep"]
    assert heard(agent) == {"q": "budget", "t": "cancelled", "s": "interrupted", "k": "budget"}
    assert set(heard(agent, "ends").values()) == {"budget"}, "the code must know that this step is its last"
    assert {*heard(agent, "content").values()} == {prompts.GIVEN_UP, prompts.delegation_result(REFUSED)[0]}


@table(
    ("last", "text"),
    [
        (last_reply("what I have", 2), "what I have"),
        (last_reply("", 2), ""),
        (last_reply({"n": 1}, 2), '{"n":1}'),
        (crash("DelegationFailed: no"), ""),
        (reply_of(Step((LOOK, question("again"))), 2), ""),
        (reply_of(Step((), wake=5), 2), ""),
        (failed_reply(Failed("no"), 2), ""),
    ],
    ids=["text", "empty", "value", "raises", "asks", "sleeps", "fails"],
)
def test_its_end_is_that_of_the_refusal_whatever_its_code_does(last: Reply, text: str) -> None:
    agent = begun(ASK)
    agent.hears(REFUSED)
    assert ended(agent.reads(last)) == ("budget", "nothing is left", text)


def test_it_owes_no_report_any_more() -> None:
    agent = begun(ASK, schema=SCHEMA)
    agent.hears(REFUSED)
    assert ended(agent.reads(last_reply({"n": 1}, 2))) == ("budget", "nothing is left", '{"n":1}')


def test_a_step_that_was_out_hears_it_later_and_its_asks_are_not_posted() -> None:
    agent = begun(ASK, LOOK)
    agent.hears(agent.returned(1))
    assert agent.hears(REFUSED) == []
    posts = agent.reads(reply_of(Step((SAVE, question("q2"))), 2))
    assert kinds(posts) == ["RunStep"]
    assert heard(agent) == {"q": "budget", "s": "cancelled", "q2": "budget"}
    assert ended(agent.reads(last_reply("partial", 3)))[0] == "budget"


def test_a_return_that_knew_nothing_of_the_refusal_stands() -> None:
    agent = begun(ASK, LOOK)
    agent.hears(agent.returned(1))
    agent.hears(REFUSED)
    assert ended(agent.reads(last_reply("done", 2))) == ("answered", "", "done")


def test_a_last_step_that_a_process_cut_off_is_asked_for_again_and_is_still_the_last() -> None:
    agent = begun(ASK)
    agent.hears(REFUSED)
    (again,) = agent.hears(ModelReplied(2, 1, "lost"))
    assert isinstance(again, RunStep)
    assert ended(agent.reads(reply_of(Step((LOOK,)), 2)))[0] == "budget"


def test_the_refusal_of_a_call_that_was_given_up_changes_nothing() -> None:
    agent = begun(ASK, LOOK)
    agent.hears(agent.returned(1))
    agent.reads(reply_of(Step((SAVE,), cancels=("q",)), 2))
    assert agent.hears(REFUSED) == []
    assert agent.state.program is not None
    assert agent.state.program.latch is None


def test_a_call_that_was_given_up_before_has_its_answer_already() -> None:
    agent = begun(ASK, LOOK, SAVE)
    agent.hears(agent.returned(1))
    agent.reads(reply_of(Step((), cancels=("s",)), 2))
    assert kinds(agent.hears(REFUSED)) == ["RunStep"]
    assert heard(agent) == {"q": "budget"}


def test_a_refusal_without_a_latch_is_an_exception() -> None:
    agent = begun(ASK, LOOK)
    assert kinds(agent.hears(DelegationEnded(1, 0, "budget", "host.1.1"))) == ["RunStep"]
    assert heard(agent, "ends") == {"q": ""}
    assert kinds(agent.reads(reply_of(Step((SAVE,)), 2))) == ["CallTool"]


# --- questions ----------------------------------------------------------------------


def put(agent: AgentHarness, count: int) -> list[str]:
    """Put so many questions, one after the other, and return the kinds of the last posts."""
    posts: list[str] = []
    for at in range(count):
        turn = agent.state.turn
        posts = kinds(agent.reads(reply_of(Step((question(f"q{at}"),)), turn)))
        if posts != ["Delegate"]:
            break
        agent.hears(DelegationEnded(turn, 0, "answered", "host.1.1", text="yes"))
    return posts


def test_one_question_over_the_limit_ends_the_program_which_hears_why() -> None:
    agent = begun(most=3)
    assert put(agent, 3) == ["Delegate"]
    assert put(agent, 1) == ["RunStep"]
    assert heard(agent) == {"q0": "iteration_cap"}
    assert heard(agent, "ends") == {"q0": "iteration_cap"}
    assert heard(agent, "content") == {"q0": prompts.no_questions_left(3)}
    assert ended(agent.reads(last_reply("3 answers", 5))) == ("iteration_cap", "max_iterations", "3 answers")


def test_a_step_that_would_pass_the_limit_asks_for_nothing() -> None:
    agent = begun(LOOK, most=2)
    posts = kinds(agent.hears(agent.returned(0)))
    assert posts == ["RunStep"]
    asks = (*[question(f"q{at}") for at in range(3)], SAVE)
    assert kinds(agent.reads(reply_of(Step(asks), 2))) == ["RunStep"]
    assert set(heard(agent).values()) == {"iteration_cap", "cancelled"}


@pytest.mark.parametrize(("most", "rules"), [(None, 2), (3, 1)])
def test_without_a_limit_of_its_own_and_by_the_first_rules_no_number_ends_it(
    most: int | None, rules: int
) -> None:
    assert put(begun(most=most, rules=rules), 20) == ["Delegate"]


# --- ends of its own ----------------------------------------------------------------


def test_a_program_ends_as_it_says_with_its_calls_given_up() -> None:
    agent = begun(ASK, LOOK)
    agent.hears(agent.returned(1))
    posts = agent.reads(failed_reply(Failed("no source is left", "no_report"), 2))
    assert kinds(posts) == ["CancelTask"]
    assert ended(agent.hears(DelegationEnded(1, 0, "cancelled", "host.1.1"))) == (
        "no_report",
        "no source is left",
        "",
    )


def test_a_program_that_fails_itself_owes_no_report() -> None:
    agent = begun(schema=SCHEMA)
    assert ended(agent.reads(failed_reply(Failed("no"), 1))) == ("failed", "no", "")
