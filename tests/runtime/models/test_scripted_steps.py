import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.errors import ScriptError
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.models.scripted import Script
from tests.tables import table

AGAIN = ModelFailure("overloaded_error", is_retryable=True)
FATAL = ModelFailure("invalid_request_error")
KINDS = (str, ModelFailure)


def request(turn: int, attempt: int = 1, address: str = "host") -> ModelRequest:
    return ModelRequest(
        address=address,
        profile="p",
        model=ModelSpec("scripted"),
        turn=turn,
        attempt=attempt,
        system=NULL,
        tools=(),
        history=IntMap(),
    )


def script(*steps: object) -> Script:
    return Script(list(steps), KINDS)


def test_the_nth_turn_gets_the_nth_step_in_every_order_of_requests() -> None:
    made = script("one", "two", "three")
    assert [made.step(request(turn)) for turn in (3, 1, 2, 1)] == ["three", "one", "two", "one"]


def test_a_failure_that_may_be_retried_belongs_to_the_turn_of_the_step_after_it() -> None:
    made = script(AGAIN, AGAIN, "one", FATAL, "three")
    assert [made.step(request(1, attempt)) for attempt in (1, 2, 3)] == [AGAIN, AGAIN, "one"]
    assert made.step(request(2)) is FATAL
    assert made.step(request(3)) == "three"


def test_a_list_is_all_attempts_of_one_turn() -> None:
    made = script([AGAIN, AGAIN], "two", ["a", "b"])
    assert made.step(request(1, 2)) is AGAIN
    assert made.step(request(2)) == "two"
    assert [made.step(request(3, attempt)) for attempt in (1, 2, 3)] == ["a", "b", "b"]


def test_an_answer_that_was_lost_is_given_again() -> None:
    made = script("one", "two")
    assert [made.step(request(1, attempt)) for attempt in (1, 2, 7)] == ["one"] * 3


@pytest.mark.parametrize("steps", [[], ["one"], ["one", AGAIN], ["one", [AGAIN]]])
def test_a_request_beyond_the_script_is_an_error(steps: list[object]) -> None:
    made = script(*steps)
    with pytest.raises(ScriptError, match=f"ends after turn {len(steps)}; it has no step"):
        made.step(request(2, 2) if len(steps) == 2 else request(2))


def test_a_function_among_the_steps_makes_one_of_the_request() -> None:
    made = script("one", lambda asked: f"{asked.address} {asked.turn}")
    assert made.step(request(2, address="host.1")) == "host.1 2"
    assert Script(lambda asked: asked.turn, KINDS).step(request(7)) == 7


def test_a_plain_list_is_for_one_agent() -> None:
    made = Script(["one", "two"], KINDS, is_plain=True)
    assert made.step(request(1, address="host.1")) == "one"
    with pytest.raises(ScriptError, match=r"host\.1 has asked first; pass a dict"):
        made.step(request(1, address="host.2"))
    assert made.step(request(2, address="host.1")) == "two"


def test_steps_that_were_never_played_are_told() -> None:
    made = script("one", [AGAIN, "two"], "three")
    made.step(request(1))
    made.step(request(2))
    assert made.unplayed() == [
        "step 'two' of turn 2 was never played",
        "step 'three' of turn 3 was never played",
    ]
    many = script(*[str(number) for number in range(15)])
    assert len(many.unplayed()) == 11
    assert many.unplayed()[-1] == "and 5 more"
    assert Script(lambda asked: "x", KINDS).unplayed() == []


def test_turns_before_the_first_that_was_asked_for_were_played_elsewhere() -> None:
    made = script("one", "two", "three")
    made.step(request(2))
    assert made.unplayed() == ["step 'three' of turn 3 was never played"]


@table("steps", ["text", 3, None, ["ok", 3], [["ok", None]], [[]], {"a"}])
def test_what_is_no_script_is_refused_when_it_is_made(steps: object) -> None:
    with pytest.raises(ScriptError, match=r"use text|list of steps"):
        Script(steps, KINDS)


@given(st.lists(st.sampled_from(["text", AGAIN, FATAL]), max_size=8))
def test_every_step_of_a_script_can_be_played(steps: list[object]) -> None:
    made = script(*steps)
    turn, attempt, played = 1, 1, []
    for _ in steps:
        played.append(made.step(request(turn, attempt)))
        turn, attempt = (turn, attempt + 1) if played[-1] is AGAIN else (turn + 1, 1)
    assert played == steps
    assert made.unplayed() == []
