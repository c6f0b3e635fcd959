"""The permissions of one session: the tools that need no further approval, folded from its events.

An `ApprovalGiven` with `is_always` is a permission. The approvals port answers a covered question by itself,
and names the seq of the permission.

Rules
  - A permission covers later calls of the same tool by agents of the same profile, in the same session.
  - An interrupted call is never covered: its effect is unknown, so a person has to look. Nor is a call that
    asks for input, which only a person has.
  - A permission holds until a `RevokePermission` names its seq. Calls that were approved before that stay so.
"""

from collections.abc import Iterator
from typing import Final

from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import Value
from callboard.actors.protocol.near_names import NamedFields
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval

EXPIRED: Final = "expired"
"""The note of an answer that came by time."""


class Permission(Value, frozen=True, metaclass=NamedFields):
    """A permission for later calls. seq: of the answer that gave it. by: the person who gave it."""

    seq: int
    profile: str
    tool: str
    by: str = ""


class Permissions:
    """The permissions that hold after the events so far."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], Permission] = {}

    def __iter__(self) -> Iterator[Permission]:
        return iter(sorted(self._held.values(), key=lambda one: one.seq))

    def give(self, question: RequestApproval, answer: Event) -> None:
        """Take in the answer to a question, which may be a permission."""
        given = answer.body
        assert isinstance(given, ApprovalGiven)
        if given.is_always and given.verdict == "approved" and not (question.is_repeat or question.round):
            place = question.profile, question.tool
            self._held.setdefault(place, Permission(answer.seq, *place, given.by))  # an older one still holds

    def revoke(self, seq: int) -> None:
        """End the permission that the answer of this seq gave, if it holds."""
        self._held = {place: one for place, one in self._held.items() if one.seq != seq}

    def seq_of(self, profile: str, tool: str) -> int:
        """Return the seq of the permission for the calls of a tool by a profile; 0 if none holds."""
        held = self._held.get((profile, tool))
        return 0 if held is None else held.seq

    def covering(self, question: RequestApproval) -> Permission | None:
        """Return the permission that covers a call; None if a person has to be asked."""
        return (
            None
            if question.is_repeat or question.round
            else self._held.get((question.profile, question.tool))
        )


def expires_at(request: Event) -> int | None:
    """Return when a question expires, in milliseconds since 1970 UTC; None for never."""
    # From the request, and not from the start of a process: a restart must not prolong the wait.
    body = request.body
    if not isinstance(body, RequestApproval) or not body.timeout_ms:
        return None
    return request.at + body.timeout_ms


def permitted(request: Event, permissions: Permissions) -> Post | None:
    """Return the answer that a question has by permission; None if no permission covers it."""
    asked = request.body
    assert isinstance(asked, RequestApproval)
    permission = permissions.covering(asked)
    if permission is None:
        return None
    given = ApprovalGiven(asked.turn, asked.call, "approved", permission=permission.seq)
    return Post(request.sender, given)


def without_person(request: Event, now_ms: int, permissions: Permissions) -> Post | None:
    """Return the answer that a question has without a person, by permission or by time; None if it has none.

    now_ms: the time, in milliseconds since 1970 UTC.
    """
    asked, due = request.body, expires_at(request)
    assert isinstance(asked, RequestApproval)
    if (by_permission := permitted(request, permissions)) is not None:
        return by_permission
    if due is None or now_ms < due:
        return None
    given = ApprovalGiven(
        turn=asked.turn,
        call=asked.call,
        verdict="denied",
        note=EXPIRED,
        is_repeat=asked.is_repeat,
        round=asked.round,
    )
    return Post(request.sender, given)
