"""The delegation tree of a session, built event by event, for live and for recorded views."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final, Literal

import msgspec

from callboard.actors.protocol.addresses import HOST, child_of, parent_of
from callboard.actors.protocol.client_messages import AskEnded, Forked, Tell, TellEnded
from callboard.actors.protocol.compaction_messages import Compacted
from callboard.actors.protocol.endings import STATUS, OutcomeKind
from callboard.actors.protocol.events import Event, Takers
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import (
    Begin,
    DeciderFailed,
    Delegate,
    Delegated,
    DelegationEnded,
    Finished,
    ReportBack,
    ReportJudged,
    Stop,
    TurnRequested,
    TurnSettled,
)
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    ModelReplied,
    RequestApproval,
    RequestBudget,
    RequestCapacity,
    ToolReturned,
)
from callboard.actors.protocol.prompts import ASK_MODEL
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import NOTHING, ZERO, Need, Usage, plus
from callboard.actors.protocol.value_types import Settled
from callboard.actors.protocol.wishes import first_turn, turn_of
from callboard.actors.supervisor.budgets import charge_of
from callboard.runtime.log.session_rows import text_of


@dataclass
class Node:
    """A summary of one agent.

    state: its activity, or its ending. kind: its ending, once it has ended. started_at, ended_at: in
    milliseconds since 1970 UTC. turns, tools: their numbers. usage: its own alone.
    description: of its task, empty for none.
    is_background: its parent goes on while it works. tasks: the number of its own such agents that work.
    words: the number of a client's texts on their way to it. is_silent: its last reply has no calls.
    need: of its newest turn, which is charged where the use of a call is not known.
    is_recorded: in a fork, it has no answer but those of the session that was forked.
    compactions: by the seq of its event, each time that its conversation became shorter.
    questions: of a program, the number of those that are part of its own figures (`Tree.folded`). Its turns
        are its steps.
    """

    address: str
    profile: str = ""
    prompt: str = ""
    state: str = "waiting"
    kind: OutcomeKind | Literal[""] = ""
    detail: str = ""
    turns: int = 0
    tools: int = 0
    reports: int = 0
    retries: int = 0
    usage: Usage = ZERO
    started_at: int = 0
    ended_at: int = 0
    is_background: bool = False
    tasks: int = 0
    words: int = 0
    is_silent: bool = False
    need: Need = NOTHING
    description: str = ""
    is_recorded: bool = False
    children: list[str] = field(default_factory=list)
    compactions: dict[int, Compacted] = field(default_factory=dict)
    questions: int = 0
    is_program: bool = False

    @property
    def asked(self) -> int:
        """Return the number of its turns that asked a model: of a program, its questions."""
        return self.questions if self.is_program else self.turns

    @property
    def is_answered_question(self) -> bool:
        """Return whether it is no agent of its own: a question of a program to a model, which is answered."""
        return self.profile == ASK_MODEL and self.status == "ok"

    def does(self, state: str) -> None:
        """Note its activity. An agent that has ended only drains, so its activity is its ending."""
        if not self.is_over:
            self.state = state

    def ends(self, kind: OutcomeKind, detail: str, at: int) -> None:
        """Note its ending, the first one."""
        if not self.is_over:
            self.kind = self.state = kind
            self.detail = detail
            self.ended_at = at

    @property
    def task(self) -> str:
        """Return its task in words: the description, else the start of the prompt."""
        return self.description or self.prompt

    @property
    def activity(self) -> str:
        """Return its state, with the words that are on their way to it."""
        return self.state if self.is_over or not self.words else f"{self.state} +{self.words} unread"

    @property
    def is_over(self) -> bool:
        """Return whether it has ended."""
        return bool(self.kind)

    @property
    def status(self) -> str:
        """Return ok, failed or cancelled once it has ended; else running."""
        return STATUS[self.kind] if self.kind else "running"


class Tree:
    """Agents by address. Feed it every event of a session in order."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.last_at = 0
        self._is_fork = False
        self._tasks: dict[tuple[str, int, int], Delegate] = {}
        self._background: dict[str, int] = {}
        self._words: dict[str, str] = {}

    def add(self, event: Event) -> None:
        """Add the next event."""
        self.last_at = event.at
        # First: a request for a turn settles the one before it, and has a need of its own.
        settled = getattr(event.body, "settled", None)
        if isinstance(settled, Settled):
            node = self._node(event.sender)
            node.usage = plus(node.usage, charge_of(node.need, settled.usage))
        if handler := _HANDLERS.get(type(event.body)):
            handler(self, event, event.body)

    def walk(self, address: str = HOST, depth: int = 0) -> Iterator[tuple[int, Node]]:
        """Yield each agent with its depth: parents before children, children in the order of ordinals."""
        node = self.nodes.get(address)
        if node is not None:
            yield depth, node
            for child in sorted(node.children, key=lambda one: int(one.rpartition(".")[2])):
                yield from self.walk(child, depth + 1)

    def folded(self) -> list[tuple[int, Node]]:
        """Return each agent with its depth, as `walk` does, without answered questions.

        Their usage is that of the program that asked them, as if it had turns of its own.
        """
        found: list[tuple[int, Node]] = []
        for depth, node in self.walk():
            if node.is_answered_question:
                continue
            asked = [one for one in map(self.nodes.__getitem__, node.children) if one.is_answered_question]
            if asked:
                usage = reduce(plus, (one.usage for one in asked), node.usage)
                node = replace(node, usage=usage, questions=len(asked))
            found.append((depth, node))
        return found

    def is_answered_question(self, address: str) -> bool:
        """Return whether the agent at this address is an answered question of a program."""
        node = self.nodes.get(address)
        return node is not None and node.is_answered_question

    def usage_of(self, address: str) -> Usage:
        """Return the usage of an agent and all below it."""
        total = ZERO
        for _, node in self.walk(address):
            total = plus(total, node.usage)
        return total

    def _node(self, address: str) -> Node:
        node = self.nodes.get(address)
        if node is None:
            node = self.nodes[address] = Node(address, is_recorded=self._is_fork)
            parent = self.nodes.get(parent_of(address))
            if parent is not None:
                parent.children.append(address)
        return node


