"""`callboard fork`."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Callboard

AGENTS = '''
from callboard import Agent, ScriptedModel, call, calls, say, tool

@tool(effect="read")
def measure(place: int) -> str:
    """Measure a place."""
    return f"{place * 10} degrees"

@tool(effect="write")
def mail(text: str) -> str:
    """Mail a text."""
    with open("mailed", "a") as file:
        file.write(text + "\\n")
    return "mailed"

def answer(request):
    told = b"".join(bytes(one) for one in request.messages).decode()
    if request.address != "host":
        place = int(request.address.rpartition(".")[2])
        if request.turn == 1:
            return call("measure", place=place)
        return say("It is hot." if "999" in told else "It is mild.")
    if request.turn == 1:
        return calls(*(call("task", agent="child", prompt=f"Place {at}.") for at in (1, 2, 3)))
    if request.turn == 2:
        return call("mail", text="hot" if "hot" in told else "mild")
    return say("All is " + ("hot." if "hot" in told else "mild."))

def other(request):
    return say("It is otherwise.")

child = Agent("child", description="Measures.", instructions="Measure.", tools=[measure])
host = Agent("host", agents=[child], tools=[mail], model=ScriptedModel(answer))
'''


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, callboard: Callboard) -> str:
    """Record a session of warm:host in the current folder; return its log."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "warm.py").write_text(AGENTS)
    (tmp_path / "result.txt").write_text("999 degrees")
    (tmp_path / "same.txt").write_text("20 degrees")
    (tmp_path / "prompt.md").write_text("Measure twice.")
    done = callboard("run", "warm:host", "How warm is it?", "--log", "own.db", "-q")
    assert done.exit_code == 0, done.stderr
    return "own.db"


def ids(callboard: Callboard, log: str) -> list[str]:
    done = callboard("sessions", "--log", log, "--json")
    return [row["session"] for row in json.loads(done.stdout)["sessions"]]


def test_a_fork_without_a_change_costs_nothing(callboard: Callboard, log: str) -> None:
    (origin,) = ids(callboard, log)
    done = callboard("fork", f"{origin}#20", "--with", "warm:host", "--log", log)
    assert (done.exit_code, done.stdout) == (0, "All is mild.\n"), done.stderr
    assert "asked again: 0 model calls; paid: 0 tokens" in done.stderr
    assert "start" not in done.stderr  # no agent ran: those of the recording are not shown as if they did
    assert done.stderr.count(": as recorded") == 4
    assert "mild" not in done.stderr
    fork, _ = ids(callboard, log)
    assert callboard("diff", origin, fork, "--log", log).exit_code == 0
    assert callboard("verify", "--all", "--log", log).exit_code == 0
    shown = json.loads(callboard("sessions", "--log", log, "--json").stdout)["sessions"][0]
    assert shown["fork_of"] == {"session": origin, "seq": 20}
    assert Path("mailed").read_text() == "mild\n"


def test_a_changed_result_that_leads_to_an_effect_ends_the_ask(callboard: Callboard, log: str) -> None:
    (origin,) = ids(callboard, log)
    done = callboard("fork", origin, "--with", "warm:host", "--set", "host.2:1:0=result.txt", "--log", log)
    assert done.exit_code == 1
    assert "call 0 of turn 2, mail, has an effect" in done.stderr
    assert "start  host.2 child: Place 2." in done.stderr
    assert "start  host.1" not in done.stderr
    assert "asked again: 2 model calls; paid: " in done.stderr
    assert Path("mailed").read_text() == "mild\n"
    options = ("--effects", "live", "--log", log, "-q")
    done = callboard("fork", origin, "--with", "warm:host", "--set", "host.2:1:0=result.txt", *options)
    assert (done.exit_code, done.stdout) == (0, "All is hot.\n"), done.stderr
    assert Path("mailed").read_text() == "mild\nhot\n"
    fork = ids(callboard, log)[0]
    assert callboard("diff", origin, fork, "--log", log).exit_code == 5
    assert callboard("verify", "--all", "--log", log).exit_code == 0


def test_another_prompt_is_paid_for_where_it_is_read(callboard: Callboard, log: str) -> None:
    (origin,) = ids(callboard, log)
    done = callboard(
        "fork", f"{origin}#2", "--with", "warm:host", "--prompt", "child=prompt.md", "--log", log
    )
    assert (done.exit_code, done.stdout) == (0, "All is mild.\n"), done.stderr
    assert "7 calls taken from the recording; asked again: 6 model calls; paid: 12 tokens" in done.stderr


