"""The whole requests of a run, of which each message is put into the log once.

A question is written as its difference from the earlier requests of its run: references to messages of those,
and the new messages (`whole_requests` in `actors/agent/`, which reads it, has the form and the rules). The
beginning of a conversation may have been trimmed or rewritten: each run of known messages is one reference.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from callboard.actors.agent.whole_requests import REQUESTS_MAX
from callboard.actors.protocol.immutable import NULL, Json

Head: TypeAlias = tuple[bytes, tuple[bytes, ...], bytes]
"""The system prompt, the tools and the settings of a request, as JSON."""


class Written(NamedTuple):
    """A whole request. force_tool, max_tokens: empty and 0 for none."""

    messages: tuple[Json, ...]
    system: Json = NULL
    tools: tuple[Json, ...] = ()
    settings: Json = NULL
    force_tool: str = ""
    max_tokens: int = 0

    @property
    def head(self) -> Head:
        """Return the parts that most requests of a run have in common."""
        return bytes(self.system), tuple(map(bytes, self.tools)), bytes(self.settings)


class _Kept(NamedTuple):
    messages: tuple[bytes, ...]
    head: Head


class KeptRequests:
    """The requests of the questions of one run, oldest first."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._places: dict[bytes, tuple[str, int]] = {}
        self._heads: dict[Head, str] = {}
        self._new: dict[str, Written] = {}

    def has(self, message: bytes) -> bool:
        """Return True if a request of this run has this message, which was checked then."""
        return message in self._places

    def arguments(self, request: Written) -> dict[str, object]:
        """Return a request as the arguments of its question."""
        wish: dict[str, object] = {"messages": self._items([bytes(said) for said in request.messages])}
        like = self._heads.get(request.head)
        if like is not None:
            wish["like"] = like
        else:
            parts = {"system": request.system, "tools": request.tools, "settings": request.settings}
            wish |= {name: part for name, part in parts.items() if part not in (NULL, ())}
        if request.force_tool:
            wish["force_tool"] = request.force_tool
        if request.max_tokens:
            wish["max_tokens"] = request.max_tokens
        return wish

    def ask(self, ask: str, request: Written) -> None:
        """Note the request of a question of this step. ask: its id."""
        self._new[ask] = request

    def end_step(self, asked: Mapping[str, object]) -> None:
        """Keep the requests of this step. asked: the asks that it has posted, by id."""
        # By id: within a step no order is certain.
        for ask in sorted(self._new.keys() & asked.keys()):
            request = self._new[ask]
            self._keep(ask, _Kept(tuple(map(bytes, request.messages)), request.head))
        self._new.clear()
        for ask in list(self._kept)[:-REQUESTS_MAX]:
            self._forget(ask)

    def answered(self, ask: str, content: Json) -> None:
        """Add the reply to a question to its request. content: its blocks."""
        kept = self._kept.get(ask)
        if kept is not None:
            said = reply_message(msgspec.json.decode(content))
            self._kept[ask] = kept._replace(messages=(*kept.messages, said))
            self._places[said] = (ask, len(kept.messages))

    def _keep(self, ask: str, kept: _Kept) -> None:
        self._kept[ask] = kept
        self._heads[kept.head] = ask
        for place, said in reversed([*enumerate(kept.messages)]):  # of equal ones the first
            self._places[said] = (ask, place)

    def _forget(self, ask: str) -> None:
        kept = self._kept.pop(ask)
        if self._heads.get(kept.head) == ask:
            del self._heads[kept.head]
        for said in kept.messages:
            place = self._places.get(said)
            if place is not None and place[0] == ask:
                del self._places[said]

    def _items(self, messages: Sequence[bytes]) -> list[object]:
        items: list[object] = []
        at = 0
        while at < len(messages):
            place = self._places.get(messages[at])
            if place is None:
                items.append(Json(messages[at]))
                at += 1
                continue
            ask, start = place
            known = self._kept[ask].messages[start:]
            count = _same(known, messages[at : at + len(known)])
            items.append([ask, start, start + count])
            at += count
        return items


def _same(known: Iterable[bytes], messages: Iterable[bytes]) -> int:
    """Return how many messages at the beginning of two lists are the same."""
    count = 0
    for one, other in zip(known, messages, strict=False):
        if one != other:
            break
        count += 1
    return count


def reply_message(blocks: object) -> bytes:
    """Return the message of a reply, in the form in which a program gives it back."""
    return msgspec.json.encode({"role": "assistant", "content": blocks})
