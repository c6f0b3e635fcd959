import json

from tests.cli.conftest import Callboard


def test_each_event_that_is_found_has_its_value_below_it(callboard: Callboard) -> None:
    done = callboard("search", "20250101", "3 files")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] == "16"
    assert "body.output = src: 3 files" in lines[1]
    assert "\x1b" not in done.stdout


def test_one_word_is_a_text_of_the_newest_session(callboard: Callboard) -> None:
    done = callboard("search", "Go on")
    assert [line.split()[0] for line in done.stdout.splitlines()[::2]] == ["2", "3"]


def test_a_path_with_a_comparison_finds_numbers(callboard: Callboard) -> None:
    done = callboard("search", "20250101", "--path", "body.usage.calls", "--ge", "4", "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["kind"] for one in found] == ["AskEnded", "SessionClosed"]
    assert {one["value"] for one in found} == {4}


def test_a_long_value_is_cut_around_the_text(callboard: Callboard) -> None:
    done = callboard("search", "20250101", "agent", "--kind", "SessionOpened")
    assert all(len(line) < 260 for line in done.stdout.splitlines()[1::2])


def test_kinds_agents_and_tools_narrow_it(callboard: Callboard) -> None:
    tools = callboard("search", "20250101", "src", "--tool", "count_files").stdout
    assert [line.split()[0] for line in tools.splitlines()[::2]] == ["14", "16"]
    kinds = callboard("search", "20250101", "src", "--tool", "count_files", "--kind", "calltool").stdout
    assert [line.split()[0] for line in kinds.splitlines()[::2]] == ["14"]
    none = callboard("search", "20250101", "src", "--agent", "host.2")
    assert none.exit_code == 3


def test_nothing_found_is_said_and_has_its_exit_code(callboard: Callboard) -> None:
    done = callboard("search", "20250101", "gold")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "nothing found in the 28 events" in done.stderr


def test_wrong_words_are_answered_with_the_right_ones(callboard: Callboard) -> None:
    assert "write a text" in callboard("search").stderr
    assert "in quotes" in callboard("search", "a", "b", "c").stderr
    assert "write body.output" in callboard("search", "--path", "output").stderr
    assert "is not a path" in callboard("search", "--path", "body..a").stderr
    assert "comparison needs the path" in callboard("search", "a", "--gt", "1").stderr
    assert callboard("search", "20250101", "a", "--kind", "Foo").exit_code == 2
    assert callboard("search", "nosuch", "a").exit_code == 3
