from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.models.scripted import Policy, Step, call, calls, say
from tests.replay.logs import survey
from tests.replay.stories import edited_prompt, look_up, record


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
