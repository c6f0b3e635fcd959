"""The rules of questions that carry their whole request: a reading of them that no decider shares.

The requests of each program are kept as plain lists, and read again from the steps in the log.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from callboard.actors.protocol.addresses import parent_of
from callboard.actors.protocol.conversation import blocks_of
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, JsonObject
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded, Finished, TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.prompts import ASK_MODEL
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.step_messages import RunStep
from callboard.replay.testing.rules.in_force import profile_of

WHOLE_RULES: Final = {
    "whole-asked": "A question with a whole request that can be read is asked, and any other one is refused.",
    "whole-reply": "The reply to a whole request is its answer, unless it owes a report.",
    "whole-request": "A question with a whole request sends what its program gave: messages, system, tools.",
    "whole-bounds": "A question with a whole request reserves its new messages and the stated reply.",
}
_UNUSABLE: Final = frozenset({"refusal", "model_context_window_exceeded"})
_HEAD: Final = ("system", "tools", "settings")


class WholeRequests:
    """The whole requests of every program so far."""

    def __init__(self) -> None:
        self._asked: dict[str, dict[str, JsonObject]] = {}
        self._places: dict[tuple[str, int, int], str] = {}
        self._due: dict[str, set[int]] = {}
        self._carriers: dict[str, bool] = {}
        self._ending: set[str] = set()

    def hear(self, event: Event) -> Iterator[tuple[str, str]]:
        """Note the requests in a step and the replies to them. Yield the rules that an event breaks."""
        who, body = event.recipient, event.body
        if isinstance(body, Begin):
            self._begin(who, body)
        elif isinstance(body, ModelReplied) and body.status == "ok":
            if who in self._asked:
                self._step(who, body)
            elif who in self._carriers and body.stop_reason not in _UNUSABLE:
                self._carriers[who] = _blocks_of(body) is not None
        elif isinstance(body, DelegationEnded):
            self._end(who, body)
        elif isinstance(body, Delegate):
            self._due.get(event.sender, set()).discard(body.call)
            if body.asked is None and body.prompt == NULL and body.implicit != NULL:
                yield "whole-asked", f"question {body.turn}.{body.call} of {event.sender} asks nothing"
        elif isinstance(body, TurnRequested | RunStep):
            for call in self._due.pop(event.sender, ()):
                yield "whole-asked", f"question {call} of the last step of {event.sender} was not asked"
        elif isinstance(body, Finished) and self._has_reply(event.sender) and body.kind != "answered":
            yield "whole-reply", f"{event.sender} has its reply, and ends as {body.kind}"

    def _has_reply(self, who: str) -> bool:
        return self._carriers.pop(who, False)

    def _begin(self, who: str, begin: Begin) -> None:
        self._asked.pop(who, None)
        self._carriers.pop(who, None)
        self._due.pop(who, None)
        if profile_of(bytes(begin.profile)).is_eager:
            self._asked[who] = {}
            if begin.bounds_questions:
                self._ending.add(who)
        elif begin.asked is not None and begin.schema == NULL:
            self._carriers[who] = False

    def _end(self, who: str, end: DelegationEnded) -> None:
        if end.latch:
            self._ending.add(who)  # no ask of its last step is posted
        if end.kind != "answered" or end.value == NULL:
            return
        ask = self._places.get((who, end.turn, end.call), "")
        if (request := self._asked.get(who, {}).get(ask)) is not None:
            said = {"role": "assistant", "content": msgspec.json.decode(end.value)}
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
        asks = _calls_in(reply)
        found = {}
        for place, block in enumerate(asks):
            if block["name"] == ASK_MODEL and (request := self._read(who, block["input"])) is not None:
                found[block["id"]] = request
                self._places[who, reply.turn, place] = block["id"]
        self._asked[who].update(found)
        if who not in self._ending:
            self._due[who] = {place for place, block in enumerate(asks) if block["id"] in found}

    def _read(self, who: str, asked: JsonObject) -> JsonObject | None:
        known, messages = self._asked[who], []
        for item in asked.get("messages") or ():
            if isinstance(item, dict):
                messages.append(item)
                continue
            ask, start, end = item
            found = known[ask]["messages"][start:end] if ask in known else []
            if not found or len(found) != end - start:
                return None
            messages += found
        if not messages:
            return None
        like = known.get(asked.get("like", ""))
        if like is None and asked.get("like"):
            return None
        head: JsonObject = {name: (like or asked).get(name) for name in _HEAD}
        if like is None:
            system = head["system"] or []
            head["system"] = [{"type": "text", "text": system}] if isinstance(system, str) else system
            head["tools"] = head["tools"] or []
        return {"messages": messages, **head, "max_tokens": asked.get("max_tokens") or 0}


def _blocks_of(reply: ModelReplied) -> list[JsonObject] | None:
    """Return the blocks of a reply; None for one that is not made of blocks, which is no answer."""
    blocks = msgspec.json.decode(reply.content)
    is_readable = isinstance(blocks, list) and all(isinstance(block, dict) for block in blocks)
    return blocks if is_readable else None


def _calls_in(step: ModelReplied) -> list[JsonObject]:
    """Return the calls of a step; none of one that cannot be read, whose agent fails."""
    return [block for block in _blocks_of(step) or () if block.get("type") == "tool_use"]
