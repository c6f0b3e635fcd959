"""The calls of one reply: some go to tools, some to the supervisor, some are answered at once."""

import json

import msgspec
import pytest
from msgspec.structs import replace

from callboard.actors.agent.arguments import COPIES_MAX
from callboard.actors.protocol import prompts
from callboard.actors.protocol.conversation import text_json, tool_result
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    Delegate,
    DelegationEnded,
    Finished,
    ReportBack,
    TurnRequested,
    TurnSettled,
)
from callboard.actors.protocol.port_messages import CallTool
from callboard.actors.protocol.value_types import Settled
from callboard.replay.testing.sessions.scenario import NO_LIMITS, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from tests.actors.harness import ARGUMENTS, SCHEMA, USED, AgentHarness, kinds
from tests.tables import table


def begun(schema: object = None, limits: Limits = NO_LIMITS) -> AgentHarness:
    agent = AgentHarness()
    agent.begins(schema, limits=limits)
    return agent


def results(agent: AgentHarness) -> list[dict[str, object]]:
    return msgspec.convert(agent.conversation()[-1]["content"], list[dict[str, object]])


def delegated(**arguments: object) -> Delegate | str:
    """Return the `Delegate` of a `task` call with these arguments, or its error."""
    agent = begun()
    (body, *_) = agent.reads(Reply("", (("task", arguments),), "tool_use"))
    return body if isinstance(body, Delegate) else str(results(agent)[0]["content"])


def test_a_tool_call_is_posted_with_its_effect_and_its_arguments_unchanged() -> None:
    agent = begun()
    content = b'[{"type":"tool_use","id":"t","name":"save","input":{ "b" : 1, "a" : [] }}]'
    (call, _) = agent.reads(Reply(content=content, stop_reason="tool_use"))
    assert call == CallTool(1, 0, "save", "write", Json(b'{ "b" : 1, "a" : [] }'), "t")
    assert agent.last[0].recipient == "tools"


def test_an_agent_keeps_the_arguments_of_its_tools_and_not_of_its_delegations() -> None:
    agent = begun()
    prompt = {"agent": "worker", "prompt": "go"}
    posts = agent.reads(Reply("", (("look", {"at": 1}), ("task", prompt)), "tool_use"))
    assert kinds(posts) == ["CallTool", "Delegate"]
    assert [bytes(call.use.input) for call in agent.state.calls.open.values()] == [b'{"at":1}', b"null"]
    assert [call.use.name for call in agent.state.calls.open.values()] == ["look", "task"]


def test_an_unknown_tool_is_answered_with_the_known_ones() -> None:
    agent = begun()
    (wish,) = agent.calls("nonsense")
    assert isinstance(wish, TurnRequested)
    assert wish.settled == Settled(USED)
    assert results(agent) == [
        {
            "type": "tool_result",
            "tool_use_id": "c1.0",
            "content": "There is no tool named 'nonsense'. Tools: look, save, pay.",
            "is_error": True,
        }
    ]


def test_the_known_calls_of_a_turn_run_although_others_are_unknown() -> None:
    agent = begun()
    assert kinds(agent.calls("nonsense", "look", "nonsense")) == ["CallTool", "TurnSettled"]
    agent.hears(agent.returned(1))
    assert [one.get("is_error", False) for one in results(agent)] == [True, False, True]


def test_calls_with_one_id_are_told_apart_by_their_place() -> None:
    agent = begun()
    block = '{"type":"tool_use","id":"same","name":"look","input":{}}'
    agent.reads(Reply(content=f"[{block},{block}]".encode(), stop_reason="tool_use"))
    agent.hears(agent.returned(1, "second"))
    agent.hears(agent.returned(0, "first"))
    assert [(one["tool_use_id"], one["content"]) for one in results(agent)] == [
        ("same", "first"),
        ("same", "second"),
    ]


def test_the_last_call_of_a_reply_that_was_cut_is_not_run() -> None:
    agent = begun(SCHEMA)
    says = Reply("", (("look", {}), ("report_back", {"n": 1})), "max_tokens")
    assert kinds(agent.reads(says)) == ["CallTool", "TurnSettled"]
    agent.hears(agent.returned(0))
    assert [one["content"] for one in results(agent)] == ["done", prompts.TRUNCATED]


def test_a_single_call_that_was_cut_costs_a_turn() -> None:
    agent = begun()
    assert kinds(agent.reads(Reply("", (("look", {}),), "max_tokens"))) == ["TurnRequested"]


WRITTEN = '{"path": "a'


