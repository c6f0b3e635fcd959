"""The rules of compactions: of their messages, and of the requests behind them."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from callboard.actors.protocol.blocks import THOUGHTS
from callboard.actors.protocol.compaction_messages import CLEARED, SUMMARY, Compacted, SummaryRefused
from callboard.actors.protocol.conversation import is_by
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage, Begin, Stop, TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import NOTHING, Usage
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind
from callboard.replay.testing.rules.in_force import profile_of

COMPACTION_RULES: Final = {
    "compacted": "A compaction clears results and thinking only, or puts its summary in place of messages.",
    "summary-request": "A request for a summary is the last request up to a reply, with one more text.",
}
_PARTS: Final = 10
_PLAIN: Final = THOUGHTS | {"text", "tool_use"}


class _Talk(msgspec.Struct, eq=False):
    """The compactions of one agent. open: a summary that is asked for. turns: counted ones since the last."""

    open: TurnRequested | None = None
    wish: TurnRequested | None = None
    due: Compacted | None = None
    turns: int = 1
    summary: int = 0


class Compactions(Invariant):
    """The messages of compactions."""

    name = "compactions"
    rule = (
        "An agent has one compaction at a time, at most one summary for each counted turn, and none without "
        "`compact`; one by a function needs nothing; each frees a tenth of the window and is named by the "
        "next request, whose need is enough."
    )
    _talks: dict[str, _Talk] = {}

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Check a request for a summary, or the request after a compaction."""
        who, talk = event.sender, self._talks.setdefault(event.sender, _Talk())
        life = self.facts.lives.get(who)
        rules = None if life is None else life.profile.compact
        if body.purpose and rules is None:
            self.broken(event.seq, f"{who} asks for a summary without `compact`")
        is_free = rules is not None and rules.model is not None and rules.model.is_free
        if is_free and (body.summary if not body.purpose else body.need) != NOTHING:
            self.broken(event.seq, f"{who} needs something for a summary that a function writes")
        if talk.due is not None:
            if event.cause not in body.new:
                self.broken(event.seq, f"{who} does not name its compaction, event {event.cause}")
            if not body.breaks_cache:
                self.broken(event.seq, f"{who} does not say that its request begins again")
            talk.due = None
        talk.wish = body
        if body.purpose:
            if body.attempt == 1 and not talk.turns:
                self.broken(event.seq, f"{who} asks for two summaries before one turn")
            talk.open, talk.turns = body, 0
        else:
            talk.open = None
            talk.turns += body.attempt == 1

    def on_ModelReplied(self, event: Event, body: ModelReplied) -> None:
        """Record the answer that may be a summary, and compare its count with the count asked for."""
        talk, life = self._talks.get(event.recipient), self.facts.lives.get(event.recipient)
        wish, usage = (None if talk is None else talk.wish), body.usage
        is_meant = life is not None and life.profile.compact is not None
        if is_meant and wish is not None and _is_above(wish, body.turn, usage):
            self.broken(event.seq, f"{event.recipient} used more than the {wish.need.tokens:,} it needed")
        if talk is not None and talk.open is not None and talk.open.turn == body.turn:
            talk.summary = event.seq if body.status == "ok" else 0

    def on_Begin(self, event: Event, body: AnyMessage) -> None:
        """Forget the compaction of an ask that has ended."""
        self._talks[event.recipient] = _Talk()

    def on_Compacted(self, event: Event, body: Compacted) -> None:
        """Check a compaction."""
        who, life = event.sender, self.facts.lives.get(event.sender)
        talk = self._talks.setdefault(who, _Talk())
        if event.recipient != who or life is None or life.profile.compact is None:
            self.broken(event.seq, f"{who} has no conversation that may be compacted")
            return
        if talk.due is not None:
            self.broken(event.seq, f"{who} compacts its conversation twice before one request")
        if (body.by == "summary") != bool(body.summary) or (body.summary and body.summary != talk.summary):
            self.broken(event.seq, f"{who} has no answer {body.summary} that is its summary")
        window = life.begin.model.context_tokens or body.before
        if body.before - body.after < window // _PARTS:
            self.broken(event.seq, f"{who} frees {body.before - body.after:,} tokens")
        talk.due, talk.summary = body, 0

    def handled_TurnRequested(self, event: Event, body: TurnRequested, outputs: Sequence[Event]) -> None:
        """Check that a summary is refused only if it can never fit."""
        if of_kind(outputs, SummaryRefused) and body.need.tokens and self.ledger.could_ever_fit(event.sender):
            self.broken(event.seq, f"{event.sender} is refused a summary that fits")
        stops = [stop for one, stop in of_kind(outputs, Stop) if one.recipient == event.sender]
        if body.purpose and any(stop.reason == "budget" for stop in stops):
            self.broken(event.seq, f"{event.sender} ends since a summary does not fit")


def _is_above(wish: TurnRequested, turn: int, usage: Usage | None) -> bool:
    """Return whether an answer has used more than its request said that it needs at most."""
    is_bounded = usage is not None and wish.turn == turn and not wish.is_unbounded
    return is_bounded and usage is not None and usage.tokens > wish.need.tokens


