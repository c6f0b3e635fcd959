"""A session as a transcript in Markdown: its asks, then each agent with all that it was told and said.

An answered question of a program to a model is no agent of its own: question and reply stand among the turns
of its program, as in `Tree.folded`.

Text of models, tools and people stands in fenced blocks whose fence is longer than any in the text, so it can
neither end its block nor pass for a heading. A text of more than `TEXT_CHARS` characters is cut.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import itemgetter
from typing import Any, Final, TypeAlias

import msgspec

from callboard.actors.agent.content import read
from callboard.actors.agent.program_step import is_step
from callboard.actors.protocol.addresses import CLIENT, HOST, parent_of
from callboard.actors.protocol.client_messages import Ask, AskEnded, Tell
from callboard.actors.protocol.compaction_messages import Compacted, SummaryRefused
from callboard.actors.protocol.endings import EXPLAINED
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import Begin, DelegationEnded, Told
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallTool,
    ModelReplied,
    RequestApproval,
    ToolReturned,
)
from callboard.replay.descriptions import title_of, words_of
from callboard.replay.refused_calls import RefusedCall, Suspects
from callboard.runtime.log.tree import Tree

TEXT_CHARS: Final = 10_000
_Parts: TypeAlias = dict[str, list[tuple[int, str]]]
"""The pieces of each place, with the seqs of their events."""

_FENCES: Final = re.compile("`{3,}")


def transcript(
    session_id: str,
    events: Iterable[Event],
    refused_by: Callable[[Suspects], Iterable[RefusedCall]] = lambda suspects: (),
) -> Iterator[str]:
    """Yield the transcript in pieces that end with a line break.

    refused_by: returns the calls that suspects refused by themselves. Each stands behind its reply.
    """
    tree, suspects = Tree(), Suspects()
    parts = _parts(events, tree, suspects)
    _fold(parts, tree)
    for call in refused_by(suspects):
        piece = _titled(f"Not run: {_inline(call.tool)} (event {call.reply})", call.reason)
        parts.setdefault(call.agent, []).append((call.reply, piece))
    yield f"# Session {_inline(session_id)}\n"
    yield from _pieces(parts, CLIENT)
    for depth, node in tree.folded():
        end = f", {node.kind}" if node.kind else ", still at work"
        yield f"\n{'#' * min(6, depth + 2)} {node.address}: {_inline(node.profile)}{end}\n"
        yield from _pieces(parts, node.address)


def _parts(events: Iterable[Event], tree: Tree, suspects: Suspects) -> _Parts:
    """Return the pieces of each place, and add the events to the tree and to the suspects."""
    parts: _Parts = {}
    tools: dict[int, str] = {}  # of the open calls and questions, by their seqs
    for event in events:
        tree.add(event)
        if isinstance(event.body, CallTool | RequestApproval):
            tools[event.seq] = event.body.tool
        if event.kind in suspects.kinds:
            suspects.take(event)
        if take := _take_of(tree, event, tools):
            agent = event.sender if isinstance(event.body, CallTool | AskEnded) else event.recipient
            pieces = parts.setdefault(_place(agent, event), [])
            pieces += ((event.seq, piece) for piece in take(event, event.body))
    return parts


def _fold(parts: _Parts, tree: Tree) -> None:
    """Move the pieces of each answered question to its program."""
    for address in [node.address for _, node in tree.walk() if node.is_answered_question]:
        parts.setdefault(parent_of(address), []).extend(parts.pop(address, []))


def _take_of(tree: Tree, event: Event, tools: dict[int, str]) -> Callable[[Event, Any], Iterator[str]] | None:
    """Return the function that makes the pieces of an event; None if it has none."""
    body = event.body
    if isinstance(body, ToolReturned | ApprovalGiven):
        tool = tools.pop(event.cause, "")
        return partial(_returned if isinstance(body, ToolReturned) else _approval, tool=tool)
    if isinstance(body, DelegationEnded) and tree.is_answered_question(body.address):  # it repeats the reply
        return None
    return _TAKES.get(type(body))


def _pieces(parts: _Parts, place: str) -> Iterator[str]:
    return (piece for _, piece in sorted(parts.get(place, []), key=itemgetter(0)))


def _place(agent: str, event: Event) -> str:
    return CLIENT if CLIENT in (event.sender, event.recipient) else agent or HOST


def _headed(event: Event, name: str = "") -> str:
    return f"{name or title_of(event.body)} (event {event.seq})"


def _asked(event: Event, body: Ask) -> Iterator[str]:
    yield _titled(_headed(event), _text(body.prompt))


def _ask_ended(event: Event, body: AskEnded) -> Iterator[str]:
    yield _titled(f"{_headed(event)}: {body.kind}, {EXPLAINED[body.kind]}", _ending(body))


def _begun(event: Event, body: Begin) -> Iterator[str]:
    if body.asked is not None:  # its messages are those of the program, which said them in its step
        yield f"\n**{_headed(event, 'Question')}**: {_inline(body.description)}\n"
        return
    yield _titled(_headed(event), _text(body.prompt))


def _replied(event: Event, body: ModelReplied) -> Iterator[str]:
    if body.failure is not None:
        yield f"\n**{_headed(event)}**: {_inline(f'{body.failure.code}: {body.failure.message}')}\n"
        return
    said = read(body.content)
    if said is None:
        yield _titled(f"{_headed(event)}, not readable", _text(body.content))
        return
    if said.text:
        name = "Program" if is_step(body.content) else ""
        yield _titled(_headed(event, name), said.text)
    for use in said.uses:
        yield _titled(f"Call of {_inline(use.name)} (event {event.seq})", _pretty(use.input), "json")


def _returned(event: Event, body: ToolReturned, tool: str) -> Iterator[str]:
    yield _titled(f"{_headed(event, _of(event, tool))}: {body.status}", _text(body.output))


def _of(event: Event, tool: str) -> str:
    return f"{title_of(event.body)} of {_inline(tool)}" if tool else title_of(event.body)


def _delegation_ended(event: Event, body: DelegationEnded) -> Iterator[str]:
    yield _titled(f"{_headed(event, body.address)}: {body.kind}", _ending(body))


def _told(event: Event, body: Told | Tell) -> Iterator[str]:
    yield _titled(_headed(event), body.text)


def _approval(event: Event, body: ApprovalGiven, tool: str) -> Iterator[str]:
    yield f"\n**{_headed(event, _of(event, tool))}**: {body.verdict} {_inline(body.note)}\n"


def _compaction(event: Event, body: Compacted | SummaryRefused) -> Iterator[str]:
    yield f"\n**{_headed(event)}**: {_inline(words_of(body))}\n"


_TAKES: Final[dict[type, Callable[[Event, Any], Iterator[str]]]] = {
    Ask: _asked,
    AskEnded: _ask_ended,
    Begin: _begun,
    ModelReplied: _replied,
    DelegationEnded: _delegation_ended,
    Told: _told,
    Compacted: _compaction,
    SummaryRefused: _compaction,
}


def _ending(body: AskEnded | DelegationEnded) -> str:
    return _pretty(body.value) if body.value != NULL else body.text or body.detail


def _text(content: Json) -> str:
    """Return a text, or the JSON of blocks."""
    value = msgspec.json.decode(content)
    return value if isinstance(value, str) else _pretty(content)


def _pretty(value: Json) -> str:
    return msgspec.json.format(bytes(value), indent=2).decode()


def _titled(title: str, text: str, language: str = "") -> str:
    cut = "" if len(text) <= TEXT_CHARS else f"\n… {len(text) - TEXT_CHARS:,} more characters"
    shown = text[:TEXT_CHARS] + cut
    fence = "`" * max(3, 1 + max((len(found) for found in _FENCES.findall(shown)), default=0))
    return f"\n**{title}**\n\n{fence}{language}\n{shown}\n{fence}\n"


def _inline(text: str) -> str:
    """Return a foreign text on one line, without marks of Markdown or HTML."""
    return re.sub(r"([\\`*_\[\]<>#&|])", r"\\\1", " ".join(text.split()))