@pytest.mark.parametrize(
    ("options", "made"),
    [
        (["--prompt", "child=prompt.md"], 6),  # two of each child; the host is told the same
        (["--prompt", "host=prompt.md"], 3),
        (["--prompt", "child=prompt.md", "--prompt", "host=prompt.md"], 9),
        (["--prompt", "child=prompt.md", "--set", "host.2:1:0=result.txt"], 7),  # and the effect is not run
    ],
)
def test_without_an_event_it_begins_before_the_first_agent_with_another_prompt(
    callboard: Callboard, log: str, options: list[str], made: int
) -> None:
    (origin,) = ids(callboard, log)
    done = callboard("fork", origin, "--with", "warm:host", *options, "--log", log)
    assert f"asked again: {made} model calls" in done.stderr, done.stderr
    assert callboard("verify", "--all", "--log", log).exit_code == 0


def test_without_an_event_it_begins_before_the_first_agent_that_has_changed(
    callboard: Callboard, log: str, tmp_path: Path
) -> None:
    (origin,) = ids(callboard, log)
    (tmp_path / "warmer.py").write_text(AGENTS.replace('"Measures."', '"Measures all."'))
    (tmp_path / "drier.py").write_text(AGENTS.replace('"Measure."', '"Measure twice."'))
    done = callboard("fork", origin, "--with", "drier:host", "--log", log)
    assert "asked again: 6 model calls; " in done.stderr, done.stderr
    done = callboard("fork", f"{origin}#40", "--with", "drier:host", "--log", log)
    assert done.exit_code == 2
    assert "a change of child does nothing after event 40, since all 3 agents" in done.stderr
    options = ("--set", "host.2:1:0=result.txt", "--with", "drier:host", "--log", log)
    done = callboard("fork", origin, *options)
    assert "asked again: 2 model calls; " in done.stderr  # the wish is the result, so nothing else is new
    assert "1 agent changed since the recording and already at work" in done.stderr
    done = callboard("fork", origin, "--with", "warmer:host", "--log", log)  # its text is in the host's tool
    assert "asked again: 0 model calls; " in done.stderr
    done = callboard("fork", origin, "--with", "warm:host", "--model", "scripted:warm:other", "--log", log)
    assert (done.exit_code, done.stdout) == (0, "It is otherwise.\n"), done.stderr


def test_a_tree_shows_agents_without_an_answer_of_the_fork_as_recorded(
    callboard: Callboard, log: str
) -> None:
    (origin,) = ids(callboard, log)
    options = ("--set", "host.2:1:0=result.txt", "--effects", "live", "--with", "warm:host", "--log", log)
    assert callboard("fork", origin, *options).exit_code == 0
    lines = callboard("tree", ids(callboard, log)[0], "--log", log).stdout.splitlines()
    assert [("as recorded" in line) for line in lines if " child " in line] == [True, False, True]
    assert lines[-1].startswith("4 agents: 4 ok (2 as recorded); ")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["ORIGIN", "--set", "host.2:1:0"], 2, "write CALL=FILE"),
        (["ORIGIN", "--set", "host.2=result.txt"], 2, "write AGENT:TURN:CALL, AGENT:TURN, or the seq"),
        (["ORIGIN", "--set", "host.9:1:0=result.txt"], 3, "no answer of host.9:1:0; there are: host:1"),
        (["ORIGIN", "--set", "host.2:1:0=missing.txt"], 3, "missing.txt cannot be read"),
        (["ORIGIN", "--set", "3=result.txt"], 2, "was decided by supervisor and cannot be changed"),
        (["ORIGIN", "--set", "99999=result.txt"], 3, "there is no 99999"),
        (["ORIGIN", "--prompt", "nobody=prompt.md"], 3, "no agent 'nobody'; there are: host, child"),
        (
            ["ORIGIN#30", "--prompt", "child=prompt.md"],
            2,
            "since all 3 agents of child begin before it: fork at",
        ),
        (["ORIGIN#3", "--prompt", "host=prompt.md"], 2, "since host begins before it: fork at 1 or before"),
        (["ORIGIN#0"], 3, "has events 1 to 59; there is no 0"),
        (
            ["ORIGIN"],
            2,
            "so nothing runs there: name a change, or fork at 1, before the last",
        ),
        (["ORIGIN#57"], 2, "no prompt is left after event 57"),
        (["ORIGIN", "--limit", "tokens=500"], 2, "or at any event up to 56"),
        (["ORIGIN", "--effects", "live"], 2, "no prompt is left after"),
        (["ORIGIN", "--until", "20"], 2, "no prompt is left after"),
        (["ORIGIN#1", "--until", "1"], 2, "no prompt is left after"),
        (["ORIGIN", "--set", "host.2:1:0=same.txt"], 2, "is the recorded one"),
        (["ORIGIN#40", "--model", "scripted:warm:other"], 2, "a change of the model does nothing after"),
        (["ORIGIN#x"], 3, "SESSION#SEQ"),
        (["ORIGIN@nothing"], 3, "has no checkpoint 'nothing'; there are: none; a tool makes one"),
        (["ORIGIN@"], 2, "SESSION@CHECKPOINT"),
        (["ORIGIN", "--set", "1=result.txt"], 2, "SessionOpened, cannot be changed"),
        (["ORIGIN", "--set", "4=result.txt"], 2, "change the input that it follows from"),
        (["nobody"], 3, "there is no session 'nobody'"),
    ],
)
def test_a_wish_that_cannot_be_met_says_what_to_write(
    callboard: Callboard, log: str, options: list[str], code: int, said: str
) -> None:
    (origin,) = ids(callboard, log)
    place, *rest = (option.replace("ORIGIN", origin) for option in options)
    done = callboard("fork", place, "--with", "warm:host", *rest, "--log", log)
    assert done.exit_code == code, done.stderr
    assert said in done.stderr
    assert ids(callboard, log) == [origin]


