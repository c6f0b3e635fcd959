import json

from tests.cli.conftest import Callboard


def test_a_finding_has_its_event_and_the_next_command(callboard: Callboard) -> None:
    done = callboard("diagnose", "20250101")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].split()[:2] == ["!", "10"]
    assert "host.2 failed below it (denied): was not allowed to start" in lines[0]
    assert lines[1].strip() == "callboard why 20250101-survey#10"


def test_the_next_command_works(callboard: Callboard) -> None:
    for session in ("20250101", "20250103"):
        for finding in json.loads(callboard("diagnose", session, "--json").stdout)["findings"]:
            assert callboard(*finding["command"].split()[1:]).exit_code == 0


def test_a_healthy_session_has_no_finding(callboard: Callboard) -> None:
    assert "nothing found in the" in callboard("diagnose", "20250102").stdout


def test_show_and_tree_begin_with_the_findings(callboard: Callboard) -> None:
    for command in ("show", "tree"):
        said = callboard(command, "20250101").stderr.splitlines()
        assert said[0].startswith("! event 10: the ask ended well, but host.2 failed below it")
        assert any("callboard diagnose 20250101-survey" in line for line in said)
        assert "diagnose" not in callboard(command, "20250102").stderr
