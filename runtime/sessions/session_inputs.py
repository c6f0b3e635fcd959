"""The inputs of a fork: what the client gave to the session that was forked is posted again."""

from collections.abc import Callable
from typing import Any

from callboard.actors.protocol.client_messages import Ask, Close
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.runtime.schemas.output_types import output_type
from callboard.runtime.sessions.session_life import SessionLife
from callboard.runtime.sessions.session_types import SessionTypes, TypeName


class SessionInputs(SessionLife):
    """The part of a session that posts the recorded inputs of a fork."""

    _types: SessionTypes
    _asking: TypeName  # the type of the running ask's report
    _asks_left: Callable[[], int] = staticmethod(lambda: 0)

    def _expect(self, asks_left: Callable[[], int]) -> None:
        """Expect asks that are posted again, in a fork. asks_left: returns their number."""
        self._asks_left = asks_left

    @property
    def _has_asks(self) -> bool:
        """Return True while an ask runs or is still to be posted again."""
        return bool(self._running or self._asks_left())

    def _runs_ask(self) -> bool:
        """Return True while an ask runs, until its outcome is given."""
        return bool(self._running)

    def _repost(self, event: Event) -> None:
        """Post an input that the client gave to the session that was forked."""
        body: Any = event.body
        if isinstance(body, Ask):
            kind = TypeName(body.output_type, body.schema)
            self._asking = kind if body.schema != NULL else self._types.of_ask(output_type(None))
            if self._last.done():
                self._last = self._loop.create_future()
            self._running = body.request_id
            self._note_busy()
        elif isinstance(body, Close):
            self._is_closing = True
            self._note_busy()
        self._board.submit_for_client(body)
