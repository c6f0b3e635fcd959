"""Captions say the message of a step in the words of its description."""

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.findings import chart
from callboard.replay.testing.sessions.capacity_world import CapacityWorld
from callboard.replay.testing.sessions.captions import CHARS_MAX
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, report, task
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.testing.world import steps_of
from tests.mutants.scenarios_capacity import SHARED
from tests.replay.testing.scenarios import RICH, rich


def raw(value: object) -> Json:
    return Json(msgspec.json.encode(value))


def test_every_step_of_a_rich_session_names_its_tool_or_agent() -> None:
    told = [step.about for step in steps_of(rich())]
    for expected in (
        "Ask go",
        "Begin kid: count (with a schema)",
        "Delegate to kid: count (with a schema)",
        "Delegate to racer, racer: race",
        "Delegate to grandkid: dig",
        "tool save {}",
        "tool look {}",
        "approval pay {}",
        "ApprovalGiven pay approved",
        "ToolStarted save turn 1, call 2",
        "ReportJudged invalid",
        'ReportBack {"n":2}',
        "host.1.1 answers grandkid is done",
        "ModelReplied ",
        "DelegationEnded host.1.1 answered: grandkid is done",
        'DelegationEnded host.1 reported: {"n":2}',
    ):
        assert any(one.startswith(expected) for one in told), expected
    assert any(one.startswith("ToolReturned look ") for one in told)


def one_tool(arguments: dict[str, object], **options: object) -> SessionWorld:
    """Make a session in which the host calls one tool."""

    def policy(request: object) -> Reply:
        return calls(("look", arguments)) if getattr(request, "turn", 0) == 1 else Reply("done")

    return SessionWorld(Scenario((profile("host", tools=["look"]),), policy, [ask()], **options))  # type: ignore[arg-type]  # options by name


def test_captions_stay_on_one_line_obey_no_terminal_and_are_short() -> None:
    world = one_tool({"path": "a\n\x1b[2J\u202e" + "x" * 5_000}).run()
    (told,) = {step.about for step in steps_of(world) if step.strand == "tool host/1.0"}
    assert told.startswith('tool look {"path":"a\\n\\u001b[2J\N{REPLACEMENT CHARACTER}xxx')
    assert len(told) == CHARS_MAX


def test_a_fault_at_a_port_names_the_call_that_it_strikes() -> None:
    world = one_tool({"path": "a.txt"}, faults=faults("raises"))
    while not any(move.strand == "fault raises tool host/1.0" for move in world.moves()):
        world.make(next(move for move in world.moves() if move.kind != "fault" or "mix" in move.strand))
    world.make(next(move for move in world.moves() if move.strand == "fault raises tool host/1.0"))
    assert steps_of(world)[-1].about == 'fault: raises tool look {"path":"a.txt"}'
    world.run()
    assert any(step.about.startswith("ToolReturned look error") for step in steps_of(world))


def test_a_trace_for_the_search_has_no_captions_and_a_chart_shows_them() -> None:
    world = rich()
    assert {step.about for step in world.trace()} == {""}
    assert any("Delegate to kid: count" in line for line in chart(steps_of(world), 120))


def test_captions_are_those_of_the_log_before_a_crash_too() -> None:
    world = SessionWorld(RICH)
    for _ in range(12):
        world.make(world.moves()[0])
    before = [step.about for step in steps_of(world)]
    world.log = list(world.log)  # what a crash does
    world.run()
    assert [step.about for step in steps_of(world)][:11] == before[:11]


def test_several_sessions_on_one_port_have_captions() -> None:
    world = CapacityWorld(SHARED["stops"]).run()
    told = steps_of(world)
    assert len(told) == len(world.made)
    assert any(" answers " in step.about for step in told)


def test_a_report_is_told_as_the_model_made_it() -> None:
    def policy(request: object) -> Reply:
        who, turn = getattr(request, "profile", ""), getattr(request, "turn", 0)
        if who == "kid":
            return report({"n": 1})
        return calls(task("kid", "count", output_schema={"type": "object"})) if turn == 1 else Reply("done")

    world = SessionWorld(Scenario((profile("host", ["kid"]), profile("kid")), policy, [ask()])).run()
    assert 'host.1 answers report_back {"n":1}' in [step.about for step in steps_of(world)]


def test_a_model_that_fails_and_a_person_who_refuses_are_told_with_their_reasons() -> None:
    def policy(request: object) -> Reply:
        if getattr(request, "turn", 0) == 1:
            return calls(("pay", {"euros": 5}))
        return Reply(failure=ModelFailure("bad_request", "no credit"))

    def approve(address: str, asked: RequestApproval) -> ApprovalGiven:
        return ApprovalGiven(asked.turn, asked.call, "denied", "too much")

    host = profile("host", asks=["pay"])
    told = [
        step.about
        for step in steps_of(SessionWorld(Scenario((host,), policy, [ask()], approve=approve)).run())
    ]
    assert "ApprovalGiven pay denied: too much" in told
    assert "host answers error: bad_request: no credit" in told
