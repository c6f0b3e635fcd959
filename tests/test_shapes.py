"""The page of shapes: its tables name the fields and members that there are."""

import re

from callboard import Agent, ModelRequest, Reply, Runtime, ScriptedModel, call, say, tool
from callboard.log import SessionRow
from callboard.testing import SessionWorld, simulate
from tests.pages import ROOT

PAGE = (ROOT / "docs" / "shapes.md").read_text()


def named(heading: str, column: str) -> set[str]:
    """Return the names in the first column of the table with this head, below a heading of the page."""
    table = PAGE.partition(f"## {heading}\n")[2].partition(f"| {column} |")[2].partition("\n\n")[0]
    first = [line.split("|")[1] for line in table.splitlines()[2:]]
    return set(re.findall(r"`(\w+)(?:\(\w*\))?`", " ".join(first)))


def test_every_field_of_a_row_is_described_and_no_other() -> None:
    assert named("The row of a session", "field") == {*SessionRow.__struct_fields__, *SessionRow.also}


def test_every_described_member_of_a_world_is_there() -> None:
    world = simulate(Agent("host"), lambda request: say("done")).world
    assert isinstance(world, SessionWorld)
    members = named("The world of a rule", "member")
    assert {"log", "of", "events", "effects", "ended"} <= members
    assert [name for name in members if not hasattr(world, name)] == []


def test_the_parts_of_a_request_and_of_its_messages_are_those_described() -> None:
    @tool(effect="read")
    def look(path: str) -> str:
        """Look."""
        raise FileNotFoundError(path)

    seen: list[ModelRequest] = []

    def policy(request: ModelRequest) -> Reply:
        seen.append(request)
        return Reply("Looking.", (call("look", path="a"),)) if request.turn == 1 else say("done")

    model = ScriptedModel(policy)
    Runtime(":memory:", model=model).run_sync(Agent("host", tools=[look]), [{"type": "text", "text": "go"}])
    attributes = named("The request of a policy", "attribute")
    assert [name for name in attributes if not hasattr(seen[-1], name)] == []
    keys, kinds = named("The request of a policy", "key"), named("The request of a policy", "block `type`")
    for message in seen[-1].conversation:
        assert message.keys() == keys
        assert {block["type"] for block in message["content"]} <= kinds
    assert {block["type"] for one in seen[-1].conversation for block in one["content"]} == {
        "text",
        "tool_use",
        "tool_result",
    }
