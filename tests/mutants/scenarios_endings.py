"""Sessions of ends: empty last words, refusals that latch, bounded questions, failures of a program's own."""

from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import ModelSpec
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile, program_profile, tell
from callboard.replay.testing.sessions.scripted_replies import (
    Answers,
    Failed,
    Reply,
    Step,
    calls,
    delegate,
    question,
    task,
    tool,
)
from tests.mutants.scenarios_programs import Running, cast, everything
from tests.mutants.scripts import DONE, LOOK, race, script

THOUGHT: Final = Reply(content=b'[{"type":"thinking","thinking":"hm","signature":"s"}]')
NOTHING: Final = Reply(content=b"[]")
DEAR: Final = ModelSpec("dear", 400)
CHEAP: Final = ModelSpec("cheap", 20)


def silent() -> Scenario:
    """Build agents that say nothing: at first, twice, after work, and while words reach them."""
    policy = script(
        host=[calls(task("mute"), task("shy"), task("worker")), NOTHING, THOUGHT],
        mute=[THOUGHT, NOTHING, NOTHING],
        shy=[NOTHING],
        worker=[calls(LOOK), THOUGHT],
    )

    def second_time(request):  # type: ignore[no-untyped-def]  # a policy
        if request.profile == "shy" and request.attempt == 2:
            return DONE
        return policy(request)

    people = [profile("host", ["mute", "shy", "worker"]), profile("mute"), profile("shy")]
    people += [profile("worker", [], ["look"], limits=Limits(max_model_attempts=2))]
    words = [tell("more", "host", "t1"), tell("quick", "host.1", "t2")]
    chosen = faults("crash", "detach", "overloaded", "cancel", fault_mixes=5, seed=4)
    return Scenario(people, second_time, [ask(), ask(request_id="r2")], tells=words, faults=chosen)


def silent_with_tasks() -> Scenario:
    """Build an agent that says nothing beside its tasks, and nothing to their ends."""
    policy = script(
        host=[calls(task("kid", background=True)), NOTHING, THOUGHT, NOTHING], kid=[NOTHING, NOTHING, DONE]
    )
    people = [profile("host", ["kid"], background=True), profile("kid")]
    chosen = faults("crash", "detach", fault_mixes=3, seed=2)
    return Scenario(people, policy, [ask()], tells=[tell()], faults=chosen)


def poor() -> Scenario:
    """Build programs in one budget that catch refusals, ask on, and return their findings."""

    def lead(prompt: object) -> Running:
        got: Answers = yield Step((question("q", model="dear"), tool("t", "look"), tool("s", "save")))
        while not any(one.startswith("q") for one in got):
            got = yield Step()
        got = yield Step((question("q2"), delegate("k", "kid"), tool("u", "look")))
        while "q2" not in got:
            got = yield Step()
        if got["q2"]["status"] != "ok":
            yield Step((question("late"), tool("v", "save")))
        return "partial"

    def host(prompt: object) -> Running:
        asks = [delegate("a", "lead"), delegate("b", "lead"), question("c", model="cheap"), tool("d", "look")]
        got = yield from everything(*asks)
        return got

    policy = cast({"host": host, "lead": lead}, kid=[calls(LOOK), DONE], ask_model=[DONE])
    people = [
        program_profile("host", ["lead"], ["look"], models=[CHEAP]),
        program_profile("lead", ["kid"], ["look"], writes=["save"], models=[DEAR]),
        profile("kid", [], ["look"], limits=Limits(tokens=180)),
    ]
    chosen = faults("crash", "detach", "cancel", "overloaded", "slow", fault_mixes=5, seed=6)
    limits = Limits(tokens=900, max_parallel_calls=2)
    return Scenario(people, policy, [ask(), ask(request_id="r2")], limits, faults=chosen)


def curious() -> Scenario:
    """Build programs that put more questions than they may, one by one and at once, and fail themselves."""

    def one_by_one(prompt: object) -> Running:
        for at in range(9):
            got: Answers = yield Step((question(f"q{at}"), tool(f"t{at}", "look")))
            while f"q{at}" not in got:
                got = yield Step()
            if got[f"q{at}"]["status"] != "ok":
                return f"{at} answers"
        return "all"

    def at_once(prompt: object) -> Running:
        yield from everything(tool("s", "save"), question("q"))
        got = yield from everything(*[question(f"p{at}") for at in range(4)], tool("t", "look"))
        return got

    def gives_up(prompt: object) -> Running:
        yield Step((tool("t", "look"), tool("s", "save"), question("q")))
        raise Failed("nothing to do", "no_report")

    def host(prompt: object) -> Running:
        got = yield from everything(*[delegate(name, name) for name in ("one_by_one", "at_once", "gives_up")])
        return got

    scripts = {"host": host, "one_by_one": one_by_one, "at_once": at_once, "gives_up": gives_up}
    policy = cast(scripts, ask_model=[DONE])
    few = Limits(max_iterations=3)
    people = [program_profile("host", ["one_by_one", "at_once", "gives_up"])]
    people += [program_profile("one_by_one", [], ["look"], limits=few)]
    people += [program_profile("at_once", [], ["look"], writes=["save"], limits=few)]
    people += [program_profile("gives_up", [], ["look"], writes=["save"])]
    chosen = faults("crash", "detach", "overloaded", "slow", fault_mixes=5, seed=8)
    return Scenario(people, policy, [ask()], Limits(max_iterations=2), faults=chosen)


def curious_brain() -> Scenario:
    """Build a brain whose questions and turns count together."""

    def host(prompt: object) -> Running:
        for at in range(9):
            yield from everything(question(f"q{at}"), tool(f"t{at}", "look"))
        return "all"

    brain = replace(profile("host", [], ["look"], limits=Limits(max_iterations=7)), turns="any")
    chosen = faults("crash", "detach", fault_mixes=3, seed=8)
    return Scenario([brain], cast({"host": host}, ask_model=[DONE]), [ask()], faults=chosen)


def cancelled_agents() -> Scenario:
    """Build agents of which a person cancels one with a child, a racer, and a task, each at any time."""
    policy = script(
        host=[calls(task("boss"), race("kid", "kid"), task("kid", background=True)), calls(LOOK), DONE],
        boss=[calls(task("kid"), task("kid")), DONE],
        kid=[calls(LOOK), DONE],
    )
    people = [profile("host", ["boss", "kid"], ["look"], background=True), profile("boss", ["kid"])]
    people += [profile("kid", [], ["look"])]
    cancels = [Cancel("enough", who) for who in ("host.1", "host.1.2", "host.2", "host.4", "host.9", "tools")]
    chosen = faults("crash", "detach", "overloaded", "cancel", fault_mixes=5, seed=6)
    return Scenario(people, policy, [ask(), ask(request_id="r2")], tells=cancels, faults=chosen)


ENDINGS: Final = {
    one.__name__: one() for one in (silent, silent_with_tasks, poor, curious, curious_brain, cancelled_agents)
}
"""By name, in the order in which runs are made."""
