import asyncio
from typing import Any, get_args, get_type_hints

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.diff import profile_lines
from callboard.replay.divergence import ABSENT, FOREIGN, LONG_CHARS, shortened
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.models.scripted import Policy, Step, call, calls, say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.runtime.tools.tool import tool
from tests.replay.logs import survey
from tests.replay.stories import edited_prompt, look_up, record
from tests.tables import table


def clerks(*keys: str, wrong: str = "") -> Recording:
    """Record a host that delegates one order after the other, all in one turn."""

    def policy(request: ModelRequest) -> Step:
        if request.profile == "host":
            tasks = [call("task", agent="clerk", prompt=key) for key in keys]
            return calls(*tasks) if request.turn == 1 else say("Done.")
        key = str(request.conversation[0]["content"])
        if request.turn == 1:
            return call("look_up", key="wrong" if key == wrong else key)
        return say(f"{key} is found")

    return _recorded(policy)


def _recorded(policy: Policy) -> Recording:
    clerk = Agent("clerk", description="Finds.", tools=[look_up])
    return record(policy, Agent("host", agents=[clerk]), "Find them.")


def test_two_recordings_of_one_script_are_the_same() -> None:
    one, other = (Recording.open(MemoryReader(survey()), "one") for _ in range(2))
    found = one.diff(other)
    assert found.is_same
    assert found.differences == ()
    assert found.pairs > 15
    assert found.totals[0] == found.totals[1]


def test_answers_in_another_order_are_no_difference() -> None:
    orders = [clerks("A", "B", "C") for _ in range(2)]
    assert orders[0].diff(orders[1]).is_same


def test_sub_agents_are_paired_by_their_prompts_where_ordinals_shift() -> None:
    found = clerks("A", "B", "C").diff(clerks("A", "X", "B", "C"))
    named = {(one.kind, one.agent) for one in found.differences}
    assert not {agent for _, agent in named} & {"host.1", "host.2", "host.3"}
    assert ("Begin", "host.2 of the second") in named
    assert found.totals[1].agents == found.totals[0].agents + 1


def test_the_first_difference_comes_before_what_it_led_to() -> None:
    found = clerks("A", "B").diff(clerks("A", "B", wrong="B"))
    first = found.differences[0]
    assert (first.kind, first.agent, first.path) == ("ModelReplied", "host.2", "body.content[0].input.key")
    assert (first.first, first.second) == ("B", "wrong")
    assert {one.agent for one in found.differences} == {"host.2"}


def test_events_of_one_session_only_have_no_partner() -> None:
    found = edited_prompt("Answer at once.").diff(edited_prompt("First look it up."))
    alone = [one for one in found.differences if not one.seqs[0]]
    assert {one.kind for one in alone} >= {"CallTool", "ToolReturned"}
    back = edited_prompt("First look it up.").diff(edited_prompt("Answer at once."))
    assert {one.kind for one in back.differences if not one.seqs[1]} >= {"CallTool", "ToolReturned"}


def test_the_seqs_of_a_difference_are_those_of_both_events() -> None:
    one, other = clerks("A", "B"), clerks("A", "B", wrong="B")
    first = one.diff(other).differences[0]
    for recording, seq in zip((one, other), first.seqs, strict=True):
        assert isinstance(recording.event(seq).body, ModelReplied)
        assert recording.event(seq).recipient == "host.2"


def test_a_diff_with_itself_in_both_directions_counts_the_same_pairs() -> None:
    one, other = clerks("A", "B", "C"), clerks("C", "A")
    assert one.diff(other).pairs == other.diff(one).pairs


def found_by(**arguments: Any) -> Recording:
    """Record a host that calls a tool with these arguments, which returns them."""

    @tool(effect="read")
    def find(query: dict[str, Any]) -> dict[str, Any]:
        """Find."""
        return query

    def policy(request: ModelRequest) -> Step:
        return call("find", query=arguments) if request.turn == 1 else say("Done.")

    return record(policy, Agent("host", tools=[find]), "Find it.")


def test_a_value_that_one_session_does_not_have_is_not_null() -> None:
    one = found_by(text="a")
    for other, value in ((found_by(text="a", more=None), None), (found_by(text="a", more=0), 0)):
        (made, *_) = one.diff(other).differences
        assert (made.path, made.first, made.second) == (
            "body.content[0].input.query.more",
            ABSENT,
            value,
        )