def test_show_and_tree_name_the_origins_and_the_forks(callboard: Callboard, log: str) -> None:
    (origin,) = ids(callboard, log)
    assert callboard("fork", f"{origin}#20", "--with", "warm:host", "--log", log, "-q").exit_code == 0
    first, _ = ids(callboard, log)
    assert callboard("fork", f"{first}#25", "--with", "warm:host", "--log", log, "-q").exit_code == 0
    second, _, _ = ids(callboard, log)
    for command in ("show", "tree"):
        of_origin = callboard(command, origin, "--log", log).stdout
        (line,) = [line for line in of_origin.splitlines() if line.startswith("forks ")]
        assert line.split(maxsplit=1) == ["forks", f"{first} (from #20)"]
        assert "fork of" not in of_origin
        of_second = callboard(command, second, "--log", log).stdout
        assert f"{first}#25, a fork of {origin}#20" in of_second
        assert "asked again: 0 model calls" in of_second
        found = json.loads(callboard(command, first, "--log", log, "--json").stdout)
        assert found["origins"] == [{"session": origin, "seq": 20}]
        assert found["forks"] == [{"session": second, "seq": 25}]


def test_show_and_tree_name_what_a_fork_and_its_origin_have_changed(callboard: Callboard, log: str) -> None:
    (origin,) = ids(callboard, log)
    changes = ("--set", "host.2:1:0=result.txt", "--set", "2=prompt.md")
    options = ("--with", "warm:host", "--effects", "live", "--log", log, "-q")
    assert callboard("fork", origin, *changes, *options).exit_code == 0
    first, _ = ids(callboard, log)
    length = json.loads(callboard("show", first, "--log", log, "--json").stdout)["events"]
    done = callboard("fork", f"{first}#{length - 10}", *options)
    assert done.exit_code == 0, done.stderr
    second = ids(callboard, log)[0]
    shown = callboard("events", second, "--kind", "Forked", "--json", "--log", log).stdout.splitlines()
    forked, _ = (json.loads(line)["seq"] for line in shown)
    for command in ("show", "tree"):
        lines = callboard(command, second, "--log", log).stdout.splitlines()
        (line,) = [line for line in lines if line.startswith("changed ")]
        assert line.split(maxsplit=1)[1] == f"input #2 (event {forked}), host.2:1:0 (event {forked})"
    text = callboard("events", first, "--kind", "Forked", "--log", log).stdout
    assert "changes input #2, changes host.2:1:0" in " ".join(text.split())


