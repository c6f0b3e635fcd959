"""Empty answers: asked for once more, and no success."""

from functools import lru_cache
from typing import NamedTuple

import msgspec

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    Begin,
    Delegated,
    DelegationEnded,
    Finished,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Life
from callboard.replay.testing.rules.latches import is_own_end

_SINCE_RULES = 2
_OTHER_ENDS = ("refusal", "model_context_window_exceeded")


class _Block(msgspec.Struct):
    type: str
    text: msgspec.Raw = msgspec.Raw(b'""')


class _Said(NamedTuple):
    """A reply. has_called: it calls tools. has_spoken: it holds words, or anything else but thoughts."""

    has_called: bool
    has_spoken: bool


@lru_cache(maxsize=1_024)
def _said(content: bytes) -> _Said | None:
    """Return the content of a reply; None if it cannot be read, which is a failed call and not an answer."""
    try:
        blocks = msgspec.json.decode(content, type=list[_Block])
    except msgspec.DecodeError:
        return None
    return _Said(any(one.type == "tool_use" for one in blocks), any(map(_is_said, blocks)))


def _is_said(block: _Block) -> bool:
    if block.type == "text":
        return bool(msgspec.json.decode(block.text, type=str).strip())
    return block.type not in ("thinking", "redacted_thinking")


class _Talk(msgspec.Struct, eq=False):
    """The words of an agent. empties: the empty answers in its latest turn, by the number of that turn."""

    has_spoken: bool = False
    has_called: bool = False  # in its last reply
    empties: tuple[int, int] = (0, 0)


class EmptyAnswers(Invariant):
    """Last words."""

    name = "empty-answers"
    rule = (
        "An agent ends as `answered` only if it wrote more than reasoning since its last input, and as "
        "`empty` only if it did not and was asked once more or has no attempt left."
    )
    _talks: dict[str, _Talk] = {}
    _tasks: dict[tuple[str, int, int], int] = {}  # those in the background, and the seqs of their ends

    def on_Begin(self, event: Event, begin: Begin) -> None:
        """Record that an agent is spoken to."""
        self._talks[event.recipient] = _Talk()
        for task in [task for task in self._tasks if task[0] == event.recipient]:
            del self._tasks[task]

    def on_ModelReplied(self, event: Event, reply: ModelReplied) -> None:
        """Record the content of a reply."""
        talk = self._talks.get(event.recipient)
        if talk is None or reply.status != "ok" or reply.stop_reason in _OTHER_ENDS:
            return
        said = _said(bytes(reply.content))
        if said is None:
            return
        talk.has_called = said.has_called
        if said.has_spoken:
            talk.has_spoken = True
            return
        turn, count = talk.empties
        talk.empties = reply.turn, (count + 1 if turn == reply.turn else 1)

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Record the words that an agent at work hears, and check that it is asked once more at most."""
        talk, life = self._talks.get(event.sender), self.facts.lives.get(event.sender)
        if talk is None or life is None or not self._is_meant(life):
            return
        if body.attempt == 1 and (body.told or body.ends) and talk.has_called:
            talk.has_spoken = False
        reply = self.facts.replies.get(event.sender)
        if body.attempt == 1 or talk.empties[1] < 2 or reply is None or reply.status != "ok":
            return
        said = _said(bytes(reply.content))
        if said is not None and not said.has_spoken:
            self.broken(event.seq, f"{event.sender} has answered nothing twice, and is asked again")

    def on_Delegated(self, event: Event, body: Delegated) -> None:
        """Record a task that begins."""
        self._tasks[event.recipient, body.turn, body.call] = 0

    def on_DelegationEnded(self, event: Event, body: DelegationEnded) -> None:
        """Record the end of a task."""
        task = (event.recipient, body.turn, body.call)
        if task in self._tasks:
            self._tasks[task] = event.seq

    def on_Finished(self, event: Event, body: Finished) -> None:
        """Compare the end of an agent with its words."""
        who, talk, life = event.sender, self._talks.get(event.sender), self.facts.lives.get(event.sender)
        if talk is None or life is None:
            return
        if (
            body.kind == "empty"
            and not is_own_end(self, life)
            and (why := self._why_not_empty(who, talk, life))
        ):
            self.broken(event.seq, f"{who} ends as `empty`: {why}")
        has_tasks = any(task[0] == who and not 0 < end <= event.cause for task, end in self._tasks.items())
        is_wrong = body.kind == "answered" and not talk.has_spoken and not has_tasks
        if is_wrong and self._is_meant(life):
            self.broken(event.seq, f"{who} ends as `answered`, and has said nothing")

    def _why_not_empty(self, who: str, talk: _Talk, life: Life) -> str:
        reply = self.facts.replies.get(who)
        if not self._is_meant(life):
            return "it is a program, or lives by earlier rules"
        if talk.has_spoken or reply is None:
            return "it has said more than thoughts"
        made = self.facts.attempts(who, reply.attempt)
        is_last = talk.empties[1] > 1 or made >= life.most("max_model_attempts", 1)
        return "" if is_last else "it was not asked once more"

    def _is_meant(self, life: Life) -> bool:
        return life.begin.rules >= _SINCE_RULES and not life.profile.is_eager
