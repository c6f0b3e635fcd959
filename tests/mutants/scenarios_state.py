"""Sessions with shared state, contexts, and tools that change."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.profiles import ModelSpec, ToolsChange
from callboard.actors.protocol.shared_state import StateKey, StateUpdate
from callboard.actors.session.contexts import ContextRequest
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile, tool_spec
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, report, task
from callboard.runtime.contexts import WholeHistory
from tests.mutants.scripts import DONE, LOOK, PUT, SAVE, SCHEMA, by_place, race, script

KEYS: Final = (
    StateKey("stage", "replace", Json(b'"start"')),
    StateKey("notes", "append", Json(b"[]")),
    StateKey("count", "add", Json(b"0")),
)
"""A key for each reducer."""


def counting(who: str, call: CallTool, state: Mapping[str, object]) -> ToolReturned:
    """Return the count that the tool was given, and update every key."""
    update = (
        StateUpdate("stage", text_json(f"{who}/{call.turn}.{call.call}")),
        StateUpdate("notes", Json(msgspec.json.encode(state["count"]))),
        StateUpdate("count", Json(b"1")),
    )
    output = text_json(f"count {state['count']}")
    read = ("count",)
    return ToolReturned(call.turn, call.call, "ok", output, state_update=update, state_read=read)


def shared_states() -> Scenario:
    """Build agents that update the shared state side by side, while calls fail and processes end."""
    policy = script(
        host=[calls(task("kid"), task("kid"), LOOK), calls(PUT, LOOK), DONE],
        kid=[by_place(calls(SAVE, LOOK), calls(LOOK, PUT)), calls(LOOK), DONE],
    )
    people = [
        profile("host", ["kid"], ["look"], repeats=["put"]),
        profile("kid", [], ["look"], writes=["save"], repeats=["put"]),
    ]
    chosen = faults("crash", "detach", "raises", "cancel", "unstarted", "finished", "never", fault_mixes=15)
    return Scenario(people, policy, [ask()], state=KEYS, stateful=counting, faults=chosen)


def last_words(view: ContextRequest) -> str:
    """Return the length and the end of the parent's conversation; raise for one parent of the scenario."""
    if view.profile == "odd" and len(view.messages) > 2:
        raise ValueError("no context for it")
    return f"{len(view.messages)} {view.prompt} {bytes(view.messages[-1])[-200:].decode()}"


def handed_histories() -> Scenario:
    """Build delegations that are handed the parent's conversation, by agents of several models."""
    policy = script(
        host=[calls(LOOK), calls(task("kid"), task("mute"), LOOK), calls(task("other"), SAVE), DONE],
        kid=[calls(LOOK, text="I look."), calls(task("other")), DONE],
        mute=[DONE],
        other=[calls(LOOK, text="Looking."), calls(task("kid")), DONE],
    )
    people = [
        profile("host", ["kid", "mute", "other"], ["look"], writes=["save"]),
        profile("kid", ["other"], ["look"], context="c"),
        profile("mute", context="c"),
        replace(profile("other", ["kid"], ["look"], context="c"), model=ModelSpec("second", 100)),
    ]
    chosen = faults("crash", "detach", "unmade", "twice", "cancel", fault_mixes=15)
    return Scenario(people, policy, [ask(), ask(request_id="r2")], context=WholeHistory(), faults=chosen)


def contexts() -> Scenario:
    """Build delegations with contexts, alone, in races and with schemas to check, whose parents may end."""
    policy = script(
        host=[
            calls(task("lead", output_schema=SCHEMA), race("plain", "kid", "odd", schema=SCHEMA), LOOK),
            calls(task("odd"), task("kid"), task("plain")),
            DONE,
        ],
        lead=[calls(task("kid", output_schema={**SCHEMA, "title": "t"}), LOOK), report({"n": 1})],
        kid=[by_place(report({"n": 2}), DONE), DONE],
    )
    people = [
        profile("host", ["lead", "kid", "plain", "odd"], ["look"]),
        profile("lead", ["kid"], ["look"], context="c", context_in="system"),
        profile("kid", context="c"),
        profile("plain"),
        profile("odd", context="c"),
    ]
    chosen = faults("crash", "detach", "unmade", "twice", "cancel", "unchecked", "crashes", fault_mixes=15)
    return Scenario(people, policy, [ask(), ask(request_id="r2")], context=last_words, faults=chosen)


MORE: Final = ToolsChange((tool_spec("look"), tool_spec("save", "write", "always")), profile="kid")
ASKED: Final = ToolsChange(
    (tool_spec("look", "write", "before"), tool_spec("put", "idempotent")), profile="kid"
)
NONE: Final = ToolsChange((), address="host.1")
HOST: Final = ToolsChange((tool_spec("look"), tool_spec("find")), address="host")
PLAIN: Final = ToolsChange((tool_spec("look"),), address="host")
WIDER: Final = ToolsChange((tool_spec("look", "read", "always"), tool_spec("save", "write")), profile="host")


def setting(who: str, call: CallTool) -> ToolReturned:
    """Return a result; a `put` call sets the tools of its own agent, and a `find` those of all kids."""
    change = {"put": ToolsChange((tool_spec("look"), tool_spec("late")), address=who), "find": ASKED}
    tools = change.get(call.tool)
    return ToolReturned(call.turn, call.call, "ok", text_json(f"did {call.tool}"), tools=tools)


def _changing(*, inline_tools: bool, changes: list[ToolsChange]) -> Scenario:
    turns = [calls(LOOK, SAVE), calls(LOOK, PUT), Reply("", stop_reason="pause_turn"), calls(LOOK), DONE]
    policy = script(
        host=[calls(task("kid"), task("kid"), LOOK), calls(LOOK, ("find", {})), calls(task("kid"))],
        kid=[by_place(*turns[:2]), by_place(*turns[2:4]), calls(LOOK, ("late", {})), DONE],
    )
    people = [
        profile("host", ["kid"], ["look"], inline_tools=inline_tools),
        profile("kid", [], ["look"], repeats=["put"], asks=["save"], inline_tools=inline_tools),
    ]
    chosen = faults(
        "crash", "detach", "cancel", "overloaded", "crashes", "ignored", "unstarted", "jump", fault_mixes=15
    )
    asked = [ask(), ask(request_id="r2"), ask(request_id="r3", schema={"type": "object"})]
    return Scenario(people, policy, asked, tool=setting, changes=changes, faults=chosen)


def changing_tools() -> Scenario:
    """Build agents whose tools the client and their own calls change, told in messages."""
    return _changing(inline_tools=True, changes=[MORE, HOST, ASKED, PLAIN])


def other_tools() -> Scenario:
    """Build the same for a model that is sent other tools instead."""
    return _changing(inline_tools=False, changes=[HOST, WIDER, NONE, MORE])
