"""The rules of questions that carry their whole request: a reading of them that no decider shares.

The requests of each program are kept as plain lists, and read again from the steps in the log.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from callboard.actors.protocol.addresses import parent_of
from callboard.actors.protocol.conversation import blocks_of
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import Begin, DelegationEnded, TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.prompts import ASK_MODEL
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.rules.in_force import profile_of

WHOLE_RULES: Final = {
    "whole-request": "A question with a whole request sends what its program gave: messages, system, tools.",
    "whole-bounds": "A question with a whole request reserves its new messages and the stated reply.",
}
_HEAD: Final = ("system", "tools", "settings")


class WholeRequests:
    """The whole requests of every program so far."""

    def __init__(self) -> None:
        self._asked: dict[str, dict[str, dict[str, Any]]] = {}
        self._places: dict[tuple[str, int, int], str] = {}

    def hear(self, event: Event) -> None:
        """Note the requests in a step, and the replies to them."""
        body = event.body
        if isinstance(body, Begin):
            self._asked.pop(event.recipient, None)
            if profile_of(bytes(body.profile)).is_eager:
                self._asked[event.recipient] = {}
        elif isinstance(body, ModelReplied) and body.status == "ok" and event.recipient in self._asked:
            self._step(event.recipient, body)
        elif isinstance(body, DelegationEnded) and body.kind == "answered" and body.value != NULL:
            ask = self._places.get((event.recipient, body.turn, body.call), "")
            if (request := self._asked.get(event.recipient, {}).get(ask)) is not None:
                said = {"role": "assistant", "content": msgspec.json.decode(body.value)}
                request["messages"] = [*request["messages"], said]

    def breaches(self, request: ModelRequest, begin: Begin, wish: TurnRequested) -> Iterator[tuple[str, str]]:
        """Yield the name of each rule that a granted request breaks, and how."""
        if why := self._why_other(request, begin):
            yield "whole-request", why
        if (wish.turn, wish.attempt) == (1, 1) and (why := self._why_small(request, begin, wish)):
            yield "whole-bounds", why

    def _why_other(self, request: ModelRequest, begin: Begin) -> str:
        """Return how a request differs from the one that its program gave; empty if it does not."""
        assert begin.asked is not None
        given = self._asked.get(parent_of(request.address), {}).get(begin.asked.ask)
        if given is None:
            return f"no program has put the question {begin.asked.ask}"
        sent = [msgspec.json.decode(said) for said in request.messages]
        if sent[: len(given["messages"])] != given["messages"]:
            return f"it sends {len(sent)} messages, and its program gave {len(given['messages'])}, or others"
        tools = [msgspec.json.decode(tool) for tool in request.tools]
        if tools[: len(given["tools"])] != given["tools"]:
            return "it offers other tools"
        system = [msgspec.json.decode(block) for block in blocks_of(request.system)]
        if system[: len(given["system"])] != given["system"]:
            return "it has another system prompt"
        params = {} if request.model.params == NULL else msgspec.json.decode(request.model.params)
        wrong = [name for name, value in (given["settings"] or {}).items() if params.get(name) != value]
        return f"it has another {wrong[0]}" if wrong else ""

    def _why_small(self, request: ModelRequest, begin: Begin, wish: TurnRequested) -> str:
        """Return how the grant of a request is smaller than it may use; empty if it is not."""
        assert begin.asked is not None
        given = self._asked.get(parent_of(request.address), {}).get(begin.asked.ask)
        if given is None:
            return ""
        most = given["max_tokens"] or request.model.max_tokens
        if request.model.max_tokens != most:
            return f"its reply may have {request.model.max_tokens:,} tokens, and its program said {most:,}"
        new = []
        for said in reversed(request.messages):
            if msgspec.json.decode(said)["role"] == "assistant":
                break
            new.append(said)
        has_media = any(b'"source"' in bytes(said) for said in new)
        least = most + sum(map(len, new)) * (not has_media)
        missing = least - wish.need.tokens
        return f"its need lacks {missing:,} tokens" if missing > 0 and not wish.is_unbounded else ""

    def _step(self, who: str, reply: ModelReplied) -> None:
        blocks = msgspec.json.decode(reply.content)
        asks = [block for block in blocks if block["type"] == "tool_use"]
        found = {}
        for place, block in enumerate(asks):
            if block["name"] == ASK_MODEL and (request := self._read(who, block["input"])) is not None:
                found[block["id"]] = request
                self._places[who, reply.turn, place] = block["id"]
        self._asked[who].update(found)

    def _read(self, who: str, asked: dict[str, Any]) -> dict[str, Any] | None:
        known, messages = self._asked[who], []
        for item in asked.get("messages") or ():
            if isinstance(item, dict):
                messages.append(item)
                continue
            ask, start, end = item
            if ask not in known:
                return None
            messages += known[ask]["messages"][start:end]
        if not messages:
            return None
        like = known.get(asked.get("like", ""))
        head: dict[str, Any] = {name: (like or asked).get(name) for name in _HEAD}
        if like is None:
            system = head["system"] or []
            head["system"] = [{"type": "text", "text": system}] if isinstance(system, str) else system
            head["tools"] = head["tools"] or []
        return {"messages": messages, **head, "max_tokens": asked.get("max_tokens") or 0}
