"""Refusals that latch, the number of questions, and timers: a program hears that it has to end, and ends."""

from collections.abc import Iterator, Sequence

import msgspec

from callboard.actors.agent.program_step import read_step
from callboard.actors.protocol.client_messages import Resumed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    CancelTask,
    Delegate,
    DelegationEnded,
    Finished,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import (
    CallTool,
    CancelTimer,
    ExtendTimer,
    ModelReplied,
    RequestApproval,
    SetTimer,
    TimerFired,
)
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.prompts import ASK_MODEL
from callboard.actors.protocol.usage import bound
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind
from callboard.replay.testing.rules.lives import Call, Life
from callboard.replay.testing.rules.timers import purpose_of

_SINCE_RULES = 2
_LEAST_INPUT = len(b'{"role":"user","content":""}')


class _Block(msgspec.Struct):
    type: str
    name: str = ""


class _News(msgspec.Struct, eq=False):
    """The news that a program has to end. is_heard: a granted step has it."""

    seq: int
    call: Call
    is_heard: bool = False


class Latched(Invariant):
    """Refusals that latch."""

    name = "latched"
    rule = (
        "A program that can no longer ask any model because of its budget or one above it learns this with "
        "the refusal, makes no more calls, and ends as `budget`; no other program does."
    )
    _news: dict[str, _News] = {}
    _given_up: dict[Call, int] = {}

    def on_Begin(self, event: Event, begin: Begin) -> None:
        """Forget the news of a life before."""
        self._news.pop(event.recipient, None)

    def on_CancelTask(self, event: Event, body: CancelTask) -> None:
        """Record a delegation that is given up."""
        self._given_up.setdefault((event.sender, body.turn, body.call), event.cause)

    def on_DelegationEnded(self, event: Event, end: DelegationEnded) -> None:
        """Record the news that a program has to end."""
        if end.latch:
            who = event.recipient
            self._news.setdefault(who, _News(event.seq, (who, end.turn, end.call)))

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Compare the news with the budgets, which the decision may have charged before."""
        for output, end in of_kind(outputs, DelegationEnded):
            self._compare(output, end)

    def _compare(self, event: Event, end: DelegationEnded) -> None:
        """Compare an end with the budgets of its parent: those of an implicit agent are the same."""
        who, life = event.recipient, self.facts.lives.get(event.recipient)
        call = (who, end.turn, end.call)
        is_meant = life is not None and life.begin.rules >= _SINCE_RULES and life.profile.is_eager
        if not end.latch:
            is_refused = end.kind == "budget" and self.facts.is_implicit(call)
            if is_meant and is_refused and not self._fits(who) and not self._is_unbounded(who, call):
                self.broken(event.seq, f"{who} is not told that no model fits its budget any more")
        elif not is_meant:
            self.broken(event.seq, f"{who} is not a program of these rules, and is told to end")
        elif (name := self._fits(who)) and end.kind != "cancelled":
            self.broken(event.seq, f"{who} is told to end, and {name} fits its budget")

    def _is_unbounded(self, who: str, call: Call) -> bool:
        """Return whether the question had no bound, which another question can have."""
        asked = [self.ledger.asked.get(one) for one in self.facts.copies.get(call, [])]
        return any(wish is not None and wish.is_unbounded for wish in asked)

    def _fits(self, who: str) -> str:
        """Return the name of a model that a program may use and whose smallest request fits; '' for none."""
        for spec in self._models(who):
            need = bound(_LEAST_INPUT + spec.overhead_tokens, spec.max_tokens, spec.prices)
            if all(scope.may_hold(kept) for scope, kept in self.ledger.held(who, need)):
                return spec.name
        return ""

    def _models(self, who: str) -> Iterator[ModelSpec]:
        life, above = self.facts.lives[who], self.facts.model_below(who)
        yield from (above, *life.profile.models)
        if not life.is_program:
            yield life.begin.model
        line = [(name, above) for name in life.profile.agents if life.begin.roster]
        seen: set[str] = set()
        while line:
            name, inherited = line.pop()
            if name in seen or name not in self.facts.profiles:
                continue
            seen.add(name)
            one = self.facts.profiles[name][0]
            own, below = one.own_model(inherited), one.model_below(inherited)
            yield from (one for one in (own, below, *one.models) if not one.is_program)
            line += [(other, below) for other in one.agents]

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Record that a step has the news, and that it is the last one."""
        news = self._told(event)
        if news is None or body.attempt > 1:
            return
        if news.is_heard:
            self.broken(event.seq, f"{event.sender} has heard that it has to end, and takes a further step")
        news.is_heard = news.seq in body.new

    def on_CallTool(self, event: Event, body: CallTool | RequestApproval | Delegate) -> None:
        """Check that a program which has to end asks for nothing."""
        if self._told(event) is not None:
            self.broken(event.seq, f"{event.sender} has to end, and posts a {event.kind}")

    on_RequestApproval = on_Delegate = on_CallTool

    def on_Finished(self, event: Event, body: Finished) -> None:
        """Check the end of a program that has heard of a refusal."""
        news = self._told(event)
        if news is not None and news.is_heard and body.kind not in ("budget", "needs_effect"):
            self.broken(event.seq, f"{event.sender} was refused a budget, and ends as {body.kind}")

    def _told(self, event: Event) -> _News | None:
        """Return the news that the sender had when it posted this; None if it had none, or asked for none."""
        news = self._news.get(event.sender)
        if news is None or event.cause < news.seq:
            return None
        return None if self._given_up.get(news.call, news.seq) < news.seq else news