def unread(*names: str) -> Reply:
    """Reply with calls whose arguments are no JSON."""
    blocks = [
        {"type": "tool_use", "id": f"id{at}", "name": name, "input": WRITTEN} for at, name in enumerate(names)
    ]
    return Reply(content=json.dumps(blocks).encode(), stop_reason="tool_use")


@table("name", ["look", "report_back", "task", "task_wait", "task_cancel", "nonsense"])
def test_arguments_that_are_no_object_are_answered_with_their_text(name: str) -> None:
    agent = begun(SCHEMA)
    assert kinds(agent.reads(unread(name))) == ["TurnRequested"]
    (result,) = results(agent)
    assert result["is_error"]
    assert result["content"] == prompts.UNREAD_ARGUMENTS + WRITTEN


def test_a_call_that_was_cut_amid_its_arguments_is_told_that_it_was_cut() -> None:
    agent = begun()
    agent.reads(replace(unread("look"), stop_reason="max_tokens"))
    assert [one["content"] for one in results(agent)] == [prompts.TRUNCATED]


@pytest.mark.parametrize(
    ("arguments", "told"), [(WRITTEN, WRITTEN), ("", "(nothing)"), ({"path": "a"}, '{"path": "a"}')]
)
def test_a_call_that_is_not_certain_does_not_run_and_the_model_reads_why(
    arguments: object, told: str
) -> None:
    block = {"type": "tool_use", "id": "a", "name": "look", "input": arguments, "refused": "it is lost"}
    agent = begun()
    assert kinds(agent.reads(Reply(content=json.dumps([block]).encode()))) == ["TurnRequested"]
    (result,) = results(agent)
    assert result["is_error"]
    assert result["content"] == f"Not run: it is lost. Call again. The arguments as they came: {told}"


def test_a_call_beside_one_with_unread_arguments_runs() -> None:
    agent = begun()
    blocks = [
        *json.loads(unread("look").content or b""),
        {"type": "tool_use", "id": "b", "name": "look", "input": {}},
    ]
    assert kinds(agent.reads(Reply(content=json.dumps(blocks).encode()))) == ["CallTool", "TurnSettled"]
    agent.hears(agent.returned(1))
    assert [one["content"] for one in results(agent)] == [prompts.UNREAD_ARGUMENTS + WRITTEN, "done"]


def test_report_back_without_a_schema_is_an_unknown_tool() -> None:
    agent = begun()
    assert kinds(agent.calls("report_back")) == ["TurnRequested"]
    assert "no tool named 'report_back'" in str(results(agent)[0]["content"])


def test_reports_go_in_call_order_and_the_first_settles() -> None:
    agent = begun(SCHEMA)
    said = agent.reads(calls(("report_back", {"n": 1}), ("report_back", {"n": 2})))
    assert said == [ReportBack(1, 0, Json(b'{"n":1}'), Settled(USED)), ReportBack(1, 1, Json(b'{"n":2}'))]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ({"value": [1, 2]}, b"[1,2]"),
        ({"value": None}, b"null"),
        ({"value": 3, "more": None}, b"3"),
        ({}, b"{}"),
    ],
)
def test_a_wrapped_report_is_unwrapped_and_other_values_are_left_to_the_schema(
    written: dict[str, object], value: bytes
) -> None:
    agent = begun({"type": "array"})
    (report,) = agent.reads(calls(("report_back", written)))
    assert isinstance(report, ReportBack)
    assert bytes(report.value) == value


@pytest.mark.parametrize("written", [{"value": 3, "more": 4}, {"result": [3]}])
def test_a_wrapped_report_with_other_names_is_an_error_that_tells_the_right_one(
    written: dict[str, object],
) -> None:
    agent = begun({"type": "array"})
    agent.reads(calls(("report_back", written)))
    assert agent.state.phase != "judging"
    (answer,) = results(agent)
    assert answer["is_error"]
    assert str(answer["content"]).endswith("Its arguments: value.")


# --- delegations ------------------------------------------------------------------


def test_a_task_goes_to_the_supervisor_with_the_need_of_the_parents_next_turn() -> None:
    agent = begun()
    said = agent.reads(calls(task("helper", "dig", output_schema={"z": 1, "a": 2})))
    (body,) = said
    assert isinstance(body, Delegate)
    assert (body.turn, body.call, body.profiles, body.settled) == (1, 0, ("helper",), Settled(USED))
    assert (bytes(body.prompt), bytes(body.schema)) == (b'"dig"', b'{"z":1,"a":2}')
    frame = tool_result("c1.0", text_json(""), is_error=True)
    assert body.closing.tokens == USED.tokens + len(frame) + 100
    assert (body.room, body.delegations) == (8_000, 1)


