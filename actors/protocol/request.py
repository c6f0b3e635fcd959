"""The whole request of a model call, as a pure function of the agent's state.

Only what is new in a request is ever computed by a decider; the whole is put together when somebody
looks: the model port when it calls, replay when it is asked. The sequence tools, system, messages is
append-only from request to request of one agent, which is what makes prompt caching work.
"""

from functools import cached_property

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.profiles import ModelSpec


class ModelRequest:
    """What a model is asked. The parts are JSON as they are sent; nothing of it can change.

    address, profile, turn, attempt: who asks, and when. system: a JSON string, a list of blocks, or null.
    tools, messages: JSON objects. force_tool: the tool the model must use, if the model allows that.
    """

    def __init__(
        self,
        *,
        address: str,
        profile: str,
        model: ModelSpec,
        turn: int,
        attempt: int,
        system: Json,
        tools: tuple[Json, ...],
        history: IntMap[Json],
        force_tool: str = "",
        digest: str = "",
    ) -> None:
        self.address = address
        self.profile = profile
        self.model = model
        self.turn = turn
        self.attempt = attempt
        self.system = system
        self.tools = tools
        self.force_tool = force_tool
        self.digest = digest
        self._history = history

    @cached_property
    def messages(self) -> tuple[Json, ...]:
        """The conversation, oldest first: JSON objects with `role` and `content`."""
        return tuple(self._history.values())

    @cached_property
    def conversation(self) -> list[dict[str, object]]:
        """The conversation as Python values, made anew from the JSON: yours to look into."""
        return [msgspec.json.decode(message, type=dict[str, object]) for message in self.messages]

    @property
    def length(self) -> int:
        """How many messages the conversation has."""
        return len(self._history)

    def body(self) -> Json:
        """The request in one JSON object, without cache marks: what `callboard request` shows."""
        return Json(
            msgspec.json.encode(
                {
                    "model": self.model.name,
                    "max_tokens": self.model.max_tokens,
                    "params": self.model.params,
                    "tools": self.tools,
                    "system": self.system,
                    "messages": self.messages,
                    "force_tool": self.force_tool,
                }
            )
        )
