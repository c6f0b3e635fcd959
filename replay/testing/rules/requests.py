"""Rules of whole requests, which a log holds only in their parts.

A simulation has the requests at hand; for a recorded log the deciders compute them again (`requests_of`).
Every rule here is one of `check_requests`.
"""

from collections import defaultdict, deque
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from typing import Final

import msgspec

from callboard.actors.agent.state import AgentState, request_if_kept
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import is_decider
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.compaction_messages import Compacted
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    DeciderFailed,
    Delegated,
    DelegationEnded,
    Stop,
    Stopped,
    ToolsGiven,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import ApprovalGiven, CallModel, ModelReplied, ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.spoken_calls import has_calls
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.wishes import wish_in
from callboard.actors.session.core import SessionCore
from callboard.actors.session.port_table import owner_of
from callboard.replay.testing.rules.base import Breach
from callboard.replay.testing.rules.beginnings import (
    SYSTEM_RULES,
    why_other_makers,
    why_other_system,
    why_small_need,
)
from callboard.replay.testing.rules.books import LATER_RULES, Counted
from callboard.replay.testing.rules.compactions import (
    COMPACTION_RULES,
    cleared_base,
    summary_base,
    why_other_summary,
    why_too_short,
)
from callboard.replay.testing.rules.conversation_parts import PARTS_OF, Part, is_phrase, parts_in
from callboard.replay.testing.rules.in_force import (
    ToolsInForce,
    changes_tools,
    not_about_tools,
    profile_of,
    why_other_tools,
)
from callboard.replay.testing.rules.model_choice import ORIGIN_RULES, SentByOrigin
from callboard.replay.testing.rules.task_waits import Waited
from callboard.replay.testing.rules.whole_requests import WHOLE_RULES, WholeRequests

REQUEST_RULES: Final = {
    "append-only": "A request begins with its agent's previous one, byte for byte, or says that it does not.",
    "tools": "A request offers the tools that were set last for its agent, in `tools` and in messages.",
    "sendable": "In every request each tool call is answered in the next message, in call order.",
    "provenance": "Every byte of an agent's conversation came in a message to it, or is a fixed phrase.",
    "new": "An event that adds content to a request is named in `new` of one granted request, once.",
    "granted": "A model gets the request that was granted: turn, attempt and digest are those of its wish.",
    **SYSTEM_RULES,
    **ORIGIN_RULES,
    **LATER_RULES,
    **COMPACTION_RULES,
    **WHOLE_RULES,
}


def requests_of(events: Sequence[Event]) -> dict[int, ModelRequest]:
    """Return the request of every granted call by the seq of its grant, recomputed from the log."""
    core = SessionCore()
    failures = _failures(events)
    found: dict[int, ModelRequest] = {}
    for event in events:
        if is_decider(event.recipient):
            core.decide(event, failures.get(event.seq, ""))
        if isinstance(event.body, CallModel | RunStep):
            state = core.states.get(owner_of(event))
            if isinstance(state, AgentState) and state.prefix is not None:
                request = request_if_kept(state, core.states.__getitem__)
                found |= {event.seq: request} if request is not None else {}
    return found


def check_requests(
    events: Sequence[Event], requests: Mapping[int, ModelRequest] | None = None
) -> list[Breach]:
    """Return the breaches of a session's requests. requests: by the seq of the grant, if at hand."""
    if requests is None:
        requests = requests_of(events)
    checker = _Checker(_forgetful(events), _failures(events))
    for event in events:
        checker.hear(event, requests)
    return sorted(checker.found, key=lambda breach: breach.seq)


def _failures(events: Iterable[Event]) -> dict[int, str]:
    """Return the error of each decision that failed, by the seq of its event."""
    return {event.cause: event.body.error for event in events if isinstance(event.body, DeciderFailed)}


def _forgetful(events: Iterable[Event]) -> set[str]:
    """Return the agents whose decider failed twice, or while they drained: they lose their conversation."""
    failed = {(event.sender, event.cause) for event in events if isinstance(event.body, DeciderFailed)}
    stopped = {(event.sender, event.cause) for event in events if isinstance(event.body, Stopped)}
    return {who for who, _ in failed & stopped}


