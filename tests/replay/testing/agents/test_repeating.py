"""A campaign from Python ends with the line that repeats its counterexample, in the words of its caller."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import callboard.testing as kit
from callboard import Agent, call, say, tool
from callboard.testing import BrokenRules, Exploration, Scenario, always, explore
from callboard.testing import explore as look_for_bugs
from tests.tables import table

pytest_plugins = ("pytester",)


@tool
def save(text: str) -> str:
    """Keep a text."""
    return "kept"


HOST = Agent("host", tools=[save])
NEVER = always("Nobody saves.", lambda world: not world.effects)
RULES: dict[str, Any] = {"monitors": [NEVER]}


def policy(request: Any) -> Any:
    """Save, then end."""
    return call("save", text="x") if request.turn == 1 else say("done")


def line_of(found: Exploration) -> str:
    """Return the line that repeats the counterexample."""
    (line,) = [one for one in str(found).splitlines() if re.search(r"\b1\.[0-9a-f]{8}\.", one)]
    return line


def repeated(line: str, capsys: pytest.CaptureFixture[str], **names: object) -> str:
    """Run the line unchanged, with the names of its test. Return its output."""
    capsys.readouterr()
    exec(line, {**globals(), **names})
    return capsys.readouterr().out


def test_the_line_has_the_names_of_its_test_and_breaks_the_rule_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rule = always("None at all.", lambda world: not world.effects)
    found = explore(
        HOST, policy, "Keep it.", monitors=[rule], runs=20, seed=3, steps=50, scheduler="pos", check=False
    )
    line = line_of(found)
    start = "from callboard.testing import simulate; print(simulate("
    assert line.startswith(f'{start}HOST, policy, "Keep it.", monitors=[rule], schedule="1.')
    assert re.search(r'"\)\)  # at test_repeating\.py:\d+$', line)
    (example,) = found.counterexamples
    again = repeated(line, capsys, rule=rule)
    assert f"broken after step {example.violation.at}: None at all." in again
    assert f"{example.violation.at:>3}*" in again


def test_a_call_over_several_lines_is_repeated_on_one(capsys: pytest.CaptureFixture[str]) -> None:
    found = explore(
        HOST,
        policy=lambda request: policy(request),  # by another name
        monitors=[
            always(
                "No text.",
                lambda world: not world.effects,
            )
        ],
        runs=20,
        check=False,
    )
    line = line_of(found)
    assert "policy=lambda request: policy(request), monitors=[always('No text.', lambda world:" in line
    assert "broken after step" in repeated(line, capsys)


def test_names_of_modules_and_other_names_are_kept_or_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    for found, start in (
        (
            kit.explore(HOST, policy, monitors=[NEVER], runs=9, check=False),
            "print(kit.simulate(HOST, policy, mon",
        ),
        (
            look_for_bugs(HOST, policy, monitors=[NEVER], runs=9, check=False),
            "from callboard.testing import simulate; ",
        ),
    ):
        line = line_of(found)
        assert line.startswith(start)
        assert "broken after step" in repeated(line, capsys)


def test_simulate_is_not_imported_where_it_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    from callboard.testing import simulate

    line = line_of(explore(HOST, policy, monitors=[NEVER], runs=9, check=False))
    assert line.startswith("print(simulate(HOST, policy, monitors=[NEVER], schedule=")
    assert "broken after step" in repeated(line, capsys, simulate=simulate)


def test_letters_of_any_alphabet_and_long_texts_are_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    größe = "漢字"
    found = [explore(HOST, policy, f"""{größe}
        und mehr""", monitors=[NEVER], runs=9, check=False)]  # fmt: skip
    line = line_of(found[0])
    assert r"f'{größe}\n        und mehr', monitors=[NEVER], schedule=" in line
    assert "broken after step" in repeated(line, capsys, größe=größe)


def test_a_cut_run_tells_its_own_rule_and_nothing_that_is_only_left_undone() -> None:
    found = explore(HOST, policy, monitors=[NEVER], runs=9, check=False)
    again = found.replay()
    assert not again.world.is_at_rest
    assert again.breaches == []
    assert again.lines()[-2:] == [
        "the schedule ends before the run is at rest",
        f"broken after step {found.counterexamples[0].violation.at}: Nobody saves.",
    ]


def test_a_scenario_is_repeated_by_its_own_name(capsys: pytest.CaptureFixture[str]) -> None:
    scenarios = {"saving": Scenario(HOST, policy, monitors=[NEVER])}
    line = line_of(scenarios["saving"].explore(runs=9, keeps_going=True, check=False))
    assert re.match(r'print\(scenarios\["saving"\]\.simulate\("1\.[^"]+"\)\)  # at test_repeating', line)
    assert "broken after step" in repeated(line, capsys, scenarios=scenarios)


def test_of_two_calls_on_a_line_the_right_one_is_repeated() -> None:
    other = Agent("other", tools=[save])
    both = [
        explore(HOST, policy, monitors=[NEVER], runs=9, check=False),
        explore(other, policy, monitors=[NEVER], runs=9, check=False),
    ]
    assert ["simulate(HOST, " in line_of(both[0]), "simulate(other, " in line_of(both[1])] == [True, True]


@table(
    "explores",
    [
        pytest.param(partial(explore, HOST, policy, monitors=[NEVER], runs=9, check=False), id="partial"),
        pytest.param(lambda: explore(HOST, policy, runs=9, check=False, **RULES), id="keywords unpacked"),
        pytest.param(
            lambda: explore(*(HOST, policy), monitors=[NEVER], runs=9, check=False), id="arguments unpacked"
        ),
        pytest.param(
            lambda: Scenario.explore(Scenario(HOST, policy, monitors=[NEVER]), runs=9, check=False),
            id="unbound method",
        ),
        pytest.param(
            eval(
                compile("lambda: explore(HOST, policy, monitors=[NEVER], check=False)", "<nowhere>", "eval"),
                globals(),
            ),
            id="no source",
        ),
    ],
)
def test_without_a_call_in_the_source_the_schedule_is_told_and_how_to_use_it(
    explores: Callable[[], Exploration],
) -> None:
    found = explores()
    said = '  # simulate(..., schedule="...") repeats it, with the arguments of explore'
    assert line_of(found) == f"schedule {found.counterexamples[0].text}{said}"


def test_a_campaign_that_finds_nothing_tells_no_line() -> None:
    assert "simulate" not in str(explore(HOST, policy, runs=3))


def test_the_error_of_a_broken_rule_has_the_line() -> None:
    with pytest.raises(BrokenRules, match=r"print\(simulate\(HOST, policy, monitors=\[NEVER\], schedule="):
        explore(HOST, policy, monitors=[NEVER], runs=9)


PLUGINS = ("--disable-plugin-autoload",)
TEST = """
from callboard import Agent, call, say, tool
from callboard.testing import always, explore

