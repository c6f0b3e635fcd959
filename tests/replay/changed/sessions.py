"""Sessions to replay with changed agents, and the agents as a log describes them."""

import asyncio
from collections.abc import Sequence

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import ModelSpec
from callboard.replay.changed.result import AgentsNow
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent, roster
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import Policy, ScriptedModel
from callboard.runtime.runtime import Runtime
from tests.golden import recorded

NO_MODEL = ScriptedModel([])


def now(host: Agent, model: ModelSpec | None = None) -> AgentsNow:
    """Describe agents as `module:agent` would have them today."""
    profiles = tuple(Json(encode(one.profile())) for one in roster(host).values())
    return AgentsNow(host.name, profiles, model)


def record(policy: Policy, host: Agent, limits: Limits | None = None) -> Recording:
    """Run a host and return the recording."""

    async def main() -> MemoryLog:
        log = MemoryLog()
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            await runtime.run(host, "go", session_id="one", limits=limits)
        return log

    return Recording.open(MemoryReader(asyncio.run(main())), "one")


def recording_of(events: Sequence[Event]) -> Recording:
    """Open a recording of simulated events."""
    return recorded(events)