class _Agent(msgspec.Struct, eq=False):
    """The wish of an agent, the content it was told, and its last request."""

    begin: Begin | None = None
    has_failed: bool = False  # in its present life: it counts answers, and takes in no news of its tasks
    wish: TurnRequested = TurnRequested(0)
    purpose: str = ""  # of its latest wish
    named: list[int] = []  # events in `new` of its wish
    refused: list[int] = []  # of them, those of steps that never left
    known: set[Part] = set()
    is_eager: bool = False  # its calls stay open over turns: `programs` has the rules of its results
    last: ModelRequest | None = None
    counted: Counted = msgspec.field(default_factory=Counted)
    sent: SentByOrigin = msgspec.field(default_factory=SentByOrigin)
    is_anew: bool = False  # a wish since its last request says that it does not begin with that
    read: int = 0
    owed: list[object] = []  # calls without a result
    changed: dict[tuple[int, int], Json] = {}  # the arguments that a person gave a call
    declined: dict[tuple[int, int], str] = {}  # the words for the input that a person did not give it
    tasks: set[tuple[int, int]] = set()  # the calls whose delegations run in the background
    compactions: dict[int, Compacted] = {}  # since its last request
    replies: dict[int, Json] = {}  # the contents that may be summaries
    waited: Waited = msgspec.field(default_factory=Waited)

    @property
    def compacted(self) -> Compacted | None:
        """Return the compaction that its wish names: one that has taken effect, perhaps in an earlier ask."""
        return next((self.compactions[one] for one in self.named if one in self.compactions), None)

    def with_changes(self, body: AnyMessage, parts: list[Part]) -> list[Part]:
        """Return the parts of a message, after the changed arguments of its call, or as words."""
        if isinstance(body, Delegated) and not self.has_failed:
            self.tasks.add((body.turn, body.call))
        if isinstance(body, DelegationEnded) and (body.turn, body.call) in self.tasks:
            return [("user", encode(prompts.task_ended(body)))]
        if self.is_eager or not isinstance(body, (ToolReturned, ApprovalGiven)):
            return parts
        call = (body.turn, body.call)
        arguments, words = self.changed.get(call), self.declined.get(call)
        if isinstance(body, ApprovalGiven):
            self._keep(call, body)
        return [(role, _with_words(Json(part), arguments, words)) for role, part in parts]

    def _keep(self, call: tuple[int, int], given: ApprovalGiven) -> None:
        """Keep the words that stand before the result of a call."""
        if given.arguments != NULL:
            self.changed[call] = given.arguments
        if given.round:
            self.declined[call] = prompts.not_approved(given) if given.verdict == "denied" else ""


def _with_words(result: Json, arguments: Json | None, words: str | None) -> bytes:
    """Return a result as the model reads it. arguments: those of a person; words: for input not given."""
    if words:
        result = prompts.with_words_before(result, words)
    if arguments is not None:
        result = prompts.with_words_before(result, prompts.changed_arguments(arguments))
    return bytes(result)


