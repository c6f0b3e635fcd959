"""The parts of a recorded session that a scenario is made of: agents, what the client said, the answers.

All of it is JSON values, so that a file can hold it as text. Answers are known by agent and turn, which are
the same in any order of events.

The runs of recorded programs, as pure values: what each asked, and after which answers.

A program's steps depend on the order of answers, so a step itself cannot be given again in another order. But
what a program asked can: in any order, once all answers have come that it had when it asked in the recording.
Waits are left out: a step that waited for a deadline comes at once.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pprint import pformat
from typing import Final, NamedTuple, TypeVar

import msgspec

from callboard.actors.protocol.addresses import is_agent
from callboard.actors.protocol.client_messages import Ask, AskEnded, Close, SessionOpened, Tell, ToolsChanged
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import JsonObject, Message
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded, TurnRequested
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallTool,
    ContextMade,
    MakeContext,
    ModelReplied,
    RequestApproval,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.session.call_places import CallPlaces
from callboard.actors.session.place_names import call_name, moment_name

K = TypeVar("K")
Value = JsonObject
Place = tuple[int, int] | str
"""A turn and a call, or a call of a program."""
_decode: Final = msgspec.json.Decoder().decode
_ANSWERED: Final = frozenset({"ok", "error", "input_required", "needs_effect", "approved", "denied"})
Step = tuple[list[str], Value]
"""The ids of all answers that a step of a program had, and its reply, as JSON."""


class RecordedParts(NamedTuple):
    """The parts of a session, as JSON values of their messages.

    opened: the first message. asks, tells, changes: of the client, in order; a tell has the name of the last
    event of its agent under `after`. closes: True if it closed the session at last.
    replies: by agent and turn, each attempt in order. results, approvals: by agent, and by (turn, call), each
    round in order. contexts: each with the parent, the profile and the prompt. programs: the runs of each
    program, each a list of steps; their results are known by the ids of their asks, and people's answers by
    tool and arguments.
    """

    opened: Value
    asks: list[Value]
    tells: list[Value]
    changes: list[Value]
    closes: bool
    replies: dict[str, dict[int, list[Value]]]
    results: dict[str, dict[Place, list[Value]]]
    approvals: dict[str, dict[Place, list[Value]]]
    contexts: list[Value]
    programs: dict[str, list[list[Step]]]


def recorded_parts(session_id: str, events: Iterable[Event]) -> RecordedParts:
    """Return the parts of a session. Raises MisuseError for one that no scenario can be made of."""
    reader = _Reader(session_id)
    for event in events:
        reader.take(event)
    return reader.found()


class _Reader:
    """Reads a session once. What a fault or a stop has cut off is not an answer, and is left out."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._opened: Value | None = None
        self._said: defaultdict[type, list[Value]] = defaultdict(list)
        self._replies: defaultdict[str, defaultdict[int, list[Value]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._calls: dict[type, defaultdict[str, defaultdict[Place, list[Value]]]] = {
            one: defaultdict(lambda: defaultdict(list)) for one in (ToolReturned, ApprovalGiven)
        }
        self._delegations: dict[int, Value] = {}
        self._asked: dict[int, MakeContext] = {}
        self._contexts: list[Value] = []
        self._programs = RecordedPrograms()
        self._questions: dict[int, str] = {}
        self._moments: dict[str, str] = {}

    def take(self, event: Event) -> None:
        """Add the next event."""
        body = event.body
        self._programs.take(event)
        match body:
            case SessionOpened():
                self._opened = _value(body)
            case Ask() | Tell() | ToolsChanged() | Close() if event.sender == "client":
                self._said[type(body)].append(_value(body) | self._after(body))
            case RequestApproval():
                self._questions[event.seq] = named(body)
            case ModelReplied() | ToolReturned() | ApprovalGiven():
                self._take_answer(event, body)
            case Delegate() | MakeContext() | ContextMade():
                self._take_context(event, body)
            case _:
                pass
        for address in {event.sender, event.recipient}:
            # Of the others some come in another number or order in a simulated run.
            is_sure = isinstance(body, Begin) or (call_name(event) and not isinstance(body, ToolStarted))
            if is_agent(address) and is_sure:
                self._moments[address] = moment_name(event)

    def _after(self, body: object) -> Value:
        """Return the last event of the agent before words for it, so that they come in no other place."""
        after = self._moments.get(body.address) if isinstance(body, Tell) else None
        return {"after": after} if after else {}

    def _take_answer(self, event: Event, body: ModelReplied | ToolReturned | ApprovalGiven) -> None:
        agent = event.recipient
        said = body.verdict if isinstance(body, ApprovalGiven) else body.status
        if said not in _ANSWERED:
            return
        if not isinstance(body, ModelReplied):
            self._calls[type(body)][agent][self._place(event, body)].append(_value(body))
        elif not self._programs.places.is_program(agent):
            self._replies[agent][body.turn].append(_value(body))

    def _place(self, event: Event, body: ToolReturned | ApprovalGiven) -> Place:
        ask = self._programs.ask(event.recipient, body.turn, body.call)
        if ask and isinstance(body, ApprovalGiven):
            return self._questions[event.cause]
        return ask or (body.turn, body.call)

    def _take_context(self, event: Event, body: Delegate | MakeContext | ContextMade) -> None:
        if isinstance(body, Delegate):
            self._delegations[event.seq] = _decode(body.prompt)
        elif isinstance(body, MakeContext):
            self._asked[event.seq] = body
        elif event.cause in self._asked:
            asked = self._asked[event.cause]
            prompt = self._delegations.get(asked.request)
            found = {"parent": asked.parent, "profile": asked.profile, "prompt": prompt}
            made = {"status": body.status, "content": _decode(body.content)}
            if body.history:
                made["history"] = [_decode(said) for said in body.history]
                made["makers"] = _decode(encode(body.makers))
            self._contexts.append({**found, **made})

    def found(self) -> RecordedParts:
        """Return the parts. Raises MisuseError for a session without an ask."""
        if self._opened is None or not self._said[Ask]:
            raise MisuseError(f"session {self._session_id} has no ask, so there is nothing to explore")
        return RecordedParts(
            self._opened,
            self._said[Ask],
            self._said[Tell],
            self._said[ToolsChanged],
            bool(self._said[Close]),
            _plain(self._replies),
            _plain(self._calls[ToolReturned]),
            _plain(self._calls[ApprovalGiven]),
            self._contexts,
            dict(self._programs.runs),
        )


def _plain(found: Mapping[str, Mapping[K, list[Value]]]) -> dict[str, dict[K, list[Value]]]:
    return {agent: dict(places) for agent, places in found.items()}


def _value(body: Message) -> Value:
    found: Value = _decode(encode(body))
    return found


class RecordedPrograms:
    """The runs of all programs of a session, by address. Takes its events in order.

    runs: for each `Begin` of a program, its steps. places: of its calls.
    """

    def __init__(self) -> None:
        self.runs: defaultdict[str, list[list[Step]]] = defaultdict(list)
        self.places = CallPlaces()
        self._answers: dict[int, str] = {}
        self._heard: dict[str, list[str]] = {}

    def take(self, event: Event) -> None:
        """Add the next event."""
        body = event.body
        match body:
            case Begin():
                self._begin(event.recipient, is_program=body.model.is_program)
            case TurnRequested(new=new) | RunStep(new=new) if event.sender in self._heard:
                self._heard[event.sender] += [self._answers[seq] for seq in new if seq in self._answers]
            case ModelReplied(status="ok" | "error") if event.recipient in self._heard:
                self._reply(event.recipient, body)
            case ToolReturned() | DelegationEnded() | ApprovalGiven() if event.recipient in self._heard:
                if ask := self.ask(event.recipient, body.turn, body.call):
                    self._answers[event.seq] = ask
            case _:
                pass

    def _begin(self, address: str, *, is_program: bool) -> None:
        self.places.begin(address, is_program=is_program)
        if is_program:
            self._heard[address] = []
            self.runs[address].append([])
        else:
            self._heard.pop(address, None)

    def _reply(self, address: str, reply: ModelReplied) -> None:
        value: Value = _decode(encode(reply))
        blocks = value.get("content") or ()
        ids = [block["id"] for block in blocks if block.get("type") == "tool_use"]
        self.places.reply(address, reply.turn, ids)
        self.runs[address][-1].append(([*self._heard[address]], value))

    def ask(self, address: str, turn: int, call: int) -> str:
        """Return the id of a program's ask, or an empty text for a call of another agent."""
        place = self.places.place(address, turn, call)
        return place[1] if len(place) == 2 else ""


def named(request: CallTool | RequestApproval) -> str:
    """Return a call of a program as its tool and arguments, by which a person's answer is found."""
    return f"{request.tool} {bytes(request.arguments).decode()}"


_SCENARIO: Final = '''\
"""A recorded session as a scenario: its agents and recorded answers, in other orders and with faults.

    callboard explore {file}:scenario             with faults: give `faults="all"` below
    python {file}                                 one run, as a chart

Written by `callboard export --format scenario`. Change answers here to see what would follow from them.
"""

from callboard.testing import RecordedScenario

# fmt: off
'''
_TEST: Final = '''\
"""A recorded session, replayed strictly: no model is called, and no tool runs.

After an intended change of the agents:  pytest --callboard-update
It writes the recording again, unless a decision differs: then record the session again, and export it.

Written by `callboard export --format pytest`.
"""


def test_{name}(recording):
    # {about}
    recording({arguments})
'''


def scenario_file(session_id: str, events: Iterable[Event], file: str) -> Iterator[str]:
    """Yield the text of a Python file with the scenario of a session. file: its name.

    Raises MisuseError for a session that no scenario can be made of.
    """
    parts = recorded_parts(session_id, events)._asdict()
    yield _SCENARIO.format(file=_file_text(file))
    yield f"SESSION = {_literal(session_id)}\n"
    for name, value in parts.items():
        yield f"\n{name.upper()} = {_literal(value)}\n"
    given = "".join(f"    {name}={name.upper()},\n" for name in parts)
    yield f"\n# fmt: on\nscenario = RecordedScenario(\n{given}    faults=None,\n    name=SESSION,\n)\n"
    yield '\nif __name__ == "__main__":\n    print(scenario.simulate())\n'


def regression_test(session_id: str, events: Iterable[Event], recording: str, agent: str) -> str:
    """Return the text of a test that replays a recording.

    recording: the name of its file, beside the test. agent: `module:agent`, whose agents it is replayed with;
    empty for the recorded ones.
    """
    ends = [event.body.kind for event in events if isinstance(event.body, AskEnded)]
    name = re.sub(r"[^a-z0-9]+", "_", session_id.lower()).strip("_") or "session"
    arguments = _literal(recording) + (f", agent={_literal(agent)}" if agent else "")
    about = f"{len(ends)} ask{'s' * (len(ends) != 1)}: {', '.join(ends) or 'none has ended'}"
    return _TEST.format(name=f"session_{name}", about=about, arguments=arguments)


def _literal(value: object) -> str:
    return pformat(value, width=_WIDTH, sort_dicts=False)


def _file_text(text: str) -> str:
    """Return a file's name without signs that would end a text of Python."""
    return re.sub(r"[^\w.\-]", "_", text, flags=re.ASCII)


_WIDTH: Final = 100
