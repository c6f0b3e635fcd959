"""Sessions in which something comes later: tools that change while calls stand in line, words and results in
later requests, reserves that shrink while tasks wait for them; and agents that may nest no deeper.
"""

from collections.abc import Mapping
from typing import Final

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.profiles import ToolsChange
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import (
    Scenario,
    ask,
    profile,
    program_profile,
    tell,
    tool_spec,
)
from callboard.replay.testing.sessions.scripted_replies import (
    Reply,
    Use,
    calls,
    delegate,
    question,
    report,
    task,
)
from callboard.replay.testing.sessions.scripted_replies import tool as asks_tool
from tests.mutants.scenarios_background import LAST, SO_FAR, behind
from tests.mutants.scenarios_programs import Running, cast, everything
from tests.mutants.scripts import DONE, LOOK, PUT, SAVE, SCHEMA, Line, script

SWAP: Final[Use] = ("swap", {"text": "x"})
LATE: Final[Use] = ("late", {})

MORE: Final = (tool_spec("look", "idempotent"), tool_spec("late"), tool_spec("swap", "idempotent"))


def changing(who: str, call: CallTool) -> ToolReturned:
    """Return a result; `put` and `swap` calls set other tools of their own agent."""
    change = {
        "put": ToolsChange(MORE, who),
        "swap": ToolsChange((tool_spec("look"), tool_spec("put", "idempotent")), profile="host"),
    }
    output = text_json(f"did {call.tool}")
    return ToolReturned(call.turn, call.call, "ok", output, tools=change.get(call.tool))


def _in_line(*, inline_tools: bool, places: int) -> Scenario:
    host: list[Line] = [
        calls(LOOK, PUT, LOOK, SAVE, LOOK),
        calls(SWAP, LOOK, LATE, LOOK),
        calls(PUT, PUT, LOOK, LOOK),
        calls(LATE, SWAP, LOOK),
        DONE,
    ]
    limits = Limits(max_parallel_tools=places)
    people = [
        profile(
            "host",
            [],
            ["look"],
            writes=["save"],
            repeats=["put", "swap"],
            limits=limits,
            inline_tools=inline_tools,
        )
    ]
    chosen = faults("crash", "detach", "cancel", "raises", "slow", most=2, fault_mixes=7, seed=13)
    return Scenario(people, script(host=host), [ask(), ask(request_id="r2")], tool=changing, faults=chosen)


def changing_in_line() -> Scenario:
    """Build replies with more tools than may run at a time, some of which change the tools."""
    return _in_line(inline_tools=True, places=2)


def changing_one_by_one() -> Scenario:
    """Build the same for a model that is sent other tools, with one place."""
    return _in_line(inline_tools=False, places=1)


def later_requests() -> Scenario:
    """Build long conversations: with results, words, failures, reports and calls of unknown usage."""
    unknown = Reply("look", (LOOK, LOOK), "tool_use", usage=None)
    policy = script(
        host=[calls(task("kid"), LOOK), unknown, calls(LOOK), unknown, calls(SAVE), LAST, LAST, LAST],
        kid=[calls(LOOK), unknown, report({"m": 1}), report({"n": 1})],
    )
    people = [
        profile("host", ["kid"], ["look"], writes=["save"]),
        profile("kid", [], ["look"], schema=SCHEMA),
    ]
    told = [tell(f"word {n}", who, f"t{n}") for n, who in enumerate(["host", "host.1", "host"])]
    chosen = faults("overloaded", "unmetered", "greedy", "huge", "cancel", most=2, fault_mixes=7, seed=17)
    return Scenario(people, policy, [ask(), ask("more", request_id="r2")], tells=told, faults=chosen)


def tight_tasks() -> Scenario:
    """Build tasks that wait for a budget which their host's later turns leave them again."""
    policy = script(
        host=[calls(*[behind()] * 4), calls(LOOK), calls(LOOK), calls(LOOK), SO_FAR, LAST],
        kid=[calls(LOOK), LAST],
    )
    people = [
        profile("host", ["kid"], ["look"], background=True),
        profile("kid", [], ["look"]),
    ]
    limits = Limits(tokens=5_400, max_result_chars=500)
    return Scenario(people, policy, [ask()], limits)


def tight_boss() -> Scenario:
    """Build a boss whose tasks wait for its own budget, while other agents take the slots."""
    policy = script(
        host=[calls(task("boss"), task("kid"), task("kid")), DONE],
        boss=[calls(behind(), behind("brief"), behind("brief")), calls(LOOK), calls(LOOK), SO_FAR, LAST],
        kid=[calls(LOOK), calls(LOOK), LAST],
        brief=[LAST],
    )
    people = [
        profile("host", ["boss", "kid"]),
        profile("boss", ["kid", "brief"], ["look"], background=True, limits=Limits(tokens=3_600)),
        profile("kid", [], ["look"]),
        profile("brief"),
    ]
    return Scenario(people, policy, [ask()], Limits(max_parallel_calls=2, max_result_chars=500))


def no_deeper() -> Scenario:
    """Build a host that may not delegate and tries to, and a later ask."""
    policy = script(host=[calls(task("kid"), LOOK), DONE], kid=[DONE])
    people = [profile("host", ["kid"], ["look"], limits=Limits(max_depth=0)), profile("kid")]
    return Scenario(people, policy, [ask(), ask(request_id="r2")])


def session_no_deeper() -> Scenario:
    """Build a session whose own limits allow no agent below the host, in spite of those of the host."""
    policy = script(host=[calls(task("kid")), DONE], kid=[calls(task("kid")), DONE])
    people = [profile("host", ["kid"], limits=Limits(max_depth=2)), profile("kid", ["kid"])]
    return Scenario(people, policy, [ask()], Limits(max_depth=0))


def child_no_deeper() -> Scenario:
    """Build agents that may not delegate below one that may."""
    policy = script(
        host=[calls(task("lead"), task("kid")), DONE],
        lead=[calls(task("kid"), task("kid")), DONE],
        kid=[calls(task("kid")), DONE],
    )
    people = [
        profile("host", ["lead", "kid"]),
        profile("lead", ["kid"], limits=Limits(max_depth=0)),
        profile("kid", ["kid"], limits=Limits(max_depth=1)),
    ]
    return Scenario(people, policy, [ask()], faults=faults("crash", most=1, fault_mixes=0))


def program_no_deeper() -> Scenario:
    """Build a program that may put questions to models and begin no agents."""

    def host(prompt: object) -> Running:
        got = yield from everything(delegate("a", "kid"), question("q"), asks_tool("t", "look"))
        return got

    people = [program_profile("host", ["kid"], ["look"], limits=Limits(max_depth=0)), profile("kid")]
    return Scenario(people, cast({"host": host}, kid=[DONE], ask_model=[DONE]), [ask()])


LATER: Final[Mapping[str, Scenario]] = {
    one.__name__: one()
    for one in (
        changing_in_line,
        changing_one_by_one,
        later_requests,
        tight_tasks,
        tight_boss,
        no_deeper,
        session_no_deeper,
        child_no_deeper,
        program_no_deeper,
    )
}
"""By name, in the order in which runs are made."""
