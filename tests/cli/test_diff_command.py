import json

from callboard.cli.diff_command import _lines, diff_json
from callboard.cli.folding import Folding
from tests.cli.conftest import Callboard
from tests.replay.test_diff import found_by


def test_a_session_equals_itself(callboard: Callboard) -> None:
    done = callboard("diff", "20250101", "20250101")
    assert done.exit_code == 0
    assert "both sessions did the same" in done.stdout


def test_sessions_that_differ_end_with_the_exit_code_of_a_divergence(callboard: Callboard) -> None:
    done = callboard("diff", "20250101", "20250102")
    assert done.exit_code == 5
    for words in ("agents", "first event that differs", "SESSION", "20250101-survey", "20250102-report"):
        assert words in done.stdout
    assert "\x1b" not in done.stdout


def test_an_event_of_one_session_is_told_with_what_it_says(callboard: Callboard) -> None:
    lines = callboard("diff", "20250101", "20250102", "--full").stdout.splitlines()
    only = {
        lines[at].split(": ")[1]: lines[at + 1] for at, line in enumerate(lines) if ": only in the " in line
    }
    assert set(only) == {"only in the first", "only in the second"}
    assert only["only in the first"].startswith("    - ")
    assert only["only in the second"].startswith("    + ")


def test_long_lists_are_cut_unless_all_is_wanted(callboard: Callboard) -> None:
    short = callboard("diff", "20250101", "20250102").stdout
    whole = callboard("diff", "20250101", "20250102", "--full").stdout
    assert "--full shows them" in short
    assert len(whole.splitlines()) > len(short.splitlines())


def test_as_json(callboard: Callboard) -> None:
    found = json.loads(callboard("diff", "20250101", "20250102", "--json").stdout)
    assert found["sessions"] == ["20250101-survey", "20250102-report"]
    assert not found["same"]
    assert [one["outcome"] for one in found["totals"]] == ["answered", "reported"]
    assert found["differences"][0]["seqs"]


def test_a_second_log_and_a_missing_session(callboard: Callboard) -> None:
    assert callboard("diff", "20250101", "nosuch").exit_code == 3
    assert callboard("diff", "20250101", "20250101", "--other-log", "nosuch.db").exit_code == 3


def test_a_value_that_one_session_does_not_have_is_not_shown_as_null() -> None:
    sides = found_by(text="a"), found_by(text="a", more=None)
    found = sides[0].diff(sides[1])
    said = [line.plain for line in _lines(found, sides, Folding(is_full=False))]
    at = next(place for place, line in enumerate(said) if "query.more" in line)
    assert said[at + 1 : at + 3] == ["    - (absent)", "    + null"]
    first = json.loads(json.dumps(diff_json(("one", "two"), found)["differences"]))[0]
    assert ("first" in first, first["second"]) == (False, None)