class _Checker:
    """Compares each granted request with the one before, and its additions with the events it names.
    forgetful: agents that may have lost their conversation, and with it the events not named yet.
    failures: the seqs of the events on which a decider failed.
    """

    def __init__(self, forgetful: Set[str], failures: Container[int]) -> None:
        self.found: list[Breach] = []
        self._forgetful = forgetful
        self._failures = failures
        self._agents: defaultdict[str, _Agent] = defaultdict(_Agent)
        self._unnamed: dict[int, list[Part]] = {}
        self._tools = ToolsInForce()
        self._whole = WholeRequests()
        self._stopped: set[str] = set()
        self._setters: set[int] = set()  # the events that may change tools

    def hear(self, event: Event, requests: Mapping[int, ModelRequest]) -> None:
        """Record a wish or content for an agent, or check the request that a grant sends."""
        body = event.body
        self._tools.hear(event)
        for name, why in self._whole.hear(event):
            self._broken(name, event.seq, why)
        if isinstance(body, (ToolsGiven, Begin)) or (isinstance(body, ToolReturned) and body.tools):
            self._setters.add(event.seq)
        if (wish := wish_in(body)) is not None:
            self._ask(event.sender, wish)
        if isinstance(body, Stop):
            self._stopped.add(event.recipient)
        is_call = isinstance(body, CallModel | RunStep)
        if is_call and event.sender in self._stopped and event.seq not in requests:
            agent = self._agents[event.sender]
            agent.refused = agent.named  # by the gate; its agent takes it for sent
            return
        if is_call:
            self._check(event.seq, owner_of(event), requests.get(event.seq))
        elif (parts_of := PARTS_OF.get(type(body))) is not None:
            agent = self._agents[event.recipient]
            agent.has_failed |= event.seq in self._failures
            agent.waited.hear(body)
            if isinstance(body, ModelReplied):
                if agent.purpose:
                    agent.replies = {event.seq: body.content}
                else:
                    agent.counted.replied(body, agent.begin)
            if isinstance(body, Compacted):
                agent.compactions[event.seq] = body
            if isinstance(body, Begin):
                self._stopped.discard(event.recipient)
                agent.has_failed = False
                agent.begin, agent.is_eager = body, profile_of(bytes(body.profile)).is_eager
            parts = self._unnamed[event.seq] = agent.with_changes(body, parts_of(body))
            agent.known.update(parts)

    def _ask(self, who: str, wish: TurnRequested) -> None:
        agent = self._agents[who]
        agent.wish, agent.purpose = wish, wish.purpose
        agent.is_anew |= wish.breaks_cache
        # The names of an earlier turn that was never granted are taken back with it.
        agent.named = [*(agent.refused if wish.attempt == 1 else agent.named), *wish.new]

    def _check(self, seq: int, who: str, request: ModelRequest | None) -> None:
        agent = self._agents[who]
        wish, agent.wish = agent.wish, TurnRequested(0)  # one wish allows one call
        unasked = f"{who} was granted a call that it did not request"
        if request is None:
            # An agent that forgets its conversation may be granted the turn that it requested before.
            if who not in self._forgetful or not wish.turn:
                self._broken("granted", seq, unasked)
            return
        if (request.digest, request.turn, request.attempt) != (wish.digest, wish.turn, wish.attempt):
            self._broken("granted", seq, unasked)
        if agent.begin is not None and agent.begin.asked is not None:
            for name, why in self._whole.breaches(request, agent.begin, wish):
                self._broken(name, seq, f"{who}, turn {wish.turn}: {why}")
            return
        if why := "" if agent.is_eager else _why_unsendable(agent, request):
            self._broken("sendable", seq, f"{who}, turn {wish.turn}: {why}")
        if wish.purpose:
            self._check_summary(seq, agent, request)
            return
        is_shorter = agent.compacted is not None
        start = self._check_compacted(seq, agent, request, wish)
        agent.compactions = {}
        self._check_appending(seq, agent, request, is_shorter=is_shorter)
        if why := why_other_tools(request, self._tools.profile(who)):
            self._broken("tools", seq, f"{who}, turn {wish.turn}: {why}")
        if agent.begin is not None and (why := why_other_system(request, agent.begin)):
            self._broken("system", seq, f"{who}, turn {wish.turn}: {why}")
        if agent.last is None and wish.attempt == 1 and (why := why_small_need(request, wish)):
            self._broken("bound", seq, f"{who}, turn {wish.turn}: {why}")
        why = agent.counted.why_small(None if is_shorter else agent.last, request, wish)
        if why and who not in self._forgetful:
            self._broken("later-needs", seq, f"{who}, turn {wish.turn}: {why}")
        if agent.last is None and agent.begin is not None and (why := why_other_makers(request, agent.begin)):
            self._broken("makers", seq, f"{who}, turn {wish.turn}: {why}")
        self._check_sources(seq, agent, request, start)
        agent.last = request

    def _check_summary(self, seq: int, agent: _Agent, request: ModelRequest) -> None:
        """Compare a request for a summary with the last request, of which it is a part."""
        agent.read, agent.owed = 0, []
        is_forgetful = request.address in self._forgetful
        if agent.last is None or is_forgetful or request.model.made_by != agent.last.model.made_by:
            return
        if why := why_other_summary(agent.last, request):
            self._broken("summary-request", seq, f"{request.address}: {why}")

    def _check_compacted(self, seq: int, agent: _Agent, request: ModelRequest, wish: TurnRequested) -> int:
        """Compare a conversation with the one before its compaction. Return the messages that are not new."""
        before, body = agent.last, agent.compacted
        if before is None:
            return 0
        if body is None:
            return len(not_about_tools(before))
        agent.sent, agent.read, agent.owed = SentByOrigin(), 0, []
        if body.by == "clear":
            base = cleared_base(not_about_tools(before), not_about_tools(request), body)
        else:
            base = summary_base(before.messages, request.messages, body, agent.replies.get(body.summary))
        why = base.why or ("" if agent.begin is None else why_too_short(request, body, agent.begin))
        if why and request.address not in self._forgetful:
            self._broken("compacted", seq, f"{request.address}: {why}")
        if wish.need.tokens < body.after + request.model.max_tokens:
            self._broken("bound", seq, f"{request.address}, turn {wish.turn}: it has more than its need says")
        return base.length

    def _check_appending(self, seq: int, agent: _Agent, request: ModelRequest, *, is_shorter: bool) -> None:
        """Check that a request only grows, or says that it begins again; a conversation grows even then.

        is_shorter: a compaction has come before it.
        """
        who, before = request.address, agent.last
        is_anew, agent.is_anew = agent.is_anew, False
        if who in self._forgetful:
            return
        if broken := agent.sent.take(request, is_anew):
            self._broken(broken, seq, f"{who} now asks {request.model.name}")
        if before is None:
            return
        if is_anew and is_shorter:
            return
        if is_anew:
            if not_about_tools(request)[: len(not_about_tools(before))] != not_about_tools(before):
                self._broken("append-only", seq, f"{who} has rewritten its conversation")
            return
        if (before.system, before.tools) != (request.system, request.tools):
            self._broken("append-only", seq, f"{who} has another system prompt or other tools now")
        if request.messages[: before.length] != before.messages:
            self._broken("append-only", seq, f"{who} has rewritten its conversation")

    def _check_sources(self, seq: int, agent: _Agent, request: ModelRequest, start: int) -> None:
        """Check that each new part came in an event that is named, in the order of the names."""
        who = request.address
        is_forgetful = who in self._forgetful
        named, agent.named, agent.refused = agent.named, [], []
        self._check_setters(seq, agent, request, named)
        expected = deque((one, part) for one in named for part in self._unnamed.pop(one, [("", b"")]))
        for index, message in enumerate(not_about_tools(request)[start:], start):
            for part in parts_in(message):
                if expected and expected[0][1] == part:
                    expected.popleft()
                elif is_phrase(part) or agent.waited.allows(part[1]):
                    continue
                elif part not in agent.known:
                    self._broken("provenance", seq, f"message {index} of {who} came in no message to it")
                elif not is_forgetful:
                    self._broken("new", seq, f"message {index} of {who} has content of no event in `new`")
        if expected and not is_forgetful:
            self._broken("new", seq, f"{who} names event {expected[0][0]}, which adds nothing here")

    def _check_setters(self, seq: int, agent: _Agent, request: ModelRequest, named: list[int]) -> None:
        """Check that a request with other tools names the event that set them."""
        if changes_tools(agent.last, request) and not self._setters.intersection(named):
            self._broken("new", seq, f"{request.address} is offered other tools by no event in `new`")

    def _broken(self, name: str, seq: int, detail: str) -> None:
        self.found.append(Breach(name, REQUEST_RULES[name], seq, detail))