def test_a_session_up_to_an_event_is_looked_at_by_every_command(callboard: Callboard, log: str) -> None:
    (origin,) = ids(callboard, log)
    whole = json.loads(callboard("show", origin, "--log", log, "--json").stdout)["events"]
    part = f"{origin}#20"
    assert json.loads(callboard("show", part, "--log", log, "--json").stdout)["events"] == 20
    assert json.loads(callboard("verify", part, "--log", log, "--json").stdout)["events"] == 20
    assert json.loads(callboard("check", part, "--log", log, "--json").stdout)["events"] == 20
    assert json.loads(callboard("show", "--budget", part, "--log", log, "--json").stdout)["at"] == 20
    tree = callboard("tree", part, "--log", log, "--json").stdout
    assert tree == callboard("tree", origin, "--at", "20", "--log", log, "--json").stdout
    assert callboard("diff", part, part, "--log", log).exit_code == 0
    assert callboard("diff", part, origin, "--log", log).exit_code == 5
    lines = callboard("export", part, "--log", log).stdout.splitlines()
    assert len([line for line in lines if '"seq"' in line]) >= 20 > len(lines) - 12
    assert callboard("export", part, "--format", "db", "-o", "part.db", "--log", log).exit_code == 2
    listed = callboard("events", part, "--log", log, "--json").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in listed] == list(range(20, whole + 1))
    grouped = callboard("events", part, "--grouped", "--log", log, "--json").stdout.splitlines()
    assert min(json.loads(line)["first"] for line in grouped) >= 20
    found = callboard("search", part, "degrees", "--log", log, "--json").stdout.splitlines()
    assert found
    assert all(json.loads(line)["seq"] >= 20 for line in found)
    one = callboard("events", "--step", part, "--log", log, "--json").stdout
    assert json.loads(one)["seq"] == 20
    assert callboard("diagnose", part, "--log", log).exit_code == 0
    views = ("show --state", "show --budget", "events --step")
    for command in ("show", "tree", "events", "verify", "export", "diagnose", *views):
        gone = callboard(*command.split(), f"{origin}#{whole + 1}", "--log", log)
        assert gone.exit_code == 3, command
        assert f"events 1 to {whole}; there is no {whole + 1}" in gone.stderr


def test_several_forks_are_compared_in_a_table(callboard: Callboard, log: str) -> None:
    (origin,) = ids(callboard, log)
    options = ("--with", "warm:host", "--set", "host.2:1:0=result.txt", "--log", log, "--effects", "live")
    done = callboard("fork", f"{origin}#2", *options, "--n", "3")
    assert done.exit_code == 0, done.stderr
    heading, first, *rows = done.stdout.splitlines()
    assert heading.split() == [
        "SESSION",
        "OUTCOME",
        "TURNS",
        "CALLED",
        "REUSED",
        "TOKENS",
        "BILLED",
        "COST",
        "TEXT",
    ]
    assert first.split()[:2] == [origin, "answered"]
    assert [row.split()[1:5] for row in rows] == [["answered", "9", "3", "6"]] * 3
    assert all(row.endswith("All is hot.") for row in rows)
    done = callboard("fork", f"{origin}#2", *options, "--n", "2", "--json")
    shown = json.loads(done.stdout)
    assert shown["origin"]["session"] == origin
    assert [(one["called"], one["reused"]) for one in shown["forks"]] == [(3, 6)] * 2
    assert len(ids(callboard, log)) == 6
    assert callboard("verify", "--all", "--log", log).exit_code == 0


def test_forks_that_fail_say_so_in_the_table_and_by_the_exit_code(callboard: Callboard, log: str) -> None:
    (origin,) = ids(callboard, log)
    options = ("--with", "warm:host", "--set", "host.2:1:0=result.txt", "--log", log)
    done = callboard("fork", origin, *options, "--n", "2")
    assert done.exit_code == 1
    assert done.stdout.count("needs_effect") == 2


def test_another_prompt_for_an_ask_is_a_change_by_its_seq(callboard: Callboard, log: str) -> None:
    (origin,) = ids(callboard, log)
    done = callboard("fork", origin, "--with", "warm:host", "--set", "2=prompt.md", "--log", log)
    assert (done.exit_code, done.stdout) == (0, "All is mild.\n"), done.stderr
    assert "0 taken" not in done.stderr  # the children are asked the same


def test_a_fork_that_asks_refuses_off_a_terminal_and_runs_with_approve_all(
    callboard: Callboard, log: str
) -> None:
    (origin,) = ids(callboard, log)
    options = (
        "--with",
        "warm:host",
        "--set",
        "host.2:1:0=result.txt",
        "--log",
        log,
        "--effects",
        "ask",
        "-q",
    )
    assert callboard("fork", origin, *options).stdout == "All is hot.\n"
    assert Path("mailed").read_text() == "mild\n"
    assert callboard("fork", origin, *options, "--approve", "all").stdout == "All is hot.\n"
    assert Path("mailed").read_text() == "mild\nhot\n"
