"""Approval questions for a person: may this call run? A question is shown only once it is durable."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.near_names import NamedFields
from callboard.actors.protocol.plain_values import PlainValues

BY_CHARS_MAX: Final = 200
"""Characters of a person's name; a longer one is cut."""


class ApprovalAnswer(NamedTuple):
    """The answer of a person.

    note: the reason; the model reads it if the call may not run. by: the person.
    arguments: to run the call with instead of the requested ones; None for those.
    is_always: True permits later calls of the same tool by agents of the same profile in this session.
    values: for the form of a call that asks for input, by field; of several forms, by form and field.
    reuses: in a fork, True gives the recorded result of the same call, and the tool does not run.
    labels: of what the person gives, such as `untrusted`.
    """

    is_approved: bool
    note: str = ""
    by: str = ""
    arguments: Mapping[str, object] | None = None
    is_always: bool = False
    values: Mapping[str, object] | None = None
    reuses: bool = False
    labels: Sequence[str] = ()


class Approval(PlainValues, frozen=True, gc=True, eq=False, metaclass=NamedFields):
    """A call that waits for a person, as `Session.approvals()` and `Runtime(approve=...)` show it.

    address, profile: the agent that makes the call.
    arguments: as the model gave them, not checked yet. arguments_json: the text that it wrote.
    is_repeat: a crash interrupted the call; its effect is unknown, and it would run again.
    round: from 1 up, of a call that asks for input and goes on with it; 0 for any other.
    forms: of the input, by name: each has a `message`, and a `schema` of its values or a `url` to visit.
    seq, digest: the request in the log. The logged answer names this digest: it proves the shown arguments.
    expires_at_ms: the call is denied then, in milliseconds since 1970 UTC; None for never.
    is_fork: this fork has no recorded result of the call, and runs its tool only if a person says so.
    same: then the seq of the recorded result of the same call in another turn; 0 for none.
    """

    also: ClassVar[tuple[str, ...]] = ("id",)

    session_id: str
    address: str
    profile: str
    tool: str
    effect: Effect
    _arguments: Json
    is_repeat: bool
    seq: int
    digest: str
    expires_at_ms: int | None
    round: int
    _forms: Json
    _object: object
    _settle: Callable[[ApprovalAnswer], bool]
    _is_open: Callable[[], bool]
    is_fork: bool = False
    same: int = 0

    @property
    def deps(self) -> object:
        """Return the object of `Runtime(deps=)` or `ask(deps=)`; None without one."""
        return self._object  # under another name: `to_dict` must not show it

    @property
    def arguments(self) -> Any:
        """Return the arguments as Python values."""
        return msgspec.json.decode(self._arguments)

    @property
    def arguments_json(self) -> str:
        """Return the arguments as the model wrote them."""
        return bytes(self._arguments).decode()

    @property
    def forms_json(self) -> Json:
        """Return the forms as JSON; null for a call that asks for no input."""
        return self._forms

    @property
    def forms(self) -> dict[str, Any]:
        """Return the forms of a call that asks for input, by name; none for any other call."""
        return msgspec.json.decode(self._forms) or {}

    @property
    def id(self) -> str:
        """Return `SESSION#SEQ`, by which `callboard approvals` answers the question."""
        return approval_id(self.session_id, self.seq)

    @property
    def is_open(self) -> bool:
        """Return whether the question has no answer yet and the call is still wanted."""
        return self._is_open()

    def approve(
        self,
        note: str = "",
        *,
        by: str = "",
        arguments: Mapping[str, object] | None = None,
        always: bool = False,
        values: Mapping[str, object] | None = None,
        labels: Sequence[str] = (),
    ) -> bool:
        """Let the call run. Return False if it has been answered, has expired, or is no longer wanted.

        by: the person who answers. arguments: to run the call with instead of the requested ones; the model
        is told. always: permit later calls of this tool by agents of this profile too (`Session.revoke`
        ends that). values: for the forms of a call that asks for input. labels: of what the person gives,
        such as `untrusted`. Raises InvalidPrompt for arguments or
        values that do not fit, MisuseError for `always` on an interrupted call, or one that asks for input.
        """
        return self._settle(ApprovalAnswer(True, note, by, arguments, always, values, labels=labels))

    def reuse(self, *, by: str = "") -> bool:
        """Use the recorded result `same` for the call of a fork. Return False as `approve` does.

        Raises MisuseError if there is none, or if another call was given it meanwhile.
        """
        return self._settle(ApprovalAnswer(True, by=by, reuses=True))

    def deny(self, note: str = "", *, by: str = "") -> bool:
        """Refuse the call; the model reads the note. Return False as `approve` does."""
        return self._settle(ApprovalAnswer(False, note, by))


def approval_id(session_id: str, seq: int) -> str:
    """Return the id of a question: its session and the seq of its request."""
    return f"{session_id}#{seq}"


Said: TypeAlias = ApprovalAnswer | bool | str | None
"""The result of an approver: True lets the call run; False, or a text for the model, refuses it; None leaves
the question to `Session.approvals()`."""

Approver: TypeAlias = Callable[[Approval], Said | Awaitable[Said]]
