"""The facts that a person sees of a session, without any protocol. `fold.py` makes them of the stream.

Prompted                            a prompt for the host
TextAdded, TextEnded, TextDropped   the text of one reply; dropped if its model call failed
Thought                             the thinking of a reply, whole
Called, Returned                    a tool call, and its one result
AgentBegan, AgentEnded              the life of a sub-agent
StateChanged                        the shared state, whole
ApprovalAsked, ApprovalAnswered     a call that waits for a person
Heard                               a message to the running host that reached it
RunEnded                            the outcome of the ask
"""

from dataclasses import dataclass
from typing import TypeAlias

from callboard.actors.protocol.endings import STATUS, OutcomeKind, Status
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.usage import ZERO, Usage


@dataclass(frozen=True, slots=True)
class Prompted:
    """A prompt for the host. content: a text, content blocks, or the fields of a contract."""

    seq: int
    request_id: str
    content: object


@dataclass(frozen=True, slots=True)
class TextAdded:
    """A piece of text. message: of which reply. is_first: it begins that text."""

    agent: str
    message: str
    text: str
    is_first: bool


@dataclass(frozen=True, slots=True)
class TextEnded:
    """The text of a reply is whole."""

    agent: str
    message: str


@dataclass(frozen=True, slots=True)
class TextDropped:
    """The text of a reply does not count, because its model call failed."""

    agent: str
    message: str


@dataclass(frozen=True, slots=True)
class Thought:
    """The thinking of a reply."""

    agent: str
    message: str
    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call of a model. message: the reply with it. arguments: a JSON value, as the model wrote it."""

    agent: str
    message: str
    call: str
    tool: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class Returned:
    """The result of a call. output: a JSON text or content blocks. denied: a person or a rule forbade it."""

    agent: str
    call: str
    output: Json
    is_error: bool = False
    is_denied: bool = False


@dataclass(frozen=True, slots=True)
class AgentBegan:
    """A sub-agent begins.

    parent: its address. call: the call by which the parent delegated. task: its name, or the start of its
    prompt.
    """

    agent: str
    parent: str
    profile: str
    task: str
    call: str


@dataclass(frozen=True, slots=True)
class AgentEnded:
    """A sub-agent has ended. result: its report as a value, or its text. detail: the reason of a failure."""

    agent: str
    kind: OutcomeKind
    result: object
    detail: str

    @property
    def status(self) -> Status:
        """Return ok, failed or cancelled."""
        return STATUS[self.kind]


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The shared state has another value. values: by key."""

    values: dict[str, object]


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A call waits for a person. seq: names the question (`Session.approve(seq)`).

    forms: of the input that the call asks for, by name; None for any other call.
    """

    seq: int
    agent: str
    call: str
    tool: str
    arguments: object
    forms: object
    is_repeat: bool
    expires_at_ms: int | None


@dataclass(frozen=True, slots=True)
class ApprovalAnswered:
    """A question has its answer. note: the reason, if one is given."""

    seq: int
    agent: str
    call: str
    verdict: str
    note: str


@dataclass(frozen=True, slots=True)
class Heard:
    """A message to the running host has reached it."""

    seq: int
    request_id: str
    text: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The outcome of the ask. value: a structured output, None for a text."""

    seq: int
    request_id: str
    kind: OutcomeKind
    text: str
    value: object
    detail: str
    usage: Usage = ZERO

    @property
    def status(self) -> Status:
        """Return ok, failed or cancelled."""
        return STATUS[self.kind]


Fact: TypeAlias = (
    Prompted
    | TextAdded
    | TextEnded
    | TextDropped
    | Thought
    | Called
    | Returned
    | AgentBegan
    | AgentEnded
    | StateChanged
    | ApprovalAsked
    | ApprovalAnswered
    | Heard
    | RunEnded
)
"""The kinds of facts, for `match`."""
