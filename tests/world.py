"""A session in one thread: the real deciders and desk, scripted ports, an order that a chooser picks.

The log of a world is a log that can happen: a decision's outputs are posted at once, inboxes are in the
order of the log, ports answer what the desk lets them answer.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from callboard.actors.addresses import CLIENT, CLOCK, MODEL, SCHEMA, SUPERVISOR, TOOLS, is_decider
from callboard.actors.agent_state import AgentState, request_of
from callboard.actors.base import NULL, Json
from callboard.actors.codec import decode, encode
from callboard.actors.conversation import text_json
from callboard.actors.desk import Abort, Action, Arm, Desk, Disarm, Refuse, Start, cancelled, owner_of
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
    ToolStarted,
)
from callboard.actors.profiles import Effect, ModelSpec, Prices, Profile, ToolSpec
from callboard.actors.request import ModelRequest
from callboard.actors.step import ActorState, initial, step
from callboard.actors.usage import Usage

ANY = Json(b'{"type":"object"}')
SOME = Usage(input_tokens=10, output_tokens=5)
NO_LIMITS = Limits()


@dataclass(frozen=True)
class Says:
    """One reply of the scripted model: text, calls as (tool, arguments), how it stops, what it used."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, object]], ...] = ()
    stop_reason: str = "end_turn"
    usage: Usage | None = SOME
    failure: ModelFailure | None = None
    content: bytes | None = None

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
    """Feeds the deciders until nothing moves. choose: picks one of n things that can happen next."""

    profiles: Sequence[Profile]
    policy: Policy
    limits: Limits = NO_LIMITS
    tool: Callable[[Event], ToolReturned] | None = None
    choose: Callable[[int], int] = lambda n: 0
    log: list[Event] = field(default_factory=list)
    states: dict[str, ActorState] = field(default_factory=dict)
    inboxes: dict[str, deque[Event]] = field(default_factory=dict)
    ready: list[Event] = field(default_factory=list)
    aborted: set[int] = field(default_factory=set)
    timers: dict[int, int] = field(default_factory=dict)
    desk: Desk = field(default_factory=Desk)
    fires_timers: bool = False

    def open(self) -> "World":
        raw = tuple(Json(encode(p)) for p in self.profiles)
        model = self.profiles[0].model or ModelSpec("scripted")
        self.client(SessionOpened(1, self.profiles[0].name, raw, model, self.limits))
        return self

    def client(self, body: AnyMessage) -> None:
        self.post(CLIENT, 0, (Post(SUPERVISOR, body),))

    def post(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        events = []
        for post in posts:
            assert decode(encode(post.body)) == post.body
            event = Event(len(self.log) + 1, 0, sender, post.recipient, cause, post.body)
            self.log.append(event)
            events.append(event)
            if is_decider(post.recipient):
                self.inboxes.setdefault(post.recipient, deque()).append(event)
        for event in events:
            for action in self.desk.posted(event):
                self.act(action)

    def act(self, action: Action) -> None:
        match action:
            case Start(request):
                self.ready.append(request)
            case Refuse(request, sender, answer):
                self.post(sender, request.seq, (answer,))
            case Abort(request):
                self.aborted.add(request.seq)
            case Arm(timer, _, _):
                self.timers[timer] = len(self.log)
            case Disarm(timer):
                self.timers.pop(timer, None)

    def moves(self) -> list[Callable[[], None]]:
        found: list[Callable[[], None]] = []
        for address in sorted(self.inboxes):
            if self.inboxes[address]:
                found.append(lambda address=address: self.deliver(address))  # type: ignore[misc]
        for request in list(self.ready):
            found.append(lambda request=request: self.answer(request))  # type: ignore[misc]
        if self.timers and (self.fires_timers or not found):
            for timer in sorted(self.timers):
                found.append(lambda timer=timer: self.fire(timer))  # type: ignore[misc]
        return found

    def run(self, steps: int = 100_000) -> "World":
        for _ in range(steps):
            moves = self.moves()
            if not moves:
                return self
            moves[self.choose(len(moves))]()
        raise AssertionError("the session does not come to rest")

    def deliver(self, address: str) -> None:
        event = self.inboxes[address].popleft()
        before = self.states.get(address) or initial(address)
        state, posts = step(before, event)
        assert step(before, event) == (state, posts), "a decider is not a function"
        self.states[address] = state
        self.post(address, event.seq, posts)

    def answer(self, request: Event) -> None:
        self.ready.remove(request)
        body = request.body
        if request.seq in self.aborted and isinstance(body, CallModel | CallTool):
            if isinstance(body, CallModel) or body.effect == "read":
                self.post(request.recipient, request.seq, (cancelled(request),))
            else:
                interrupted = ToolReturned(body.turn, body.call, "interrupted", text_json("unknown"))
                self.post(TOOLS, request.seq, (Post(request.sender, interrupted),))
        elif isinstance(body, CallModel):
            self.post(MODEL, request.seq, (Post(body.agent, self.reply(body)),))
        elif isinstance(body, CheckSchema):
            self.post(SCHEMA, request.seq, (Post(SUPERVISOR, check(body)),))
        elif isinstance(body, CallTool):
            if body.effect == "write":
                self.post(TOOLS, request.seq, (Post(request.sender, ToolStarted(body.turn, body.call)),))
            returned = (
                self.tool(request)
                if self.tool
                else ToolReturned(body.turn, body.call, "ok", text_json(f"did {body.tool}"))
            )
            self.post(TOOLS, request.seq, (Post(request.sender, returned),))

    def reply(self, body: CallModel) -> ModelReplied:
        state = self.states[body.agent]
        assert isinstance(state, AgentState)
        request = request_of(state)
        assert request.digest == body.digest
        says = self.policy(request)
        if says.failure:
            return ModelReplied(body.turn, body.attempt, "error", usage=says.usage, failure=says.failure)
        content = says.blocks(body.turn)
        return ModelReplied(body.turn, body.attempt, "ok", content, says.stop_reason, says.usage)

    def fire(self, timer: int) -> None:
        self.timers.pop(timer)
        self.post(CLOCK, 0, (Post(SUPERVISOR, TimerFired(timer)),))

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

    def of(self, kind: type) -> list[Event]:
        return [event for event in self.log if isinstance(event.body, kind)]

    @property
    def ended(self) -> AskEnded:
        (event,) = self.of(AskEnded)
        assert isinstance(event.body, AskEnded)
        return event.body

    def kinds(self) -> list[str]:
        return [f"{e.sender}>{e.recipient}:{e.kind}" for e in self.log]


def shuffled(seed: int) -> Callable[[int], int]:
    """A chooser that draws from a seed."""
    return random.Random(seed).randrange


def owner(event: Event) -> str:
    """For whom a port request is made."""
    return owner_of(event)
