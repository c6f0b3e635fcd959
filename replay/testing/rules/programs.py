"""Programs: calls that stay open over turns, lines in the order of the asks, cancelled calls, deadlines."""

from collections import Counter
from collections.abc import Sequence

from msgspec import field

from callboard.actors.agent.program_step import read_step
from callboard.actors.protocol.addresses import parent_of
from callboard.actors.protocol.client_messages import Forked, Resumed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    CancelTask,
    Delegate,
    DelegationEnded,
    Finished,
    Stopped,
    TurnRequested,
    Wake,
    Woken,
)
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallModel,
    CallTool,
    CancelCall,
    ModelReplied,
    RequestApproval,
    ToolReturned,
)
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import NOTHING
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind
from callboard.replay.testing.rules.lives import Call, Life


class _OfPrograms(Invariant):
    """A rule of agents with eager turns."""

    def program(self, who: str) -> Life | None:
        """Return the life of a program; None for any other agent."""
        life = self.facts.lives.get(who)
        return life if life is not None and life.profile.is_eager else None

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Confirm a breach in doubt: a log may end before the outputs of its last events."""
        if outputs:
            self.confirm()


class FreeSteps(_OfPrograms):
    """The steps of programs."""

    name = "free-steps"
    rule = "A program's step reserves nothing, and needs no grant or is granted when its request is handled."

    def on_RunStep(self, event: Event, body: RunStep) -> None:
        """Check that a step which needs no grant is that of a program."""
        life = self.program(event.sender)
        if life is None or not life.is_program:
            self.broken(event.seq, f"{event.sender} calls its model without a grant")

    def handled_TurnRequested(self, event: Event, body: TurnRequested, outputs: Sequence[Event]) -> None:
        """Check the need of a step, and its grant."""
        life = self.program(event.sender)
        if life is None or not life.is_program:
            return
        if body.need != NOTHING:
            self.broken(event.seq, f"a step of {event.sender} needs {body.need.tokens} tokens")
        is_ended = 0 < life.ended_by <= event.seq
        is_granted = any(call.agent == event.sender for _, call in of_kind(outputs, CallModel))
        if not (body.after_ms or is_ended or is_granted):
            self.in_doubt = event.seq, f"a step of {event.sender} waits"


class LiveCopies(_OfPrograms):
    """The sub-agents of programs."""

    name = "live-copies"
    rule = "A program has no more live copies than max_children, and they begin in the order of its calls."
    _live: Counter[str] = field(default_factory=Counter)
    _waiting: dict[str, dict[Call, int]] = {}  # delegations that no port holds up, and that have not begun
    _held_up: dict[Call, int] = {}  # the others, with the most that the limit was since they were asked for
    _counted: set[str] = set()

    def on_Delegate(self, event: Event, body: Delegate) -> None:
        """Record a delegation."""
        life, call = self.program(event.sender), (event.sender, body.turn, body.call)
        if life is not None and self._is_held_up(body):
            self._held_up[call] = life.bound("max_children")
        elif life is not None:
            self._waiting.setdefault(event.sender, {})[call] = event.seq

    def on_Resumed(self, event: Event, body: Resumed | Forked) -> None:
        """Note other limits: a delegation that a port holds up keeps the place that it has taken."""
        for call, most in self._held_up.items():
            life = self.program(call[0])
            self._held_up[call] = max(most, life.bound("max_children") if life is not None else 0)

    on_Forked = on_Resumed

    def _is_held_up(self, body: Delegate) -> bool:
        """Return whether a port is asked for a delegation before it begins, so that a later one may pass."""
        known = (self.facts.profiles.get(name) for name in body.profiles)
        is_prepared = any(one is not None and one[0].is_prepared for one in known)
        return is_prepared or body.input != NULL or self._schema_of(body) != NULL

    def _schema_of(self, body: Delegate) -> bytes:
        known = self.facts.profiles.get(body.profiles[0]) if body.profiles else None
        return body.schema if body.schema != NULL or known is None else known[0].schema

    def on_DelegationEnded(self, event: Event, body: DelegationEnded) -> None:
        """Forget a delegation that ends."""
        call = (event.recipient, body.turn, body.call)
        self._waiting.get(event.recipient, {}).pop(call, None)
        self._held_up.pop(call, None)

    def on_Begin(self, event: Event, body: Begin) -> None:
        """Count a copy that begins, and look for an earlier delegation that waits."""
        parent = parent_of(event.recipient)
        life = self.program(parent)
        if life is None:
            return
        self._live[parent] += 1
        self._counted.add(event.recipient)
        call = self.facts.works_on.get(event.recipient, ("", 0, 0))
        most = max(life.bound("max_children"), self._held_up.get(call, 0))
        if self._live[parent] > most:
            self.broken(event.seq, f"{parent} has {self._live[parent]} live copies, {most} may be")
        waiting = self._waiting.get(parent, {})
        asked = waiting.pop(call, None)
        if asked is not None and any(seq < asked for seq in waiting.values()):
            self.broken(event.seq, f"{event.recipient} begins before a delegation that was asked for earlier")

    def on_Finished(self, event: Event, body: Finished | Stopped) -> None:
        """Count a copy that has drained."""
        if event.sender in self._counted:
            self._counted.discard(event.sender)
            self._live[parent_of(event.sender)] -= 1

    on_Stopped = on_Finished


class Questions(_OfPrograms):
    """The questions of programs to models."""

    name = "questions"
    rule = (
        "A question to a model has no tools and no agents, and one turn or, with a schema, those of reports."
    )

    def on_Begin(self, event: Event, body: Begin) -> None:
        """Check an agent that a question begins."""
        who, life = event.recipient, self.facts.lives[event.recipient]
        if not self.facts.is_implicit(life.call):
            return
        parent = self.facts.lives.get(parent_of(who))
        reports = (parent.begin.limits.max_report_attempts if parent else None) or 1
        if life.turns_max > (1 if body.schema == NULL else reports):
            self.broken(event.seq, f"{who} answers a question, and has {life.turns_max} turns")
        if life.profile.tools or life.profile.server_tools or body.roster:
            self.broken(event.seq, f"{who} answers a question, and has tools or agents")


class ToolLine(_OfPrograms):
    """The tools of programs."""

    name = "tool-line"
    rule = "The tools of a program start in the order of its calls."
    _last: dict[str, tuple[int, int]] = {}
    _asked: set[Call] = set()

    def on_RequestApproval(self, event: Event, body: RequestApproval) -> None:
        """Record a call that takes its place in line only when a person has answered."""
        self._asked.add((event.sender, body.turn, body.call))

    def on_CallTool(self, event: Event, body: CallTool) -> None:
        """Compare the place of a call with that of the one before."""
        who, place = event.sender, (body.turn, body.call)
        if self.program(who) is None or (who, *place) in self._asked:
            return
        if place <= self._last.get(who, (0, -1)):
            self.broken(event.seq, f"call {body.turn}.{body.call} of {who} starts after a later one")
        self._last[who] = place


class GivenUp(_OfPrograms):
    """Calls that a program gave up."""

    name = "given-up-calls"
    rule = "A call that was given up does not start, its delegation ends at once, and no other is cancelled."
    _open: set[Call] = set()
    _given_up: set[Call] = set()

    def on_Delegate(self, event: Event, body: Delegate | CallTool | RequestApproval) -> None:
        """Record a request, unless its call was given up."""
        call = (event.sender, body.turn, body.call)
        if call in self._given_up:
            self.broken(event.seq, f"call {body.turn}.{body.call} of {event.sender} was given up, and starts")
        self._open.add(call)

    on_CallTool = on_RequestApproval = on_Delegate

    def on_DelegationEnded(self, event: Event, body: DelegationEnded | ToolReturned | ApprovalGiven) -> None:
        """Record an answer."""
        self._open.discard((event.recipient, body.turn, body.call))

    on_ApprovalGiven = on_DelegationEnded

    def on_ToolReturned(self, event: Event, body: ToolReturned) -> None:
        """Record an answer, which is `cancelled` only if the call was given up or its agent stopped."""
        who, call = event.recipient, (body.turn, body.call)
        self.on_DelegationEnded(event, body)
        is_wanted = who not in self.facts.stops and (who, *call) not in self._given_up
        if body.status == "cancelled" and is_wanted and self.program(who) is not None:
            self.broken(
                event.seq, f"call {body.turn}.{body.call} of {who} is cancelled, and was not given up"
            )

    def on_CancelCall(self, event: Event, body: CancelCall) -> None:
        """Record a call that is given up."""
        call = (event.sender, body.turn, body.call)
        if call in self._given_up:
            self.broken(event.seq, f"call {body.turn}.{body.call} of {event.sender} is given up twice")
        self._given_up.add(call)

    def on_CancelTask(self, event: Event, body: CancelTask) -> None:
        """Record a program's delegation that is given up."""
        if self.program(event.sender) is not None:
            self._given_up.add((event.sender, body.turn, body.call))

    def handled_CancelTask(self, event: Event, body: CancelTask, outputs: Sequence[Event]) -> None:
        """Check that the delegation has ended."""
        life = self.program(event.sender)
        is_running = life is not None and not 0 < life.ended_by <= event.seq
        if is_running and (event.sender, body.turn, body.call) in self._open:
            self.in_doubt = event.seq, f"delegation {body.turn}.{body.call} of {event.sender} goes on"


