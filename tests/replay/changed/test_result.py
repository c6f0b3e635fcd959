"""The result of a replay as lines of text."""

import msgspec

from callboard.actors.protocol.client_messages import RULES, Ask, Forked, Resumed, SessionOpened
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.shared_state import StateKey
from callboard.replay.changed.result import (
    AgentsNow,
    ChangedReplay,
    DecisionDifference,
    RequestDifference,
    tools_of,
)


def test_the_first_decision_is_told_apart_from_the_others() -> None:
    request = RequestDifference("host", 3, 1, 1, ("-a", "+b"))
    one = DecisionDifference("host.1", 9, 8, "changed", "Finished.text", '"a"', '"b"')
    other = DecisionDifference("supervisor", 12, 11, "extra", "", "", "Stop")
    found = ChangedReplay("one", ("-p", "+q"), (request,), (one, other), 20, 2)
    assert not found.is_same
    assert found.lines() == [
        "session one: 20 events, 2 agents",
        "first difference: event 3: the request of host:1 differs",
        "-p",
        "+q",
        "host, turn 1 (event 3): the request differs",
        "-a",
        "+b",
        "first decision that differs:",
        "  event 9, host.1, deciding on event 8 (changed): Finished.text",
        '    recorded: "a"',
        '    now:      "b"',
        "also:",
        "  event 12, supervisor, deciding on event 11 (extra)",
        "    recorded: nothing",
        "    now:      Stop",
    ]


def test_agents_of_one_profile_that_differ_alike_are_told_once() -> None:
    lines = ("--- recorded", "+++ now", " role: user", "-You count.", "+You look.")
    requests = [RequestDifference(f"host.{at}", 9 + at, 1, 1, lines, "counter") for at in range(1, 13)]
    other = RequestDifference("host.13", 30, 1, 1, ("-a", "+b"), "counter")
    decisions = [
        DecisionDifference(f"host.{at}", 50 + at, 40, "missing", "", f"CallTool {at}", "", "counter")
        for at in (1, 2)
    ]
    found = ChangedReplay("one", (), (*requests, other), tuple(decisions), 99, 14)
    told = found.lines()
    assert told.count("+You look.") == 1
    assert "12 agents of counter, first host.1, turn 1 (event 10): the request differs" in told
    assert "host.13, turn 1 (event 30): the request differs" in told
    assert "first decision that differs, of 2 agents of counter alike:" in told
    assert sum("CallTool" in line for line in told) == 1


def test_the_first_difference_that_is_felt_is_one_of_an_agent() -> None:
    of_supervisor = DecisionDifference("supervisor", 4, 3, "changed", "Begin.depth", "1", "2")
    of_agent = DecisionDifference("host", 9, 8, "changed", "", "CallTool", "", "host")
    found = ChangedReplay("one", (), (), (of_supervisor, of_agent), 20, 1)
    assert found.first_difference == "event 9: host decides differently: recorded CallTool; now nothing"
    assert not ChangedReplay("one", (), (), (of_supervisor,), 20, 1).first_difference


def test_nothing_that_differs_is_told_too() -> None:
    found = ChangedReplay("one", (), (), (), 1, 1)
    assert found.is_same
    assert found.lines()[-1] == "every decision is as recorded"


OLD = (Json(b'{"name":"a","tools":[{"name":"t","description":"x"}]}'),)
NEW = (Json(b'{"name":"b"}'),)
M, N = ModelSpec("m"), ModelSpec("n")
TODAY = AgentsNow("b", NEW, N)


def test_the_first_event_gets_agents_model_and_further_keys() -> None:
    one, two = StateKey("k"), StateKey("l")
    opened = SessionOpened(RULES, "a", OLD, M, state=(one,))
    found = AgentsNow("b", NEW, state=(StateKey("k", "append"), two)).put_into(opened)
    assert isinstance(found, SessionOpened)
    assert (found.host, found.profiles, found.model, found.state) == ("b", NEW, M, (one, two))


def test_a_resume_gets_agents_only_if_it_has_some() -> None:
    plain = Resumed(RULES)
    assert TODAY.put_into(plain) is plain
    changed = TODAY.put_into(Resumed(RULES, "a", OLD, M))
    assert isinstance(changed, Resumed)
    assert (changed.host, changed.profiles, changed.model) == ("b", NEW, N)
    forked = TODAY.put_into(Forked("o", 1, "", Resumed(RULES, "a", OLD, M)))
    assert isinstance(forked, Forked)
    assert forked.resumed == changed


def test_other_messages_stay() -> None:
    ask = Ask("r1", text_json("go"))
    assert TODAY.put_into(ask) is ask


def test_tools_are_found_by_profile_and_name() -> None:
    assert tools_of(OLD) == {("a", "t"): {"name": "t", "description": "x"}}
    assert AgentsNow("b", NEW).tools == {}
    assert msgspec.json.decode(TODAY.by_name["b"]) == {"name": "b"}
    assert AgentsNow.recorded(SessionOpened(RULES, "a", OLD, M)).profiles == OLD
