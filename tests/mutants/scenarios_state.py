"""Sessions with shared state, contexts, and tools that change."""

from collections.abc import Mapping
from typing import Final

import msgspec

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.shared_state import StateKey, StateUpdate
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.replies import calls, task
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from tests.mutants.scripts import DONE, LOOK, PUT, SAVE, by_place, script

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