# --- tool calls and their results -------------------------------------------------


def _why_unsendable(agent: _Agent, request: ModelRequest) -> str:
    """Return why a service would refuse this conversation; empty if it would not."""
    conversation = not_about_tools(request)
    if agent.read > len(conversation):  # it has forgotten its conversation
        agent.read, agent.owed = 0, []
    messages, agent.read = conversation[agent.read :], len(conversation)
    agent.owed, why = _owed_after(messages, agent.owed)
    why = why or _why_without_tools(agent, request)
    return why or (f"the calls {agent.owed} have no results" if agent.owed else "")


def _why_without_tools(agent: _Agent, request: ModelRequest) -> str:
    is_first = agent.last is None and not request.tools
    return "it has calls, and offers no tools" if is_first and has_calls(request.messages) else ""


def _owed_after(messages: Iterable[Json], owed: list[object]) -> tuple[list[object], str]:
    """Return the calls that have no results after these messages, or the reason they are wrong."""
    for raw in messages:
        message = msgspec.json.decode(raw)
        content = message["content"]
        blocks = content if isinstance(content, list) else []
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if results != owed:
            return [], f"the results {results} follow the calls {owed}"
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            return [], "something stands before a result"
        if not content:
            return [], "a message is empty"
        owed = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if owed and message["role"] != "assistant":
            return [], "a user calls a tool"
    return owed, ""
