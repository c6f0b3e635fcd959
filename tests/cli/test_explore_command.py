import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.cli import explore_command
from callboard.cli.errors import FAILED, INTERRUPTED, USAGE
from tests.cli.agents import Terminal, piped
from tests.cli.conftest import Callboard

SHOP = """
import time
from callboard import Agent, call, say, tool
from callboard.replay.testing.program import Actor, Program, Send
from callboard.testing import Scenario, always, sometimes

print("the module is loaded")

@tool
def book(time: str) -> str:
    '''Book a table.'''
    return "booked"

quick = Agent("quick", tools=[book])
careful = Agent("careful", tools=[book])
host = Agent("host", agents=[quick, careful])
SCHEMA = {"type": "object", "required": ["table"]}

def policy(request):
    if request.profile == "host":
        task = call("task", agents=["quick", "careful"], prompt="Book.", output_schema=SCHEMA)
        return task if request.turn == 1 else say("Done.")
    return call("book", time="8 pm") if request.turn == 1 else call("report_back", table="8 pm")

def booked_once(world):
    return sum(one.tool == "book" for one in world.effects) < 2

booking = Scenario(host, policy, "A table.", monitors=[always("One table is booked.", booked_once)])
faulty = Scenario(host, policy, "A table.", faults=["error", "timeout", "cancel"])

def made() -> Scenario:
    return booking

def unmet():
    return Scenario(host, policy, "A table.", monitors=[sometimes("five are booked", lambda world: False)])

def keep(state, sender, message):
    return (*state, message), []

def counter(rule):
    starts = [Send(f"s{n}", "c", f"m{n}") for n in range(6)]
    rules = [always(rule, lambda world: world.states["c"][:1] != ("m3",))] if rule else []
    return Program({"c": Actor((), keep)}, starts).world, rules

def orders():
    return counter("m3 is never first.")

def calm():
    return counter("")

def two():
    make_world, (first,) = orders()
    return make_world, [first, always("m2 is never last.", lambda world: world.states["c"][5:] != ("m2",))]

def endless():
    make_world, rules = calm()
    def slowly():
        print("a run begins")
        time.sleep(0.002)
        return make_world()
    return slowly, rules

def restless():
    return Program({"c": Actor(0, lambda *_: (0, [("c", "m")]))}, [Send("s", "c", "m")]).world, []

def impure():
    make_world, _ = calm()
    def step(state, sender, message):
        return (*state, id(message)), []
    return Program({"c": Actor((), step)}, [Send("s", "c", "m")]).world, []

def raises():
    raise RuntimeError("no luck")

number = 3
"""

ADDED = """
before = orders

def orders():
    make_world, rules = before()
    return make_world, [always("It never begins.", lambda world: False), *rules]
"""
"""Orders with one rule more, which is broken earlier."""


