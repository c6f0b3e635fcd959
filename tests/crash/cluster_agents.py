"""The agent of the workers that are killed: each turn is one `write` tool, and its effects are counted.

The number of calls and the file of effects come from the environment. The reply of the model depends on the
conversation alone, so every worker continues it in the same way.
"""

import asyncio
import os

from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import ScriptedModel, Step, call, say
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.tool import tool

CALLS = int(os.environ.get("CLUSTER_CALLS", "3"))
PAUSE_S = float(os.environ.get("CLUSTER_PAUSE_S", "0"))
LAST_PAUSE_S = float(os.environ.get("CLUSTER_LAST_PAUSE_S", "0"))


@tool(effect="write")
async def put(n: int, ctx: ToolContext) -> str:
    """Do it once."""
    deed = os.open(os.environ["CLUSTER_DEEDS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(deed, f"{ctx.session_id} {n}\n".encode())  # one write, so no two processes mix their lines
    os.close(deed)
    await asyncio.sleep(LAST_PAUSE_S if n == CALLS else PAUSE_S)
    return "done"


def reply(request: ModelRequest) -> Step:
    """Return the next call; after the last one, the answer."""
    return call("put", n=request.turn) if request.turn <= CALLS else say("all done")


host = Agent("host", tools=[put], model=ScriptedModel(reply))
