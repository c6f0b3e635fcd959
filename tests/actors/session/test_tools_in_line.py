"""Tools that wait for a place, in whole sessions: live order, stops, and a crash after every event."""

from collections.abc import Iterable

import msgspec

from callboard.actors.protocol.client_messages import AskEnded, Resumed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Stop, TurnRequested
from callboard.actors.protocol.port_messages import CallTool, RequestApproval, ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.recovery import recover
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.resumes import check_resumes, go_on
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.tables import table

NAMES = ("look", "save", "pay", "put", "look", "pay", "save", "look", "look")


def many_calls(request: ModelRequest) -> Reply:
    return calls(*[(name, {}) for name in NAMES]) if request.turn == 1 else Reply("done")


def in_line(limits: Limits) -> Scenario:
    who = profile("host", [], ["look"], writes=["save"], repeats=["put"], asks=["pay"])
    return Scenario([who], many_calls, [ask()], limits=limits)


TIGHT = in_line(Limits(max_tool_calls=8, max_parallel_tools=2))


def most_out(log: Iterable[Event]) -> int:
    """Return the largest number of tools that had no answer at one moment."""
    out, most = 0, 0
    for event in log:
        out += isinstance(event.body, CallTool) - isinstance(event.body, ToolReturned)
        most = max(most, out)
    return most


@table("seed", range(30))
def test_in_any_order_of_answers_two_tools_run_at_a_time_and_all_results_are_read(seed: int) -> None:
    world = SessionWorld(TIGHT).run(in_random_order(seed))
    assert breaches_of(world) == []
    assert most_out(world.log) == 2
    assert len(world.of(CallTool)) == 8
    last = msgspec.json.decode(world.asked[max(world.asked)].messages[-1])
    assert [block["tool_use_id"] for block in last["content"]] == [f"c1.{call}" for call in range(9)]


def test_the_line_is_rebuilt_from_any_prefix_of_the_log() -> None:
    world = SessionWorld(TIGHT).run(in_random_order(3))
    assert check_resumes(TIGHT, world.log) == []
    for length in range(2, len(world.log) + 1):
        later = go_on(TIGHT, world.log[:length]).run()
        assert most_out(later.log) <= 2
        assert {body.call for body in later.of(CallTool)} == set(range(8))


def test_an_answer_that_survived_without_the_call_behind_it_starts_that_call() -> None:
    world = SessionWorld(TIGHT).run()
    answer = world.events(ToolReturned)[0]
    found = recover(world.log[: answer.seq], Resumed(1), 0)
    posted = [event.body for event in found.posted if event.cause == answer.seq]
    (call,) = [body for body in posted if isinstance(body, CallTool)]
    asked_about = {body.call for body in world.of(RequestApproval)}
    assert call.call == min(set(range(8)) - {0, 1} - asked_about)


@table("seed", range(20))
def test_a_cancelled_session_calls_no_tool_in_line_and_its_next_ask_goes_on(seed: int) -> None:
    scenario = Scenario(TIGHT.profiles, many_calls, [ask(), ask("again", request_id="r2")], TIGHT.limits)
    world = SessionWorld(scenario)
    choose = in_random_order(seed)
    while not world.of(ToolReturned):
        moves = world.moves()
        world.make(moves[choose(len(moves))])
    world.cancel().run(choose)
    assert breaches_of(world) == []
    assert [end.kind for end in world.of(AskEnded)] == ["cancelled", "answered"]
    (stop,) = world.events(Stop)
    assert all(call.cause < stop.seq for call in world.events(CallTool))
    assert len(world.of(CallTool)) < 8
    assert world.of(TurnRequested)[-1].turn == 2
