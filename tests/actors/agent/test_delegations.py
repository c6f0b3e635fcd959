"""The delegations of a reply: which calls begin one, with which prompt and schema, and which are refused."""

import msgspec
import pytest

from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.delegations import ask_model, delegate_by_task, delegate_by_tool
from callboard.actors.agent.request_prefix import RequestPrefix, prefix_for
from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.contracts import Callee
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import DEFAULTS
from callboard.actors.protocol.messages import Begin, Delegate
from callboard.actors.protocol.profiles import ModelSpec, Profile

FIELDS = Json(b'{"type":"object","properties":{"query":{"type":"string"},"form":{}},"required":["query"]}')
FINDER = Callee("finder", FIELDS, Json(b'{"tenant":"acme"}'), "form")
CALLEES = (FINDER, Callee("closed", schema_arg=""), Callee("other", schema_arg="wanted"))
NAMES = ("finder", "closed", "other", "plain")
STATE = AgentState("host", limits=DEFAULTS)


def prefix(**changes: object) -> RequestPrefix:
    """Return the prefix of a host with four agents."""
    raw = Json(encode(msgspec.structs.replace(Profile("host", agents=NAMES), **changes)))
    roster = tuple((name, "") for name in NAMES)
    return prefix_for(Begin(raw, text_json("go"), ModelSpec("m"), DEFAULTS, roster=roster, callees=CALLEES))


def by_task(prefix: RequestPrefix, **arguments: object) -> Post | str:
    """Return the delegation of a `task` call."""
    return delegate_by_task(STATE, prefix, 0, ToolUse("c", "task", Json(msgspec.json.encode(arguments))))


def body_of(post: Post | str) -> Delegate:
    """Return the message of a delegation."""
    assert isinstance(post, Post)
    assert isinstance(post.body, Delegate)
    return post.body


def test_an_agents_tool_makes_the_prompt_of_its_fields_and_presets() -> None:
    given = Json(b'{"query":"q","form":{"type":"integer"}}')
    body = body_of(delegate_by_tool(STATE, 0, FINDER, given))
    told = msgspec.json.decode(msgspec.json.decode(body.prompt))
    assert (body.profiles, bytes(body.input)) == (("finder",), bytes(given))
    assert (told["tenant"], told["query"], bytes(body.schema)) == ("acme", "q", b'{"type":"integer"}')


def test_a_task_call_of_an_agent_with_a_contract_is_refused() -> None:
    assert "has a tool of its own" in str(by_task(prefix(), agent="finder", prompt="p"))


@pytest.mark.parametrize(
    ("agent", "argument", "advice"),
    [
        ("closed", "output_schema", "leave the schema out"),
        ("other", "output_schema", "it takes one as wanted"),
        ("plain", "wanted", "it takes one as output_schema"),
    ],
)
def test_a_schema_by_another_argument_is_refused_with_the_right_one(
    agent: str, argument: str, advice: str
) -> None:
    said = by_task(prefix(), agent=agent, prompt="p", **{argument: {"type": "object"}})
    assert isinstance(said, str)
    assert f"'{agent}' takes no schema by that argument; {advice}" in said


@pytest.mark.parametrize(("agent", "argument"), [("other", "wanted"), ("plain", "output_schema")])
def test_a_schema_by_the_agents_argument_is_taken(agent: str, argument: str) -> None:
    body = body_of(by_task(prefix(), agent=agent, prompt="p", **{argument: {"type": "array"}}))
    assert bytes(body.schema) == b'{"type":"array"}'


def test_racers_must_take_a_schema_by_one_argument() -> None:
    said = by_task(prefix(), agents=["plain", "other"], prompt="p", output_schema={})
    assert "'other' takes no schema" in str(said)
    assert body_of(by_task(prefix(), agents=["plain", "other"], prompt="p")).schema == NULL


def test_a_program_gives_an_input_and_any_schema_by_task() -> None:
    program = prefix(turns="any")
    body = body_of(by_task(program, agent="finder", input={"query": "q"}, copies=2))
    assert (body.profiles, bytes(body.input)) == (("finder", "finder"), b'{"query":"q"}')
    mixed = body_of(by_task(program, agents=["finder", "plain"], input={"query": "q"}, prompt="p"))
    assert bytes(mixed.input) == b'{"query":"q"}'  # the first agent says what the call takes
    typed = body_of(by_task(program, agent="closed", prompt="p", output_schema={"type": "object"}))
    assert bytes(typed.schema) == b'{"type":"object"}'


def test_the_tools_of_contracts_stand_before_task_which_lists_the_others() -> None:
    tools = [msgspec.json.decode(tool) for tool in prefix().tools]
    assert [tool["name"] for tool in tools] == ["finder", "task"]
    assert tools[0]["input_schema"] == msgspec.json.decode(FIELDS), "without the presets"
    properties = tools[1]["input_schema"]["properties"]
    assert properties["agent"]["enum"] == ["closed", "other", "plain"]
    assert list(properties) == ["agent", "prompt", "wanted", "output_schema", "agents", "copies"]


def test_a_question_needs_a_prompt() -> None:
    use = ToolUse("c", "ask_model", Json(b'{"prompt":""}'))
    assert str(ask_model(STATE, Profile("host"), 0, use)).startswith("Not asked")


TURN_5 = msgspec.structs.replace(STATE, turn=5, rules=2, labels=("a",), permissions=())


@pytest.mark.parametrize(
    ("changes", "agents"),
    [({}, "closed, other, plain"), ({"turns": "any"}, "finder, closed, other, plain")],
)
def test_a_call_without_an_agent_is_told_those_that_it_may_name(
    changes: dict[str, object], agents: str
) -> None:
    assert str(by_task(prefix(**changes))).endswith(f"Agents: {agents}")


def test_a_schema_of_racers_is_that_of_the_first_ones_argument() -> None:
    body = body_of(by_task(prefix(), agents=["other", "other"], prompt="p", wanted={"type": "array"}))
    assert bytes(body.schema) == b'{"type":"array"}'
    assert "'plain' takes no schema" in str(
        by_task(prefix(), agents=["other", "plain"], prompt="p", wanted={})
    )


def test_presets_hold_against_the_arguments_of_a_call() -> None:
    given = Json(b'{"query":"q","tenant":"mine"}')
    by_tool = body_of(delegate_by_tool(STATE, 0, FINDER, given))
    by_program = body_of(by_task(prefix(turns="any"), agent="finder", input=msgspec.json.decode(given)))
    for body in (by_tool, by_program):
        assert msgspec.json.decode(msgspec.json.decode(body.prompt))["tenant"] == "acme"


def test_a_question_names_its_turn_and_call_and_the_labels_of_its_program() -> None:
    use = ToolUse("c", "ask_model", Json(b'{"prompt":"p","model":"big"}'))
    program = Profile("host", models=(ModelSpec("small"), ModelSpec("big")))
    body = body_of(ask_model(TURN_5, program, 3, use))
    assert (body.turn, body.call, body.labels, body.profiles) == (5, 3, ("a",), ("ask_model",))
    asked = msgspec.json.decode(body.implicit, type=Profile)
    assert (asked.name, asked.model, asked.limits.max_iterations) == ("ask_model", ModelSpec("big"), 1)
    wrong = ToolUse("c", "ask_model", Json(b'{"prompt":"p","model":"huge"}'))
    assert str(ask_model(TURN_5, program, 3, wrong)).endswith("small, big")
    assert str(ask_model(TURN_5, Profile("host"), 3, wrong)).endswith("none")
