"""A session in one thread: the real deciders and desk, scripted ports, an order that a chooser picks.

The log of a world is a log that can happen: a decision's outputs are posted at once, inboxes are in the
order of the log, ports answer what the desk lets them answer, deciders may raise where one wants them to.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

import msgspec

from callboard.actors.addresses import CLIENT, CLOCK, HOST, SUPERVISOR, is_decider
from callboard.actors.agent_state import AgentState, request_of
from callboard.actors.base import NULL, Json, Message
from callboard.actors.codec import decode, encode
from callboard.actors.conversation import text_json
from callboard.actors.desk import Abort, Action, Arm, Desk, Disarm, Refuse, Start, cancelled
from callboard.actors.events import Event, Post
from callboard.actors.limits import Limits
from callboard.actors.messages import (
    AnyMessage,
    Ask,
    AskEnded,
    CallModel,
    CallTool,
    Cancel,
    CheckSchema,
    Close,
    ModelFailure,
    ModelReplied,
    SchemaChecked,
    SchemaProblem,
    SessionOpened,
    TimerFired,
    ToolReturned,
)
from callboard.actors.profiles import Effect, ModelSpec, Prices, Profile, ToolSpec
from callboard.actors.request import ModelRequest
from callboard.actors.step import ActorState, failed, initial, step
from callboard.actors.supervisor_state import Record, SupervisorState
from callboard.actors.usage import Need, Usage

M = TypeVar("M", bound=Message)
ANY = Json(b'{"type":"object"}')
SOME = Usage(input_tokens=10, output_tokens=5)
NO_LIMITS = Limits()


@dataclass(frozen=True)
class Says:
    """One reply of the scripted model: text, calls as (tool, arguments), how it stops, what it used.

    percent: instead of usage, so much of what the call may use at most. is_lost: to a crash.
    """

    text: str = ""
    calls: tuple[tuple[str, dict[str, object]], ...] = ()
    stop_reason: str = "end_turn"
    usage: Usage | None = SOME
    failure: ModelFailure | None = None
    content: bytes | None = None
    percent: int | None = None
    is_lost: bool = False

    def used(self, need: Need, max_tokens: int) -> Usage | None:
        if self.percent is None:
            return self.usage
        return Usage((need.tokens - max_tokens) * self.percent // 100, max_tokens * self.percent // 100)

    def blocks(self, turn: int) -> Json:
        if self.content is not None:
            return Json(self.content)
        parts: list[dict[str, object]] = [{"type": "text", "text": self.text}] if self.text else []
        for place, (name, arguments) in enumerate(self.calls):
            parts.append({"type": "tool_use", "id": f"c{turn}.{place}", "name": name, "input": arguments})
        return Json(msgspec.json.encode(parts))


Policy = Callable[[ModelRequest], Says]


def calls(*uses: tuple[str, dict[str, object]], text: str = "") -> Says:
    return Says(text, uses, "tool_use")


def report(value: object) -> Says:
    return calls(("report_back", value if isinstance(value, dict) else {"value": value}))


def task(agent: str, prompt: str = "work", **more: object) -> tuple[str, dict[str, object]]:
    return "task", {"agent": agent, "prompt": prompt, **more}


def tool_spec(name: str, effect: Effect = "read") -> ToolSpec:
    return ToolSpec(name, name, ANY, effect)


def profile(
    name: str,
    agents: Sequence[str] = (),
    tools: Sequence[str] = (),
    *,
    writes: Sequence[str] = (),
    limits: Limits = NO_LIMITS,
    schema: object = None,
    prices: Prices | None = None,
    max_tokens: int = 100,
) -> Profile:
    specs = [tool_spec(t) for t in tools] + [tool_spec(t, "write") for t in writes]
    return Profile(
        name,
        f"the {name}",
        text_json(f"You are {name}."),
        tuple(specs),
        agents=tuple(agents),
        schema=NULL if schema is None else Json(msgspec.json.encode(schema)),
        limits=limits,
        model=ModelSpec("scripted", max_tokens, prices=prices),
    )


def check(request: CheckSchema) -> SchemaChecked:
    """A schema port small enough to see through: `required` names only; `{"bad": ...}` is no schema."""
    schema = msgspec.json.decode(request.schema)
    if request.task == "accept":
        problems = [SchemaProblem("/bad", "is not allowed")] if "bad" in schema else []
    else:
        value = msgspec.json.decode(request.value)
        problems = [
            SchemaProblem(f"/{name}", "is missing")
            for name in schema.get("required", [])
            if not isinstance(value, dict) or name not in value
        ]
    return SchemaChecked(request.check, "invalid" if problems else "ok", tuple(problems))


@dataclass
class World:
    """Feeds the deciders until nothing moves. choose: picks one of n things that can happen next.

    fires_timers: whether a timer may fire at any time, and not only when nothing else can happen.
    raises: where a decider fails. requests: what models were asked, by the seq of the grant.
    """

    profiles: Sequence[Profile]
    policy: Policy
    limits: Limits = NO_LIMITS
    tool: Callable[[Event], ToolReturned] | None = None
    choose: Callable[[int], int] = lambda n: 0
    fires_timers: bool = False
    raises: Callable[[str, Event], bool] = lambda address, event: False
    log: list[Event] = field(default_factory=list)
    states: dict[str, ActorState] = field(default_factory=dict)
    inboxes: dict[str, deque[Event]] = field(default_factory=dict)
    ready: list[Event] = field(default_factory=list)
    aborted: set[int] = field(default_factory=set)
    timers: dict[int, int] = field(default_factory=dict)
    desk: Desk = field(default_factory=Desk)
    requests: dict[int, ModelRequest] = field(default_factory=dict)

    def open(self) -> "World":
        raw = tuple(Json(encode(p)) for p in self.profiles)
        model = self.profiles[0].model or ModelSpec("scripted")
        self.client(SessionOpened(1, self.profiles[0].name, raw, model, self.limits))
        return self

    def client(self, body: AnyMessage) -> None:
        self.post(CLIENT, 0, (Post(SUPERVISOR, body),))

    def post(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        actions: list[Action] = []
        for post in posts:
            assert decode(encode(post.body)) == post.body
            event = Event(len(self.log) + 1, 0, sender, post.recipient, cause, post.body)
            self.log.append(event)
            if is_decider(post.recipient):
                self.inboxes.setdefault(post.recipient, deque()).append(event)
            actions += self.desk.posted(event)
        for action in actions:
            self.act(action)

    def act(self, action: Action) -> None:
        match action:
            case Start(request, _, announcement):
                if announcement is not None:
                    self.post(request.recipient, request.seq, (announcement,))
                self.ready.append(request)
            case Refuse(request, sender, answer):
                self.post(sender, request.seq, (answer,))
            case Abort(request):
                self.aborted.add(request.seq)
            case Arm(timer, _, _, request_seq):
                self.timers[timer] = request_seq
            case Disarm(timer):
                self.timers.pop(timer, None)

    def may_move(self) -> int:
        """How many things can happen next."""
        found = len(self.inboxes) + len(self.ready)
        return found + len(self.timers) if self.fires_timers or not found else found

    def move(self, choice: int) -> None:
        """Let one of them happen: an actor handles its next message, a port answers, a timer fires."""
        if choice < len(self.inboxes):
            self.deliver(next(islice(self.inboxes, choice, None)))
            return
        choice -= len(self.inboxes)
        if choice < len(self.ready):
            self.answer(self.ready[choice])
        else:
            self.fire(sorted(self.timers)[choice - len(self.ready)])

    def run(self, steps: int = 100_000) -> "World":
        for _ in range(steps):
            found = self.may_move()
            if not found:
                return self
            self.move(self.choose(found))
        raise AssertionError("the session does not come to rest")

    def deliver(self, address: str) -> None:
        inbox = self.inboxes[address]
        event = inbox.popleft()
        if not inbox:
            del self.inboxes[address]
        before = self.states.get(address) or initial(address)
        if self.raises(address, event):
            state, posts = failed(before, event, "Boom")
        else:
            state, posts = step(before, event)
        self.states[address] = state
        self.decided(address, before, event, state)
        self.post(address, event.seq, posts)

    def decided(self, address: str, before: ActorState, event: Event, after: ActorState) -> None:
        """Called for every decision: for those who want to watch."""

    def answer(self, request: Event) -> None:
        self.ready.remove(request)
        body = request.body
        if request.seq in self.aborted and isinstance(body, CallModel | CallTool):
            answer = cancelled(request)
            if isinstance(body, CallTool) and body.effect == "write":
                answer = Post(
                    request.sender,
                    ToolReturned(body.turn, body.call, "interrupted", text_json("unknown")),
                )
        elif isinstance(body, CallModel):
            answer = Post(body.agent, self.reply(request.seq, body))
        elif isinstance(body, CheckSchema):
            answer = Post(SUPERVISOR, check(body))
        else:
            answer = Post(request.sender, self.use(request))
        self.post(request.recipient, request.seq, (answer,))

    def use(self, request: Event) -> ToolReturned:
        body = request.body
        assert isinstance(body, CallTool)
        if self.tool is not None:
            return self.tool(request)
        return ToolReturned(body.turn, body.call, "ok", text_json(f"did {body.tool}"))

    def reply(self, seq: int, body: CallModel) -> ModelReplied:
        state = self.states[body.agent]
        assert isinstance(state, AgentState)
        request = self.requests[seq] = request_of(state)
        assert (request.digest, request.turn, request.attempt) == (body.digest, body.turn, body.attempt)
        says = self.policy(request)
        if says.is_lost:
            return ModelReplied(body.turn, body.attempt, "lost")
        usage = says.used(body.need, request.model.max_tokens)
        if says.failure:
            return ModelReplied(body.turn, body.attempt, "error", usage=usage, failure=says.failure)
        content = says.blocks(body.turn)
        return ModelReplied(body.turn, body.attempt, "ok", content, says.stop_reason, usage)

    def fire(self, timer: int) -> None:
        self.post(CLOCK, self.timers.pop(timer), (Post(SUPERVISOR, TimerFired(timer)),))

    # --- what people want to know -------------------------------------------------

    def ask(
        self, prompt: str = "go", schema: object = None, limits: Limits = NO_LIMITS, name: str = "r1"
    ) -> None:
        raw = NULL if schema is None else Json(msgspec.json.encode(schema))
        self.client(Ask(name, text_json(prompt), raw, limits))

    def cancel(self) -> None:
        self.client(Cancel("enough"))

    def close(self) -> None:
        self.client(Close())

    def of(self, kind: type[M]) -> list[M]:
        """The messages of a kind, in the order of the log."""
        return [event.body for event in self.log if isinstance(event.body, kind)]

    def events(self, kind: type) -> list[Event]:
        return [event for event in self.log if isinstance(event.body, kind)]

    @property
    def supervisor(self) -> SupervisorState:
        state = self.states[SUPERVISOR]
        assert isinstance(state, SupervisorState)
        return state

    @property
    def host(self) -> Record:
        host = self.supervisor.host
        assert host is not None
        return host

    def agent(self, address: str = HOST) -> AgentState:
        state = self.states[address]
        assert isinstance(state, AgentState)
        return state

    @property
    def ended(self) -> AskEnded:
        (ended,) = self.of(AskEnded)
        return ended

    def kinds(self) -> list[str]:
        return [f"{e.sender}>{e.recipient}:{e.kind}" for e in self.log]


def shuffled(seed: int) -> Callable[[int], int]:
    """A chooser that draws from a seed."""
    return random.Random(seed).randrange