@table("name", ["id", "new", "by", "usage", "until", "digest", "request_id", "event"])
def test_a_name_in_foreign_json_is_compared_whatever_it_is_called(name: str) -> None:
    differences = found_by(**{name: 1}).diff(found_by(**{name: 2})).differences
    places = {(one.kind, one.path) for one in differences}
    assert places >= {
        ("ModelReplied", f"body.content[0].input.query.{name}"),
        ("CallTool", f"body.arguments.query.{name}"),
        ("ToolReturned", "body.output"),
    }


def test_fields_of_foreign_json_have_no_field_of_our_own_of_the_same_name() -> None:
    own, foreign = fields_of(AnyMessage)
    # Not at all (two), block by block (also in a history), and by the other diff.
    otherwise = {"body", "content", "contents", "history", "profile", "profiles"}
    assert foreign - otherwise == FOREIGN
    # Those of telemetry are not compared, and the metadata of a call holds neither ids nor times.
    assert FOREIGN & own == {"metadata", "value"}


def fields_of(union: Any) -> tuple[set[str], set[str]]:
    """Return the names of the fields of all messages: our own ones, and those with foreign JSON."""
    own: set[str] = set()
    foreign: set[str] = set()
    waiting, seen = [union], set()
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in seen:
            seen.add(kind)
            for name, annotation in get_type_hints(kind).items():
                (foreign if holds_json(annotation) else own).add(name)
                waiting.append(annotation)
    return own & {name for one in seen for name in one.__struct_fields__}, foreign


def holds_json(annotation: Any) -> bool:
    return annotation is Json or any(map(holds_json, get_args(annotation)))


CLERK = Agent("clerk", description="Finds.", tools=[look_up])


def programmed(*before: str) -> Recording:
    """Record a program that asks clerks in turn, then two at once."""

    @program(agents=[CLERK], tools=[look_up])
    async def lead(ctx: ProgramContext, prompt: str) -> str:
        """Ask clerks."""
        for key in before:
            await ctx.delegate(CLERK, key)
        await asyncio.gather(*(ctx.delegate(CLERK, key) for key in ("A", "B")))
        return str(await ctx.call("look_up", key="C"))

    def policy(request: ModelRequest) -> Step:
        key = str(request.conversation[0]["content"])
        return call("look_up", key=key) if request.turn == 1 else say(f"{key} is found")

    return record(policy, lead, "Find them.")


def test_two_runs_of_a_program_are_the_same() -> None:
    assert programmed().diff(programmed()).is_same


def test_calls_and_children_of_a_program_are_paired_by_their_asks() -> None:
    found = programmed().diff(programmed("X"))
    alone = {(one.kind, one.agent) for one in found.differences if not one.seqs[0]}
    changed = {(one.kind, one.agent) for one in found.differences if one.seqs[0]}
    assert ("Begin", "host.1 of the second") in alone
    of_host = {kind for kind, agent in alone if agent == "host"}
    assert of_host == {"Delegate", "DelegationEnded", "ModelReplied"}
    assert {kind for kind, _ in changed} == {"ModelReplied"}  # the steps of the program


def test_long_texts_are_compared_by_their_digests() -> None:
    long = "x" * LONG_CHARS
    value = {"a": [long + "1", "short"], "b": 1}
    found = shortened(value)
    assert found["a"][1:] == ["short"]
    assert found["b"] == 1
    assert len(found["a"][0]) < 2_100
    assert found["a"][0].startswith("xxx")
    assert "65,537 characters, BLAKE2b " in found["a"][0]
    assert found == shortened(value) != shortened({"a": [long + "2", "short"], "b": 1})
    assert shortened(long) == long


def test_an_approval_that_a_tool_lost_is_a_line_of_its_own() -> None:
    def pay(euros: int) -> str:
        """Pay."""
        return "paid"

    asked, unasked = (
        set(profile_lines(msgspec.json.encode(Agent("clerk", tools=[made]).profile())))
        for made in (tool(approval="before")(pay), tool()(pay))
    )
    assert asked - unasked == {"clerk.tools.pay.approval: before"}
    assert unasked - asked == set()
    assert "clerk.tools.pay.input_schema.properties.euros.type: integer" in asked
