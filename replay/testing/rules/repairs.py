"""Repairs of replies on their way back: the level of each request of an agent."""

from msgspec import Struct

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.failures import is_refused_request
from callboard.actors.protocol.messages import Begin, Finished, TurnRequested
from callboard.actors.protocol.port_messages import CUT_OFF, CallTool, ModelReplied
from callboard.actors.protocol.repair_levels import LEVEL_MAX
from callboard.replay.testing.rules.base import Invariant

_RULES = 2  # since which a level is raised


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
