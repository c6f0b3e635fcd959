"""Calls that wait for background tasks: each is answered by exactly the ends that it names.

No event tells when an agent answers such a call. But its next request is made when the last call of the reply
has its answer. So this rule follows the calls of each reply with such a call: those that wait, those that
start tasks, and delegations. It says at which event the last of them is answered.

Replies with calls of other tools are left out: a call of those may stand in line, or wait for a person.

The answers to calls that waited for background tasks: they tell an agent which of them still run.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from callboard.actors.agent.arguments import (
    TASK_CANCEL_NAMES,
    TASK_WAIT_NAMES,
    read_task_cancel,
    read_task_wait,
    wrong_names,
)
from callboard.actors.agent.content import Said, ToolUse, read
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import place_of
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    CancelTask,
    Delegate,
    Delegated,
    DelegationEnded,
    Told,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.prompts import TASK, TASK_CANCEL, TASK_WAIT
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind
from callboard.replay.testing.rules.lives import Life

FOLLOWED: Final = frozenset({TASK, TASK_WAIT, TASK_CANCEL})
"""The tools of the calls that this rule follows."""
Task: TypeAlias = tuple[int, int]
"""The turn and the call of a `Delegate`."""
_OPENINGS = (b'"Still running: ', b'"No background task runs')


class _Wait(msgspec.Struct, eq=False):
    """A call that waits.

    left: the tasks that it waits for. is_every: it waits for the tasks of its own reply, too. is_any: the
    first end answers it. is_cancel: words do not answer it.
    """

    left: set[Task]
    is_every: bool = False
    is_any: bool = False
    is_cancel: bool = False
    is_answered: bool = False


class _Reply(msgspec.Struct, eq=False):
    """A reply whose calls are followed.

    seq: of its event. running: the tasks that ran then, by address. started: its delegations, by call; True
    for one in the background. heard: later events to its agent, in order.
    """

    seq: int
    turn: int
    uses: Sequence[ToolUse]
    running: dict[str, Task]
    started: dict[int, bool] = {}
    heard: list[Event] = []

    def due(self, life: Life) -> int:
        """Return the event that answers its last call; 0 if none does."""
        calls = _Calls(self.turn, dict(self.started), self._waits(life))
        calls.answer()
        for event in (None, *self.heard):
            if event is not None:
                calls.hear(event)
            if not calls.waits and not calls.started:
                return self.seq if event is None else event.seq
        return 0

    def _waits(self, life: Life) -> list[_Wait]:
        return [wait for use in self.uses if use.name != TASK and (wait := _wait_of(use, self.running, life))]


class _Calls(msgspec.Struct, eq=False):
    """The calls of a reply without an answer. started: delegations by call. waits: those that wait."""

    turn: int
    started: dict[int, bool]
    waits: list[_Wait]

    def hear(self, event: Event) -> None:
        """Take in an event to the agent."""
        match event.body:
            case Delegated(turn=turn, call=call) if turn == self.turn and self.started.pop(call, False):
                for wait in self.waits:
                    if wait.is_every:
                        wait.left.add((turn, call))
            case DelegationEnded(turn=turn, call=call):
                if turn != self.turn or self.started.pop(call, None) is None:
                    self._ends((turn, call))
            case Told():
                self.waits = [wait for wait in self.waits if wait.is_cancel]
            case _:
                pass
        self.answer()

    def _ends(self, task: Task) -> None:
        for wait in self.waits:
            if task in wait.left:
                wait.left = set() if wait.is_any else wait.left - {task}
                wait.is_answered = wait.is_any

    def answer(self) -> None:
        """Drop the calls that wait for nothing any more."""
        is_starting = any(self.started.values())
        self.waits = [
            wait
            for wait in self.waits
            if not wait.is_answered and (wait.left or (wait.is_every and is_starting))
        ]


class Waits(Invariant):
    """Calls that wait for tasks, and calls that cancel one."""

    name = "task-waits"
    rule = (
        "A task_wait returns at the first event that answers it, which is an end that it names or a message "
        "to its agent, and a task_cancel names its own task."
    )
    _running: dict[str, dict[str, Task]] = {}  # by agent and address of the task
    _addresses: dict[tuple[str, int, int], str] = {}
    _replies: dict[str, _Reply] = {}
    _cancels: dict[str, set[str]] = {}

    def on_Begin(self, event: Event, body: Begin) -> None:
        """Forget the reply of an earlier life. Its tasks may still end."""
        self._replies.pop(event.recipient, None)

    def on_ModelReplied(self, event: Event, body: ModelReplied) -> None:
        """Follow the calls of a reply."""
        who, life = event.recipient, self.facts.lives.get(event.recipient)
        self._replies.pop(who, None)
        if life is None or not life.profile.background or self.facts.is_summary(event, body):
            return
        said = read(body.content) if body.status == "ok" else None
        if said is None:
            return
        running = self._running.get(who, {})
        cancels = [read_task_cancel(use.input) for use in said.uses if use.name == TASK_CANCEL]
        self._cancels[who] = {name for name in cancels if name in running}
        if _is_followed(said, body, life):
            self._replies[who] = _Reply(event.seq, body.turn, said.uses, dict(running))

    def on_Delegate(self, event: Event, body: Delegate) -> None:
        """Record a delegation of a reply."""
        reply = self._replies.get(event.sender)
        if reply is not None and event.cause == reply.seq:
            reply.started[body.call] = body.mode == "background"

    def on_Delegated(self, event: Event, body: Delegated) -> None:
        """Record a task that runs."""
        who, task = event.recipient, (body.turn, body.call)
        self._running.setdefault(who, {})[body.address] = task
        self._addresses[who, *task] = body.address
        self._hears(event)

    def on_DelegationEnded(self, event: Event, body: DelegationEnded) -> None:
        """Record the end of a task."""
        self._hears(event)
        running = self._running.get(event.recipient, {})
        for address in [one for one, task in running.items() if task == (body.turn, body.call)]:
            del running[address]

    def on_Told(self, event: Event, body: Told) -> None:
        """Record words, which answer every wait."""
        self._hears(event)

    def _hears(self, event: Event) -> None:
        if (reply := self._replies.get(event.recipient)) is not None:
            reply.heard.append(event)

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Compare the return of the last call with the event that answers it."""
        reply, life = self._replies.pop(event.sender, None), self.facts.lives.get(event.sender)
        if reply is None or life is None:
            return
        # Those further back in the inbox are not an answer yet, so the first that answers all is the one.
        due = reply.due(life)
        if event.cause != due:
            answer = f"event {due} answers" if due else "no event answers"
            self.broken(
                event.seq, f"{event.sender} goes on at event {event.cause}, and {answer} its last call"
            )

    def on_CancelTask(self, event: Event, body: CancelTask) -> None:
        """Compare the delegation with the names in the reply."""
        address = self._addresses.get((event.sender, body.turn, body.call), "")
        life = self.facts.lives.get(event.sender)
        if life is not None and life.profile.is_eager:  # `given-up-calls` has the rule of programs
            return
        if address not in self._cancels.get(event.sender, ()):
            self.broken(event.seq, f"{event.sender} cancels {address or 'no task'}, which it did not name")

    def handled_CancelTask(self, event: Event, body: CancelTask, outputs: Sequence[Event]) -> None:
        """Check that a cancel ends no other delegation of its agent. One that has ended stays as it is."""
        for end, ended in of_kind(outputs, DelegationEnded):
            if end.recipient == event.sender and (ended.turn, ended.call) != (body.turn, body.call):
                self.broken(event.seq, f"{event.sender} cancels {body.turn}.{body.call}, and another ends")


