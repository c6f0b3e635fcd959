"""The outcome of an ask, as its caller gets it, or read from the log.

It is read from the log for a session that is closed, or that runs in another process.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, ClassVar, Generic, TypeAlias

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.addresses import parent_of
from callboard.actors.protocol.endings import EXPLAINED, STATUS, OutcomeKind, Status
from callboard.actors.protocol.errors import OutcomeError, UnknownName
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.labels import Labels
from callboard.actors.protocol.near_names import NamedFields, near_names
from callboard.actors.protocol.plain_values import PlainValues
from callboard.actors.protocol.usage import NOTHING, Need, Usage
from callboard.actors.protocol.value_types import CallMetadata
from callboard.runtime.log.protocol import EventLog, Head, event_of
from callboard.runtime.schemas.output_types import NO_TYPE, OutputType
from callboard.runtime.sessions.ended_asks import AskReader, EndedAsk, EndedDelegation
from callboard.runtime.sessions.session_pages import pages_from
from callboard.runtime.sessions.session_types import SessionTypes

if TYPE_CHECKING:
    # With a default, `Outcome` alone is a complete type. Python itself has defaults from 3.13 on.
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=object)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)


class DelegationOutcome(PlainValues, frozen=True, gc=True, metaclass=NamedFields):
    """The outcome of one delegation below an ask.

    address: of its agent; of the first one, if several raced. profile: the name of that agent.
    kind: of the end. usage: of its agents and all below them.
    """

    also: ClassVar[tuple[str, ...]] = ("parent",)

    address: str
    profile: str
    kind: OutcomeKind
    usage: Usage
    text: str
    detail: str
    _value: Json
    _type: OutputType
    _metadata: CallMetadata | None = None

    @property
    def metadata(self) -> dict[str, str] | None:
        """Return the metadata of the call; None for a question of a program to a model.

        subagent, supervisor: the names of the agent and of its caller. delegation_context: the function that
        made its context, empty for none. response: "ok"; "invalid_input" or "unavailable" of an
        agent tool that failed; "error" of any other agent.
        """
        return None if self._metadata is None else msgspec.structs.asdict(self._metadata)

    @property
    def parent(self) -> str:
        """Return the address of the agent that delegated."""
        return parent_of(self.address)

    @property
    def value(self) -> object:
        """Return the report as a value of the agent's output type, or a program's value; None without one.

        Raises MissingType if the type no longer fits a report that was recorded earlier.
        """
        return _built(self.kind, self._value, self._type)


class Outcome(PlainValues, Generic[T_co], frozen=True, gc=True, metaclass=NamedFields):
    """The outcome of one ask. An end at a limit is an outcome, not an exception.

    status: ok, failed or cancelled. kind: of the end (docs/delegation.md).
    text: the answer, or the partial work. structured_output: the report, if one won: a value of the ask's
        output type, or plain JSON values. Without a report the value that a program returned, if it is no
        text. Else None.
    usage: of this ask and all agents below it.
    unsettled, in_doubt: at the end of the cancel grace, the open reservations and the agents that had not
        drained.
    by: the seq of the event that ended the ask.
    head: seq and digest of the log with this outcome in it. Keep it to prove later that the log is whole.
    delegations: those of the ask that ended, of all its agents, in the order of the log.
    labels: of the words and values in it (docs/permissions.md).
    """

    also: ClassVar[tuple[str, ...]] = ("status",)

    kind: OutcomeKind
    text: str
    structured_output: T_co
    usage: Usage
    session_id: str
    request_id: str
    head: tuple[int, str]
    detail: str = ""
    by: int = 0
    unsettled: Need = NOTHING
    in_doubt: tuple[str, ...] = ()
    delegations: tuple[DelegationOutcome, ...] = ()
    _as_json: Json = NULL
    labels: Labels = ()

    @property
    def report(self) -> object:
        """Return the report as plain JSON values, for any output type; None without a report."""
        return msgspec.json.decode(self._as_json)

    @property
    def status(self) -> Status:
        """Return ok, failed or cancelled."""
        return STATUS[self.kind]

    @property
    def is_ok(self) -> bool:
        """Return True if there is a result."""
        return self.status == "ok"

    def unwrap(self) -> T_co:
        """Return the structured output, or the text without one. Raises OutcomeError without a result."""
        if not self.is_ok:
            why = self.detail or EXPLAINED[self.kind]
            raise OutcomeError(
                f"session {self.session_id}: the ask ended {self.status} ({self.kind}): {why}; "
                f"see `callboard show {self.session_id}`",
                self,
            )
        if self.kind == "reported" or self.structured_output is not None:
            return self.structured_output
        text: T_co = self.text  # type: ignore[assignment]  # only an ask without an output type ends in text
        return text


def outcome_of(session_id: str, ask: EndedAsk, head: tuple[int, str], types: SessionTypes | None) -> Outcome:
    """Build the outcome of an ask. head: of the log. types: None for plain JSON values.

    Raises MissingType if the ask's type is not among the types, or no longer fits.
    """
    ended = ask.end
    kind = types.of(ask.kind) if types else NO_TYPE
    report = _built(ended.kind, ended.value, kind)
    return Outcome(
        ended.kind,
        ended.text,
        report,
        ended.usage,
        session_id,
        ended.request_id,
        head,
        ended.detail,
        ended.by,
        ended.unsettled,
        ended.in_doubt,
        tuple(_delegation(one, types) for one in ask.delegations),
        ended.value,
        ended.labels,
    )


def _built(kind: OutcomeKind, value: Json, form: OutputType) -> object:
    """Return a report as a value of its type, and a program's value as plain JSON; None for other ends."""
    if kind == "reported":
        return form.build(value)
    return msgspec.json.decode(value) if kind == "answered" else None


