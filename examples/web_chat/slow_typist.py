"""A stand-in for a real model, such as `AnthropicModel("claude-...")`: it needs no key, and types slowly."""

import asyncio

from callboard import Call, ModelRequest, Reply, ScriptedModel, call, calls, say
from callboard.models import ModelAnswer, ModelSpec, OnText

WORDS_PER_S = 40


def decide(request: ModelRequest) -> Call | Reply:
    """Answer. If the question says to pay, let the reader look at the offer, and pay after that."""
    if request.profile == "reader":
        return call("offer") if request.turn == 1 else say("The offer is 5 euros.")
    newest = str(request.conversation[-1]["content"])
    if "tool_result" not in newest and "pay" not in newest:
        return say(f"You wrote: {newest}. " + "Let me think about it. " * 8)
    if "tool_result" not in newest:
        return calls(
            call("task", agent="reader", prompt="Read the offer.", description="reads the offer"),
            text="First the reader looks at the offer. ",
        )
    return call("pay", euros=5) if "The offer is" in newest else say("It is done.")


class SlowTypist:
    """A model that types as slowly as a real one."""

    spec = ModelSpec("slow-typist")

    def __init__(self) -> None:
        self._script = ScriptedModel(decide)

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        """Type the answer of the script word by word."""
        texts: list[str] = []
        answer = self._script.call(request, texts.append)
        for word in "".join(texts).split():
            await asyncio.sleep(1 / WORDS_PER_S)
            on_text(f"{word} ")
        return answer if isinstance(answer, ModelAnswer) else await answer

    async def aclose(self) -> None:
        """Do nothing: there is no connection to close."""
