"""The result of a replay as lines of text."""

from callboard.replay.changed.result import ChangedReplay, DecisionDifference, RequestDifference


def test_the_first_decision_is_told_apart_from_the_others() -> None:
    request = RequestDifference("host", 3, 1, 1, ("-a", "+b"))
    one = DecisionDifference("host.1", 9, 8, "changed", "Finished.text", '"a"', '"b"')
    other = DecisionDifference("supervisor", 12, 11, "extra", "", "", "Stop")
    found = ChangedReplay("one", ("-p", "+q"), (request,), (one, other), 20, 2)
    assert not found.is_same
    assert found.lines() == [
        "session one: 20 events, 2 agents",
        "first felt: event 3: the request of host:1 differs",
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
    assert found.first_felt == "event 9: host decides otherwise: recorded CallTool; now nothing"
    assert not ChangedReplay("one", (), (), (of_supervisor,), 20, 1).first_felt


def test_nothing_that_differs_is_told_too() -> None:
    found = ChangedReplay("one", (), (), (), 1, 1)
    assert found.is_same
    assert found.lines()[-1] == "every decision is as recorded"