def test_several_tasks_of_a_turn_run_in_parallel_with_tools() -> None:
    assert kinds(begun().calls("task", "look", "task")) == ["Delegate", "CallTool", "Delegate"]


@table(
    ("arguments", "racers"),
    [
        ({"agent": "helper"}, ("helper",)),
        ({}, ("helper",)),
        ({"agent": None, "agents": None, "copies": None, "output_schema": None}, ("helper",)),
        ({"agent": "nobody"}, ("nobody",)),
        ({"agent": "helper", "copies": 3}, ("helper",) * 3),
        ({"agents": ["a", "b"]}, ("a", "b")),
        ({"agents": ["a", "b"], "copies": 2}, ("a", "b", "a", "b")),
        ({"copies": COPIES_MAX}, ("helper",) * COPIES_MAX),
    ],
)
def test_a_task_names_one_agent_several_or_the_only_one(
    arguments: dict[str, object], racers: tuple[str, ...]
) -> None:
    body = delegated(prompt="dig", **arguments)
    assert isinstance(body, Delegate)
    assert body.profiles == racers
    assert body.schema is NULL


@table(
    "arguments",
    [
        {},
        {"prompt": ""},
        {"prompt": " \n"},
        {"prompt": []},
        {"prompt": [1]},
        {"prompt": ["text"]},
        {"prompt": None},
        {"prompt": 3},
        {"prompt": {"text": "dig"}},
        {"prompt": "dig", "agent": "a", "agents": ["b"]},
        {"prompt": "dig", "copies": 0},
        {"prompt": "dig", "copies": -1},
        {"prompt": "dig", "copies": COPIES_MAX + 1},
        {"prompt": "dig", "agents": ["a", "b"], "copies": COPIES_MAX},
        {"prompt": "dig", "agents": ["a"] * 1_000, "copies": 2**50},
    ],
    ids=str,
)
def test_an_invalid_task_is_answered_with_the_arguments_of_a_valid_one(arguments: dict[str, object]) -> None:
    assert delegated(**arguments) == prompts.UNUSABLE_TASK + "helper"


@table(
    ("wrong", "told"),
    [
        ({"background": "true"}, 'background must be true or false without quotes, not "true"'),
        ({"background": 1}, "background must be true or false without quotes, not 1"),
        ({"copies": "2"}, 'copies must be a whole number without quotes, not "2"'),
        ({"copies": 1.5}, "copies must be a whole number without quotes, not 1.5"),
        ({"agent": 3}, "agent must be a name, as text, not 3"),
        ({"agents": "helper"}, 'agents must be a list of names, not "helper"'),
        ({"agents": '["' + "é" * 90 + '"]'}, 'agents must be a list of names, not "[\\"' + "é" * 46),
    ],
    ids=str,
)
def test_a_value_of_the_wrong_type_is_refused_with_the_right_one(wrong: dict[str, object], told: str) -> None:
    assert delegated(prompt="dig", **wrong) == f"Not delegated: {told}. Call again with that."


@table(
    ("wrong", "right"),
    [
        ({"schema": {}}, "output_schema"),
        ({"outputSchema": {}}, "output_schema"),
        ({"output-schema": {}}, "output_schema"),
        ({"subagent_type": "helper"}, "agent"),
        ({"colour": "red"}, ""),
    ],
    ids=str,
)
def test_an_argument_that_task_does_not_have_is_refused_with_the_right_one(
    wrong: dict[str, object], right: str
) -> None:
    advice = f" (use {right})" if right else ""
    assert delegated(prompt="dig", **wrong) == (
        f"Not delegated: task has no argument '{next(iter(wrong))}'{advice}. "
        "Its arguments: agent, prompt, output_schema, agents, copies, description."
    )
    assert isinstance(delegated(prompt="dig", **dict.fromkeys(wrong)), Delegate)


def test_a_task_in_the_background_is_refused_to_an_agent_that_has_none() -> None:
    assert delegated(prompt="dig", background=True) == prompts.NO_BACKGROUND
    for nothing in (False, None):
        assert isinstance(delegated(prompt="dig", background=nothing), Delegate)


def test_a_description_of_a_task_is_kept_on_one_line_and_never_makes_a_call_unusable() -> None:
    body = delegated(prompt="dig", description=" Find\nthe key " + "x" * 300)
    assert isinstance(body, Delegate)
    assert body.description.startswith("Find the key xxx")
    assert len(body.description) == 200
    odd = delegated(prompt="dig", description=7)
    assert isinstance(odd, Delegate)
    assert odd.description == ""


