"""The recorded answers of a session, for a fork of it: which answer fits which request. No I/O.

A fork asks again what follows from its changes, and only that: any other request has an answer in the log of
the session that was forked, behind the event at which it forks.

`request_keys` says which requests are the same. An approval is given only with a result of its tool.

Rules
  - A step of a program has no recorded answer: the program runs. But an answer that came after that step was
    recorded after it, and is given after it.
  - A tool result is fit only if the keys of the shared state that the tool has read have the same values.
  - A second index finds the result of a tool with an effect under another turn: the same agent, tool and
    arguments. It is never given by itself; a person may choose it.
  - The result of a tool with an effect counts once, for its own call or for the one that a person chose it
    for: what happened once is not told twice. Any other answer, if it is the last one of its request, may be
    given again.
  - A recorded firing is only the order of a timer. A timer never fires before it is due.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.addresses import CLIENT, SUPERVISOR
from callboard.actors.protocol.client_messages import (
    Ask,
    AskEnded,
    Forked,
    Resumed,
    RevokePermission,
    SessionOpened,
    resumed_in,
)
from callboard.actors.protocol.conversation import text_block
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    BudgetGiven,
    CallTool,
    CheckSchema,
    ModelReplied,
    RequestApproval,
    RequestBudget,
    TimerFired,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.session.cached_results import origin_of
from callboard.actors.session.copied_files import OriginFiles
from callboard.actors.session.file_history import FileState
from callboard.actors.session.permissions import Permission, Permissions
from callboard.actors.session.request_keys import Key, RequestKeys
from callboard.actors.session.shared_state import NO_STATE, SharedState

OF_MODEL: Final = -1  # in place of a call: the reply of the model itself

Call: TypeAlias = tuple[str, int, int]
"""An agent, its turn, and the call of that turn, or `OF_MODEL`."""

NO_CHANGES: Final[Mapping[int, Json]] = {}
APPROVED: Final = "approved"
"""The text that changes an answer of a person to an approval; any other text is the reason for a refusal."""


class Reusable(NamedTuple):
    """A recorded answer. seq, at: of its event. body: as it is posted again, or changed.

    read: the values of the shared state that a tool has read, by key. is_step: of a program, which runs.
    was_started: False for the result of a `write` tool that never started. bases: of the files that it wrote.
    """

    seq: int
    at: int
    body: AnyMessage
    read: Mapping[str, bytes] = {}
    is_step: bool = False
    was_started: bool = True
    bases: Mapping[str, FileState] = {}

    @property
    def is_cancelled(self) -> bool:
        """Return True for the answer to a call that was cancelled."""
        return getattr(self.body, "status", getattr(self.body, "verdict", "")) == "cancelled"

    @property
    def is_permitted(self) -> bool:
        """Return True for an answer that a permission has given."""
        return isinstance(self.body, ApprovalGiven) and self.body.permission != 0

    def fits(self, shared: SharedState) -> bool:
        """Return True if the values that its tool has read are the same in this shared state."""
        return all(_value(shared, key) == value for key, value in self.read.items())


class RecordedAnswers:
    """The answers of a session behind an event.

    changes: the new values of answers, by the seq of the recorded one.
    answers: by the requests that they fit. open_at_base: the answers to requests up to that event.
    inputs: the events of the client. idle: the seqs of those that it posted while no ask ran.
    fired: the firings of timers, by timer. files: those of the session.
    """

    def __init__(self, events: Sequence[Event], base: int, changes: Mapping[int, Json] = NO_CHANGES) -> None:
        self.answers: defaultdict[Key, list[Reusable]] = defaultdict(list)
        self.open_at_base: dict[int, Reusable] = {}
        self.inputs = [
            _changed_input(event, changes) for event in map(_of_client, events[base:]) if _is_input(event)
        ]
        self.idle: set[int] = set()
        self._is_asked = False
        self.fired: defaultdict[int, list[Event]] = defaultdict(list)
        self._same: defaultdict[Key, list[Reusable]] = defaultdict(list)
        self.base = base
        self._changes = changes
        self._keys = RequestKeys()
        self._shared = NO_STATE
        self._read_at: dict[int, SharedState] = {}
        self._requests: dict[int, Key] = {}
        self._calls: dict[int, Key] = {}
        self._effects: dict[int, Key | None] = {}
        self._waits: dict[int, bool] = {}
        self._started: set[int] = set()
        self._asked: dict[int, RequestApproval] = {}
        self._permissions = Permissions()
        self._revoked: dict[int, Permission] = {}
        self._results: defaultdict[Key, set[int]] = defaultdict(set)  # the seqs of the unused ones, by call
        self._once: dict[int, tuple[Key, Key]] = {}  # the keys of each result of an effect, and of its call
        self.files = OriginFiles()
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        self._note_idle(event)
        self._note_permission(event)
        if event.cause in self._requests:
            self._answer(event)
            self.files.take(event)
        elif isinstance(event.body, TimerFired) and event.seq > self.base:
            self.fired[event.body.timer].append(event)
        key = self._keys.take(event)
        if key is not None and not isinstance(event.body, RequestBudget):  # a fork has its own budget
            self._requests[event.seq] = key
        if isinstance(event.body, CallTool):
            self._read_at[event.seq] = self._shared
            body, given = event.body, event.body.given
            place = self._keys.place(event.sender, body.turn, body.call)
            self._calls[event.seq] = (*place, body.tool, bytes(body.arguments), given.round if given else 0)
            self._effects[event.seq] = _same_call(self._keys, event) if body.effect != "read" else None
            self._waits[event.seq] = body.effect == "write"
        self._shared = self._shared.after(event)

    def _note_idle(self, event: Event) -> None:
        if isinstance(event.body, AskEnded):
            self._is_asked = False
        elif event.sender == CLIENT and not self._is_asked:
            self.idle.add(event.seq)
            self._is_asked = isinstance(event.body, Ask)

    def _note_permission(self, event: Event) -> None:
        match event.body:
            case RequestApproval() as asked:
                self._asked[event.seq] = asked
            case ApprovalGiven():
                self._permissions.give(self._asked[event.cause], event)
            case RevokePermission(permission=seq):
                for ended in [one for one in self._permissions if one.seq == seq]:
                    self._revoked[event.seq] = ended
                self._permissions.revoke(seq)
            case _:
                pass

    def input_for(self, given: Event, permissions: Permissions) -> Event:
        """Return an input as the fork posts it: a revocation ends the fork's own permission.

        permissions: of the fork.
        """
        if not isinstance(given.body, RevokePermission):
            return given
        ended = self._revoked.get(given.seq)
        seq = 0 if ended is None else permissions.seq_of(ended.profile, ended.tool)
        return replace(given, body=replace(given.body, permission=seq))

    def _answer(self, event: Event) -> None:
        key, body = self._requests[event.cause], event.body
        if isinstance(body, ToolStarted):
            self._started.add(event.cause)
        if event.seq <= self.base or isinstance(body, ToolStarted) or _needs_effect(body):
            return
        started = event.cause in self._started or not self._waits.get(event.cause)
        values = (self._changed(event), self._read(event), key[0] == "step", started, self.files.bases(body))
        found = Reusable(event.seq, event.at, *values)
        self.answers[key].append(found)
        if isinstance(body, ToolReturned):
            self._results[self._calls[event.cause]].add(event.seq)
            if (same := self._effects[event.cause]) is not None:
                self._once[event.seq] = key, self._calls[event.cause]
                if body.status == "ok":
                    self._same[same].append(found)
        if event.cause <= self.base:
            self.open_at_base[event.cause] = found

    def _read(self, event: Event) -> Mapping[str, bytes]:
        if not isinstance(event.body, ToolReturned):
            return {}
        shared = self._read_at.get(event.cause, NO_STATE)
        return {key: _value(shared, key) for key in event.body.state_read}

    def _changed(self, event: Event) -> AnyMessage:
        """Return an answer as it is given again: marked as recorded, perhaps with the value of a change."""
        body, value = event.body, self._changes.get(event.seq)
        if isinstance(body, ToolReturned):
            if value is None:  # a changed result is changed wherever it was given
                value = self._changes.get(origin_of(body))
            if value is None:
                return replace(body, reused=event.seq)
            # The words stand in the place of labelled ones, and nobody has said where they come from.
            return ToolReturned(
                turn=body.turn,
                call=body.call,
                output=value,
                reused=event.seq,
                labels=body.labels,
                files=body.files,
                contents=body.contents,
                files_gap=body.files_gap,
            )
        if isinstance(body, ModelReplied):
            # Without its body, whose shared bytes are those of a request that the fork may not have.
            content = body.content if value is None else _blocks(value)
            return replace(body, body=(), content=content, reused=event.seq)
        if isinstance(body, ApprovalGiven) and value is not None:
            return _changed_verdict(body, value)
        return body

    def find(self, key: Key, shared: SharedState) -> Reusable | None:
        """Return the recorded answer to a request with this key, or None. It is used up, unless it may stay.

        shared: the shared state as of the request.
        """
        found = self.known(key, shared)
        if found is None:
            return None
        if found.seq in self._once:
            self._spend(found.seq)
        elif len(self.answers[key]) > 1:
            del self.answers[key][0]
        return found

    def known(self, key: Key, shared: SharedState) -> Reusable | None:
        """Return the recorded answer to a request with this key, or None. It is not used up."""
        known = self.answers.get(key)
        return known[0] if known and known[0].fits(shared) else None

    def free_budget(self, request: Event, key: Key) -> Post | None:
        """Return the answer to a request for budgets whose call has a recorded answer: it costs nothing.

        key: of the request. None where the model is called, and for any other request.
        """
        asked, found = request.body, self.answers.get(key[1:])
        if not isinstance(asked, RequestBudget) or not found or found[0].is_cancelled:
            return None
        return Post(SUPERVISOR, BudgetGiven(asked.agent, asked.turn, asked.attempt, "given"))

    def same_call(self, request: Event, keys: RequestKeys) -> Reusable | None:
        """Return the unused result of the same call in another turn; None if there is no such result.

        keys: those of the fork.
        """
        found = self._same.get(_same_call(keys, request))
        return found[0] if found else None

    def is_left(self, seq: int) -> bool:
        """Return True if the result of an effect can still be chosen: no call has it."""
        return seq in self._once and seq in self._results[self._once[seq][1]]

    def choose(self, seq: int) -> bool:
        """Use up the result of an effect for a call in another turn. Return False if another call has it."""
        return seq in self._once and self._spend(seq)

    def use_up(self, seq: int) -> None:
        """Note that an earlier process of the fork has given the recorded answer with this seq."""
        if seq in self._once:
            self._spend(seq)
            return
        for known in self.answers.values():
            known[:] = [one for one in known if one.seq != seq] or known

    def _spend(self, seq: int) -> bool:
        """Take the result of an effect out of every place. Return False if it is out already."""
        key, call = self._once[seq]
        for known in (self.answers[key], *self._same.values()):
            known[:] = [one for one in known if one.seq != seq]
        was_left = seq in self._results[call]
        self._results[call].discard(seq)
        return was_left

    def has_result(self, request: Event, given: ApprovalGiven, keys: RequestKeys) -> bool:
        """Return True if the call that was approved has a recorded result that is not used up.

        request: for the approval. keys: those of the fork.
        """
        asked = request.body
        assert isinstance(asked, RequestApproval)
        arguments = asked.arguments if given.arguments == NULL else given.arguments
        place = keys.place(request.sender, asked.turn, asked.call)
        return bool(self._results.get((*place, asked.tool, bytes(arguments), asked.round)))


def is_same_input(given: Event, recorded: Event) -> bool:
    """Return True if an input of a fork is the recorded one: a permission has another seq there."""
    are_revocations = all(isinstance(one.body, RevokePermission) for one in (given, recorded))
    return are_revocations or given.body == recorded.body


def answer_to(request: Event, found: Reusable, recipient: str) -> Post:
    """Return a recorded answer as the answer to this request."""
    body: Any = found.body
    asked: Any = request.body
    if isinstance(asked, CheckSchema):
        body = replace(body, check=asked.check)
    elif isinstance(asked, CallTool):
        body = replace(body, turn=asked.turn, call=asked.call)
    return Post(recipient, body)


def _needs_effect(body: AnyMessage) -> bool:
    """Return True for the answer to a call that a fork did not run: another fork may."""
    return isinstance(body, ToolReturned) and body.status == "needs_effect"


def _same_call(keys: RequestKeys, request: Event) -> Key:
    """Return the key of the second index: the agent, the tool and the arguments of a call."""
    call = request.body
    assert isinstance(call, CallTool)
    return keys.agent(request.sender), call.tool, bytes(call.arguments)


def _changed_input(event: Event, changes: Mapping[int, Json]) -> Event:
    """Return an input of the client, an `Ask` perhaps with another prompt."""
    body, value = event.body, changes.get(event.seq)
    if value is None or not isinstance(body, Ask):
        return event
    changed = replace(body, prompt=value)
    return Event(event.seq, event.at, event.sender, event.recipient, event.cause, changed)


def _changed_verdict(given: ApprovalGiven, value: Json) -> ApprovalGiven:
    """Return another answer of a person: the text `approved`, or the reason for a refusal."""
    said = msgspec.json.decode(value, type=str)
    verdict: Literal["approved", "denied"] = "approved" if said == APPROVED else "denied"
    note = "" if verdict == "approved" else said
    said_so = ApprovalGiven(
        turn=given.turn,
        call=given.call,
        verdict=verdict,
        note=note,
        digest=given.digest,
        is_repeat=given.is_repeat,
    )
    return replace(said_so, round=given.round, labels=given.labels)


def _value(shared: SharedState, key: str) -> bytes:
    cell = shared.cells.get(key)
    return b"" if cell is None else bytes(cell.json())


def _blocks(value: Json) -> Json:
    """Return the content of a changed reply: blocks as they are, a text as one block."""
    if not bytes(value).lstrip().startswith(b'"'):
        return value
    return Json(b"[" + bytes(text_block(msgspec.json.decode(value))) + b"]")


def _of_client(event: Event) -> Event:
    """Return an event with the message that a fork posts again.

    The agents of a fork are those that it is given. `Forked` stays what it did to the session: a second one
    would pass for the beginning of this fork.
    """
    resumed = resumed_in(event.body)
    if resumed is None:
        return event
    body = (
        replace(resumed, host="", profiles=(), model=None) if resumed.profiles or resumed.model else resumed
    )
    if isinstance(event.body, Forked) and body == Resumed(body.rules, format=body.format):
        return event
    return replace(event, body=body)


def _is_input(event: Event) -> bool:
    is_client = event.sender == CLIENT and event.recipient == SUPERVISOR
    return is_client and not isinstance(event.body, SessionOpened | Forked)
