"""Approvals: a call that needs one has one, that was given to it, in time.

The rules read the profile of an agent from its `Begin`, and not from the question, so that a question with a
wrong profile breaks a rule.
"""

from collections import Counter
from typing import Final, NamedTuple

import msgspec
from msgspec import field

from callboard.actors.protocol.client_messages import RevokePermission
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import Begin, TurnRequested
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool, RequestApproval, ToolReturned
from callboard.actors.protocol.value_types import INPUT_ROUNDS_MAX, InputAsked, InputGiven
from callboard.actors.session.permissions import EXPIRED
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.lives import Call

LATE_MS: Final = 1_000
"""The time between the moment at which a port takes an answer and the time of its event."""


class Approvals(Invariant):
    """The questions to a person."""

    name = "approvals"
    rule = "A call of a tool that needs an approval runs only after a person has approved it."
    _approved: Counter[Call] = field(default_factory=Counter)

    def on_ApprovalGiven(self, event: Event, given: ApprovalGiven) -> None:
        """Record the verdict of a person."""
        self._approved[event.recipient, given.turn, given.call] += given.goes_on

    def on_CallTool(self, event: Event, call: CallTool) -> None:
        """Check that a call which needs an approval has one."""
        spec, key = self.facts.tools.of(event.sender).get(call.tool), (event.sender, call.turn, call.call)
        if spec is not None and spec.approval in ("before", "always"):
            self._approved[key] -= 1
            if self._approved[key] < 0:
                self.broken(event.seq, f"{event.sender} calls {call.tool}, which no person has approved")


class ApprovedArguments(Invariant):
    """The arguments of approved calls."""

    name = "approved-arguments"
    rule = "A call that was approved runs with the arguments that were approved."
    _approved: dict[Call, bytes] = {}

    def on_RequestApproval(self, event: Event, asked: RequestApproval) -> None:
        """Record the arguments that a person is shown."""
        self._approved[event.sender, asked.turn, asked.call] = bytes(asked.arguments)

    def on_ApprovalGiven(self, event: Event, given: ApprovalGiven) -> None:
        """Record the arguments that a person gives instead."""
        if given.arguments != NULL:
            self._approved[event.recipient, given.turn, given.call] = bytes(given.arguments)

    def on_CallTool(self, event: Event, call: CallTool) -> None:
        """Compare the arguments of a call with the approved ones."""
        approved = self._approved.get((event.sender, call.turn, call.call), call.arguments)
        if bytes(call.arguments) != bytes(approved):
            self.broken(event.seq, f"{event.sender} calls {call.tool} with arguments that were not approved")


