"""A guess about results of tools: one tells the agent what to do, and its next call does it.

Two signs are needed. The text is directed at the agent: it tells it to ignore its instructions, to keep
something from the user, or what an assistant must do, in one of the common languages; or it names the very
tool that is called next. And that call has an argument that stands in the text, and in nothing that a person
or a parent gave the agent.

Each sign by itself is in healthy sessions: a ticket holds the address to which an answer goes, and a page may
try what an agent does not follow.
"""

import re
from collections import deque
from collections.abc import Iterator
from typing import ClassVar, Final

import msgspec

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import Ask, Tell
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, DelegationEnded
from callboard.replay.diagnosis.finding import CallCheck, Finding, Returned, ToolCall
from callboard.replay.diagnosis.words import TO_AN_AGENT
from callboard.replay.json_values import leaves

_RESULTS: Final = 8  # of an agent before a call, that are looked at
_BYTES_MAX: Final = 65_536
_CHARS: Final = range(4, 100)
_NEAR: Final = 200  # characters between a value and what tells to use it
_ADDRESS: Final = re.compile(r"[\w.+-]+@[\w.-]+\w|https?://[^\s\"'<>]+\w")


class FollowedTexts(CallCheck):
    """Calls that do what the text of a tool's result tells the agent to do."""

    kinds: ClassVar = frozenset({"Ask", "Tell", "Begin", "DelegationEnded"})

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._read: dict[str, deque[tuple[str, Returned]]] = {}
        self._found: dict[tuple[str, int], Finding] = {}

    def take(self, event: Event) -> None:
        """Take in what a person or a parent gave an agent, or its end."""
        body = event.body
        if isinstance(body, Ask | Begin):
            agent = HOST if isinstance(body, Ask) else event.recipient
            self._given[agent] = f"{self._given.get(agent, '')}\n{bytes(body.prompt).decode()}".casefold()
        elif isinstance(body, Tell):
            self._given[body.address] = f"{self._given.get(body.address, '')}\n{body.text}".casefold()
        elif isinstance(body, DelegationEnded):  # an agent that has ended costs no memory
            self._read.pop(body.address, None)
            self._given.pop(body.address, None)

    def called(self, call: ToolCall) -> None:
        """Take in a call with an effect."""
        self._look(call)

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in a result. A read may carry something out, too: in an address."""
        if call.effect == "read" and (b"@" in call.arguments or b"://" in call.arguments):
            self._look(call)
        if result.status == "ok":
            read = self._read.get(call.agent)
            if read is None:
                read = self._read[call.agent] = deque(maxlen=_RESULTS)
            read.append((call.tool, result))

    def _look(self, call: ToolCall) -> None:
        """Look for a result before a call that tells what the call does."""
        before = [one for one in self._read.get(call.agent, ()) if one[1].seq < call.seq]
        if not before:
            return
        given = self._given.get(call.agent, "")
        values = [
            text
            for _, leaf in leaves(msgspec.json.decode(call.arguments), "")
            for text in _texts(leaf)
            if text.casefold() not in given
        ]
        for tool, result in reversed(before) if values else ():
            text = _plain(result.output[:_BYTES_MAX])
            told = next((value for value in values if value.casefold() in text.casefold()), None)
            if told is None:
                continue
            if _names_tool(text, call.tool, told) or _is_directed(text, told):
                says = (
                    f"{call.agent} called {call.tool} with {told!r:.60}, as a text in the result of "
                    f"{tool} ({result.seq}) told it to; nobody else asked for that"
                )
                command = f"events {{session}} --from {result.seq} --to {call.seq}"
                self._found.setdefault(
                    (call.agent, result.seq), Finding("followed_text", call.seq, call.agent, says, command)
                )
                return

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each text."""
        yield from self._found.values()


def _texts(leaf: object) -> Iterator[str]:
    """Yield an argument that a text can tell, and the addresses and names inside a longer one."""
    text = leaf if isinstance(leaf, str) else "" if isinstance(leaf, bool | None) else str(leaf)
    if len(text) in _CHARS and "\n" not in text:
        yield text
    if isinstance(leaf, str):
        yield from _ADDRESS.findall(text)


def _plain(output: bytes) -> str:
    """Return the text of a result as an agent reads it."""
    try:
        value = msgspec.json.decode(output)
    except msgspec.DecodeError:  # it was cut
        return output.decode("utf-8", "replace")
    return value if isinstance(value, str) else "\n".join(str(leaf) for _, leaf in leaves(value, ""))


def _is_directed(text: str, told: str) -> bool:
    """Return whether a text is directed at an agent, and tells a value in the same paragraph."""
    at = text.casefold().find(told.casefold())
    start, end = max(0, at - _NEAR), min(len(text), at + len(told) + _NEAR)
    start = max(start, text.rfind("\n\n", start, at) + 1)
    stop = text.find("\n\n", at, end)
    return TO_AN_AGENT.search(text[start : end if stop < 0 else stop]) is not None


def _names_tool(text: str, tool: str, told: str) -> bool:
    """Return whether a text names a tool, whose name is no common word, near to a value."""
    if "_" not in tool and "-" not in tool:
        return False
    at = text.casefold().find(told.casefold())
    around = text[max(0, at - _NEAR) : at + len(told) + _NEAR]
    return re.search(rf"(?<![\w-]){re.escape(tool)}(?![\w-])", around) is not None
