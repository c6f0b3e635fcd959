"""Sessions of programs: calls that stay open over turns, lines, cancelled calls, deadlines, questions.

The programs are generators: `callboard.replay.testing.sessions.scripted_replies`.
"""

from collections.abc import Generator, Mapping
from typing import Final, TypeAlias

from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import (
    START_MS,
    Scenario,
    ask,
    profile,
    program_profile,
)
from callboard.replay.testing.sessions.scripted_replies import (
    Answers,
    Asked,
    Policy,
    Reply,
    Script,
    Step,
    calls,
    delegate,
    program,
    question,
    report,
    request,
    task,
    tool,
)
from tests.mutants.scripts import BROKEN, BUSY, DONE, LOOK, REFUSED, SCHEMA, Line, script

Running: TypeAlias = Generator[Step, Answers, object]
OTHER: Final = ModelSpec("other", 50)
SOON: Final = START_MS + 1_000


def cast(programs: Mapping[str, Script], **agents: list[Line]) -> Policy:
    """Build a policy: a script for each program, lines for each other agent."""
    scripts, lines = {name: program(one) for name, one in programs.items()}, script(**agents)
    return lambda request: scripts.get(request.profile, lines)(request)


def everything(*asks: Asked) -> Running:
    """Ask for all of these at once, and wait for each. Return the statuses of the answers, by id."""
    got: dict[str, object] = {}
    answers = yield Step(asks)
    while True:
        got |= {name: block["status"] for name, block in answers.items()}
        if len(got) == len(asks):
            return got
        answers = yield Step()


def gather() -> Scenario:
    """Build a gather of tools, delegations, races and questions, each kind over its cap."""

    def host(prompt: object) -> Running:
        tools = [tool(f"t{at}", "look") for at in range(3)] + [tool("t3", "save"), tool("t4", "nothing")]
        kids = [
            delegate("bad", "kid", output_schema=REFUSED),
            delegate("k0", "kid"),
            delegate("k1", "kid", copies=2),
            delegate("k2", "kid"),
        ]
        asked = [question("q0"), question("q1", schema=SCHEMA), question("q2", ""), delegate("k3", "kid")]
        got = yield from everything(*tools, *kids, *asked)
        return got

    policy = cast({"host": host}, kid=[calls(LOOK), DONE], ask_model=[report({"m": 1}), report({"n": 1})])
    limits = Limits(max_children=2, max_parallel_tools=2)
    people = [program_profile("host", ["kid"], ["look"], writes=["save"], limits=limits)]
    people += [profile("kid", [], ["look"])]
    return Scenario(people, policy, [ask()], faults=faults("crash", "raises", fault_mixes=7, seed=11))


LOOK_TOOL = {"name": "look", "description": "Look.", "input_schema": {"type": "object"}}


def whole_requests() -> Scenario:
    """Build questions with whole requests: grown, trimmed, side by side, typed, without a referent."""

    def host(prompt: object) -> Running:
        small = {"system": "Be short.", "tools": [LOOK_TOOL], "settings": {"top_k": 3}, "max_tokens": 9}
        yield from everything(request("a", "one", **small))
        yield from everything(request("b", ["a", 0, 2], "two", like="a", max_tokens=50))
        yield from everything(request("o", ["a", 0, 2], "two", system="Be long."))
        both = [
            request("c", ["b", 0, 4], "three", like="a"),
            request("d", ["b", 2, 4], ["a", 0, 1], like="b"),
        ]
        yield from everything(
            *both, question("q"), request("e", ["nowhere", 0, 1]), request("f", ["a", 1, 9])
        )
        typed = request("g", ["c", 0, 5], ["d", 3, 4], like="c", schema=SCHEMA, force_tool="look")
        left = request("h", "late", like="c")
        answers: Answers = yield Step((typed, left))
        yield Step(cancels=() if "h" in answers else ("h",))
        return "done"

    policy = cast({"host": host}, ask_model=[calls(LOOK), report({"n": 1})])
    people = [program_profile("host", [], ["look"], limits=Limits(max_children=2))]
    return Scenario(
        people, policy, [ask()], faults=faults("crash", "detach", "raises", fault_mixes=7, seed=5)
    )


def first_of_many() -> Scenario:
    """Build a race of calls of every kind, in which a program gives up all but the first, again and again."""

    def host(prompt: object) -> Running:
        for turn in range(3):
            asks = (
                tool(f"look{turn}", "look"),
                tool(f"save{turn}", "save"),
                tool(f"more{turn}", "look"),
                tool(f"pay{turn}", "pay"),
                delegate(f"kid{turn}", "kid"),
                delegate(f"boss{turn}", "boss"),
                question(f"q{turn}"),
            )
            answers: Answers = yield Step(asks)
            while not any(one.id in answers for one in asks):
                answers = yield Step()
            yield from _give_up(asks, answers, turn)
        return "done"

    policy = cast(
        {"host": host},
        kid=[calls(LOOK), DONE],
        boss=[calls(task("kid"), task("kid")), DONE],
        ask_model=[DONE],
    )
    limits = Limits(max_children=2, max_parallel_tools=2)
    people = [
        program_profile("host", ["kid", "boss"], ["look"], writes=["save"], asks=["pay"], limits=limits),
        profile("boss", ["kid"]),
        profile("kid", [], ["look"]),
    ]
    chosen = faults("crash", "detach", "finished", "slow", "denied", fault_mixes=7, seed=3)
    return Scenario(people, policy, [ask()], faults=chosen)