class StepAnswers(_OfPrograms):
    """The answers that go with a step."""

    name = "step-answers"
    rule = "A program's step is due with the first answer and has all earlier ones, except of calls given up."
    _answers: dict[str, dict[int, tuple[int, int]]] = {}  # those that no step has, by their seq
    _given_up: set[Call] = set()
    _replied: dict[str, int] = {}

    def on_ModelReplied(self, event: Event, body: ModelReplied) -> None:
        """Record the end of a step: the next one may have all answers that came meanwhile."""
        self._replied[event.recipient] = event.seq

    def on_Begin(self, event: Event, body: Begin) -> None:
        """Forget the answers of the life before."""
        self._answers.pop(event.recipient, None)

    def on_ToolReturned(self, event: Event, body: ToolReturned | DelegationEnded) -> None:
        """Record an answer."""
        self._answered(event, body.turn, body.call)

    on_DelegationEnded = on_ToolReturned

    def _answered(self, event: Event, turn: int, call: int) -> None:
        who = event.recipient
        if self.program(who) is not None and (who, turn, call) not in self._given_up:
            self._answers.setdefault(who, {})[event.seq] = (turn, call)

    def on_ApprovalGiven(self, event: Event, body: ApprovalGiven) -> None:
        """Record a refusal, which is an answer."""
        if not body.goes_on:
            self._answered(event, body.turn, body.call)

    def on_RequestApproval(self, event: Event, body: RequestApproval) -> None:
        """Take the result of an interrupted call for no answer if a person is asked about it."""
        self._answers.get(event.sender, {}).pop(event.cause, None)

    def on_CancelCall(self, event: Event, body: CancelCall | CancelTask) -> None:
        """Record a call that is given up, whose answer may be on the way."""
        who, call = event.sender, (body.turn, body.call)
        self._given_up.add((who, *call))
        answers = self._answers.get(who, {})
        for seq in [seq for seq, one in answers.items() if one == call and seq > event.cause]:
            del answers[seq]

    on_CancelTask = on_CancelCall

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Compare the events that a step names with the answers that have come."""
        who = event.sender
        if body.attempt > 1 or self.program(who) is None:
            return
        answers = self._answers.get(who, {})
        due = [seq for seq in answers if seq <= event.cause]
        named = [seq for seq in body.new if seq in answers]
        is_at_once = event.cause == self._replied.get(who) or due in ([], [event.cause])
        if due and not is_at_once:
            self.broken(event.seq, f"a step of {who} was due with event {due[0]}")
        if due != named:
            self.broken(event.seq, f"{who} has the answers {due}, and its step names {named}")
        for seq in due:
            del answers[seq]


class AfterReturn(_OfPrograms):
    """Programs that have ended."""

    name = "after-the-return"
    rule = "A program that has returned or failed makes no more calls."
    _ended: dict[str, int] = {}

    def on_Begin(self, event: Event, body: Begin) -> None:
        """Record a new life."""
        self._ended.pop(event.recipient, None)

    def on_ModelReplied(self, event: Event, body: ModelReplied) -> None:
        """Record the last step of a program."""
        if self.program(event.recipient) is None:
            return
        step = read_step(body.content) if body.status == "ok" else None
        is_crash = body.failure is not None and body.failure.code == "crashed"
        if is_crash or (step is not None and step.is_last):
            self._ended[event.recipient] = event.seq

    def on_CallTool(self, event: Event, body: CallTool | RequestApproval | Delegate | TurnRequested) -> None:
        """Check a request of a program."""
        last = self._ended.get(event.sender)
        if last is not None and event.cause >= last:
            self.broken(event.seq, f"{event.sender} ended with event {last}, and posts a {event.kind}")

    on_RequestApproval = on_Delegate = on_TurnRequested = on_CallTool


class Deadlines(_OfPrograms):
    """Wake and Woken."""

    name = "program-deadlines"
    rule = "A program is woken at its deadline, and not at one that it has replaced."
    _until: dict[str, int | None] = {}
    _posted: dict[str, int | None] = {}
    _woken: dict[int, int] = {}

    def on_Wake(self, event: Event, body: Wake) -> None:
        """Record the deadline that the program has now."""
        self._posted[event.sender] = body.until

    def on_Woken(self, event: Event, body: Woken) -> None:
        """Record the deadline of a program that is woken."""
        self._woken[event.seq] = body.until

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Check that a step which a deadline caused is not due to one that was replaced."""
        until = self._woken.get(event.cause)
        if until is not None and until != self._posted.get(event.sender):
            self.broken(event.seq, f"{event.sender} takes a step for a deadline that it has replaced")

    def handled_Wake(self, event: Event, body: Wake, outputs: Sequence[Event]) -> None:
        """Record the deadline that the supervisor knows of."""
        self._until[event.sender] = body.until

    def handled_TimerFired(self, event: Event, body: object, outputs: Sequence[Event]) -> None:
        """Check the deadline of a program that is woken."""
        for output, woken in of_kind(outputs, Woken):
            until = self._until.get(output.recipient)
            if woken.until != until:
                self.broken(
                    output.seq, f"{output.recipient} is woken for {woken.until}, and waits for {until}"
                )
            elif output.at < woken.until:
                self.broken(output.seq, f"{output.recipient} is woken {woken.until - output.at} ms early")