class QuestionLimit(Invariant):
    """The number of questions."""

    name = "question-limit"
    rule = (
        "A program with a model has no more turns and questions together than max_iterations, and a program "
        "whose profile or ask states that limit has no more questions; it ends because of it only if it "
        "wants one more."
    )
    _asked: dict[str, int] = {}
    _wanted: dict[str, int] = {}

    def on_Begin(self, event: Event, begin: Begin) -> None:
        """Begin to count, and check that only the limit of a program is said to bind."""
        who = event.recipient
        self._asked[who] = self._wanted[who] = 0
        life = self.facts.lives[who]
        if begin.bounds_questions and not self._states(life):
            self.broken(event.seq, f"the questions of {who} are bound, and nothing of its own says so")
        if not begin.bounds_questions and self._states(life):
            self.broken(event.seq, f"the questions of {who} are not bound, and its own limits say so")

    def _states(self, life: Life) -> bool:
        given, _ = self.facts.asked_of(life)
        own = (life.profile.limits, *([given.limits] if given is not None else []))
        is_meant = life.begin.rules >= _SINCE_RULES and life.profile.is_eager
        return is_meant and any(limits.max_iterations is not None for limits in own)

    def on_ModelReplied(self, event: Event, reply: ModelReplied) -> None:
        """Count the questions that a program wants to put."""
        life = self.facts.lives.get(event.recipient)
        if life is None or not life.profile.is_eager or reply.status != "ok":
            return
        try:
            blocks = msgspec.json.decode(reply.content, type=list[_Block])
        except msgspec.DecodeError:
            return
        self._wanted[event.recipient] += sum(
            (one.type, one.name) == ("tool_use", ASK_MODEL) for one in blocks
        )

    def on_Delegate(self, event: Event, body: Delegate) -> None:
        """Count a question, and compare the number with the limit."""
        life = self.facts.lives.get(event.sender)
        if life is None or body.implicit == NULL or life.begin.rules < _SINCE_RULES:
            return
        self._asked[event.sender] += 1
        count = self._asked[event.sender] + (0 if life.is_program else life.turns)
        is_bound = life.begin.bounds_questions or not life.is_program
        if is_bound and count > life.most("max_iterations"):
            self.broken(event.seq, f"{event.sender} puts question {count} of {life.most('max_iterations')}")

    def on_Finished(self, event: Event, body: Finished) -> None:
        """Check that a program which ends for its questions wants one more than it may put."""
        life = self.facts.lives.get(event.sender)
        if life is None or not life.is_program or body.kind != "iteration_cap" or is_own_end(self, life):
            return
        is_over = life.begin.bounds_questions and self._wanted[event.sender] > life.most("max_iterations")
        if not is_over and life.turns < life.turns_max:
            self.broken(event.seq, f"{event.sender} ends for its questions, and may put more")


def is_own_end(rule: Invariant, life: Life) -> bool:
    """Return whether a program has chosen its end itself, in its last step."""
    reply: ModelReplied | None = rule.facts.replies.get(life.address)
    if reply is None or reply.status != "ok" or not life.profile.is_eager:
        return False
    step = read_step(reply.content)
    return step is not None and step.failure is not None


class InTime(Invariant):
    """The moments of timers."""

    name = "in-time"
    rule = "No timer fires early, and a resume with more time extends the deadlines and nothing else."
    _due: dict[int, int] = {}
    _deadlines: set[int] = set()

    def on_SetTimer(self, event: Event, body: SetTimer) -> None:
        """Record when a timer is due."""
        self._due[body.timer] = event.at + body.after_ms

    def on_ExtendTimer(self, event: Event, body: ExtendTimer) -> None:
        """Record that a timer is due later."""
        self._due[body.timer] = self._due.get(body.timer, 0) + body.by_ms

    def on_TimerFired(self, event: Event, body: TimerFired) -> None:
        """Compare the time with that at which the timer is due."""
        due = self._due.pop(body.timer, 0)
        if event.at < due:
            self.broken(event.seq, f"timer {body.timer} fires {due - event.at} ms before its time")

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Update the running deadlines by one decision."""
        if isinstance(body, TimerFired):
            self._deadlines.discard(body.timer)
        for index, output in enumerate(outputs):
            if isinstance(output.body, SetTimer):
                self._note(event, output.body, outputs[index + 1 :], index == 0)
            elif isinstance(output.body, CancelTimer):
                self._deadlines.discard(output.body.timer)

    def _note(self, event: Event, timer: SetTimer, later: Sequence[Event], is_first: bool) -> None:
        if purpose_of(event, timer, later, is_first)[0] == "deadline":
            self._deadlines.add(timer.timer)

    def handled_Resumed(self, event: Event, body: Resumed, outputs: Sequence[Event]) -> None:
        """Compare the timers that a resume extends with the running deadlines."""
        extended = {order.timer: order.by_ms for _, order in of_kind(outputs, ExtendTimer)}
        more = body.extend_ms
        expected = dict.fromkeys(self._deadlines, more) if more else {}
        if extended != expected:
            self.broken(event.seq, f"it extends by {more} ms, and timers {extended} instead of {expected}")
