"""The request of a model call: put together on access, from parts that cannot change."""

from typing import Any, cast

import msgspec
import pytest

from callboard.actors.agent.state import initial_agent, prefix_of, request_of
from callboard.actors.protocol.conversation import text_json, user_message
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.origin import Origin, named
from callboard.actors.protocol.port_messages import CallModel
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.repair_levels import START, Repair
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.sessions.scenario import Scenario, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from callboard.replay.testing.sessions.world import SessionWorld
from tests.grants import granted_by
from tests.tables import table


def requests(*says: Reply, schema: object = None) -> list[ModelRequest]:
    """Return the host's requests for these replies."""
    replies = iter(says)
    world = SessionWorld(Scenario([profile("host", tools=["look"])], lambda request: next(replies)))
    world.ask("find it", schema).run()
    return list(world.asked.values())


def test_a_request_has_the_system_prompt_the_tools_and_the_conversation() -> None:
    first, second = requests(calls(("look", {"path": "a"}), text="I look"), Reply("found"))
    assert (first.address, first.profile, first.turn, first.attempt) == ("host", "host", 1, 1)
    assert msgspec.json.decode(first.system) == "You are host."
    assert [msgspec.json.decode(tool)["name"] for tool in first.tools] == ["look"]
    assert first.conversation == [{"role": "user", "content": "find it"}]
    assert (first.length, second.length) == (1, 3)
    assert second.conversation == [
        {"role": "user", "content": "find it"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look"},
                {"type": "tool_use", "id": "c1.0", "name": "look", "input": {"path": "a"}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1.0", "content": "did look"}],
        },
    ]


def test_the_body_shows_all_that_is_asked() -> None:
    (request,) = requests(Reply("found"))
    body = msgspec.json.decode(request.body(), type=dict[str, object])
    assert body["model"] == "scripted"
    assert body["max_tokens"] == 100
    assert body["messages"] == [{"role": "user", "content": "find it"}]
    assert body.keys() == {"model", "max_tokens", "params", "tools", "system", "messages", "force_tool"}


def test_changes_to_a_returned_conversation_do_not_reach_the_request() -> None:
    (request,) = requests(Reply("found"))
    request.conversation[0]["content"] = "something else"
    assert msgspec.json.decode(request.messages[0]) == {"role": "user", "content": "find it"}


def test_the_grant_names_the_digest_of_the_request() -> None:
    world = SessionWorld(Scenario([profile("host")], lambda request: Reply("done"))).ask().run()
    (grant,) = world.of(CallModel)
    (request,) = world.asked.values()
    assert granted_by(world.log, grant).digest == request.digest


def test_the_report_tool_is_forced_only_in_the_turn_after_being_told() -> None:
    schema = {"type": "object"}
    found = requests(Reply("hm"), Reply("", (("look", {}),)), Reply(""), schema=schema)
    assert [request.force_tool for request in found] == ["", "report_back", ""]


def test_an_agent_that_has_not_begun_has_no_request() -> None:
    with pytest.raises(ValueError, match="host has not begun"):
        prefix_of(initial_agent("host"))
    with pytest.raises(ValueError, match="host has not begun"):
        request_of(initial_agent("host"))


def test_messages_print_as_text_and_hold_no_text_themselves() -> None:
    _, second = requests(calls(("look", {"path": "a"})), Reply("found"))
    assert "find it" in str(second.messages)
    assert "did look" in f"{second.messages}"
    assert "nothing" not in repr(second.messages)
    assert msgspec.json.decode(str(second.messages)) == second.conversation
    assert second.messages[0] in second.messages
    with pytest.raises(TypeError, match=r"'find it' in str\(request\.messages\)"):
        assert cast(Any, "find it") in second.messages


def made(*origins: tuple[int, Origin], **more: Any) -> ModelRequest:
    """Make a request of three messages, with the makers of its assistant messages."""
    history: IntMap[Json] = IntMap()
    for text in ("one", "two", "three"):
        history = history.append(user_message((), text_json(text)))
    makers: IntMap[Origin] = IntMap()
    for at, origin in origins:
        makers = makers.put(at, origin)
    given = {"turn": 2, "attempt": 3, "system": NULL, "tools": (), "history": history, "origins": makers}
    return ModelRequest(address="host", profile="p", model=MODEL, **{**given, **more})


MODEL = ModelSpec("m", 9)


def test_a_request_that_states_no_more_is_whole_and_knows_nothing_of_its_session() -> None:
    request = made()
    assert (request.is_lossy, request.handed, request.repair) == (False, (0, 0), START)
    assert (request.deps, request.session_id, request.seq, request.at) == (None, "", 0, 0)
    assert (request.left_out_ms, request.state_of) == (0, None)
    assert request.plain is request
    other = made(is_lossy=True, handed=(1, 2), repair=Repair(1, 1), force_tool="t", digest="d")
    assert (other.is_lossy, other.handed, other.repair) == (True, (1, 2), Repair(1, 1))
    assert (other.force_tool, other.digest) == ("t", "d")


def test_one_message_is_found_by_its_place() -> None:
    request = made()
    assert [request.message(place) for place in range(3)] == list(request.messages)
    with pytest.raises(IndexError, match="the conversation has no message 3"):
        request.message(3)


@table(
    ("origins", "shown"),
    [
        ([], None),
        ([(0, MODEL.made_by)], None),
        ([(0, named("old"))], [{"from": 0, "origin": {"model": "old"}}]),
        (
            [(0, named("old")), (2, MODEL.made_by)],
            [{"from": 0, "origin": {"model": "old"}}, {"from": 2, "origin": {"model": "m"}}],
        ),
    ],
)
@table("level", [0, 1])
def test_the_body_names_other_makers_and_repairs_and_no_usual_ones(
    origins: list[tuple[int, Origin]], shown: object, level: int
) -> None:
    body = msgspec.json.decode(made(*origins, repair=Repair(level, 1)).body())
    assert body.get("origins") == shown
    assert body.get("repair") == ({"level": 1, "version": 1} if level else None)