class _Named(msgspec.Struct):
    name: str


def prompt_text(prompt: Json, longest: int = 200) -> str:
    """Return the start of a prompt, on one line."""
    text = " ".join(text_of(prompt).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _forked(tree: Tree, event: Event, body: Forked) -> None:
    tree._is_fork = True
    for node in tree.nodes.values():
        node.is_recorded = True


def _begin(tree: Tree, event: Event, body: Begin) -> None:
    node = tree._node(event.recipient)
    node.profile = msgspec.json.decode(body.profile, type=_Named).name
    node.prompt, node.description = prompt_text(body.prompt), body.description
    node.state, node.kind, node.detail = "starting", "", ""
    node.started_at, node.ended_at = event.at, 0
    node.is_program = body.model.is_program


def _turn(tree: Tree, event: Event, body: TurnRequested) -> None:
    node = tree._node(event.sender)
    node.turns += body.attempt == 1
    node.retries += body.attempt > 1
    node.need = body.need
    node.does("waiting for a turn" if not body.after_ms else "waiting to retry")


def _step(tree: Tree, event: Event, body: RunStep) -> None:
    _turn(tree, event, turn_of(body))
    tree._node(event.sender).does("thinking")


def _call(tree: Tree, event: Event, body: CallModel) -> None:
    if body.opening is not None and (first := first_turn(body)) is not None:
        _turn(tree, event, first)
    tree._node(body.agent).does("thinking")


def _tool(tree: Tree, event: Event, body: CallTool) -> None:
    node = tree._node(event.sender)
    node.tools += 1
    node.does(f"tool {body.tool}")


def _delegate(tree: Tree, event: Event, body: Delegate) -> None:
    tree._tasks[event.sender, body.turn, body.call] = body
    tree._node(event.sender).does("delegating")


def _report(tree: Tree, event: Event, body: ReportBack) -> None:
    node = tree._node(event.sender)
    node.reports += 1
    node.does("reporting")


def _judged(tree: Tree, event: Event, body: ReportJudged) -> None:
    node = tree._node(event.recipient)
    node.does(f"report {body.verdict}")
    if body.verdict == "accepted":
        node.ends("reported", "", event.at)


def _delegation_ended(tree: Tree, event: Event, body: DelegationEnded) -> None:
    """Add the agents of a denied delegation, which never began, with the reason."""
    task = tree._tasks.pop((event.recipient, body.turn, body.call), None)
    if body.address:
        tree._node(event.recipient).tasks -= tree._background.pop(body.address, 0)
    if task is None or not body.address:
        return
    first = int(body.address.rpartition(".")[2])
    for place, profile in enumerate(task.profiles):
        node = tree._node(child_of(event.recipient, first + place))
        if not node.started_at:
            node.profile, node.prompt = profile, prompt_text(task.prompt)
            node.description = task.description
            node.started_at = event.at
            node.ends(body.kind, body.detail, event.at)
        elif not node.detail and node.kind == body.kind:
            node.detail = body.detail


def _delegated(tree: Tree, event: Event, body: Delegated) -> None:
    """Mark the agents of a delegation that works in the background."""
    task = tree._tasks.get((event.recipient, body.turn, body.call))
    parent, first = parent_of(body.address), int(body.address.rpartition(".")[2])
    copies = len(task.profiles) if task else 1
    for ordinal in range(first, first + copies):
        tree._node(child_of(parent, ordinal)).is_background = True
    tree._background[body.address] = copies
    tree._node(parent).tasks += copies


def _replied(tree: Tree, event: Event, body: ModelReplied) -> None:
    node = tree._node(event.recipient)
    node.is_silent = b'"tool_use"' not in bytes(body.content)
    node.does("deciding")
    node.is_recorded &= bool(body.reused) or body.status != "ok"


def _returned(tree: Tree, event: Event, body: ToolReturned) -> None:
    tree._node(event.recipient).is_recorded &= bool(body.reused) or body.status not in ("ok", "error")


def _settled(tree: Tree, event: Event, body: TurnSettled) -> None:
    """Note that an agent makes no request: it is parked, or waits for its tasks by a call."""
    node = tree._node(event.sender)
    if node.state == "deciding" and node.tasks:
        node.does("parked" if node.is_silent else "waiting for tasks")


def _tell(tree: Tree, event: Event, body: Tell) -> None:
    if body.address in tree.nodes:
        tree._words[body.request_id] = body.address
        tree.nodes[body.address].words += 1


def _tell_ended(tree: Tree, event: Event, body: TellEnded) -> None:
    address = tree._words.pop(body.request_id, "")
    if address:
        tree.nodes[address].words -= 1


def _compacted(tree: Tree, event: Event, body: Compacted) -> None:
    tree._node(event.recipient).compactions[event.seq] = body


def _ask_ended(tree: Tree, event: Event, body: AskEnded) -> None:
    node = tree._node(HOST)
    node.ends(body.kind, body.detail, event.at)
    node.detail = node.detail or body.detail


_HANDLERS: Final[Takers[Tree, None]] = {
    Forked: _forked,
    Begin: _begin,
    TurnRequested: _turn,
    RunStep: _step,
    CallModel: _call,
    RequestCapacity: lambda tree, event, body: tree._node(body.agent).does(
        f"waiting for capacity of {body.model}"
    ),
    RequestBudget: lambda tree, event, body: tree._node(body.agent).does("waiting for budgets"),
    ModelReplied: _replied,
    TurnSettled: _settled,
    Delegated: _delegated,
    Compacted: _compacted,
    Tell: _tell,
    TellEnded: _tell_ended,
    CallTool: _tool,
    ToolReturned: _returned,
    RequestApproval: lambda tree, event, body: tree._node(event.sender).does(
        f"waiting for approval of {body.tool}"
    ),
    Delegate: _delegate,
    ReportBack: _report,
    ReportJudged: _judged,
    Stop: lambda tree, event, body: tree._node(event.recipient).ends(body.reason, "", event.at),
    Finished: lambda tree, event, body: tree._node(event.sender).ends(body.kind, body.detail, event.at),
    DelegationEnded: _delegation_ended,
    AskEnded: _ask_ended,
    DeciderFailed: lambda tree, event, body: tree._node(event.sender).ends(
        "crashed", "its decider raised", event.at
    ),
}