def _give_up(asks: tuple[Asked, ...], answers: Answers, turn: int) -> Running:
    """Give up all but one of the asks without an answer, with other ones beside, and wait for those."""
    kept = f"more{turn}"
    then = (tool(f"after{turn}", "look"), delegate(f"then{turn}", "kid"))
    wanted = {kept, *[one.id for one in then]} - answers.keys()
    left = tuple(one.id for one in asks if one.id not in (kept, *answers))
    answers = yield Step(then, cancels=left)
    while wanted := wanted - answers.keys():
        answers = yield Step()
    return None


def asked_later() -> Scenario:
    """Build a delegation that would fit, asked for while a race stands in line before it."""

    def host(prompt: object) -> Running:
        look, kids = tool("look", "look"), (delegate("k0", "kid"), delegate("k1", "kid", copies=2))
        answers: Answers = yield Step((look, *kids))
        got = dict(answers)
        while look.id not in got:
            got.update((yield Step()))
        late = delegate("k2", "kid")
        got.update((yield Step((late,))))
        while len(got) < 4:
            got.update((yield Step()))
        return "done"

    policy = cast({"host": host}, kid=[calls(LOOK), DONE])
    limits = Limits(max_children=2, max_parallel_tools=2)
    people = [program_profile("host", ["kid"], ["look"], limits=limits), profile("kid", [], ["look"])]
    return Scenario(people, policy, [ask()], faults=faults("crash", "detach", fault_mixes=7, seed=13))


def timeouts() -> Scenario:
    """Build calls with deadlines that are set, moved, dropped and met, while other calls are open."""

    def host(prompt: object) -> Running:
        answers = yield Step((tool("first", "look"),), wake=SOON - 800)
        if "first" in answers:  # sleep the rest
            answers = yield Step(wake=SOON - 800)
        answers = yield Step((tool("slow", "look"), tool("side", "look"), delegate("kid", "kid")), wake=SOON)
        if "slow" in answers:
            answers = yield Step((tool("next", "look"),), wake=SOON + 500)
        elif "kid" in answers:
            answers = yield Step((tool("next", "look"),), wake=SOON - 500)
        else:
            answers = yield Step((tool("next", "look"),), cancels=("slow",))
        if "next" not in answers:
            answers = yield Step(wake=SOON + 1_000)
        while "next" not in answers:  # without a deadline: one that is over would wake it forever
            answers = yield Step()
        yield Step(wake=SOON + 2_000)
        return "slept"

    policy = cast({"host": host}, kid=[calls(LOOK), DONE])
    people = [program_profile("host", ["kid"], ["look"]), profile("kid", [], ["look"])]
    chosen = faults("jump", "slow", "never", "crash", "detach", most=4, fault_mixes=3, seed=5)
    return Scenario(people, policy, [ask()], faults=chosen)


def stopped() -> Scenario:
    """Build gathers that are stopped: of racers that lose, by a deadline, by the client, by a failure."""

    def lead(prompt: object) -> Running:
        yield Step((tool("a", "look"), tool("b", "save"), tool("c", "look"), delegate("k", "kid")))
        yield Step((question("q"), delegate("k2", "kid")), wake=SOON)
        got = yield from everything(tool("d", "look"), tool("e", "look"))
        return got

    policy = cast(
        {"lead": lead},
        host=[calls(task("lead", copies=2), task("lead")), DONE],
        kid=[calls(LOOK), DONE],
    )
    limits = Limits(max_children=1, max_parallel_tools=2, deadline_s=1)
    people = [
        profile("host", ["lead"]),
        program_profile("lead", ["kid"], ["look"], writes=["save"], limits=limits),
        profile("kid", [], ["look"]),
    ]
    chosen = faults("cancel", "crashes", "jump", "slow", "finished", "crash", fault_mixes=7, seed=9)
    return Scenario(people, policy, [ask()], closes=True, faults=chosen)


