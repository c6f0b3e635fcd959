from typing import Any

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.agents.runs import Scenario
from callboard.replay.testing.agents.subject import Parts, made, protocol_name, run_lines, subject_of
from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.monitors import always, at_rest
from callboard.replay.testing.schedule import Schedule
from callboard.replay.testing.sessions import monitors
from callboard.replay.testing.sessions.monitors import EFFECTS, SessionMonitor
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import call, say
from callboard.runtime.tools.tool import tool
from tests.replay.testing.programs import collector
from tests.tables import table


@tool(effect="read")
def look(at: str) -> str:
    """Look."""
    return at


HOST = Agent("host", tools=[look])
NEVER = always("Nobody ever looks.", lambda world: not world.effects)


def policy(request: Any) -> Any:
    return call("look", at="it") if request.turn == 1 else say("done")


SESSION = Scenario(HOST, policy, monitors=[NEVER], name="looking")


def session() -> Scenario:
    return SESSION


def protocol() -> Parts:
    rule = always("b is not first", lambda world: world.states["c"][:1] != ("b",))
    return collector("a", "b").world, [rule]


def test_a_scenario_is_a_subject_by_itself_and_made_by_a_function() -> None:
    for value in (SESSION, session):
        subject = subject_of(value, "x:looking")
        assert (subject.name, subject.session, subject.fingerprint) == (
            "x:looking",
            SESSION,
            SESSION.fingerprint,
        )
        make_world, monitors = subject()
        assert NEVER.rule in [getattr(one, "rule", "") for one in monitors]
        assert make_world().moves()


def test_a_protocol_is_called_by_the_last_part_of_its_module_and_its_name() -> None:
    subject = subject_of(protocol, "anything")
    assert (subject.session, subject.fingerprint) == (None, "test_subject:protocol")
    assert protocol_name(protocol) == subject.fingerprint
    assert subject()[1] is not subject()[1]


def needs(something: object) -> Scenario:
    return SESSION


def gives_three() -> int:
    return 3


def gives_strings() -> tuple[str, str]:
    return "a", "b"


@table("value", [3, HOST, Scenario, needs, gives_three, gives_strings, None])
def test_a_value_that_is_no_scenario_is_refused_with_the_right_type(value: object) -> None:
    with pytest.raises(MisuseError, match=r"a scenario is a callboard\.testing\.Scenario"):
        subject_of(value, "x:y")


def test_a_report_tells_the_details_of_the_broken_rule_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of(SESSION, "x:looking")
    found = explore(*subject(), Plan(runs=20, scenario=subject.fingerprint))
    lines = subject.lines(found, 80, lambda text: f"again {text}")
    assert lines[0].endswith("Nobody ever looks.")
    assert any(line.startswith("again 1.") for line in lines)
    assert "in detail:" not in lines  # what the run left undone is no breach of this rule
    text = found.counterexamples[0].text
    assert subject.details(text, EFFECTS.rule) == []
    monkeypatch.setattr(monitors, "session_monitors", lambda every: [SessionMonitor("x", "A rule.", log_end)])
    assert subject.details(text, "A rule.") == ["  event 9: the log ends"]


def log_end(world: SessionWorld) -> str:
    return "the log ends"


def test_one_run_is_shown_with_the_step_that_breaks_the_rule_or_as_kept() -> None:
    subject = subject_of(protocol, "x:protocol")
    run, world = made(subject, Schedule(("s1>c",)))
    lines = run_lines(subject, run, world, 80)
    assert lines[-1] == "broken after step 1: b is not first"
    assert "  1* " in lines[1]
    run, world = made(subject, Schedule(("s0>c", "s1>c")))
    assert run_lines(subject, run, world, 80)[-1] == "2 steps, no rule is broken"
    run, world = made(subject, Schedule(("s0>c",)))
    assert run_lines(subject, run, world, 80)[-1] == (
        "1 step, no rule is broken; the schedule ends before the run is at rest"
    )


def test_a_run_that_breaks_several_rules_is_shown_whole_with_each_of_them() -> None:
    def strict() -> tuple[Any, list[Any]]:
        make_world, rules = protocol()
        return make_world, [*rules, at_rest("It never ends.", lambda world: False)]

    subject = subject_of(strict, "x:strict")
    run, world = made(subject, Schedule(("s1>c", "s0>c")))
    lines = run_lines(subject, run, world, 80)
    assert lines[-2:] == ["broken after step 1: b is not first", "broken after step 2: It never ends."]
    assert [line[:4] for line in lines[1:3]] == ["  1*", "  2*"]
