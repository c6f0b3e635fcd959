"""One actor at a time, moved by hand: a message goes in, its posts come out."""

import msgspec

from callboard.actors.agent.decider import decide_agent
from callboard.actors.agent.failing import fail_agent
from callboard.actors.agent.state import AgentState, initial_agent
from callboard.actors.protocol.client_messages import RULES, Ask, SessionOpened
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits, fill
from callboard.actors.protocol.messages import (
    AgentInput,
    AnyMessage,
    Begin,
    Finished,
    SupervisorInput,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import ModelReplied, SchemaChecked, ToolReturned
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.protocol.value_types import ModelFailure, Settled
from callboard.actors.supervisor.decider import decide_supervisor, initial_supervisor
from callboard.actors.supervisor.state import Record, SupervisorState
from callboard.actors.supervisor.unit_of_work import UnitOfWork
from callboard.replay.testing.sessions.scenario import NO_LIMITS, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from tools.supervisor_phases import AgentStatus, SessionStatus, agent_status, session_status

SCHEMA = {"type": "object", "required": ["n"]}
USED = Usage(7, 3)
NEED = Need(100)


def raw(value: object) -> Json:
    return NULL if value is None else Json(msgspec.json.encode(value))


class AgentHarness:
    """One agent. `hears` gives it a message and returns its posts."""

    def __init__(self, address: str = "host.1", rules: int = RULES) -> None:
        self.rules = rules
        self.state: AgentState = initial_agent(address)
        self.seq = 0
        self.last: tuple[Post, ...] = ()

    def hears(self, body: AgentInput) -> list[AnyMessage]:
        self.seq += 1
        self.state, self.last = decide_agent(self.state, self.seq, body)
        return [post.body for post in self.last]

    def fails(self, body: AgentInput) -> list[AnyMessage]:
        """Let the decider raise on this message, and return its posts."""
        self.seq += 1
        self.state, self.last = fail_agent(self.state, self.seq, body)
        return [post.body for post in self.last]

    def begin(
        self,
        schema: object = None,
        who: Profile | None = None,
        limits: Limits = NO_LIMITS,
        prompt: str = "go",
    ) -> Begin:
        who = who or profile("worker", ["helper"], ["look"], writes=["save"], asks=["pay"])
        roster = tuple((name, "helps") for name in who.agents)
        model = who.model or ModelSpec("scripted", 100)
        given = (model, fill(limits), raw(schema), 1, roster)
        return Begin(Json(encode(who)), text_json(prompt), *given, rules=self.rules)

    def begins(
        self,
        schema: object = None,
        who: Profile | None = None,
        limits: Limits = NO_LIMITS,
        prompt: str = "go",
    ) -> list[AnyMessage]:
        return self.hears(self.begin(schema, who, limits, prompt))

    def reads(self, says: Reply, usage: Usage | None = USED) -> list[AnyMessage]:
        """Let the model answer the open turn, and return the posts."""
        return self.hears(self.reply(says, usage))

    def reply(self, says: Reply, usage: Usage | None = USED) -> ModelReplied:
        turn, attempt = self.state.turn, self.state.attempt
        if says.failure is not None:
            return ModelReplied(turn, attempt, "error", usage=usage, failure=says.failure)
        return ModelReplied(turn, attempt, "ok", says.blocks(turn), says.stop_reason, usage)

    def calls(self, *names: str, text: str = "", usage: Usage | None = USED) -> list[AnyMessage]:
        """Let the model call these tools, each with fitting arguments, and return the posts."""
        return self.reads(calls(*[(name, ARGUMENTS[name]) for name in names], text=text), usage)

    def returned(self, call: int, output: str = "done") -> ToolReturned:
        return ToolReturned(self.state.turn, call, "ok", text_json(output))

    def conversation(self) -> list[dict[str, object]]:
        return [msgspec.json.decode(one, type=dict[str, object]) for one in self.state.history.values()]


ARGUMENTS: dict[str, dict[str, object]] = {
    "look": {"path": "x"},
    "save": {"text": "x"},
    "pay": {"euros": 5},
    "task": {"agent": "helper", "prompt": "help"},
    "report_back": {"n": 1},
    "nonsense": {},
}

RETRYABLE = ModelFailure("overloaded", is_retryable=True)
FINAL = ModelFailure("invalid_request", "no such model")


class SessionHarness:
    """The supervisor of a session. `hears` gives it a message and returns its posts."""

    def __init__(
        self,
        *profiles: Profile,
        limits: Limits = NO_LIMITS,
        capacity: tuple[str, ...] = (),
        scopes: tuple[str, ...] = (),
    ) -> None:
        self.capacity = capacity
        self.scopes = scopes
        self.state: SupervisorState = initial_supervisor()
        self.seq = 0
        self.profiles = profiles or (
            profile("host", ["kid", "host"], ["look"]),
            profile("kid", ["kid"], ["look"]),
        )
        self.limits = limits

    def hears(self, sender: str, body: SupervisorInput) -> list[Post]:
        self.seq += 1
        self.state, posts = decide_supervisor(self.state, self.seq, sender, body)
        return list(posts)

    def opens(self) -> "SessionHarness":
        packed = tuple(Json(encode(one)) for one in self.profiles)
        model = ModelSpec("scripted")
        opened = SessionOpened(
            RULES, "host", packed, model, self.limits, capacity=self.capacity, scopes=self.scopes
        )
        self.hears("client", opened)
        return self

    def asks(self, schema: object = None, limits: Limits = NO_LIMITS, name: str = "r1") -> list[Post]:
        return self.hears("client", Ask(name, text_json("go"), raw(schema), limits))

    def accepts(self, check: int = 1) -> list[Post]:
        return self.hears("schema", SchemaChecked(check, "ok"))

    def wants(
        self, who: str, need: int = 100, turn: int = 1, attempt: int = 1, after_ms: int = 0
    ) -> list[Post]:
        return self.hears(who, TurnRequested(turn, attempt, Need(need), "d", after_ms=after_ms))

    def ends(
        self, who: str, kind: str = "answered", text: str = "done", used: int | None = None
    ) -> list[Post]:
        settled = None if used is None else Settled(Usage(used))
        return self.hears(who, Finished(kind, text, settled=settled))  # type: ignore[arg-type]  # an OutcomeKind

    def record(self, who: str) -> Record | None:
        return UnitOfWork(self.state, 0).record(who)

    def status(self, who: str) -> AgentStatus:
        return agent_status(self.record(who))

    @property
    def session(self) -> SessionStatus:
        return session_status(self.state)


def said(posts: list[Post]) -> list[str]:
    """Return the recipient and the kind of each post."""
    return [f"{post.recipient}:{type(post.body).__name__}" for post in posts]


def kinds(bodies: list[AnyMessage]) -> list[str]:
    return [type(body).__name__ for body in bodies]