@tool
def save(text: str) -> str:
    '''Keep a text.'''
    return "kept"

HOST = Agent("host", tools=[save])

def policy(request):
    return call("save", text="x") if request.turn == 1 else say("done")

def test_it():
    never = always("Nobody saves.", lambda world: not world.effects)
    {assertion}
"""


@pytest.mark.parametrize(
    "assertion",
    [
        "assert not str(explore(HOST, policy, monitors=[never], runs=9, check=False))",
        "explore(HOST, policy, monitors=[never], runs=9)",
        "x = explore(HOST, policy, monitors=[never], runs=9, check=False); assert x.is_ok, str(x)",
    ],
)
def test_in_pytest_the_line_of_a_failure_stands_in_place_of_the_call(
    pytester: pytest.Pytester, assertion: str
) -> None:
    pytester.makepyfile(test_it=TEST.format(assertion=assertion))
    told = pytester.runpytest_inprocess(*PLUGINS, "-vv").stdout.str()
    line = re.search(r"from callboard.testing import simulate; print\(simulate\(HOST.*?\)\)  # at", told)
    assert line is not None, told
    pytester.makepyfile(test_again=TEST.format(assertion=line[0]))
    again = pytester.runpytest_inprocess(*PLUGINS, "-s", "test_again.py")
    again.assert_outcomes(passed=1)
    again.stdout.fnmatch_lines(["*broken after step *: Nobody saves."])


def test_a_failed_assert_says_how_to_see_the_report(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        TEST.format(assertion="assert explore(HOST, policy, monitors=[never], runs=9, check=False).is_ok")
    )
    told = pytester.runpytest_inprocess(*PLUGINS).stdout
    told.fnmatch_lines(["*<Exploration: broken after step *: Nobody saves. (print it, or call check()*"])
