"""Ready contexts for sub-agents in text: a brief of the parent's work, or its whole conversation.

Both are pure functions of the parent's view, so they give the same text whenever they are asked. Both are
bounded in tokens: one for four characters of ASCII, and one for any other character.

The parts of a conversation as text: words, calls of tools, and their results.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import msgspec

from callboard.actors.protocol.bundles import Names
from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.immutable import Json
from callboard.actors.session.contexts import ContextRequest

TOKENS_MIN: Final = 100
"""Tokens that a context has room for, at least."""
MESSAGES_READ: Final = 100
"""Messages that a brief looks at, the last ones: so its time does not depend on the conversation's length."""
_HEAD: Final = "From the work of {}, which delegates to you. It may be incomplete."
LEFT_OUT: Final = "[{:,} earlier messages are left out]"
"""The text in the place of messages that do not fit."""
_PATHS_TOLD: Final = 20
_NOT_ASCII: Final = re.compile("[^\x00-\x7f]+")
_MEMORIES_TOLD: Final = 20
_PATHS: Final = ("path", "paths", "file", "files")
_MEMORY_TOOLS: Final = ("remember", "recall")
_MEMORY_ID: Final = re.compile(r"(?:^\[|remembered as )([0-9a-f]{16})\b", re.MULTILINE)
_ARGUMENTS_MAX: Final = 2_000  # characters of a call's arguments that are told


class Told(NamedTuple):
    """One part of a conversation.

    by: `user`, or the address of the agent. name, arguments: of the tool that is called, or whose result it
    is. paths: of files among the arguments. memories: the ids in the result of a memory tool.
    """

    kind: Literal["said", "call", "result"]
    by: str
    text: str = ""
    name: str = ""
    arguments: str = ""
    paths: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()


class _Message(msgspec.Struct):
    role: str = ""
    content: Any = None


_decode: Final = msgspec.json.Decoder(_Message).decode


def told_in(messages: Iterable[Json], agent: str) -> Iterator[Told]:
    """Yield the parts of messages, in order. agent: the address of the one whose conversation it is.

    Thoughts and other blocks that only their own service reads are passed over.
    """
    calls: dict[str, Told] = {}
    for raw in messages:
        message = _decode(raw)
        if message.role == "system":  # about the conversation itself, such as a change of tools
            continue
        by = agent if message.role == "assistant" else "user"
        for block in _blocks(message.content):
            part = _part(block, by, calls)
            if part is not None:
                yield part


def _blocks(content: object) -> list[dict[str, object]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []


def _part(block: dict[str, object], by: str, calls: dict[str, Told]) -> Told | None:
    """Return a block as a part; None for one that is not text, call or result."""
    match block:
        case {"type": "text", "text": str(text)}:
            return Told("said", by, text)
        case {"type": "tool_use", "name": str(name), "input": given}:
            arguments = msgspec.json.encode(given).decode()[:_ARGUMENTS_MAX]
            call = Told("call", by, "", name, arguments, tuple(_paths_in(given)))
            calls[str(block.get("id"))] = call
            return call
        case {"type": "tool_result", "content": content}:
            call = calls.get(str(block.get("tool_use_id")), Told("call", by))
            return _result(call, content)
        case {"type": "image" | "document" as kind}:
            return Told("said", by, f"[{kind}]")
        case _:
            return None


def _result(call: Told, content: object) -> Told:
    texts = [str(block["text"]) for block in _blocks(content) if block.get("type") == "text"]
    text = "\n".join(texts) if isinstance(content, str | list) else msgspec.json.encode(content).decode()
    memories = tuple(_MEMORY_ID.findall(text)) if call.name in _MEMORY_TOOLS else ()
    return call._replace(kind="result", text=text, memories=memories)


def _paths_in(given: object) -> Iterator[str]:
    """Yield the paths among the arguments of a call, by the names that tools give them."""
    if not isinstance(given, dict):
        return
    for value in (given.get(name) for name in _PATHS):
        yield from (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str))


def tokens_of(text: str) -> int:
    """Return about how many tokens a text has.

    >>> tokens_of("Read it."), tokens_of("长城")
    (2, 2)
    """
    ascii_chars = len(text) if text.isascii() else len(_NOT_ASCII.sub("", text))
    return (ascii_chars + 3) // 4 + len(text) - ascii_chars


@dataclass(frozen=True)
class Brief:
    """A context with the parent's latest messages, tool results, memories, files, and safety flags.

    tokens: that it may have, at least 100. talk, results: texts and results of tools in it, at most.

    Raises InvalidAgent for bounds that cannot work.
    """

    tokens: int = 2_000
    talk: int = 8
    results: int = 6

    def __post_init__(self) -> None:
        check_tokens(self.tokens)
        if self.talk < 0 or self.results < 0:
            raise InvalidAgent("a brief has talk >= 0 and results >= 0")

    def __call__(self, view: ContextRequest) -> str:
        """Return the brief; empty if the parent has neither said nor read anything."""
        view = view.plain
        found = list(told_in(view.messages[-MESSAGES_READ:], view.parent))
        flags = list(_flags(view))
        words = [f"{one.by}: {one.text}" for one in found if one.kind == "said"]
        read = [f"{one.name} {one.arguments} -> {one.text}" for one in found if one.kind == "result"]
        room = _Room(self.tokens, _HEAD.format(view.parent))
        room.add("Safety:", flags, len(flags), 1 / 3)
        room.add("Said last:", words, self.talk, 1 / 2)
        room.add("Results of tools:", read, self.results, 3 / 4)
        room.add("Remembered texts, to be recalled:", _memories(found), 1, 1)
        room.add("Files:", _paths(found), 1, 1)
        return room.text()


