"""The agent of the workers that share a model's places: it asks a service that counts calls in flight."""

import asyncio
import os
import socket

from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import ScriptedModel, Step, say


async def reply(request: ModelRequest) -> Step:
    """Call the service on loopback, and wait for its answer."""
    # In one step: a process that is stopped between opening and asking would ask when it goes on.
    asking = socket.create_connection(("127.0.0.1", int(os.environ["COUNTED_PORT"])))
    asking.sendall(f"{os.getpid()}\n".encode())
    reader, writer = await asyncio.open_connection(sock=asking)
    try:
        await reader.readline()
    finally:
        writer.close()
    return say("done")


host = Agent("host", model=ScriptedModel(reply, name="m"))
