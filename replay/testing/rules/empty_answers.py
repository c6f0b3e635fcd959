"""Empty answers: asked for once more, and no success."""

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


def _blocks(reply: ModelReplied) -> list[_Block] | None:
    """Return the blocks of a reply; None if it cannot be read, which is a failed call and no answer."""
    try:
        return msgspec.json.decode(reply.content, type=list[_Block])
    except msgspec.DecodeError:
        return None


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
        "An agent ends as `answered` only if it has said more than thoughts since it was spoken to, and as "
        "`empty` only if it has not, and was asked once more or has no attempt left."
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
        blocks = _blocks(reply)
        if blocks is None:
            return
        talk.has_called = any(block.type == "tool_use" for block in blocks)
        if any(map(_is_said, blocks)):
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
        blocks = _blocks(reply) if reply is not None and reply.status == "ok" else None
        is_after_it = blocks is not None and not any(map(_is_said, blocks))
        if body.attempt > 1 and is_after_it and talk.empties[1] > 1:
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
