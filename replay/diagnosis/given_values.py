"""Values in what agents were given, and the check of those that they write: the base of `copies`."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Final

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage, Delegate, DelegationEnded
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.diagnosis.finding import CallCheck, Finding

VALUES_MAX: Final = 100_000  # of a session, by which memory is bounded
_BYTES_MAX: Final = 2**20  # of a result; behind a longer one, no value is said to be given nowhere
_UNREAD_MAX: Final = 4 * 2**20  # bytes of texts whose values are not looked for yet


class GivenValues:
    """The ids or numbers in the texts that agents were given. values_of: yields those of a text.

    They are looked for once an agent has written one: in many sessions, none does.
    """

    def __init__(self, values_of: Callable[[bytes], Iterable[tuple[str, str]]]) -> None:
        self.found: dict[str, tuple[int, str]] = {}
        self.is_whole = True  # so that a value that is not found was not given
        self._values_of = values_of
        self._unread: list[tuple[int, bytes]] = []
        self._unread_bytes = 0

    def add(self, seq: int, text: bytes) -> None:
        """Add a text."""
        self.is_whole &= len(text) <= _BYTES_MAX and len(self.found) < VALUES_MAX
        if self.is_whole:
            self._unread.append((seq, text))
            self._unread_bytes += len(text)
            if self._unread_bytes > _UNREAD_MAX:
                self.read()

    def read(self) -> None:
        """Look for the values of the texts so far."""
        unread, self._unread, self._unread_bytes = self._unread, [], 0
        for seq, text in unread:
            for value, written in self._values_of(text):
                self.found.setdefault(value, (seq, written))


_SERVER_RESULT: Final = b"_tool_result"
"""A part of the type of a block with which a service answers a call of its own tools."""


class WrittenValues(CallCheck):
    """A check of values in answers, reports and tasks. values_of: yields those of a text."""

    kinds: ClassVar = frozenset(
        {
            *("SessionOpened", "Ask", "Tell", "ApprovalGiven", "ContextMade", "Begin", "ModelReplied"),
            *("Delegate", "DelegationEnded", "AskEnded"),
        }
    )

    def __init__(self, values_of: Callable[[bytes], Iterable[tuple[str, str]]]) -> None:
        self._given = GivenValues(values_of)
        self._found: dict[str, Finding] = {}

    def take(self, event: Event) -> None:
        """Take in what agents were given, a task or an end."""
        body = event.body
        if type(body) is ModelReplied:
            if _SERVER_RESULT in bytes(body.content):
                self._given.add(event.seq, bytes(body.content))
        elif isinstance(body, Delegate):
            self._look(event.seq, event.sender, "delegated with", bytes(body.prompt))
        else:
            if isinstance(body, AskEnded):
                self._look(event.seq, HOST, "answered", _said(body))
            elif isinstance(body, DelegationEnded):
                self._look(event.seq, body.address, "passed on", _said(body))
            self._given.add(event.seq, encode(self._given_in(body)))

    def _given_in(self, body: AnyMessage) -> AnyMessage:
        return body

    @abstractmethod
    def _look(self, seq: int, agent: str, verb: str, text: bytes) -> None:
        """Look for a value with a slip in the words of an agent."""

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found.values()


def _said(end: DelegationEnded | AskEnded) -> bytes:
    return end.text.encode() + b"\n" + bytes(end.value)
