"""Sessions with calls that ask a person for input, over several rounds."""

import dataclasses
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool, RequestApproval, ToolReturned
from callboard.actors.protocol.value_types import INPUT_ROUNDS_MAX, InputAsked
from callboard.replay.testing.sessions.faults import NO_FAULTS, Faults, faults
from callboard.replay.testing.sessions.scenario import Scenario, approves, ask, profile, program_profile
from callboard.replay.testing.sessions.scripted_replies import calls, task, tool
from tests.mutants.scenarios_programs import Running, cast, everything
from tests.mutants.scripts import DONE, LOOK, PAY, PUT, SAVE, by_place, script

CRASHES: Final = faults("crash", most=1, fault_mixes=0)


def asks_twice(address: str, call: CallTool, rounds: int = 2) -> ToolReturned:
    """Answer as a tool that asks for input so many times, each time for another."""
    done = call.given.round if call.given else 0
    if call.tool == "look" or done >= rounds:
        return ToolReturned(call.turn, call.call, "ok", text_json(f"did {call.tool}"))
    forms = Json(b'{"form":{"message":"%d","schema":{"type":"object"}}}' % done)
    asked = InputAsked(forms, f"{address} {call.turn}.{call.call} round {done}")
    return ToolReturned(call.turn, call.call, "input_required", text_json("it asks for input"), asked=asked)


def asks_forever(address: str, call: CallTool) -> ToolReturned:
    """Answer as a tool that asks for input again and again."""
    return asks_twice(address, call, INPUT_ROUNDS_MAX + 5)


def two_rounds() -> Scenario:
    """Build two calls at a time that ask twice each, with one place for a tool."""
    policy = script(host=[calls(SAVE, PUT, LOOK), DONE])
    people = [profile("host", [], ["look"], writes=["save"], repeats=["put"])]
    return Scenario(people, policy, [ask()], Limits(max_parallel_tools=1), tool=asks_twice)


def too_many_rounds() -> Scenario:
    """Build a call that asks for input more often than it may."""
    policy = script(host=[calls(SAVE), DONE])
    return Scenario([profile("host", writes=["save"])], policy, [ask()], tool=asks_forever)


def crashed_rounds() -> Scenario:
    """Build calls of every effect that ask for input, in processes that die."""
    return dataclasses.replace(two_rounds(), limits=Limits(), faults=CRASHES)


def stopped_rounds() -> Scenario:
    """Build calls in a later round, and questions, of agents that lose a race; then their process dies."""
    policy = script(
        host=[calls(task("kid", copies=2)), DONE],
        kid=[by_place(calls(LOOK), calls(SAVE, PUT, SAVE, PUT)), DONE],
    )
    people = [profile("host", ["kid"]), profile("kid", [], ["look"], writes=["save"], repeats=["put"])]
    chosen = faults("crash", "cancel", "ignored", "finished", fault_mixes=7, seed=5)
    return Scenario(people, policy, [ask()], tool=asks_twice, faults=chosen)


def declined() -> Scenario:
    """Build people who give some calls input, and some none; some ask to hold their answer always."""

    def person(address: str, asked: RequestApproval) -> ApprovalGiven:
        given = approves(address, asked)
        if asked.round == 2 and asked.call == 1:
            return ApprovalGiven(asked.turn, asked.call, "denied", "no", "seen" if asked.turn == 1 else "")
        return replace(given, is_always=(asked.round > 0) == (asked.turn == 1))

    policy = script(host=[calls(PAY, PAY), calls(PAY, PAY), DONE])
    people = [profile("host", asks=["pay"])]
    chosen = faults("crash", "denied", fault_mixes=7, seed=3)
    return Scenario(people, policy, [ask()], tool=asks_twice, approve=person, faults=chosen)


def programs_rounds(chosen: Faults = NO_FAULTS) -> Scenario:
    """Build a program whose tools ask for input, some of them in line."""

    def host(prompt: object) -> Running:
        got = yield from everything(
            tool("s0", "save"), tool("s1", "save"), tool("l0", "look"), tool("s2", "save")
        )
        return str(got)

    people = [program_profile("host", [], ["look"], writes=["save"], limits=Limits(max_parallel_tools=2))]
    return Scenario(people, cast({"host": host}), [ask()], tool=asks_twice, faults=chosen)


def crashed_programs() -> Scenario:
    """Build the same in processes that die or end politely."""
    return programs_rounds(faults("crash", "detach", fault_mixes=7, seed=7))


ROUNDS: Final[Mapping[str, Scenario]] = {
    one.__name__: one()
    for one in (
        two_rounds,
        too_many_rounds,
        crashed_rounds,
        stopped_rounds,
        declined,
        programs_rounds,
        crashed_programs,
    )
}
"""By name, in the order in which runs are made."""