# --- the requests -----------------------------------------------------------------


class Base(NamedTuple):
    """The part of a new request that was in the one before. length: its messages. why: how it is wrong."""

    length: int = 0
    why: str = ""


def why_other_summary(before: ModelRequest, request: ModelRequest) -> str:
    """Return how a request for a summary differs from the last request; empty if it is right."""
    size = request.length
    if (before.system, before.tools) != (request.system, request.tools) or request.force_tool:
        return "it has another system prompt, other tools or a forced one"
    if size > before.length or request.messages[: size - 1] != before.messages[: size - 1]:
        return "it is not the beginning of the last request"
    if size < before.length and not is_by("assistant", before.message(size)):
        return "the cut is not before a reply"
    last, was = _blocks(request.message(size - 1)), _blocks(before.message(size - 1))
    if last[:-1] != was or len(last) != len(was) + 1 or not is_by("user", request.message(size - 1)):
        return "its last message is not that of the last request with one more text"
    return ""


def cleared_base(before: Sequence[Json], now: Sequence[Json], body: Compacted) -> Base:
    """Compare a conversation with cleared results with the one before."""
    cleared = thoughts = 0
    for place, (was, said) in enumerate(zip(before, now, strict=False)):
        if was == said:
            continue
        old, new = _blocks(was), _blocks(said)
        if place >= body.upto:
            return Base(place, f"message {place} is not cleared, and differs")
        if not is_by("user", said):
            if not _is_without_thoughts(old, new):
                return Base(place, f"message {place} has lost more than its thinking")
            thoughts += 1
            continue
        for one, other in zip(old, new, strict=True) if len(old) == len(new) else [(None, None)]:
            if one == other:
                continue
            if one is None or other is None or not _is_line_for(one, other):
                return Base(place, f"message {place} has lost more than results")
            cleared += 1
    if len(now) < len(before):
        return Base(len(now), "messages are missing")
    is_told = (cleared, thoughts) == (body.results, body.thoughts)
    told = f"{cleared} results are cleared, and {thoughts} replies are without their thinking"
    return Base(len(before), "" if is_told else told)


def summary_base(before: Sequence[Json], now: Sequence[Json], body: Compacted, reply: Json | None) -> Base:
    """Compare a conversation that begins with a summary with the one before."""
    tail = [said for said in before[body.upto :] if not is_by("system", said)]
    length = 1 + len(tail)
    if list(now[1:length]) != list(tail):
        return Base(length, "the messages behind the summary are others")
    if reply is not None and any(block.get("type") == "tool_use" for block in msgspec.json.decode(reply)):
        return Base(length, "its summary calls tools")
    blocks = _blocks(now[0])
    if not blocks or not is_by("user", now[0]) or blocks[-1].get("text") != SUMMARY + _text(reply):
        return Base(length, "it does not begin with its summary")
    known = [block for said in before[: body.upto] for block in _blocks(said)]
    if any(block not in known or block.get("type") == "tool_result" for block in blocks[:-1]):
        return Base(length, "its first message has more than a prompt and the summary")
    return Base(length)


def why_too_short(request: ModelRequest, body: Compacted, begin: Begin) -> str:
    """Return what a compaction has lost that has to stay: the last turns, or the prompt."""
    rules = profile_of(bytes(begin.profile)).compact
    tail = request.messages[body.upto if body.by == "clear" else 1 :]
    if rules is not None and sum(is_by("assistant", said) for said in tail) < rules.keep:
        return f"fewer than {rules.keep} turns stay as they were"
    known = [block for said in request.messages for block in _blocks(said)]
    content = msgspec.json.decode(begin.prompt)
    prompt = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [block.get("text") for block in known]
    return "" if all(one in known or one.get("text") in texts for one in prompt) else "the prompt is lost"


def _is_without_thoughts(was: list[dict[str, object]], now: list[dict[str, object]]) -> bool:
    """Return whether a reply has lost all its thinking and nothing else, and its service needs none of it."""
    if any(one["type"] not in _PLAIN or _is_sealed(one) for one in was):
        return False
    return bool(now) and len(now) < len(was) and now == [one for one in was if one["type"] not in THOUGHTS]


def _is_sealed(block: dict[str, object]) -> bool:
    part = block.get("part")
    return block["type"] in THOUGHTS and isinstance(part, dict) and bool(part.keys() & {"id", "signature"})


def _is_line_for(was: dict[str, object], now: dict[str, object]) -> bool:
    same = was.get("type") == now.get("type") == "tool_result"
    return same and was["tool_use_id"] == now["tool_use_id"] and str(now["content"]).startswith(CLEARED)


def _blocks(said: Json) -> list[dict[str, object]]:
    content = msgspec.json.decode(said)["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _text(reply: Json | None) -> str:
    blocks: Iterable[dict[str, object]] = msgspec.json.decode(reply) if reply is not None else ()
    return "\n".join(str(one["text"]) for one in blocks if one.get("type") == "text" and one["text"])
