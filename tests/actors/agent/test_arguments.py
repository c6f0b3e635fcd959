"""The arguments that a model writes for `task` and `report_back`."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.agent.arguments import (
    COPIES_MAX,
    REPORT_NAMES,
    TASK_CANCEL_NAMES,
    TASK_WAIT_NAMES,
    asks_for_background,
    described,
    read_question,
    read_task,
    unwrapped,
    wrong_names,
    wrong_value,
)
from callboard.actors.protocol.immutable import NULL, Json
from tests.actors.harness import raw
from tests.tables import table


@pytest.mark.parametrize("prompt", ["dig", " dig ", [{"type": "text", "text": "dig"}]])
def test_a_task_with_a_prompt_is_read(prompt: object) -> None:
    task = read_task(raw({"prompt": prompt}))
    assert task is not None
    assert msgspec.json.decode(task.prompt) == prompt
    assert task.output_schema is NULL


@table(
    "arguments",
    [
        {},
        {"prompt": ""},
        {"prompt": " \n"},
        {"prompt": []},
        {"prompt": ["text"]},
        {"prompt": "dig", "copies": "2"},
        [1],
    ],
    ids=str,
)
def test_invalid_arguments_are_no_task(arguments: object) -> None:
    assert read_task(raw(arguments)) is None


def test_arguments_that_nest_without_end_are_no_task() -> None:
    deep = b'{"prompt":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert read_task(Json(deep)) is None


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.none() | st.sampled_from(["a", "b"]),
    st.none() | st.lists(st.sampled_from(["a", "b"]), max_size=3),
    st.none() | st.integers(-2, COPIES_MAX + 2),
    st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True),
)
def test_racers_are_the_named_agents_each_with_the_given_copies(
    agent: str | None, agents: list[str] | None, copies: int | None, known: list[str]
) -> None:
    task = read_task(raw({"prompt": "dig", "agent": agent, "agents": agents, "copies": copies}))
    assert task is not None
    named = agents or ([agent] if agent else known if len(known) == 1 else [])
    count = len(named) * (1 if copies is None else copies)
    is_sensible = not (agent and agents) and 1 <= count <= COPIES_MAX
    racers = task.racers(tuple(known))
    assert len(racers) == (count if is_sensible else 0)
    assert set(racers) <= set(named)


@pytest.mark.parametrize(
    ("value", "inner"),
    [({"value": [1]}, [1]), ({"value": None}, None), ({"other": 1}, {"other": 1}), ([1], [1])],
)
def test_a_wrapped_value_is_unwrapped_and_other_values_stay(value: object, inner: object) -> None:
    assert msgspec.json.decode(unwrapped(raw(value))) == inner


@pytest.mark.parametrize(
    ("tool", "arguments", "known", "said"),
    [
        ("task_wait", {"task": ["host.1"]}, TASK_WAIT_NAMES, "'task' (use tasks)"),
        ("task_cancel", {"tasks": ["host.1"]}, TASK_CANCEL_NAMES, "'tasks' (use task)"),
        ("report_back", {"Value_": 1}, REPORT_NAMES, "'Value_' (use value)"),
        ("task", {"a" * 90: 1, "b": 2}, ("prompt",), f"'{'a' * 50}', 'b'. Its arguments: prompt."),
    ],
)
def test_a_wrong_name_is_told_with_the_one_that_is_like_it(
    tool: str, arguments: dict[str, object], known: tuple[str, ...], said: str
) -> None:
    assert said in wrong_names(2, tool, raw(arguments), known)
    assert wrong_names(1, tool, raw(arguments), known) == ""
    assert wrong_names(2, tool, raw(dict.fromkeys(arguments)), known) == ""
    assert wrong_names(2, tool, raw(dict.fromkeys(arguments, False)), known) == ""
    assert wrong_names(2, tool, raw(dict.fromkeys(arguments, 0)), known) != ""


def test_arguments_that_are_no_object_have_no_wrong_names() -> None:
    assert wrong_names(2, "task", raw([1]), ("prompt",)) == ""


def test_of_the_names_that_may_be_meant_an_equal_one_comes_first() -> None:
    given = Json(b'{"Output-Schema":1}')
    for known in (("output", "output_schema"), ("output_schema", "output")):
        assert "'Output-Schema' (use output_schema)" in wrong_names(2, "task", given, known)


@table(
    ("arguments", "is_asked"),
    [
        (b'{"prompt": "dig", "background": true}', True),
        (rb'{"b\u0061ckground": true}', True),
        (b'{"background": false}', False),
        (b'{"prompt": "in the background"}', False),
        (b'{"background": "yes"}', False),
        (b"{}", False),
    ],
)
def test_a_call_asks_for_the_background_however_its_key_is_written(arguments: bytes, is_asked: bool) -> None:
    assert asks_for_background(Json(arguments)) is is_asked


def test_by_the_first_rules_no_name_and_no_type_of_an_argument_is_refused() -> None:
    odd = raw({"prompt": "dig", "copies": "2"})
    assert (wrong_value(1, odd), wrong_value(2, odd) != "") == ("", True)
    # Whole arguments of another form are judged when they are read.
    for value in ([1], "text", 3, {"prompt": "dig"}):
        assert wrong_value(2, raw(value)) == ""


def test_the_first_value_of_a_wrong_type_is_named_with_what_is_wanted() -> None:
    for name, good, bad, wanted in (
        ("agent", "kid", ["kid"], "a name, as text"),
        ("agents", ["kid"], "kid", "a list of names"),
        ("copies", 2, "2", "a whole number without quotes"),
        ("background", True, "true", "true or false without quotes"),
    ):
        for value in (good, None):
            assert wrong_value(2, raw({"prompt": "dig", name: value})) == ""
        given = msgspec.json.encode(bad).decode()
        said = wrong_value(2, raw({"prompt": "dig", name: bad}))
        assert said.endswith(f"{name} must be {wanted}, not {given}. Call again with that.")


def test_the_description_of_a_task_is_one_line_of_bounded_length() -> None:
    for text, found in (
        (None, ""),
        ("", ""),
        (" find\n the  needle ", "find the needle"),
        ("x" * 201, "x" * 200),
        (["find"], ""),
    ):
        task = read_task(raw({"prompt": "dig", "description": text}))
        assert task is not None
        assert described(task) == found
    task = read_task(raw({"prompt": "dig"}))
    assert task is not None
    assert described(task) == ""


@table(
    ("arguments", "is_read"),
    [
        ({"prompt": "why?"}, True),
        ({"prompt": "why?", "system": "be short"}, True),
        ({"prompt": "why?", "system": 7}, False),
        ({"prompt": " "}, False),
        ({"messages": [{"role": "user", "content": "why?"}]}, True),
        ({"messages": [{"role": "user", "content": "why?"}], "system": 7}, False),
        ({"messages": [], "prompt": "why?"}, False),
    ],
)
def test_a_question_is_read_if_its_system_prompt_is_a_text_and_it_asks_something(
    arguments: dict[str, object], is_read: bool
) -> None:
    assert (read_question(raw(arguments)) is not None) == is_read
