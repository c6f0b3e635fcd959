"""The whole request of a model call, as a pure function of the agent's state.

A decider computes the new parts of a request only. The model port and replay put the whole together when
they need it. From request to request of one agent, the sequence tools, system, messages only grows, so that
prompt caching works.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, SupportsIndex, TypeAlias, overload

import msgspec

from callboard.actors.protocol.conversation import decoded
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.makers import NO_ORIGINS, Origins
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.repair_levels import START, Repair

StateOf: TypeAlias = Callable[[str], Json]
"""Returns the value of a key of the shared state as JSON. Raises KeyError for a key that is not declared."""


class Messages(tuple[Json, ...]):
    """The messages of a conversation, oldest first, each a JSON object. As a text: a JSON list of them."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"[{', '.join(bytes(one).decode() for one in self)}]"

    __repr__ = __str__

    @overload
    def __getitem__(self, place: SupportsIndex) -> Json: ...
    @overload
    def __getitem__(self, place: "slice[Any, Any, Any]") -> "Messages": ...
    def __getitem__(self, place: Any) -> Any:
        """Return one message, or some, which print as text too."""
        found = tuple.__getitem__(self, place)
        return type(self)(found) if isinstance(place, slice) else found

    def __contains__(self, value: object) -> bool:
        """Return whether a message equals a value. Raises TypeError for a text: no message is one."""
        if isinstance(value, str):
            raise TypeError(f"no message is a text; write {value!r:.40} in str(request.messages)")
        return tuple.__contains__(self, value)


class ModelRequest:
    """A request to a model. Its parts are JSON as it is sent, and never change.

    address, profile: the agent that asks. turn, attempt: of its call. system: a JSON string, a list of
    blocks, or null. tools, messages: JSON objects. force_tool: the tool that the model must use, where the
    model allows that. origins: the makers of the assistant messages, in runs. is_lossy: a block that its
    service cannot take is replaced by a text; else the call fails. handed: the messages that the agent was
    handed, and the blocks of the next one: those are always replaced. repair: how the replies in it are
    repaired for the service that made them.

    In a live session a policy or model of your own finds more, which is no part of the request. deps: the
    object of `Runtime(deps=)` or `ask(deps=)`. session_id: of the session. seq: of the event that granted
    it. For a program only: at: the time by the session's clock, in milliseconds since 1970 UTC. left_out_ms:
    the sum of the times that its timeouts do not count. state_of: returns the shared state's value of a key.
    """

    deps: object = None
    session_id: str = ""
    seq: int = 0
    at: int = 0
    left_out_ms: int = 0
    state_of: StateOf | None = None

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
        origins: Origins = NO_ORIGINS,
        is_lossy: bool = False,
        handed: tuple[int, int] = (0, 0),
        repair: Repair = START,
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
        self.origins = origins
        self.is_lossy = is_lossy
        self.handed = handed
        self.repair = repair
        self._history = history

    @cached_property
    def messages(self) -> Messages:
        """Return the conversation, oldest first: JSON objects with `role` and `content`."""
        return Messages(self._history.values())

    @cached_property
    def conversation(self) -> list[dict[str, Any]]:
        """Decode the conversation into Python values, which belong to the caller.

        Each message has `role` (user, assistant, or system for a change of the tools) and `content`: a text,
        or a list of blocks with a `type` (docs/shapes.md).
        """
        return decoded(self.messages)

    @property
    def length(self) -> int:
        """Return the number of messages in the conversation."""
        return len(self._history)

    def message(self, place: int) -> Json:
        """Return one message, without the cost of `messages` for a long conversation."""
        found = self._history.get(place)
        if found is None:
            raise IndexError(f"the conversation has no message {place}")
        return found

    @property
    def plain(self) -> "ModelRequest":
        """Return the request as an adapter gets it, with parts that can be encoded or sent.

        It is the request itself, but for the view that a policy is given, whose parts print as text.
        """
        return self

    def body(self) -> Json:
        """Return the request as one JSON object, without cache marks. `callboard request` shows it.

        With messages of several models it holds `origins`: who made the assistant messages from a place on.
        Above level 0 it holds `repair`.
        """
        body: dict[str, object] = {
            "model": self.model.name,
            "max_tokens": self.model.max_tokens,
            "params": self.model.params,
            "tools": self.tools,
            "system": self.system,
            "messages": self.messages,
            "force_tool": self.force_tool,
        }
        if [*self.origins.values()] not in ([], [self.model.made_by]):
            body["origins"] = [{"from": at, "origin": maker} for at, maker in self.origins.items()]
        if self.repair.level:
            body["repair"] = self.repair
        return Json(msgspec.json.encode(body))
