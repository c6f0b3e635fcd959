"""Work in the background, and words for agents: who hears them, once, and what may end before."""

from collections.abc import Sequence

import msgspec

from callboard.actors.agent.content import read
from callboard.actors.protocol.client_messages import Tell, TellEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    Delegated,
    DelegationEnded,
    Finished,
    ReportJudged,
    Stop,
    Told,
    TurnRequested,
    TurnSettled,
)
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.lives import Call


class OneTellEnd(Invariant):
    """Words of a client."""

    name = "one-tell-end"
    rule = "Every Tell ends exactly once: with the grant of the first request that has its text, or refused."
    _open: dict[str, int] = {}
    _handled: set[str] = set()
    _told: dict[int, str] = {}  # the seq of a `Told` -> the request id of its `Tell`
    _tells: dict[int, str] = {}
    _wishes: dict[str, TurnRequested] = {}
    _heard: dict[str, list[int]] = {}  # request id -> the granted turns that hold its words
    _refused: set[str] = set()

    def on_Tell(self, event: Event, body: Tell) -> None:
        """Record words that have not ended."""
        self._open[body.request_id] = event.seq
        self._tells[event.seq] = body.request_id

    def handled_Tell(self, event: Event, body: Tell, outputs: Sequence[Event]) -> None:
        """Record words that the supervisor has passed on or refused: from then on they must end."""
        self._handled.add(body.request_id)

    def on_Told(self, event: Event, body: Told) -> None:
        """Record the way of words to their agent."""
        self._told[event.seq] = self._tells.get(event.cause, "")

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Record the wish of an agent."""
        self._wishes[event.sender] = body

    def on_CallModel(self, event: Event, body: CallModel) -> None:
        """Record the words that a granted request holds for the first time."""
        wish = self._wishes.get(body.agent)
        if wish is None or wish.attempt != 1:
            return
        for name in [self._told[seq] for seq in wish.new if seq in self._told]:
            self._hears(event, name, wish.turn)

    def _hears(self, event: Event, name: str, turn: int) -> None:
        self._heard.setdefault(name, []).append(turn)
        if name in self._refused:
            self.broken(event.seq, f"{name!r} was refused, and stands in turn {turn}")

    def on_TellEnded(self, event: Event, body: TellEnded) -> None:
        """Compare the end of words with the requests that hold them."""
        name, heard = body.request_id, self._heard.get(body.request_id, [])
        if self._open.pop(name, None) is None:
            self.broken(event.seq, f"{name!r} has ended before, or was never told")
        elif body.status == "heard" and heard != [body.turn]:
            self.broken(event.seq, f"{name!r} is heard in turn {body.turn}, and stands in turns {heard}")
        elif body.status == "refused" and heard:
            self.broken(event.seq, f"{name!r} is refused, and stands in turns {heard}")
        if body.status == "refused":
            self._refused.add(name)

    def quiet(self, seq: int) -> None:
        """Report words that have no end, or that stand in two requests."""
        for name, posted in self._open.items():
            if name in self._handled:
                self.broken(seq, f"{name!r} (event {posted}) has not ended")
        for name, turns in self._heard.items():
            if len(turns) > 1:
                self.broken(seq, f"{name!r} stands in turns {turns}")


class _Tasks(msgspec.Struct, eq=False):
    """The background tasks of an agent in one life, as far as its inbox tells."""

    running: dict[Call, int] = {}  # the seqs of their `Delegated`
    unheard: set[int] = set()  # the seqs of their ends that no granted request names
    is_silent: bool = False  # its last reply has no calls


def _running_at(tasks: _Tasks, event: int) -> int:
    """Return the number of tasks that run for the agent when it handles this event."""
    # For the agent, a task runs as long as its end is further back in its inbox.
    return sum(start < event for start in tasks.running.values()) + sum(end > event for end in tasks.unheard)


class TasksRead(Invariant):
    """Ends of background tasks."""

    name = "tasks-read"
    rule = "An agent that waits for its tasks answers after it has read all their ends, and is woken once."
    _of: dict[str, _Tasks] = {}
    _wishes: dict[str, TurnRequested] = {}
    _ends: dict[int, Call] = {}  # the seqs of ends of background tasks

    def on_Begin(self, event: Event, body: Begin) -> None:
        """Forget the tasks of an earlier life."""
        self._of.pop(event.recipient, None)

    def on_Delegated(self, event: Event, body: Delegated) -> None:
        """Record a task that runs."""
        tasks = self._of.setdefault(event.recipient, _Tasks())
        tasks.running[event.recipient, body.turn, body.call] = event.seq

    def on_DelegationEnded(self, event: Event, body: DelegationEnded) -> None:
        """Record the end of a task."""
        call = (event.recipient, body.turn, body.call)
        tasks = self._of.get(event.recipient)
        if tasks is not None and tasks.running.pop(call, None) is not None:
            tasks.unheard.add(event.seq)
            self._ends[event.seq] = call

    def on_ModelReplied(self, event: Event, body: ModelReplied) -> None:
        """Record whether an agent has fallen silent."""
        tasks = self._of.get(event.recipient)
        if tasks is not None and body.status == "ok" and not self.facts.is_summary(event, body):
            said = read(body.content)
            tasks.is_silent = said is not None and not said.uses

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Check that no task but the last wakes a silent agent."""
        self._wishes[event.sender] = body
        tasks, ended = self._of.get(event.sender), self._ends.get(event.cause)
        if tasks is None or ended is None or not tasks.is_silent or body.attempt > 1:
            return
        if left := _running_at(tasks, event.cause):
            self.broken(event.seq, f"{event.sender} is woken by one end, and {left} of its tasks run")

    def on_TurnSettled(self, event: Event, body: TurnSettled) -> None:
        """Check an agent that goes on without a request while its tasks run."""
        tasks, life = self._of.get(event.sender), self.facts.lives.get(event.sender)
        running = [start for start in tasks.running.values() if start < event.cause] if tasks else []
        if tasks is None or life is None or not running:
            return
        if body.closing.tokens < max(one.max_tokens for one in life.begin.model.all_specs):
            self.broken(event.seq, f"{event.sender} has tasks, and does not state the need of its next turn")
        if tasks.is_silent and life.profile.on_finish == "cancel":
            self.broken(event.seq, f"{event.sender} waits for its tasks, which its last word cancels")

    def on_CallModel(self, event: Event, body: CallModel) -> None:
        """Record the ends that a granted request names."""
        tasks, wish = self._of.get(body.agent), self._wishes.get(body.agent)
        if tasks is not None and wish is not None:
            tasks.unheard.difference_update(wish.new)

    def on_Finished(self, event: Event, body: Finished) -> None:
        """Check that an agent which answers has heard of all its tasks."""
        tasks, life = self._of.pop(event.sender, None), self.facts.lives.get(event.sender)
        waits = life is not None and life.profile.on_finish == "wait"
        if tasks is not None and waits and body.kind == "answered":
            self._check_answer(event, tasks)

    def _check_answer(self, event: Event, tasks: _Tasks) -> None:
        if unheard := sorted(seq for seq in tasks.unheard if seq < event.cause):
            self.broken(event.seq, f"{event.sender} answers, and has not heard event {unheard[0]}")
        if running := [call for call, start in tasks.running.items() if start < event.cause]:
            self.broken(event.seq, f"{event.sender} answers, and {len(running)} of its tasks run")


class TasksEnd(Invariant):
    """Lives of background tasks."""

    name = "tasks-end"
    rule = "A background task never outlives the agent that started it."
    _open: dict[str, set[Call]] = {}

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Update the open tasks by one decision, and check those of the agents that it ends."""
        ended = [event.sender] if isinstance(body, Finished) else []
        for output in outputs:
            who = output.recipient
            match output.body:
                case Delegated(turn=turn, call=call):
                    self._open.setdefault(who, set()).add((who, turn, call))
                case DelegationEnded(turn=turn, call=call):
                    self._open.get(who, set()).discard((who, turn, call))
                case Stop() | ReportJudged(verdict="accepted"):
                    ended.append(who)
                case _:
                    pass
        for who in ended:
            for _, turn, call in sorted(self._open.pop(who, ())):
                self.broken(event.seq, f"{who} has ended, and its background task {turn}.{call} has not")
