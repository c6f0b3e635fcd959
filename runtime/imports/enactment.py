"""One session whose model and tools answer from traffic: the ordinary deciders decide, and no port acts.

    enacted = Enactment(SessionOpened(...), at)
    enacted.ask(at, "1", prompt)             the host asks for its first turn
    enacted.reply(at, "host", content)       the answer of its model, from the traffic
    enacted.give(at, "host", "toolu_1", ...) the result of a call, from the traffic
    enacted.take()                           the events since the last time

Rules
  - The time of an event is that of the traffic that led to it. It never goes back.
  - A request stays open until the traffic answers it. Only one whose agent was stopped is answered at once:
    `interrupted` for a call that may have had an effect, else `cancelled`, and never with a charge.
  - A schema is never checked, and no timer fires.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.addresses import CLIENT, HOST, SUPERVISOR
from callboard.actors.protocol.client_messages import Ask, AskEnded, Cancel, Forked, SessionOpened, Tell
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import TABLE, Limits
from callboard.actors.protocol.messages import Begin, Delegate, Finished, Stopped
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    CheckSchema,
    ModelReplied,
    SchemaChecked,
    ToolReturned,
)
from callboard.actors.protocol.usage import ZERO
from callboard.actors.session.core import SessionCore
from callboard.actors.session.port_actions import Arm, Start
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.port_table import interrupted
from callboard.actors.session.recovery import recover
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.sessions.decider_actor import admitted_groups

_ANY: Final = 2**31
NO_LIMITS: Final = Limits(
    **{name: 1 if name == "max_model_attempts" else _ANY for name, row in TABLE.items() if row.default}
)
"""Nothing ends, cuts or repeats the work of a session that is over."""


class Enactment:
    """A session under way. first: its first message, of a new session or of a fork.

    shared: the events before it, of a fork. secrets: never written.
    """

    def __init__(
        self,
        first: SessionOpened | Forked,
        at: int,
        secrets: Secrets,
        shared: Sequence[Event] = (),
    ) -> None:
        self._inbox: deque[Event] = deque()
        self._secrets = secrets
        self._new: list[Event] = []
        self._models: dict[str, Event] = {}
        self._calls: dict[str, dict[str, Event]] = {}
        self._delegates: dict[int, tuple[str, int]] = {}
        self._began: dict[tuple[str, int], str] = {}
        self._tasks: dict[str, dict[str, str]] = {}
        self._cut: dict[str, ModelReplied] = {}
        self._ended: dict[str, str] = {}  # the last texts of sub-agents that have ended
        self._at = at
        self.is_running = False
        if shared:
            recovered = recover(shared, first, at, PortGate(), has_run=False)
            self._core = recovered.core
            self._core.move_to(lambda address: self._inbox.append, lambda event: None)
            self._new += recovered.posted
            self._core.perform(recovered.starts, self)
        else:
            self._core = SessionCore(lambda address: self._inbox.append, PortGate())
            self._client(at, first)

    # --- what the traffic says ------------------------------------------------------

    def ask(self, at: int, request_id: str, prompt: Json) -> None:
        """Post a prompt for the host."""
        self._client(at, Ask(request_id, prompt))

    def tell(self, at: int, request_id: str, address: str, text: str) -> None:
        """Post a text for an agent at work."""
        self._client(at, Tell(request_id, address, text))

    def cancel(self, at: int, reason: str, address: str = "", said: ModelReplied | None = None) -> None:
        """End the running ask. said: the reply that the model of an agent had given by then."""
        if said is not None:
            self._cut[address] = said
        self._client(at, Cancel(reason))
        self._cut.clear()

    def reply(self, at: int, address: str, said: ModelReplied, uses: Sequence[str] = ()) -> None:
        """Answer the model call of an agent. said: `turn` and `attempt` are filled in.

        uses: the ids of its calls, in order, by which their results are given.
        """
        self._move(at)
        request = self._models.pop(address)
        wish = self._core.gate.wish_of(request)
        said = replace(said, turn=wish.turn, attempt=wish.attempt)
        self._began.clear()
        self._calls[address] = {}
        self._tasks[address] = {}
        self._answer(request, Post(address, said))
        for (parent, call), child in self._began.items():
            if parent == address and call < len(uses):
                self._tasks[address][uses[call]] = child

    def give(self, at: int, address: str, call: str, returned: ToolReturned) -> bool:
        """Answer an open call. returned: `turn` and `call` are filled in. Return False for no such call."""
        calls = self._calls.get(address, {})
        name = call if call in calls else next((one for one in calls if one.startswith(f"{call}#")), "")
        request = calls.pop(name, None)
        if request is None or not self._core.gate.may_answer(request.seq):
            return False
        self._move(at)
        wish = request.body
        assert isinstance(wish, CallTool)
        self._answer(request, Post(address, replace(returned, turn=wish.turn, call=wish.call)))
        return True

    # --- what is open -----------------------------------------------------------------

    @property
    def at(self) -> int:
        """Return the time of the last event."""
        return self._at

    @property
    def seq(self) -> int:
        """Return the seq of the last event."""
        return self._core.seq

    def waits_for_reply(self, address: str) -> bool:
        """Return True if an agent waits for its model."""
        return address in self._models

    def open_calls(self, address: str) -> list[str]:
        """Return the ids of an agent's tool calls without a result, in order."""
        return [*self._calls.get(address, ())]

    def child_of(self, address: str, call: str) -> str:
        """Return the address of the agent that a call of the last reply has begun; empty for none."""
        return self._tasks.get(address, {}).get(call, "")

    def is_live(self, address: str) -> bool:
        """Return True if a sub-agent has not ended."""
        return address not in self._ended

    def last_text(self, address: str) -> str:
        """Return the last text of a sub-agent that has ended."""
        return self._ended.get(address, "")

    def children_of(self, address: str) -> dict[str, str]:
        """Return the agents that the calls of the last reply have begun, by the ids of the calls."""
        return self._tasks.get(address, {})

    def take(self) -> list[Event]:
        """Return the events since the last time."""
        events, self._new = self._new, []
        return events

    # --- the driver of the core ---------------------------------------------------------

    def _move(self, at: int) -> None:
        self._at = max(self._at, at)

    def _client(self, at: int, body: SessionOpened | Forked | Ask | Tell | Cancel) -> None:
        self._move(at)
        self.post(CLIENT, 0, (Post(SUPERVISOR, body),))
        self._settle()

    def _answer(self, request: Event, answer: Post) -> None:
        taken = self._core.gate.take_answer(request.seq, answer)
        if taken is not None:
            self.post(request.recipient, request.seq, (taken,))
        self._settle()

    def _settle(self) -> None:
        while self._inbox:
            event = self._inbox.popleft()
            posts = self._core.decide_safely(event)
            if posts:
                self._post(event.recipient, event.seq, posts)

    def post(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        """Post in the name of a port or the client, without secrets."""
        ((_, _, admitted),) = admitted_groups(self._secrets, [(sender, cause, posts)])
        self._post(sender, cause, admitted)

    def _post(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        events = self._core.post(self._at, ((sender, cause, posts),))
        self._new += events
        for event in events:
            self._note(event)
        self._core.perform(self._core.gate.on_events(events), self)

    def _note(self, event: Event) -> None:
        match event.body:
            case Delegate() as body:
                self._delegates[event.seq] = (event.sender, body.call)
            case Begin() if event.cause in self._delegates:
                self._began[self._delegates.pop(event.cause)] = event.recipient
                self._ended.pop(event.recipient, None)
            case Finished() as body if event.sender != HOST:
                self._ended[event.sender] = body.text
            case Stopped() if event.sender != HOST:
                self._ended.setdefault(event.sender, "")
            case Ask():
                self.is_running = True
            case AskEnded():
                self.is_running = False
            case _:
                pass

    def start(self, start: Start) -> None:
        """Keep a request until the traffic answers it."""
        self._core.announce(start, self)
        request, body = start.request, start.request.body
        if isinstance(body, CallModel):
            self._models[body.agent] = request
        elif isinstance(body, CallTool):
            calls = self._calls.setdefault(request.sender, {})
            calls[body.id if body.id not in calls else f"{body.id}#{body.call}"] = request
        elif isinstance(body, CheckSchema):
            self.post(request.recipient, request.seq, (Post(SUPERVISOR, SchemaChecked(body.check, "ok")),))

    def abort(self, request: Event) -> None:
        """Answer a request of a stopped agent."""
        gate, body = self._core.gate, request.body
        if isinstance(body, CallModel):
            self._models.pop(body.agent, None)
            wish = gate.wish_of(request)
            cut = self._cut.pop(body.agent, ModelReplied(0, status="cancelled", usage=ZERO))
            answer = Post(body.agent, replace(cut, turn=wish.turn, attempt=wish.attempt))
        elif isinstance(body, CallTool) and body.effect == "write":
            answer = interrupted(request, gate.repeated_in(request))
        else:
            answer = gate.cancelled(request)
        if isinstance(body, CallTool):
            calls = self._calls.get(request.sender, {})
            for name in [name for name, one in calls.items() if one is request]:
                del calls[name]
        taken = gate.take_answer(request.seq, answer)
        if taken is not None:
            self.post(request.recipient, request.seq, (taken,))

    def arm(self, arm: Arm) -> None:
        """Do nothing: no timer fires."""

    def disarm(self, timer: int) -> None:
        """Do nothing: no timer is set."""

    def give_back(self, agent: str, usage: object) -> None:
        """Do nothing: no place was taken."""


def text_of(value: str) -> Json:
    """Return a text as JSON."""
    return Json(encode(value))
