"""Requests that are made again: after empty answers, and with replies that were repaired."""

from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec import Struct

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.failures import is_refused_request
from callboard.actors.protocol.messages import (
    Begin,
    Delegated,
    DelegationEnded,
    Finished,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import CUT_OFF, CallTool, ModelReplied
from callboard.actors.protocol.repair_levels import LEVEL_MAX
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.latches import is_own_end
from callboard.replay.testing.rules.lives import Life

_SINCE_RULES = 2
_OTHER_ENDS = ("refusal", "model_context_window_exceeded")
_RULES = 2  # since which a level is raised


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
        if self.facts.is_summary(event, reply):
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
        # The reply to a question with its whole request is its program's as it is, without words, too.
        is_whole = life.begin.asked is not None
        return life.begin.rules >= _SINCE_RULES and not life.profile.is_eager and not is_whole


class _Level(Struct, eq=False):
    """The level of an agent. is_due: its last request was refused. raised: the turn that has raised it.

    has_replies: its conversation may hold a reply. is_sure: it does.
    """

    level: int = 0
    is_due: bool = False
    raised: int = 0
    has_replies: bool = False
    is_sure: bool = False


class RepairLevels(Invariant):
    """The repair levels of agents."""

    name = "repair-levels"
    rule = (
        "A refused request that contains replies raises its agent's repair level by one, until the agent "
        "ends; the first one of a turn is followed by an attempt at that level, which breaks the cache."
    )
    _of: dict[str, _Level] = {}

    def on_Begin(self, event: Event, begin: Begin) -> None:
        """Record if an agent is handed a conversation."""
        level = self._of.setdefault(event.recipient, _Level())
        level.has_replies |= bool(begin.history)

    def on_ModelReplied(self, event: Event, reply: ModelReplied) -> None:
        """Record if a request was refused."""
        level, life = self._of.get(event.recipient), self.facts.lives.get(event.recipient)
        if level is None or life is None or reply.status in CUT_OFF:
            return
        if reply.status == "ok":
            level.has_replies = True
        failure = reply.failure if reply.status == "error" and life.begin.rules >= _RULES else None
        if failure is not None and not failure.is_retryable and level.has_replies:
            level.is_due = level.level < LEVEL_MAX and is_refused_request(failure.code, failure.message)

    def on_CallTool(self, event: Event, body: CallTool) -> None:
        """Record that a reply is in the conversation: its agent acts on it."""
        if event.sender in self._of:
            self._of[event.sender].is_sure = True

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Compare the level of a request with the refusals so far."""
        level = self._of.setdefault(event.sender, _Level())
        asked = 0 if body.repair is None else body.repair.level
        if why := self._why_not(level, asked, body):
            self.broken(event.seq, f"{event.sender} asks at repair level {asked} after {level.level}: {why}")
        if asked > level.level:
            level.raised = body.turn if body.attempt > 1 else 0
        level.level, level.is_due = asked, False

    def _why_not(self, level: _Level, asked: int, body: TurnRequested) -> str:
        """Return why this may not be the level of a request; empty if it may."""
        if asked == level.level:
            return "its last request was refused" if level.is_due and level.is_sure else ""
        if asked != level.level + 1 or not level.is_due:
            return "no refusal has raised it so"
        return "" if body.breaks_cache else "it does not say that it breaks the cache"

    def on_Finished(self, event: Event, body: Finished) -> None:
        """Check that an agent does not give up before the one attempt at the next level."""
        who, reply = event.sender, self.facts.replies.get(event.sender)
        level = self._of.get(who)
        if level is None or reply is None or body.kind != "model_error":
            return
        if not level.is_due or not level.is_sure:
            return
        most = self.facts.lives[who].most("max_model_attempts", 1)
        if level.raised != reply.turn and self.facts.attempts(who, reply.attempt) < most:
            self.broken(event.seq, f"{who} gives up without an attempt at repair level {level.level + 1}")