def test_a_session_of_rules_1_takes_any_argument_and_no_description() -> None:
    agent = AgentHarness()
    agent.hears(replace(agent.begin(), rules=1))
    given = {"prompt": "dig", "schema": {}, "description": "x", "background": True}
    (body, *_) = agent.reads(Reply("", (("task", given),), "tool_use"))
    assert isinstance(body, Delegate)
    assert (body.schema, body.description) == (NULL, "")
    assert agent.state.prefix is not None
    assert not any(b'"description":{"type":"string"' in bytes(tool) for tool in agent.state.prefix.tools)


def test_a_prompt_may_be_content_blocks() -> None:
    body = delegated(prompt=[{"type": "text", "text": "dig"}])
    assert isinstance(body, Delegate)
    assert bytes(body.prompt) == b'[{"type":"text","text":"dig"}]'


def test_task_is_an_unknown_tool_for_an_agent_that_may_not_delegate() -> None:
    agent = AgentHarness()
    agent.begins(who=profile("loner", tools=["look"]))
    assert kinds(agent.calls("task")) == ["TurnRequested"]


def test_at_the_depth_limit_task_is_not_offered_and_a_call_of_it_is_left_to_the_supervisor() -> None:
    agent = AgentHarness()
    begin = msgspec.structs.replace(agent.begin(), roster=())
    agent.hears(begin)
    assert agent.state.prefix is not None
    assert not any(b'"task"' in bytes(tool) for tool in agent.state.prefix.tools)
    assert kinds(agent.calls("task")) == ["Delegate"]


# --- many calls -------------------------------------------------------------------


def test_a_turn_of_a_thousand_calls_is_answered_in_order() -> None:
    agent = begun(limits=Limits(max_tool_calls=1_000, max_parallel_tools=1_000))
    said = agent.reads(calls(*[("look", ARGUMENTS["look"])] * 1_000))
    assert kinds(said) == ["CallTool"] * 1_000 + ["TurnSettled"]
    assert said[-1] == TurnSettled(USED)
    for call in reversed(range(1_000)):
        assert agent.state.phase == "acting"
        agent.hears(agent.returned(call, str(call)))
    assert [one["content"] for one in results(agent)] == [str(n) for n in range(1_000)]
    assert agent.state.phase == "thinking"


def test_the_closing_turn_of_each_delegation_holds_the_frames_of_all_and_the_errors_of_the_reply() -> None:
    agent = begun()
    said = agent.calls("task", "nonsense", "task", "look")
    delegates = [one for one in said if isinstance(one, Delegate)]
    frames = [tool_result(f"c1.{call}", text_json(""), is_error=True) for call in (0, 2)]
    error = agent.state.calls.answers.get(1)
    assert error is not None
    known = USED.tokens + sum(map(len, frames)) + len(error.block)
    assert [one.closing.tokens for one in delegates] == [known + 100] * 2
    assert [one.delegations for one in delegates] == [2, 2]


def test_the_next_turn_needs_no_more_than_its_delegations_left_room_for() -> None:
    agent = begun()
    (body,) = agent.calls("task")
    assert isinstance(body, Delegate)
    text = 'é\n"' * 2_000
    (wish,) = agent.hears(DelegationEnded(1, 0, "answered", "host.1.1", text=text, room=700))
    assert isinstance(wish, TurnRequested)
    assert body.closing.tokens + 670 < wish.need.tokens <= body.closing.tokens + 700


def test_a_call_that_a_fork_does_not_run_ends_the_agent_before_its_report() -> None:
    agent = begun(SCHEMA)
    agent.calls("save", "report_back")
    (finished,) = agent.hears(replace(agent.returned(0), status="needs_effect"))
    assert isinstance(finished, Finished)
    assert finished.kind == "needs_effect"


def test_a_call_that_a_fork_does_not_run_ends_the_agent_with_all_results_in_its_conversation() -> None:
    agent = begun()
    agent.calls("look", "save")
    agent.hears(agent.returned(0, "seen"))
    refused = replace(agent.returned(1), status="needs_effect", output=text_json("not run"))
    (finished,) = agent.hears(refused)
    assert isinstance(finished, Finished)
    assert (finished.kind, "save" in finished.detail) == ("needs_effect", True)
    (wish,) = agent.begins(prompt="again")
    assert [str(one.get("content", one.get("text"))) for one in results(agent)] == [
        "seen",
        "not run",
        "again",
    ]
    assert isinstance(wish, TurnRequested)
    assert wish.new == (2, 3, 4, 5)
