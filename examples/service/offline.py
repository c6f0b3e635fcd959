"""A stand-in for a real model, such as `AnthropicModel("claude-...")`: it needs no key."""

import asyncio

from callboard import Call, ModelRequest, Reply, ScriptedModel, call, say
from callboard.models import ModelAnswer, ModelSpec, OnText


def decide(request: ModelRequest) -> Call | Reply:
    """Pay if the question says so, else think aloud."""
    last = str(request.conversation[-1]["content"])
    if "pay" in last and request.turn == 1:
        return call("pay", euros=5)
    return say(f"You wrote: {last}. " + "Let me think about it. " * 20)


class Offline:
    """A model that talks as slowly as a real one."""

    spec = ModelSpec("offline")

    def __init__(self) -> None:
        self._script = ScriptedModel(decide)

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        """Say the answer of the script word by word."""
        texts: list[str] = []
        answer = self._script.call(request, texts.append)
        for word in "".join(texts).split():
            await asyncio.sleep(0.02)
            on_text(f"{word} ")
        return answer if isinstance(answer, ModelAnswer) else await answer

    async def aclose(self) -> None:
        """Do nothing: there is no connection to close."""