class InputRounds(Invariant):
    """The input that calls ask for."""

    name = "input-rounds"
    rule = "A call continues with a person's answer to its latest form, and has at most ten forms."
    _asked: dict[Call, InputAsked] = {}  # by calls that wait for input
    _rounds: Counter[Call] = field(default_factory=Counter)
    _given: dict[Call, InputGiven] = {}  # with which a call goes on, also if it runs again
    _untold: set[Call] = set()  # whose forms were declined, and that have not gone on yet

    def on_ToolReturned(self, event: Event, body: ToolReturned) -> None:
        """Record a call that asks for input."""
        if body.status == "input_required" and body.asked is not None:
            self._asked[event.recipient, body.turn, body.call] = body.asked

    def on_RequestApproval(self, event: Event, asked: RequestApproval) -> None:
        """Compare the form that a person is shown with the one that the call asked for."""
        call = (event.sender, asked.turn, asked.call)
        if asked.round:
            self._rounds[call] += 1
            self._check_form(event, asked, self._asked.get(call))
            self._check_round(event, asked, self._rounds[call])

    def _check_form(self, event: Event, asked: RequestApproval, wanted: InputAsked | None) -> None:
        if wanted is None or bytes(wanted.forms) != bytes(asked.form):
            self.broken(event.seq, f"{event.sender} shows a form that {asked.tool} has not asked for")

    def _check_round(self, event: Event, asked: RequestApproval, number: int) -> None:
        if asked.round != number or number > INPUT_ROUNDS_MAX:
            self.broken(event.seq, f"{event.sender} asks in round {asked.round}, {number} times so far")

    def on_ApprovalGiven(self, event: Event, given: ApprovalGiven) -> None:
        """Record the input of a person."""
        call = (event.recipient, given.turn, given.call)
        asked = self._asked.pop(call, None) if given.round else None
        if asked is None or given.verdict == "cancelled":
            return
        if given.verdict == "approved":
            self._given[call] = InputGiven(given.round, given.values, asked.kept)
            return
        self._given[call] = _declined(given, asked)
        if self._has_to_go_on(event.recipient):
            self._untold.add(call)

    def _has_to_go_on(self, agent: str) -> bool:
        """Return whether an agent tells each tool that its form was declined."""
        life = self.facts.lives.get(agent)
        return life is not None and not life.profile.is_eager and not life.begin.permissions

    def on_Begin(self, event: Event, begin: Begin) -> None:
        """Forget the calls of an earlier ask, which was stopped."""
        self._untold = {call for call in self._untold if call[0] != event.recipient}

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Check that the agent has told the tools whose forms were declined."""
        if any(agent == event.sender for agent, _, _ in self._untold):
            self.broken(event.seq, f"{event.sender} goes on, and a tool was not told that no input comes")

    def on_CallTool(self, event: Event, call: CallTool) -> None:
        """Compare the input of a call with the latest that it was given."""
        key = (event.sender, call.turn, call.call)
        self._untold.discard(key)
        if call.given != self._given.get(key):
            self.broken(event.seq, f"{event.sender} calls {call.tool} with input that it was not given")
        if key in self._asked:
            self.broken(event.seq, f"{event.sender} calls {call.tool}, which waits for input")


def _declined(given: ApprovalGiven, asked: InputAsked) -> InputGiven:
    values = Json(msgspec.json.encode(dict.fromkeys(msgspec.json.decode(asked.forms))))
    return InputGiven(given.round, values, asked.kept, "decline" if given.digest else "cancel")


class _Asked(NamedTuple):
    profile: str
    tool: str
    is_repeat: bool
    expires_at: int


class PermittedCalls(Invariant):
    """The answers by permission."""

    name = "permitted-calls"
    rule = "A permission covers calls of its tool and profile until it is revoked, but no interrupted call."
    _asked: dict[int, _Asked] = {}
    _given: dict[int, _Asked] = {}  # the permissions that hold, by seq

    def on_RequestApproval(self, event: Event, asked: RequestApproval) -> None:
        """Record a question."""
        self._asked[event.seq] = self._read(event, asked)

    def _read(self, event: Event, asked: RequestApproval) -> _Asked:
        life = self.facts.lives.get(event.sender)
        profile = life.profile.name if life else asked.profile
        expires_at = event.at + asked.timeout_ms if asked.timeout_ms else 0
        # Only a person has the input that a call asks for: as little covered as an interrupted call.
        return _Asked(profile, asked.tool, asked.is_repeat or asked.round > 0, expires_at)

    def on_RevokePermission(self, event: Event, revoked: RevokePermission) -> None:
        """Record the end of a permission."""
        self._given.pop(revoked.permission, None)

    def on_ApprovalGiven(self, event: Event, given: ApprovalGiven) -> None:
        """Record a permission, or check the one that an answer names."""
        asked = self._asked.get(event.cause)
        if asked is None:
            return
        if given.permission and not self._is_covered(asked, given.permission):
            self.broken(event.seq, f"permission {given.permission} does not cover {asked.tool}")
        if (given.verdict, given.is_always, asked.is_repeat) == ("approved", True, False):
            self._given[event.seq] = asked

    def _is_covered(self, asked: _Asked, permission: int) -> bool:
        held = self._given.get(permission)
        return not asked.is_repeat and held is not None and held[:2] == asked[:2]


class ExpiredQuestions(PermittedCalls):
    """The answers by time."""

    name = "expired-questions"
    rule = "No question is approved after its time is over, and none expires earlier."

    def on_ApprovalGiven(self, event: Event, given: ApprovalGiven) -> None:
        """Compare the time of an answer with the end of its question."""
        asked = self._asked.get(event.cause)
        due = asked.expires_at if asked else 0
        is_by_person = (given.verdict, given.permission) == ("approved", 0)
        is_by_time = (given.verdict, given.note, given.digest) == ("denied", EXPIRED, "")
        if due and is_by_person and event.at > due + LATE_MS:
            self.broken(event.seq, f"a call is approved {event.at - due} ms after its question has expired")
        if due and is_by_time and event.at < due:
            self.broken(event.seq, f"a question expires {due - event.at} ms too early")
