"""Forks in which mutants are hunted: of sessions of every kind, at many events, with and without a change."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec
from msgspec.structs import replace as with_values

from callboard.actors.protocol.client_messages import Tell
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.file_versions import FileVersion, LeftOut
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallTool,
    RequestApproval,
    ToolReturned,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.shared_state import StateKey, StateUpdate
from callboard.actors.protocol.value_types import Effects
from callboard.actors.session.fork_plan import Place, calls_of
from callboard.actors.session.recorded_answers import OF_MODEL
from callboard.replay.testing.run import perform
from callboard.replay.testing.sessions.faults import NO_FAULTS, faults
from callboard.replay.testing.sessions.fork_world import Fork
from callboard.replay.testing.sessions.scenario import Scenario, approves, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.testing.world import Move
from tests.mutants import scenarios_programs as programs
from tests.mutants import scenarios_rich as rich
from tests.mutants import scenarios_rounds as rounds
from tests.mutants import scenarios_small as small
from tests.mutants.scripts import BUSY, DONE, LOOK, PAY, PUT, SAVE, script

EFFECTS: Final[tuple[Effects, ...]] = ("recorded", "ask", "live")
CRASHES: Final = faults("crash", most=1, fault_mixes=0)


def told(request: ModelRequest) -> str:
    """Return all that an agent was told."""
    return b"".join(bytes(one) for one in request.messages).decode()


def family(prompt: str = "go") -> Scenario:
    """Build a parent and three children with tools of every effect, whose arguments follow what they read."""

    def host(request: ModelRequest) -> Reply:
        if request.turn == 1:
            return calls(*(task("kid", str(number)) for number in range(3)), PUT)
        word = "other" if "other" in told(request) else "x"
        steps = [calls(("save", {"text": word}), LOOK), calls(("put", {"text": word}))]
        return steps[request.turn - 2] if request.turn in (2, 3) else Reply(f"done {word}")

    def kid(request: ModelRequest) -> Reply:
        word = "other" if "other" in told(request) else "x"
        steps = [calls(LOOK, LOOK), calls(("save", {"text": word}), LOOK), Reply(f"kid {word}")]
        return steps[request.turn - 1]

    def policy(request: ModelRequest) -> Reply:
        return (host if request.profile == "host" else kid)(request)

    people = [
        profile("host", ["kid"], ["look"], writes=["save"], repeats=["put"]),
        profile("kid", [], ["look"], writes=["save"]),
    ]
    return Scenario(people, policy, [ask(prompt), ask("again", request_id="r2")], closes=True)


def approved() -> Scenario:
    """Build calls that a person approves, and one that is approved after the change of another."""

    def policy(request: ModelRequest) -> Reply:
        pay = ("pay", {"text": "other" if "other" in told(request) else "x"})
        steps = [calls(LOOK, PAY), calls(pay, LOOK), DONE]
        return steps[request.turn - 1]

    def labelled(address: str, call: CallTool) -> ToolReturned:
        return ToolReturned(call.turn, call.call, "ok", text_json(f"did {call.tool}"), labels=("untrusted",))

    return Scenario([profile("host", [], ["look"], asks=["pay"])], policy, [ask()], tool=labelled)


def permitted() -> Scenario:
    """Build calls of which a person approves the first for good."""

    def always(address: str, request: RequestApproval) -> ApprovalGiven:
        return with_values(approves(address, request), is_always=True)

    policy = script(host=[calls(PAY), calls(PAY, LOOK), calls(PAY), DONE])
    return Scenario([profile("host", [], ["look"], asks=["pay"])], policy, [ask()], approve=always)


def sharing() -> Scenario:
    """Build children that read and write a shared counter."""

    def run(address: str, call: CallTool, state: Mapping[str, object]) -> ToolReturned:
        if call.tool == "save":
            update = (StateUpdate("count", Json(b"1")),)
            return ToolReturned(call.turn, call.call, "ok", text_json("added"), state_update=update)
        found = text_json(f"count {state['count']}")
        return ToolReturned(call.turn, call.call, "ok", found, state_read=("count",))

    def policy(request: ModelRequest) -> Reply:
        second = calls(PUT) if "other" in told(request) else calls(SAVE)
        return [calls(LOOK), second, calls(LOOK), DONE][request.turn - 1]

    return Scenario(
        [profile("host", [], ["look"], writes=["save"], repeats=["put"])],
        policy,
        [ask()],
        state=[StateKey("count", "add", Json(b"0"))],
        stateful=run,
    )


def repeating() -> Scenario:
    """Build calls with an effect that are made again, in other turns after a change, with reads after."""
    save, put = ("save", {"text": "x"}), ("put", {"text": "x"})
    as_recorded = [calls(LOOK), calls(save, put), calls(LOOK), calls(save, LOOK), calls(LOOK, put), DONE]
    changed = [
        calls(LOOK),
        calls(LOOK, save),
        calls(save, save, put),
        calls(save, LOOK),
        calls(put, LOOK),
        calls(LOOK, LOOK),
        DONE,
    ]

    def policy(request: ModelRequest) -> Reply:
        return (changed if "other" in told(request) else as_recorded)[request.turn - 1]

    return Scenario([profile("host", [], ["look"], writes=["save"], repeats=["put"])], policy, [ask()])


def late() -> Scenario:
    """Build an ask whose deadline ends it while a child still works."""
    policy = script(host=[calls(task("kid")), DONE], kid=[calls(LOOK), calls(LOOK), DONE])
    people = [profile("host", ["kid"]), profile("kid", [], ["look"])]
    return Scenario(people, policy, [ask(limits=Limits(deadline_s=3))])


def hurried() -> Scenario:
    """Build an agent that is told something, and whose model fails once after a change."""

    def policy(request: ModelRequest) -> Reply:
        if request.turn == 2 and request.attempt == 1 and "other" in told(request):
            return Reply(failure=BUSY, usage=None)
        return [calls(LOOK), calls(LOOK), DONE][min(request.turn, 3) - 1]

    host, words = profile("host", [], ["look"]), [Tell("t", "host", "hurry")]
    return Scenario([host], policy, [ask()], tells=words, tells_after={"t": "CallTool host:2:0"})


def after_a_minute() -> Iterator[tuple[str, Fork]]:
    """Yield forks with a timer that the recording did not have, due before the next words of the client."""
    scenario = hurried()
    log = recorded(scenario)
    first = next(event.seq for event in log if isinstance(event.body, Tell))
    later = [with_values(one, at=one.at + 60_000) if one.seq >= first else one for one in log]
    changed: dict[Place, Json] = {("host", 1, 0): text_json("other")}
    yield "a minute later", Fork(scenario, later, None, changed)
    yield "a minute later, crashes", Fork(replace(scenario, faults=CRASHES), later, None, changed)


def version(text: str, left_out: LeftOut = "") -> FileVersion:
    return FileVersion("a", text.ljust(8, "0"), len(text), left_out)


def writing() -> Scenario:
    """Build calls that write a file, of which one adds to the text there, and one writes a secret."""

    def written(address: str, call: CallTool) -> ToolReturned:
        text = msgspec.json.decode(call.arguments)["text"]
        one = version(text, "secret" if text == "secret" else "")
        contents = () if one.left_out else (Json(b'{"digest":"%s"}' % one.digest.encode()),)
        return ToolReturned(call.turn, call.call, files=(one,), contents=contents)

    def run(address: str, call: CallTool) -> ToolReturned:
        if call.tool == "look":
            return ToolReturned(call.turn, call.call, output=text_json("looked"))
        return written(address, call)

    def policy(request: ModelRequest) -> Reply:
        word = "other" if "other" in told(request) else "x"
        steps = [calls(LOOK), calls(("put", {"text": word})), calls(("save", {"text": "more"}), LOOK)]
        steps += [calls(("save", {"text": "secret"})), calls(("put", {"text": "last"})), DONE]
        return steps[request.turn - 1]

    return Scenario(
        [profile("host", [], ["look"], writes=["save"], repeats=["put"])], policy, [ask()], tool=run
    )


def in_copies() -> Iterator[tuple[str, Fork]]:
    """Yield forks of a session that wrote files, with and without a copy of them."""
    scenario = writing()
    log = recorded(scenario)
    look = ("host", 1, 0)
    for effects in EFFECTS:
        for skips in (False, True):
            about = f"files, {effects}{', lost ones skipped' if skips else ''}"
            yield about, Fork(scenario, log, 2, {}, effects, True, skips)
            changed: dict[Place, Json] = {look: text_json("other")}
            yield f"{about}, changed", Fork(scenario, log, 2, changed, effects, True, skips)
    written: dict[Place, Json] = {("host", 2, 0): text_json("written")}
    yield "files, another result", Fork(replace(scenario, faults=CRASHES), log, 2, written, has_copy=True)
    yield "files, no copy", Fork(scenario, log, 2, {look: text_json("other")}, "live")


ORIGINS: Final[Mapping[str, Scenario]] = {
    "family": family(),
    "approved": approved(),
    "permitted": permitted(),
    "sharing": sharing(),
    "repeating": repeating(),
    "late": late(),
    "rounds": rounds.two_rounds(),
    "programs": programs.gather(),
    "schemas": small.fresh_schemas(),
    "races": rich.races(),
    "retries": rich.retries(),
}


def recorded(scenario: Scenario) -> list[Event]:
    """Run a session as it runs live: ports answer once no actor has a message. Return its events."""

    def chosen(offered: Sequence[Move]) -> Move:
        return next((move for move in offered if move.kind == "deliver"), offered[0])

    world = SessionWorld(scenario)
    run = perform(world, (), chosen, chosen)
    assert run.violation is None
    return world.log


def forks_of(name: str, scenario: Scenario, parts: int) -> Iterator[tuple[str, Fork]]:
    """Yield forks of one run of a scenario. parts: the number of events at which it is forked unchanged."""
    calm = replace(scenario, faults=NO_FAULTS)
    log = recorded(calm)
    crashing = replace(calm, faults=CRASHES)
    for base in range(1, len(log) + 1, max(1, len(log) // parts)):
        yield f"{name} at {base}", Fork(crashing if base % 2 else calm, log, base)
    results = [call for call in calls_of(log) if call[2] != OF_MODEL]
    for number, call in enumerate(results):
        about = f"{name} with {call[0]}:{call[1]}:{call[2]}"
        yield about, Fork(crashing, log, None, {call: text_json("other")}, EFFECTS[number % 3])
        if number % 2 == 0:
            yield f"{about} early", Fork(calm, log, 2, {call: text_json("other")}, EFFECTS[(number + 1) % 3])


def cut_short() -> Iterator[tuple[str, Fork]]:
    """Yield forks of a recording that ends with the answer of a person, before its call has a result."""
    scenario = approved()
    log = recorded(scenario)
    end = next(event.seq for event in log if isinstance(event.body, ApprovalGiven))
    for effects in EFFECTS:
        yield f"cut short, {effects}", Fork(scenario, log[:end], 2, effects=effects)


def allowed() -> Iterator[tuple[str, Fork]]:
    """Yield a fork in which a person may let a tool run that the recording ran in another turn."""

    def policy(request: ModelRequest) -> Reply:
        turn = request.turn + (request.turn > 1 and "other" in told(request))
        return [calls(LOOK), calls(LOOK), calls(PUT), DONE][turn - 1]

    scenario = Scenario([profile("host", [], ["look"], repeats=["put"])], policy, [ask()])
    changed: dict[Place, Json] = {("host", 1, 0): text_json("other")}
    yield "allowed", Fork(replace(scenario, faults=CRASHES), recorded(scenario), None, changed, "ask")


FORKS: Final[Mapping[str, Fork]] = (
    dict(cut_short())
    | dict(allowed())
    | dict(in_copies())
    | dict(after_a_minute())
    | {
        name: fork
        for origin, scenario in ORIGINS.items()
        for name, fork in forks_of(origin, scenario, 9 if origin == "family" else 4)
    }
)