def _delegation(one: EndedDelegation, types: SessionTypes | None) -> DelegationOutcome:
    end = one.end
    kind = types.of_profile(one.profile) if types and one.is_typed else NO_TYPE
    return DelegationOutcome(
        end.address,
        one.profile,
        end.kind,
        end.usage,
        end.text,
        end.detail,
        end.value,
        kind,
        end.metadata,
    )


class Outcomes:
    """The outcomes of a session's asks that ended, by request id, each built when it is first needed."""

    def __init__(self, session_id: str, types: SessionTypes) -> None:
        self._session_id = session_id
        self._types = types
        self._ended: dict[str, tuple[EndedAsk, tuple[int, str]]] = {}
        self._built: dict[str, Outcome] = {}

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._ended

    def __bool__(self) -> bool:
        return bool(self._ended)

    def add(self, ask: EndedAsk, head: tuple[int, str]) -> None:
        """Add an ask that ended. The first end of a request id counts."""
        self._ended.setdefault(ask.end.request_id, (ask, head))

    def of(self, request_id: str) -> Outcome:
        """Return an outcome. Raises MissingType for one whose type is not given."""
        if request_id not in self._built:
            ask, head = self._ended[request_id]
            self._built[request_id] = outcome_of(self._session_id, ask, head, self._types)
        return self._built[request_id]


def with_head(outcome: Outcome, head: Head) -> Outcome:
    """Return the outcome with a later head of the same log."""
    return replace(outcome, head=(head.seq, head.digest.hex())) if head.seq else outcome


Ended: TypeAlias = tuple[EndedAsk, tuple[int, str]]


async def past_outcome(
    log: EventLog, session_id: str, request_id: str | None, types: SessionTypes | None
) -> Outcome | None:
    """Return the outcome of an ask that has ended; None if it has not.

    request_id: None for the latest ask that ended. types: None for plain JSON values. Raises UnknownName for
    an id that no ask of the session has, SessionNotFound, CorruptLog, MissingType.
    """
    found: Ended | None = None
    reader = AskReader()
    async for ended in _ended(log, session_id, reader):
        if request_id is None:
            found = ended
        elif ended[0].end.request_id == request_id:
            found = ended
            break  # the first end of an id counts
    if found is None and request_id is not None and request_id not in reader.request_ids:
        raise UnknownName(
            f"session {session_id} has no ask with the request id {request_id!r:.80}"
            f"{near_names(request_id, reader.request_ids)}"
        )
    return outcome_of(session_id, *found, types) if found else None


async def _ended(log: EventLog, session_id: str, reader: AskReader) -> AsyncIterator[Ended]:
    """Yield the asks that ended, each with the head of the log there."""
    async for page in pages_from(log, session_id, 1):
        for row in page:
            ask = reader.read(event_of(session_id, row))
            if ask is not None:
                yield ask, (row.seq, row.digest.hex())