def _is_followed(said: Said, body: ModelReplied, life: Life) -> bool:
    """Return whether every call of a reply is one that this rule follows, and one of them waits."""
    names = {use.name for use in said.uses}
    has_waits = bool(names & {TASK_WAIT, TASK_CANCEL})
    is_whole = body.stop_reason == "tool_use" and len(said.uses) <= life.most("max_tool_calls", 1)
    return has_waits and is_whole and names <= FOLLOWED and all(use.unread is None for use in said.uses)


def _wait_of(use: ToolUse, running: Mapping[str, Task], life: Life) -> _Wait | None:
    """Return the wait that a call opens; None if it is answered at once."""
    known = TASK_CANCEL_NAMES if use.name == TASK_CANCEL else TASK_WAIT_NAMES
    if wrong_names(life.begin.rules, use.name, use.input, known):
        return None
    if use.name == TASK_CANCEL:
        task = running.get(read_task_cancel(use.input) or "")
        return None if task is None else _Wait({task}, is_cancel=True)
    arguments = read_task_wait(use.input)
    if arguments is None:
        return None
    is_any = bool(arguments.any)
    if not arguments.tasks:
        return _Wait(set(running.values()), is_every=True, is_any=is_any)
    named = [running.get(name) for name in arguments.tasks]
    left = {task for task in named if task is not None}
    return None if not left or (is_any and None in named) else _Wait(left, is_any=is_any)


class Waited(msgspec.Struct, eq=False):
    """The tasks of an agent. moments: those that ran after each message to it since its last reply."""

    running: dict[tuple[int, int], str] = {}
    moments: list[tuple[str, ...]] = []

    def hear(self, body: AnyMessage) -> None:
        """Take in a message to the agent."""
        match body:
            case Begin():  # the answer to a call of the ask before may be sent only now
                self.running = {}
            case ModelReplied():
                self.moments = []
            case Delegated(turn=turn, call=call, address=address):
                self.running[turn, call] = address
            case DelegationEnded(turn=turn, call=call):
                self.running.pop((turn, call), None)
            case _:
                return
        self.moments.append(tuple(self.running.values()))

    def allows(self, said: bytes) -> bool:
        """Return whether a call that waited may be answered so: it was true at some moment."""
        return said.startswith(_OPENINGS) and any(said == _told(running) for running in self.moments)


def _told(running: tuple[str, ...]) -> bytes:
    return bytes(encode(prompts.waited(sorted(running, key=lambda one: place_of(one)[1]))))
