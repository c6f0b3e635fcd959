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


def test_nothing_that_differs_is_told_too() -> None:
    found = ChangedReplay("one", (), (), (), 1, 1)
    assert found.is_same
    assert found.lines()[-1] == "every decision is as recorded"
