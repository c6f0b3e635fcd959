import json

from tests.cli.conftest import Callboard


def test_each_agent_has_a_line(callboard: Callboard) -> None:
    lines = callboard("show", "20250101", "--budget").stdout.splitlines()
    assert lines[0].split()[:2] == ["AGENT", "SPENT"]
    assert [line.split()[0] for line in lines[1:4]] == ["host", "host.1", "host.2"]
    assert lines[-1] == "no refusal by a budget up to event 28"


def test_an_earlier_event_shows_what_was_reserved_then(callboard: Callboard) -> None:
    found = json.loads(callboard("show", "20250101", "--budget", "--at", "12", "--json").stdout)
    assert found["at"] == 12
    host, child = found["accounts"][:2]
    assert child["reserved"]["tokens"] == host["reserved"]["tokens"] > 0
    assert found["refusal"] is None


def test_an_event_that_is_not_there(callboard: Callboard) -> None:
    assert callboard("show", "20250101", "--budget", "--at", "99").exit_code == 3