@pytest.fixture(autouse=True)
def shop(callboard: Callboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a folder with a module of scenarios the current one; restore the interpreter afterwards."""
    for name in ("RUNS", "SEED", "JOBS", "CHECK_DETERMINISM"):
        monkeypatch.delenv(f"CALLBOARD_{name}", raising=False)
    path = tmp_path / "shop.py"
    path.write_text(SHOP)
    monkeypatch.setattr(sys, "path", list(sys.path))
    # Tests change the module within a second, and keep its length: its bytecode would not look out of date.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    sys.modules.pop("shop", None)
    yield path
    sys.modules.pop("shop", None)


def command_in(text: str) -> list[str]:
    """Return the arguments of the command at the end of a counterexample."""
    (line,) = [line for line in text.splitlines() if line.startswith("callboard explore ")]
    return line.split()[1:]


def test_a_broken_rule_is_shown_small_with_a_chart_and_the_command_that_makes_it_again(
    callboard: Callboard,
) -> None:
    done = callboard("explore", "shop:booking", "--runs", "200")
    assert done.exit_code == FAILED
    first, *chart = done.stdout.splitlines()
    assert first.startswith("broken after step ")
    assert first.endswith(": One table is booked.")
    assert chart[1].split()[:3] == ["client", "supervisor", "host"]
    assert "the smallest found; found in run " in done.stdout
    assert "the module is loaded" in done.stderr
    again = callboard(*command_in(done.stdout))
    assert again.exit_code == FAILED
    assert first in again.stdout
    assert 'tool book {"time":"8 pm"}' in again.stdout


def test_all_is_well_is_exit_code_0_and_says_how_much_was_tried(callboard: Callboard) -> None:
    done = callboard("explore", "shop:calm", "--runs", "50", "--scheduler", "pct:2", "--seed", "x")
    assert done.exit_code == 0
    assert done.stdout.startswith("50 runs (")
    assert "by pct:2, seed x" in done.stdout


def test_a_session_is_explored_with_its_faults(callboard: Callboard) -> None:
    done = callboard("explore", "shop:faulty", "--runs", "60", "--json")
    assert done.exit_code == 0
    faults = json.loads(done.stdout)["figures"]["faults"]
    assert {"fault: cancel", "fault: error"} <= set(faults)


def test_a_function_may_make_the_scenario_and_a_file_may_be_named(callboard: Callboard) -> None:
    done = callboard("explore", "shop:made", "--runs", "200")
    text = command_in(done.stdout)[-1]
    assert callboard("explore", "./shop.py:booking", "--schedule", text).exit_code == FAILED
    protocol = command_in(callboard("explore", "shop:orders").stdout)[-1]
    assert callboard("explore", "shop.py:orders", "--schedule", protocol).exit_code == FAILED


def test_a_goal_that_was_never_reached_fails_the_campaign(callboard: Callboard) -> None:
    done = callboard("explore", "shop:unmet", "--runs", "20")
    assert done.exit_code == FAILED
    assert done.stdout.startswith("never reached: five are booked")


def test_a_campaign_in_which_no_run_comes_to_rest_fails_and_says_what_to_do(callboard: Callboard) -> None:
    done = callboard("explore", "shop:restless", "--runs", "4", "--steps", "3", "--scheduler", "pct")
    assert done.exit_code == FAILED
    assert done.stdout.startswith("no run came to rest, so no rule about the end was looked at\n")
    assert "4 runs were cut after 30 steps and not at rest: give more (--steps, steps=)" in done.stdout
    done = callboard("explore", "shop:restless", "--runs", "4", "--scheduler", "pct", "--json")
    told = json.loads(done.stdout)
    assert (told["is_ok"], told["is_without_end"], told["figures"]["unfinished"]) == (False, True, 4)


def test_the_same_seed_finds_the_same(callboard: Callboard) -> None:
    def found(seed: str) -> object:
        told = json.loads(callboard("explore", "shop:two", "--seed", seed, "--runs", "300", "--json").stdout)
        del told["seconds"]
        return told

    assert found("5") == found("5")
    assert found("5") != found("6")


def test_the_report_as_json_has_figures_examples_and_goals(callboard: Callboard) -> None:
    done = callboard("explore", "shop:two", "--keep-going", "--runs", "300", "--json")
    assert done.exit_code == FAILED
    told = json.loads(done.stdout)
    assert told["figures"]["runs"] == 300
    assert (told["is_ok"], told["is_interrupted"], told["seed"], told["goals_not_reached"]) == (
        False,
        False,
        "0",
        [],
    )
    assert {one["rule"] for one in told["counterexamples"]} == {"m3 is never first.", "m2 is never last."}
    for one in told["counterexamples"]:
        assert one["command"].endswith(f"--schedule {one['schedule']}")
        assert one["steps"][-1]["seq"] == one["at"] == len(one["steps"])
        again = json.loads(callboard(*one["command"].split()[1:], "--json").stdout)
        assert (again["rule"], again["steps"]) == (one["rule"], one["steps"])


def test_without_keep_going_the_first_broken_rule_ends_the_campaign(callboard: Callboard) -> None:
    told = json.loads(callboard("explore", "shop:two", "--json").stdout)
    assert len(told["counterexamples"]) == 1
    assert told["figures"]["runs"] < 100


def test_a_random_seed_is_drawn_and_named(callboard: Callboard) -> None:
    def seed() -> str:
        told = json.loads(callboard("explore", "shop:two", "--seed", "random", "--json").stdout)
        assert told["counterexamples"][0]["seed"] == told["seed"]
        return str(told["seed"])

    assert "random" != seed() != seed()


def test_options_are_read_from_the_environment(callboard: Callboard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBOARD_RUNS", "17")
    monkeypatch.setenv("CALLBOARD_SEED", "night")
    told = json.loads(callboard("explore", "shop:calm", "--json").stdout)
    assert (told["figures"]["runs"], told["seed"]) == (17, "night")
    assert (
        json.loads(callboard("explore", "shop:calm", "--runs", "3", "--json").stdout)["figures"]["runs"] == 3
    )


def test_a_file_that_cannot_be_written_is_told_before_the_campaign(
    callboard: Callboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    done = callboard("explore", "shop:booking", "--save", "x.db")
    assert (done.exit_code, done.stdout) == (USAGE, "")
    assert "--save x.db: this file cannot be written" in done.stderr


@pytest.mark.slow
def test_more_jobs_than_runs_are_not_started(callboard: Callboard) -> None:
    done = callboard("explore", "shop:calm", "--runs", "2", "--jobs", "500", "--json")
    assert "--jobs 500: only 2 are used" in done.stderr
    told = json.loads(done.stdout)
    assert (told["jobs"], told["figures"]["runs"]) == (2, 2)


def test_more_jobs_than_four_a_core_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert [explore_command._jobs(wanted, 1 << 40) for wanted in (1, 8, 9, 500)] == [1, 8, 8, 8]


def test_seconds_bound_a_campaign_instead_of_runs(callboard: Callboard) -> None:
    endless = ("--runs", "1000000000", "--seconds", "0.000001")
    told = json.loads(callboard("explore", "shop:calm", *endless, "--json").stdout)
    assert told["figures"]["runs"] < 1_000


def test_a_schedule_that_fits_no_longer_says_so(callboard: Callboard, shop: Path) -> None:
    command = command_in(callboard("explore", "shop:orders").stdout)
    shop.write_text(SHOP.replace("range(6)", "range(2)"))
    sys.modules.pop("shop")
    done = callboard(*command)
    assert done.exit_code == USAGE
    assert "the schedule no longer fits at step" in done.stderr


def test_a_run_of_which_the_bug_is_gone_is_shown_as_kept(callboard: Callboard, shop: Path) -> None:
    command = command_in(callboard("explore", "shop:orders").stdout)
    shop.write_text(SHOP.replace('[:1] != ("m3",)', '[:1] != ("m9",)'))
    sys.modules.pop("shop")
    done = callboard(*command)
    assert done.exit_code == 0
    assert "no rule is broken" in done.stdout


def test_a_schedule_stays_valid_when_a_rule_is_added(callboard: Callboard, shop: Path) -> None:
    command = command_in(callboard("explore", "shop:orders").stdout)
    before = json.loads(callboard(*command, "--json").stdout)
    shop.write_text(SHOP + ADDED)
    sys.modules.pop("shop")
    done = callboard(*command)
    assert done.exit_code == FAILED
    told = json.loads(callboard(*command, "--json").stdout)
    assert told["steps"] == before["steps"]
    assert [one["rule"] for one in told["violations"]] == ["It never begins.", before["rule"]]
    assert (told["rule"], told["at"]) == ("It never begins.", 0)
    for one in told["violations"]:
        assert f": {one['rule']}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere:x"], "there is no module 'nowhere'"),
        (["shop:nothing"], "scenarios there: booking, calm (a function)"),
        (["shop"], "write shop:scenario"),
        (["shop:host"], "shop:host is an Agent"),
        (["shop:number"], "shop:number is of type int"),
        (["shop:counter"], "of type function"),
        (["shop:raises"], "loading shop:raises() failed: RuntimeError: no luck"),
        (["shop:calm", "--scheduler", "best"], "there is no scheduler 'best'"),
        (["shop:calm", "--schedule", "abc"], "a schedule starts with '1'"),
        (["shop:calm", "--schedule", "1.00000000.abc"], "the schedule is of scenario 00000000"),
        (["shop:calm", "--save", "x.db"], "only sessions can be recorded"),
        (["shop:calm", "--check-determinism", "--jobs", "2"], "leave --jobs out"),
        (["shop:booking", "--save", "nowhere/x.db"], "the folder nowhere does not exist; make it first"),
        (["shop:booking", "--save", "."], "this is a folder; name a file"),
        (["shop:booking", "--save", "shop.py"], "this file is not a log"),
        (["shop:calm", "--scheduler", "pct:0"], "there is no scheduler 'pct:0'"),
        (["shop:calm", "--seconds", "nan"], "give a number of seconds above 0"),
        (["shop:calm", "--seconds", "inf"], "give a number of seconds above 0"),
        (["shop:calm", "--jobs", "0"], "Invalid value for '--jobs'"),
        (["shop:calm", "--runs", "0"], "Invalid value for '--runs'"),
    ],
)
def test_what_cannot_work_is_a_mistake_of_usage_and_says_what_can(
    callboard: Callboard, arguments: list[str], said: str
) -> None:
    done = callboard("explore", *arguments)
    assert done.exit_code == USAGE
    assert done.stdout == ""
    assert said in done.stderr


def test_an_example_is_recorded_and_opens_with_every_command(callboard: Callboard, tmp_path: Path) -> None:
    done = callboard("explore", "shop:booking", "--runs", "200", "--save", "found.db")
    session = done.stderr.split("recorded as session ")[1].split(";")[0]
    for command in ("show", "tree", "events", "verify", "check"):
        looked = callboard(command, session, "--log", "found.db")
        assert looked.exit_code == 0, (command, looked.stderr)
    assert "book" in callboard("events", session, "--log", "found.db").stdout
    again = callboard(*command_in(done.stdout), "--save", "again.db")
    assert f"recorded as session {session}" in again.stderr
    nothing = callboard("explore", "shop:faulty", "--runs", "5", "--save", "none.db")
    assert "nothing was written to none.db" in nothing.stderr
    assert not (tmp_path / "none.db").exists()


@pytest.mark.slow
def test_several_processes_share_the_runs(callboard: Callboard) -> None:
    told = json.loads(callboard("explore", "shop:calm", "--runs", "101", "--jobs", "2", "--json").stdout)
    assert (told["figures"]["runs"], told["jobs"]) == (101, 2)
    done = callboard("explore", "shop:booking", "--jobs", "2")
    assert done.exit_code == FAILED
    assert callboard(*command_in(done.stdout)).exit_code == FAILED


@pytest.mark.slow
def test_runs_are_made_again_in_other_processes_and_compared(callboard: Callboard) -> None:
    done = callboard("explore", "shop:calm", "--runs", "20", "--check-determinism")
    assert done.exit_code == 0, done.output
    done = callboard("explore", "shop:impure", "--check-determinism")
    assert done.exit_code == FAILED
    assert done.stdout.startswith(
        "not deterministic after step 1 (c handles m from s): c, state[0]\n  here: "
    )
    again = callboard(*command_in(done.stdout), "--json")
    assert again.exit_code == FAILED
    assert json.loads(again.stdout)["nondeterminism"]["actor"] == "c"


@pytest.mark.slow
def test_ctrl_c_shows_the_findings_so_far_and_twice_leaves(tmp_path: Path) -> None:
    for jobs in ("1", "2"):
        with Terminal(
            tmp_path, "explore", "shop:endless", "--scheduler", "random", "--jobs", jobs
        ) as terminal:
            terminal.until(" of 10,000 runs")
            terminal.type("\x03")
            terminal.until("stopping after the current run")
            terminal.until("interrupted; the results so far:")
            terminal.until(" by random, seed 0")
            assert terminal.end() == INTERRUPTED
    (tmp_path / "shop.py").write_text(SHOP.replace("sleep(0.002)", "sleep(60)"))
    with Terminal(tmp_path, "explore", "shop:endless") as terminal:
        terminal.until("a run begins")
        terminal.type("\x03")
        terminal.until("stopping after the current run")
        terminal.type("\x03")
        # A signal in the last moment of the interpreter ends it by itself: a shell sees 130 in both cases.
        assert terminal.end() in (INTERRUPTED, -signal.SIGINT)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 160])
def test_on_a_terminal_no_line_of_a_chart_is_wider_than_it(tmp_path: Path, columns: int) -> None:
    with Terminal(tmp_path, "explore", "shop:booking", columns=columns) as terminal:
        assert terminal.end() == FAILED
    lines = terminal.text.replace("\r", "\n").splitlines()
    chart = lines[next(n for n, one in enumerate(lines) if one.startswith("broken after")) + 2 :]
    chart = chart[: chart.index("")]
    assert len(chart) > 15
    assert max(map(len, chart)) <= columns


@pytest.mark.slow
def test_through_a_pipe_only_the_result_is_on_stdout(tmp_path: Path) -> None:
    done = piped(tmp_path, "explore", "shop:booking")
    assert done.returncode == FAILED
    assert done.stdout.startswith("broken after step ")
    first, *progress = done.stderr.splitlines()  # it is told every few seconds
    assert first == "the module is loaded"
    assert all(re.match(r"[\d,]+ of [\d,]+ runs, ", line) for line in progress)
    assert "\x1b" not in done.stdout + done.stderr
