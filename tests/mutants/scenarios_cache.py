"""Sessions of agents whose tools give results again: other rights, arguments, state, effects, and age."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.bundles import Allowed, Bundle
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.profiles import CacheRules, Profile, ToolSpec
from callboard.actors.protocol.shared_state import StateKey, StateUpdate
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile, tool_spec
from callboard.replay.testing.sessions.scripted_replies import Reply, Use, calls, task
from tests.mutants.scripts import DONE, by_place, script

COUNT: Final = StateKey("count", "add", Json(b"0"))


def cached(name: str, *, ttl_ms: int = 0, over_writes: bool = False) -> ToolSpec:
    """Describe a read tool whose results are given again."""
    return replace(tool_spec(name), cache=CacheRules(ttl_ms, over_writes))


LOOK: Final = cached("look")
KEEP: Final = cached("keep", over_writes=True)
FRESH: Final = cached("fresh", ttl_ms=400, over_writes=True)
COUNTED: Final = cached("counted", over_writes=True)
MARK: Final = cached("mark", over_writes=True)
PUT: Final = tool_spec("put", "idempotent")
SAVE: Final = tool_spec("save", "write")
TOOLS: Final = (LOOK, KEEP, FRESH, COUNTED, MARK, PUT, SAVE)


def use(name: str, path: str = "x") -> Use:
    """Build a call."""
    return name, {"path": path}


def reading(who: str, call: CallTool, state: Mapping[str, object]) -> ToolReturned:
    """Answer a call: `counted` reads the state, `mark` and `put` change it, `look` has a label."""
    body = ToolReturned(call.turn, call.call, "ok", text_json(f"{call.tool} for {who}"))
    if call.tool == "counted":
        return replace(body, output=text_json(f"count {state['count']}"), state_read=("count",))
    if call.tool in ("mark", "put"):
        return replace(body, state_update=(StateUpdate("count", Json(b"1")),))
    return replace(body, labels=("web",)) if call.tool == "look" else body


def with_tools(who: Profile, bundle: Bundle, tools: tuple[ToolSpec, ...] = TOOLS) -> Profile:
    """Give a profile tools and a bundle."""
    return replace(who, tools=tools, permissions=bundle)


NARROW: Final = Bundle(do=Allowed(read=("docs",)))


def given_again() -> Scenario:
    """Build agents with other rights and limits that make the same calls, side by side and in turn."""
    every = [use(name) for name in ("look", "keep", "fresh", "counted", "mark")]
    policy = script(
        host=[
            calls(use("look"), use("look", "y"), *every[1:]),
            calls(*every, task("kid"), task("small"), task("twin"), task("made"), task("made")),
            calls(*every, use("look", "y")),
            DONE,
        ],
        kid=[calls(*every), calls(*every, use("keep", "y")), DONE],
        small=[calls(use("keep"), use("look")), calls(use("keep")), DONE],
        twin=[calls(use("keep"), use("look")), calls(*every), DONE],
        made=[calls(use("keep"), use("look")), calls(use("keep")), DONE],
    )
    people = [
        with_tools(profile("host", ["kid", "small", "twin", "made"]), Bundle()),
        replace(with_tools(profile("made"), Bundle()), factory="make"),
        with_tools(profile("kid"), NARROW),
        with_tools(profile("small", limits=Limits(max_tool_output_chars=100)), Bundle()),
        with_tools(profile("twin"), Bundle(), (replace(KEEP, version="2"), *TOOLS[:1], *TOOLS[2:])),
    ]
    chosen = faults("crash", "detach", "raises", "cancel", "jump", "overloaded", "never", fault_mixes=15)
    return Scenario(
        people, policy, [ask(), ask(request_id="r2")], state=(COUNT,), stateful=reading, faults=chosen
    )


def effects_between() -> Scenario:
    """Build agents that read while tools with an effect run beside them, before and after."""
    reads = calls(use("look"), use("counted"), use("fresh"))
    policy = script(
        host=[
            reads,
            calls(task("kid"), task("kid"), use("put"), use("look")),
            calls(use("look"), use("counted")),
            Reply("", stop_reason="pause_turn"),
            calls(use("look"), use("fresh")),
            DONE,
        ],
        kid=[
            by_place(calls(use("look")), calls(use("save"), use("look"))),
            by_place(calls(use("look"), use("counted")), reads),
            calls(use("look"), use("keep")),
            DONE,
        ],
    )
    people = [with_tools(profile("host", ["kid"]), Bundle()), with_tools(profile("kid"), Bundle())]
    chosen = faults("crash", "detach", "raises", "cancel", "jump", "unstarted", "finished", fault_mixes=15)
    return Scenario(
        people, policy, [ask(), ask(request_id="r2")], state=(COUNT,), stateful=reading, faults=chosen
    )


def effect_first() -> Scenario:
    """Build agents that read for the first time while a tool with an effect runs."""
    policy = script(
        host=[calls(use("save"), task("kid"), task("kid")), calls(use("look")), DONE],
        kid=[calls(use("look")), calls(use("look")), DONE],
    )
    people = [with_tools(profile("host", ["kid"]), Bundle()), with_tools(profile("kid"), Bundle())]
    chosen = faults("crash", "cancel", "finished", fault_mixes=7)
    return Scenario(people, policy, [ask()], state=(COUNT,), stateful=reading, faults=chosen)


CACHED: Final = {
    "given-again": given_again(),
    "effects-between": effects_between(),
    "effect-first": effect_first(),
}
"""The sessions in which mutants of cached results are hunted."""