@dataclass(frozen=True)
class Transcript:
    """A context with the parent's whole conversation as text: messages, calls and results, in order.

    tokens: that it may have. If they do not suffice, the earliest messages are left out, and the text says
    so. Raises InvalidAgent for fewer than 100 tokens.
    """

    tokens: int = 50_000

    def __post_init__(self) -> None:
        check_tokens(self.tokens)

    def __call__(self, view: ContextRequest) -> str:
        """Return the conversation, without the reply that delegates."""
        view = view.plain
        messages = view.messages[:-1]
        head = f"The conversation of {view.parent}, which delegates to you:"
        left = self.tokens - tokens_of(head) - tokens_of(LEFT_OUT.format(len(messages))) - 2
        lines: list[str] = []
        for number in range(len(messages), 0, -1):
            # Each message is read by itself: of a long conversation most is not needed.
            said = [_line(one) for one in told_in(messages[number - 1 : number], view.parent)]
            left -= sum(tokens_of(line) + 1 for line in said)
            if left < 0:
                lines.append(LEFT_OUT.format(number))
                break
            lines += reversed(said)
        return "\n".join((head, *reversed(lines))) if lines else ""


class _Section(NamedTuple):
    heading: str
    lines: list[str]


class _Room:
    """The room of a brief, and its sections so far. Later sections have what earlier ones leave."""

    def __init__(self, tokens: int, head: str) -> None:
        self._head = head
        self._left = tokens - tokens_of(head) - 1
        self._line_max = tokens // 4
        self._sections: list[_Section] = []

    def add(self, heading: str, texts: Sequence[str], most: int, share: float) -> None:
        """Add a section with the last of these texts. share: of the room, which it may have."""
        left = int(self._left * share) - tokens_of(heading) - 1
        lines: list[str] = []
        for text in reversed(texts[len(texts) - min(most, len(texts)) :]):
            line = "- " + _cut(" ".join(text.split()), min(self._line_max, left) - 3)
            if (cost := tokens_of(line) + 1) > left or len(line) < 4:
                break
            left -= cost
            lines.append(line)
        if lines:
            lines.reverse()
            self._left -= sum(tokens_of(line) + 1 for line in (heading, *lines))
            self._sections.append(_Section(heading, lines))

    def text(self) -> str:
        """Return all sections as one text, empty without any."""
        lines = [line for one in self._sections for line in (one.heading, *one.lines)]
        return "\n".join((self._head, *lines)) if lines else ""


def check_tokens(tokens: int) -> None:
    """Refuse a bound that leaves no room for a context. Raises InvalidAgent."""
    if tokens < TOKENS_MIN:
        raise InvalidAgent(f"tokens={tokens}: a context has room for at least {TOKENS_MIN} tokens")


def _cut(text: str, most: int) -> str:
    """Return a text, or its beginning, with at most so many tokens."""
    if most <= 0:
        return ""
    start = text[: most * 4 + 1]
    if len(start) == len(text) and tokens_of(text) <= most:
        return text
    kept = bisect_right(range(1, len(start) + 1), most - 1, key=lambda chars: tokens_of(start[:chars]))
    return start[:kept] + "…" if kept else ""


def _line(one: Told) -> str:
    if one.kind == "said":
        return f"{one.by}: {one.text}"
    if one.kind == "call":
        return f"{one.by} calls {one.name} {one.arguments}"
    return f"result: {one.text}"


def _flags(view: ContextRequest) -> Iterator[str]:
    """Yield the labels of the parent, and what its bundles deny to the agents below it."""
    if view.labels:
        yield f"what follows has the labels {_listed(view.labels)}"
    denied: set[str] = set()
    for layer in view.rights:
        denied.update(layer.rights.denied.capabilities)
        denied.update(rule.deny for rule in layer.rights.rules if rule.label in view.labels)
    if denied:
        yield f"denied capabilities: {_listed(tuple(sorted(denied)))}"


def _listed(names: Names) -> str:
    return ", ".join(names)


def _memories(found: Iterable[Told]) -> list[str]:
    """Return one line with the ids of the texts that the parent has kept or found; none without any."""
    return _last(found, lambda one: one.memories, _MEMORIES_TOLD)


def _paths(found: Iterable[Told]) -> list[str]:
    """Return one line with the paths that the parent has given to tools; none without any."""
    return _last(found, lambda one: one.paths, _PATHS_TOLD)


def _last(found: Iterable[Told], names_of: Callable[[Told], Names], most: int) -> list[str]:
    """Return one line with the names that were met last, each once, in the order of their last places."""
    names: dict[str, None] = {}
    for name in (name for one in found for name in names_of(one)):
        names.pop(name, None)
        names[name] = None
    return [", ".join([*names][-most:])] if names else []