def returns() -> Scenario:
    """Build programs that return, report, raise, get stuck or reach their cap, some with calls open."""

    def value(prompt: object) -> Running:
        answers = yield Step((tool("a", "look"), tool("b", "look"), delegate("k", "kid")))
        return {"n": len(answers)}

    def wrong(prompt: object) -> Running:
        yield Step((question("q"),))
        return {"m": 1}

    def raises(prompt: object) -> Running:
        yield Step((tool("a", "look"), tool("b", "save"), delegate("k", "kid")))
        raise RuntimeError("no")

    def stuck(prompt: object) -> Running:
        yield Step((tool("a", "look"),))
        yield Step()
        return "never"

    def endless(prompt: object) -> Running:
        for at in range(99):
            yield Step((tool(f"t{at}", "look"), tool(f"s{at}", "look")))
        return "never"

    def host(prompt: object) -> Running:
        asks = [delegate(name, name) for name in ("value", "raises", "stuck", "endless")]
        asks += [
            delegate("good", "value", output_schema=SCHEMA),
            delegate("bad", "wrong", output_schema=SCHEMA),
        ]
        got = yield from everything(*asks)
        return got

    scripts = {"host": host, "value": value, "wrong": wrong, "raises": raises, "stuck": stuck}
    policy = cast({**scripts, "endless": endless}, kid=[calls(LOOK), DONE], ask_model=[DONE])
    names = ("value", "wrong", "raises", "stuck", "endless")
    small = Limits(max_steps=3)
    people = [program_profile("host", names)]
    people += [program_profile(one, ["kid"], ["look"], writes=["save"]) for one in names[:-1]]
    people += [program_profile("endless", [], ["look"], limits=small), profile("kid", [], ["look"])]
    return Scenario(people, policy, [ask()], faults=faults("crash", "unchecked", fault_mixes=3, seed=2))


def broke() -> Scenario:
    """Build programs whose steps are free under a budget that their agents and questions use up."""

    def host(prompt: object) -> Running:
        got = yield from everything(
            *[question(f"q{at}", model="other") for at in range(4)], delegate("k", "kid")
        )
        for at in range(3):
            yield Step((tool(f"t{at}", "look"),))
        return got

    def again(request: ModelRequest) -> Reply:
        return Reply(failure=BUSY, usage=None) if request.attempt == 1 else DONE

    policy = cast({"host": host}, kid=[calls(LOOK), BROKEN], ask_model=[again])
    limits = Limits(max_parallel_calls=1, tokens=1_500, max_agents=2, max_depth=1)
    people = [program_profile("host", ["kid"], ["look"], models=[OTHER]), profile("kid", [], ["look"])]
    return Scenario(people, policy, [ask(), ask(request_id="r2")], limits)


def nested() -> Scenario:
    """Build programs below programs at the depth limit, with an interrupted tool that asks a person."""

    def inner(prompt: object) -> Running:
        asks = [tool("pay", "pay"), tool("send", "look"), question("q", schema=SCHEMA), delegate("k", "kid")]
        got = yield from everything(*asks)
        return got

    def host(prompt: object) -> Running:
        got = yield from everything(delegate("a", "inner"), delegate("b", "inner"))
        return got

    policy = cast({"host": host, "inner": inner}, ask_model=[report({"n": 1})])
    limits = Limits(max_depth=1, max_parallel_tools=1)
    people = [program_profile("host", ["inner"], limits=limits)]
    inner_one = program_profile("inner", ["kid"], ["look"], asks=["pay"], default_model=OTHER)
    people += [inner_one, profile("kid")]
    return Scenario(people, policy, [ask()], faults=faults("crash", "denied", most=2, fault_mixes=3))


def contexts_in_line() -> Scenario:
    """Build a line of delegations with contexts, some of which fail or are given up before they begin."""

    def host(prompt: object) -> Running:
        kids = [delegate(f"k{at}", "kid", copies=1 + at % 2) for at in range(4)]
        mixed = [delegate("plain", "plain"), delegate("schema", "kid", output_schema=SCHEMA)]
        answers: Answers = yield Step((*kids, *mixed))
        got = dict(answers)
        gone = [name for name in ("k1", "k3") if name not in got]
        answers = yield Step((delegate("late", "kid"),), cancels=tuple(gone))
        got |= answers
        while not {"k0", "k2", "plain", "schema", "late"} <= got.keys():
            got |= yield Step()
        return sorted(got)

    policy = cast({"host": host}, kid=[report({"n": 1})], plain=[DONE])
    limits = Limits(max_children=2)
    people = [program_profile("host", ["kid", "plain"], limits=limits)]
    people += [profile("kid", context="c"), profile("plain")]
    chosen = faults("unmade", "crash", "cancel", "crashes", "twice", most=3, fault_mixes=7, seed=4)
    return Scenario(people, policy, [ask()], faults=chosen)


PROGRAMS: Final = {
    one.__name__: one()
    for one in (
        gather,
        whole_requests,
        first_of_many,
        asked_later,
        timeouts,
        stopped,
        returns,
        broke,
        nested,
        contexts_in_line,
    )
}
"""By name, in the order in which runs are made."""
